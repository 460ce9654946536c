// Product of dense rows with a weight of any width, ReLU and dropout on the way.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "arguments.h"
#include "chunks.h"
#include "dense.h"
#include "pool.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// A whole register, and its multiply-add: fused, and so rounded once, where the processor has it.
// Without fusing these products would take twice as long.
template <class T>
struct Register {
    static constexpr int kLanes = kRegisterBytes / int(sizeof(T));
    using Pack = GRAPHCONV_VARIANT::Pack<T, kLanes>;
    Pack p;

    GRAPHCONV_INLINE void multiply_add(T factor, const Register& other) {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 4) {
            p.v[0] = _mm512_fmadd_ps(_mm512_set1_ps(factor), other.p.v[0], p.v[0]);
        } else {
            p.v[0] = _mm512_fmadd_pd(_mm512_set1_pd(factor), other.p.v[0], p.v[0]);
        }
#elif defined(__FMA__)
        if constexpr (sizeof(T) == 4) {
            p.v[0] = _mm256_fmadd_ps(_mm256_set1_ps(factor), other.p.v[0], p.v[0]);
        } else {
            p.v[0] = _mm256_fmadd_pd(_mm256_set1_pd(factor), other.p.v[0], p.v[0]);
        }
#else
        Pack product = other.p;
        product.scale(factor);
        p.add(product);
#endif
    }
};

// Forward:  out = H @ weight + bias, replica by replica, with H = dropout(relu(dense)) or
//           dropout(dense)
// Backward: weight_gradient = H.T @ gradient; dense_gradient = gradient @ weight.T, dropped out and
//           rectified as H was, where it is wanted
//
// dense, dense_gradient     (n_rows, n_replicas, n_in), or (n_rows, n_in) that all replicas share
// weight, weight_gradient   (n_in, n_terms, n_replicas, n_out)
// out, gradient             (n_rows, n_terms, n_replicas, n_out)
//
// H exists a strip of rows at a time, some columns of it, in a near cache. Every element is summed
// in the order of inputs, outputs or, within a part, rows, so nothing depends on threads, tiles or
// replicas. Cost: n_rows * n_replicas * n_in * n_terms * n_out multiply-adds forward, and as many
// for each gradient.
template <class T>
class WideRows {
public:
    static constexpr std::int64_t kStrip = 96;          // rows
    static constexpr std::int64_t kBlockColumns = 512;  // of H, or of the gradient
    static constexpr std::int64_t kLeastColumns = 64;   // whole panels

    explicit WideRows(const HiddenProduct<T>& arguments)
        : a(arguments),
          // The terms of a single replica lie side by side: they are one wider product.
          n_terms(a.n_replicas == 1 ? 1 : a.n_terms),
          n_out(a.n_replicas == 1 ? a.n_terms * a.n_out : a.n_out),
          in_width(a.is_shared ? a.n_in : a.n_replicas * a.n_in),
          out_width(n_terms * a.n_replicas * n_out) {}

    // The weight as `multiply` reads it: panels of a few registers' columns, each contiguous.
    void pack_weight() {
        weight_ = packed(a.n_in, n_out, [&](std::int64_t term, std::int64_t replica) {
            return Source{a.weight + (term * a.n_replicas + replica) * n_out, out_width, 1};
        });
    }

    void pack_turned_weight() {
        turned_ = packed(n_out, a.n_in, [&](std::int64_t term, std::int64_t replica) {
            return Source{a.weight + (term * a.n_replicas + replica) * n_out, 1, out_width};
        });
    }

    void forward(std::int64_t first, std::int64_t last) const {
        T* hidden = static_cast<T*>(scratch(kBlockBytes));
        for (std::int64_t row = first; row < last; row += kStrip) {
            const std::int64_t n = last - row < kStrip ? last - row : kStrip;
            for (std::int64_t replica = 0; replica < a.n_replicas; ++replica) {
                for (std::int64_t from = 0; from == 0 || from < a.n_in; from += kBlockColumns) {
                    const std::int64_t width = columns_from(from, a.n_in);
                    activate(replica, row, n, from, width, hidden);
                    for (std::int64_t term = 0; term < n_terms; ++term) {
                        const std::int64_t block = term * a.n_replicas + replica;
                        T* to = a.out + row * out_width + block * n_out;
                        if (from == 0) begin(block, n, to);
                        multiply(hidden, weight_.get() + block * a.n_in * padded(n_out), a.n_in,
                                 from, width, to, out_width, n, n_out,
                                 from > 0 || a.bias != nullptr);
                    }
                }
            }
        }
    }

    // Adds to `sums`, (n_terms, n_replicas, n_in, padded outputs), or begins them, up to `most`
    // columns of H from one on; and writes the same columns of dense_gradient.
    void backward(std::int64_t first, std::int64_t last, std::int64_t from, std::int64_t most,
                  T* sums) const {
        T* hidden = static_cast<T*>(scratch(2 * kBlockBytes));
        T* slope = hidden + kStrip * kStride;
        const std::int64_t width = a.n_in - from < most ? a.n_in - from : most;
        const std::int64_t step = padded(n_out);
        for (std::int64_t row = first; row < last; row += kStrip) {
            const std::int64_t n = last - row < kStrip ? last - row : kStrip;
            for (std::int64_t replica = 0; replica < a.n_replicas; ++replica) {
                activate(replica, row, n, from, width, hidden);
                T* to = a.dense_gradient == nullptr
                            ? nullptr
                            : a.dense_gradient + row * in_width + replica * a.n_in + from;
                for (std::int64_t term = 0; term < n_terms; ++term) {
                    const std::int64_t block = term * a.n_replicas + replica;
                    for (std::int64_t o = 0; o == 0 || o < n_out; o += kBlockColumns) {
                        const std::int64_t n_here = columns_from(o, n_out);
                        copy(a.gradient + row * out_width + block * n_out + o, n, n_here, slope);
                        add_outer(hidden, width, slope, n_here, n,
                                  sums + (block * a.n_in + from) * step + o, step, row > first);
                        if (to != nullptr) {
                            multiply(slope,
                                     turned_.get() + block * n_out * padded(a.n_in) +
                                         panel_offset(from, n_out),
                                     n_out, o, n_here, to, in_width, n, width, o > 0 || term > 0);
                        }
                    }
                }
                if (to != nullptr) deactivate(replica, row, n, from, width, hidden, to);
            }
        }
    }

    // weight_gradient of the inputs first .. last: the sums of all parts, in their order.
    void add_up(std::int64_t first, std::int64_t last, const T* sums, std::int64_t n_parts) const {
        const std::int64_t step = padded(n_out), size = sums_size();
        for (std::int64_t j = first; j < last; ++j) {
            for (std::int64_t block = 0; block < n_terms * a.n_replicas; ++block) {
                const T* from = sums + (block * a.n_in + j) * step;
                T* to = a.weight_gradient + j * out_width + block * n_out;
                std::memcpy(to, from, sizeof(T) * std::size_t(n_out));
                for (std::int64_t part = 1; part < n_parts; ++part) {
                    for (std::int64_t o = 0; o < n_out; ++o) to[o] += from[part * size + o];
                }
            }
        }
    }

    std::int64_t sums_size() const { return n_terms * a.n_replicas * a.n_in * padded(n_out); }
    std::int64_t work() const { return a.n_rows * a.n_replicas * a.n_in * n_terms * n_out; }

private:
    static constexpr int kLanes = Register<T>::kLanes;
#if defined(__AVX512F__)
    static constexpr int kMostPacks = 4;  // registers of a panel's row
#else
    static constexpr int kMostPacks = 2;
#endif
    static constexpr std::int64_t kPanel = kMostPacks * kLanes;  // columns
    static constexpr std::int64_t kDepth = 128;  // of a panel that stays in the nearest cache
    // From a row of H to the next: not a power of two, whose multiples would share few places of a
    // cache; and room for what the last tile reads past the end.
    static constexpr std::int64_t kStride = kBlockColumns + 16;
    static constexpr std::int64_t kBlockBytes = (kStrip + 16) * kStride * std::int64_t(sizeof(T));

    // As many rows as leave the sums of a tile in registers, with those that are added to them.
    template <int Packs>
    static constexpr int kTileRows = kMostPacks == 4 ? (Packs == 4   ? 6
                                                        : Packs == 3 ? 8
                                                        : Packs == 2 ? 12
                                                                     : 16)
                                                     : (Packs == 2 ? 6 : 12);

    struct Source {  // element (i, k) is at i * row_step + k * column_step
        const T* data;
        std::int64_t row_step, column_step;
    };

    static std::int64_t padded(std::int64_t width) {
        return (width + kLanes - 1) / kLanes * kLanes;
    }

    static std::int64_t columns_from(std::int64_t first, std::int64_t width) {
        return width - first < kBlockColumns ? width - first : kBlockColumns;
    }

    static std::int64_t panel_offset(std::int64_t column, std::int64_t n_rows) {
        return column * n_rows;  // the panels before are full ones
    }

    template <class Matrix>
    std::unique_ptr<T[]> packed(std::int64_t n_rows, std::int64_t width, Matrix matrix) const {
        const std::int64_t size = n_rows * padded(width);
        std::unique_ptr<T[]> all(new T[std::size_t(size * n_terms * a.n_replicas + 1)]);
        T* to = all.get();
        for (std::int64_t term = 0; term < n_terms; ++term) {
            for (std::int64_t replica = 0; replica < a.n_replicas; ++replica) {
                const Source from = matrix(term, replica);
                for (std::int64_t first = 0; first < width; first += kPanel) {
                    const std::int64_t n = width - first < kPanel ? width - first : kPanel;
                    for (std::int64_t i = 0; i < n_rows; ++i, to += padded(n)) {
                        const T* row = from.data + i * from.row_step + first * from.column_step;
                        if (from.column_step == 1) {
                            std::memcpy(to, row, sizeof(T) * std::size_t(n));
                        } else {
                            for (std::int64_t k = 0; k < n; ++k) to[k] = row[k * from.column_step];
                        }
                        for (std::int64_t k = n; k < padded(n); ++k) to[k] = 0;
                    }
                }
            }
        }
        return all;
    }

    // The bias, which the product is added to.
    void begin(std::int64_t block, std::int64_t n, T* to) const {
        if (a.bias == nullptr) return;
        for (std::int64_t i = 0; i < n; ++i) {
            std::memcpy(to + i * out_width, a.bias + block * n_out, sizeof(T) * std::size_t(n_out));
        }
    }

    const T* entered(std::int64_t replica, std::int64_t row, std::int64_t from) const {
        return a.dense + row * in_width + (a.is_shared ? 0 : replica * a.n_in) + from;
    }

    // Columns of H, for rows that are `kStride` apart.
    void activate(std::int64_t replica, std::int64_t row, std::int64_t n, std::int64_t from,
                  std::int64_t width, T* hidden) const {
        for (std::int64_t i = 0; i < n; ++i) {
            const T* x = entered(replica, row + i, from);
            T* h = hidden + i * kStride;
            if (a.relu) {
                for (std::int64_t k = 0; k < width; ++k) h[k] = x[k] < 0 ? T(0) : x[k];
            } else {
                std::memcpy(h, x, sizeof(T) * std::size_t(width));
            }
            drop(replica, row + i, from, width, h);
        }
    }

    // What is dropped out of a row's columns, times 0; the rest times what makes up for it.
    void drop(std::int64_t replica, std::int64_t row, std::int64_t from, std::int64_t width,
              T* values) const {
        if (a.dropout.n_keys == 0) return;
        using Dropping = DropoutRows<T>;
        typename Dropping::Group group;
        const std::uint64_t counter =
            row_counter(a.dropout, int(replica), row) + std::uint64_t(from / 4) * kGolden;
        for (std::int64_t c = 0; c < width; c += Dropping::kGroup) {
            const std::int64_t n = width - c < Dropping::kGroup ? width - c : Dropping::kGroup;
            group.n_hashes = 0;
            group.push(counter + std::uint64_t(c / 4) * kGolden, (n + 3) / 4);
            group.make_factors(a.dropout.threshold);
            for (std::int64_t k = 0; k < n; ++k) values[c + k] *= group.factors[k];
        }
    }

    // The gradient of H, in place that of dense.
    void deactivate(std::int64_t replica, std::int64_t row, std::int64_t n, std::int64_t from,
                    std::int64_t width, const T* hidden, T* slope) const {
        if (!a.relu) {
            for (std::int64_t i = 0; i < n; ++i) {
                drop(replica, row + i, from, width, slope + i * in_width);
            }
            return;
        }
        // What is positive after ReLU and dropout was kept by both.
        const T scale = a.dropout.n_keys == 0 ? T(1) : T(65536.0 / a.dropout.threshold);
        for (std::int64_t i = 0; i < n; ++i) {
            const T* h = hidden + i * kStride;
            T* s = slope + i * in_width;
            for (std::int64_t k = 0; k < width; ++k) s[k] = h[k] > 0 ? s[k] * scale : T(0);
        }
    }

    void copy(const T* from, std::int64_t n, std::int64_t width, T* to) const {
        for (std::int64_t i = 0; i < n; ++i) {
            std::memcpy(to + i * kStride, from + i * out_width, sizeof(T) * std::size_t(width));
            for (std::int64_t k = width; k < padded(width); ++k) to[i * kStride + k] = 0;
        }
    }

    // to (n, width) = left (n, inner) @ rows first .. first + inner of a packed matrix of n_packed
    // rows; or added to it.
    static void multiply(const T* left, const T* panels, std::int64_t n_packed, std::int64_t first,
                         std::int64_t inner, T* to, std::int64_t to_step, std::int64_t n,
                         std::int64_t width, bool add) {
        for (std::int64_t column = 0; column < width; column += kPanel) {
            const std::int64_t n_here = width - column < kPanel ? width - column : kPanel;
            const T* panel = panels + column * n_packed + first * padded(n_here);
            for (std::int64_t k = 0; k == 0 || k < inner; k += kDepth) {
                const std::int64_t depth = inner - k < kDepth ? inner - k : kDepth;
                with_packs(n_here, [&](auto packs) {
                    constexpr int kPacks = decltype(packs)::value;
                    constexpr int kRows = kTileRows<kPacks>;
                    for (std::int64_t i = 0; i < n; i += kRows) {
                        tile<kRows, kPacks, kStride, 1, kPacks * kLanes>(
                            left + i * kStride + k, panel + k * kPacks * kLanes, depth,
                            to + i * to_step + column, to_step, n - i, n_here, add || k > 0);
                    }
                });
            }
        }
    }

    // to (n_in, n_out) += hidden.T (n_in, n) @ slope (n, n_out); whole registers are written.
    static void add_outer(const T* hidden, std::int64_t n_in, const T* slope, std::int64_t n_out,
                          std::int64_t n, T* to, std::int64_t to_step, bool add) {
        for (std::int64_t column = 0; column < n_out; column += kPanel) {
            const std::int64_t n_here = n_out - column < kPanel ? n_out - column : kPanel;
            with_packs(n_here, [&](auto packs) {
                constexpr int kPacks = decltype(packs)::value;
                constexpr int kRows = kTileRows<kPacks>;
                for (std::int64_t i = 0; i < n_in; i += kRows) {
                    tile<kRows, kPacks, 1, kStride, kStride>(hidden + i, slope + column, n,
                                                             to + i * to_step + column, to_step,
                                                             n_in - i, kPacks * kLanes, add);
                }
            });
        }
    }

    template <class Body>
    GRAPHCONV_INLINE static void with_packs(std::int64_t width, Body body) {
        switch ((width + kLanes - 1) / kLanes) {
            case 1:
                return body(std::integral_constant<int, 1>{});
            case 2:
                return body(std::integral_constant<int, 2>{});
            case 3:
                return body(std::integral_constant<int, kMostPacks == 4 ? 3 : 1>{});
            default:
                return body(std::integral_constant<int, kMostPacks>{});
        }
    }

    // Up to N rows of `to`, as many columns as P registers have or `width`: the sums over k of
    // left[i * Row + k * Inner] times right[k * Step ...], added to what is there if asked.
    template <int N, int P, std::int64_t Row, std::int64_t Inner, std::int64_t Step>
    static void tile(const T* left, const T* right, std::int64_t inner, T* to, std::int64_t to_step,
                     std::int64_t n, std::int64_t width, bool add) {
        Register<T> sums[N][P];
        T edge[P * kLanes];
        unrolled<N>([&](auto i) GRAPHCONV_LAMBDA {
            if (!add || i >= n) {
                unrolled<P>([&](auto p) GRAPHCONV_LAMBDA { sums[i][p].p.clear(); });
                return;
            }
            const T* from = to + i * to_step;
            if (width < P * kLanes) {
                std::memcpy(edge, from, sizeof(T) * std::size_t(width));
                from = edge;
            }
            unrolled<P>([&](auto p) GRAPHCONV_LAMBDA { sums[i][p].p.load(from + p * kLanes); });
        });
        for (std::int64_t k = 0; k < inner; ++k) {
            Register<T> row[P];
            unrolled<P>([&](auto p)
                            GRAPHCONV_LAMBDA { row[p].p.load(right + k * Step + p * kLanes); });
            unrolled<N>([&](auto i) GRAPHCONV_LAMBDA {
                const T factor = left[i * Row + k * Inner];
                unrolled<P>([&](auto p)
                                GRAPHCONV_LAMBDA { sums[i][p].multiply_add(factor, row[p]); });
            });
        }
        unrolled<N>([&](auto i) GRAPHCONV_LAMBDA {
            if (i >= n) return;
            T* row = to + i * to_step;
            if (width == P * kLanes) {
                unrolled<P>([&](auto p) GRAPHCONV_LAMBDA { sums[i][p].p.store(row + p * kLanes); });
            } else {
                unrolled<P>([&](auto p)
                                GRAPHCONV_LAMBDA { sums[i][p].p.store(edge + p * kLanes); });
                std::memcpy(row, edge, sizeof(T) * std::size_t(width));
            }
        });
    }

    const HiddenProduct<T>& a;
    const std::int64_t n_terms, n_out, in_width, out_width;
    std::unique_ptr<T[]> weight_, turned_;
};

template <class T>
void wide_product(const HiddenProduct<T>& a) {
    WideRows<T> body(a);
    body.pack_weight();
    std::int64_t unit = WideRows<T>::kStrip;  // rows, halved as long as they are whole tiles
    while (unit > 6 && a.n_rows / unit < 8 * threads()) unit /= 2;
    share_evenly((a.n_rows + unit - 1) / unit, body.work() / 4,
                 [&](std::int64_t first, std::int64_t last) {
                     body.forward(first * unit, last * unit < a.n_rows ? last * unit : a.n_rows);
                 });
}

// Rows are cut into parts whose weight gradients are summed one after the other. How many depends
// on the shape of a single replica alone, not on threads or replicas, and so do the bits.
template <class T>
void wide_product_backward(const HiddenProduct<T>& a) {
    constexpr std::int64_t kPartRows = 256, kMostParts = 64, kMostBytes = std::int64_t(1) << 26;
    WideRows<T> body(a);
    if (a.dense_gradient != nullptr) body.pack_turned_weight();
    const std::int64_t size = body.sums_size();
    const std::int64_t bytes = size / (a.n_replicas > 0 ? a.n_replicas : 1) * sizeof(T) + 1;
    std::int64_t n_parts = a.n_rows / kPartRows;
    n_parts = n_parts < kMostBytes / bytes ? n_parts : kMostBytes / bytes;
    n_parts = n_parts < 1 ? 1 : n_parts > kMostParts ? kMostParts : n_parts;
    const bool shares = threads() > 1 && body.work() / 4 >= kWorthThreads;
    // Fewer columns at a time where there would not be enough to share: that changes no bit.
    std::int64_t columns = WideRows<T>::kBlockColumns, n_blocks;
    for (;; columns /= 2) {
        n_blocks = (a.n_in + columns - 1) / columns;
        if (!shares || columns <= WideRows<T>::kLeastColumns ||
            n_parts * n_blocks >= 6 * threads()) {
            break;
        }
    }
    std::unique_ptr<T[]> sums(new T[std::size_t(n_parts * size + 1)]);
    if (a.n_rows == 0) std::memset(sums.get(), 0, sizeof(T) * std::size_t(size));
    const auto run = [&](int task) {
        const std::int64_t part = task / n_blocks, block = task % n_blocks;
        body.backward(a.n_rows * part / n_parts, a.n_rows * (part + 1) / n_parts, block * columns,
                      columns, sums.get() + part * size);
    };
    const int n_tasks = int(n_parts * n_blocks);
    if (shares) {
        share(n_tasks, run);
    } else {
        for (int task = 0; task < n_tasks; ++task) run(task);
    }
    share_evenly(a.n_in, n_parts * size, [&](std::int64_t first, std::int64_t last) {
        body.add_up(first, last, sums.get(), n_parts);
    });
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
