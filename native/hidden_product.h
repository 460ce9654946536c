// Product of hidden activations with the weights of a layer, ReLU and dropout on the way.
#pragma once

#include <cstring>
#include <vector>

#include "arguments.h"
#include "chunks.h"
#include "dense.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// Forward:  out = H @ weight, replica by replica, with H = dropout(relu(dense)) or dropout(dense)
// Backward: weight_gradient = H.T @ gradient; dense_gradient = gradient @ weight.T, dropped out and
//           rectified as H was
//
// dense, dense_gradient     (n_rows, n_replicas, n_in)
// weight, weight_gradient   (n_in, n_terms, n_replicas, n_out)
// out, gradient             (n_rows, n_terms, n_replicas, n_out)
//
// H exists a strip of rows at a time. Cost: n_rows * n_replicas * n_in * n_terms * n_out
// multiply-adds forward, twice that backward. Sums run over rows, inputs or outputs in their order,
// so a replica gets the bits of its single run.
template <class T>
class HiddenRows {
public:
    explicit HiddenRows(const HiddenProduct<T>& arguments)
        : a(arguments),
          // The terms of a single replica lie side by side: they are one wider product.
          n_terms(a.n_replicas == 1 ? 1 : a.n_terms),
          n_out(a.n_replicas == 1 ? a.n_terms * a.n_out : a.n_out),
          in_width(a.n_replicas * a.n_in),
          out_width(n_terms * a.n_replicas * n_out),
          strip(kStripElements / (in_width > 0 ? in_width : 1) > 4
                    ? kStripElements / (in_width > 0 ? in_width : 1) / 4 * 4
                    : 4) {}

    void forward(std::int64_t first, std::int64_t last) const {
        std::vector<T> hidden(std::size_t(strip * in_width));
        for (std::int64_t row = first; row < last; row += strip) {
            const std::int64_t n = last - row < strip ? last - row : strip;
            activate(row, n, hidden.data());
            for (std::int64_t replica = 0; replica < a.n_replicas; ++replica) {
                for (std::int64_t term = 0; term < n_terms; ++term) {
                    const std::int64_t block = (term * a.n_replicas + replica) * n_out;
                    multiply({hidden.data() + replica * a.n_in, in_width, 1}, a.weight + block,
                             out_width, a.out + row * out_width + block, out_width, n, a.n_in,
                             n_out, false);
                }
            }
        }
    }

    // weight_gradient is added to; `turned` is the weight as (n_replicas, n_terms, n_out, n_in).
    void backward(std::int64_t first, std::int64_t last, const T* turned,
                  T* weight_gradient) const {
        std::vector<T> hidden(std::size_t(strip * in_width)), raw(hidden.size());
        for (std::int64_t row = first; row < last; row += strip) {
            const std::int64_t n = last - row < strip ? last - row : strip;
            const T* gradient = a.gradient + row * out_width;
            activate(row, n, hidden.data());
            for (std::int64_t replica = 0; replica < a.n_replicas; ++replica) {
                for (std::int64_t term = 0; term < n_terms; ++term) {
                    const std::int64_t block = (term * a.n_replicas + replica) * n_out;
                    multiply({hidden.data() + replica * a.n_in, 1, in_width}, gradient + block,
                             out_width, weight_gradient + block, out_width, a.n_in, n, n_out, true);
                    multiply({gradient + block, out_width, 1},
                             turned + (replica * n_terms + term) * n_out * a.n_in, a.n_in,
                             raw.data() + replica * a.n_in, in_width, n, n_out, a.n_in, term > 0);
                }
            }
            DropoutDense<T> drop = activation(row, n);
            drop.gradient = raw.data();
            drop.out = a.dense_gradient + row * in_width;
            DropoutRows<T>{drop}(0, n);
        }
    }

    std::int64_t work() const { return a.n_rows * in_width * n_terms * n_out; }

private:
    static constexpr std::int64_t kStripElements = 4096;
    static constexpr std::int64_t kMostPadded = 256;
    static constexpr int kMore = kRegisterBytes == 64 ? 2 : 1;  // there are twice as many registers

    struct Left {  // element (i, k) of the left factor is at i * row_step + k * column_step
        const T* data;
        std::int64_t row_step, column_step;
    };

    DropoutDense<T> activation(std::int64_t row, std::int64_t n) const {
        DropoutDense<T> drop{a.dropout, a.dense + row * in_width, nullptr, nullptr, n, in_width,
                             a.relu};
        drop.dropout.first_row = row;
        return drop;
    }

    void activate(std::int64_t row, std::int64_t n, T* hidden) const {
        DropoutDense<T> drop = activation(row, n);
        drop.out = hidden;
        DropoutRows<T>{drop}(0, n);
    }

    // to = left @ right, or added to it: (n, inner) times (inner, width).
    static void multiply(const Left& left, const T* right, std::int64_t right_step, T* to,
                         std::int64_t to_step, std::int64_t n, std::int64_t inner,
                         std::int64_t width, bool add) {
        if (width > 1 && width < 4 && n >= 4 && inner <= kMostPadded) {
            return multiply_padded(left, right, right_step, to, to_step, n, inner, width, add);
        }
        for_each_tile<T>(width, [&](auto shape, std::int64_t column, std::int64_t last) {
            using Tile = typename decltype(shape)::Tile;
            constexpr int kRows = Tile::kPacks <= 2   ? 4 * kMore
                                  : Tile::kPacks <= 4 ? 2 * kMore
                                                      : kMore;
            std::int64_t i = 0;
            for (; i + kRows <= n; i += kRows) {
                rows<Tile, kRows>(left, right + column, right_step, to + column, to_step, i, inner,
                                  last, add);
            }
            for (; i < n; ++i) {
                rows<Tile, 1>(left, right + column, right_step, to + column, to_step, i, inner,
                              last, add);
            }
        });
    }

    // The same for two or three columns, as four: with whole registers the kernel takes 45 us for
    // Pubmed's three classes, with a column at a time 62.
    static void multiply_padded(const Left& left, const T* right, std::int64_t right_step, T* to,
                                std::int64_t to_step, std::int64_t n, std::int64_t inner,
                                std::int64_t width, bool add) {
        using Tile = GRAPHCONV_VARIANT::Tile<T, 4, 1>;
        constexpr std::int64_t kRows = 8;
        T padded[4 * kMostPadded];
        for (std::int64_t j = 0; j < inner; ++j) {
            for (int c = 0; c < 4; ++c)
                padded[4 * j + c] = c < width ? right[j * right_step + c] : 0;
        }
        for (std::int64_t i = 0; i < n; i += kRows) {
            const std::int64_t here = n - i < kRows ? n - i : kRows;
            const Left own{left.data + i * left.row_step, left.row_step, left.column_step};
            T sums[4 * kRows] = {};
            for (std::int64_t k = 0; add && k < here; ++k) {
                for (std::int64_t c = 0; c < width; ++c)
                    sums[4 * k + c] = to[(i + k) * to_step + c];
            }
            if (here == kRows) {
                rows<Tile, kRows>(own, padded, 4, sums, 4, 0, inner, 0, add);
            } else {
                for (std::int64_t k = 0; k < here; ++k) {
                    rows<Tile, 1>(own, padded, 4, sums, 4, k, inner, 0, add);
                }
            }
            for (std::int64_t k = 0; k < here; ++k) {
                for (std::int64_t c = 0; c < width; ++c)
                    to[(i + k) * to_step + c] = sums[4 * k + c];
            }
        }
    }

    // Several rows of the left factor share each load of the right one.
    template <class Tile, int N>
    GRAPHCONV_INLINE static void rows(const Left& left, const T* right, std::int64_t right_step,
                                      T* to, std::int64_t to_step, std::int64_t i,
                                      std::int64_t inner, std::int64_t last, bool add) {
        Tile sums[N];
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA {
            if (add) {
                sums[k].load(to + (i + k) * to_step, last);
            } else {
                sums[k].clear();
            }
        });
        const T* factors = left.data + i * left.row_step;
        for (std::int64_t j = 0; j < inner; ++j) {
            Tile row;
            row.load(right + j * right_step, last);
            unrolled<N>([&](auto k) GRAPHCONV_LAMBDA {
                sums[k].add_scaled(factors[k * left.row_step + j * left.column_step], row);
            });
        }
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA { sums[k].store(to + (i + k) * to_step, last); });
    }

    const HiddenProduct<T>& a;
    const std::int64_t n_terms, n_out, in_width, out_width, strip;
};

template <class T>
void hidden_product(const HiddenProduct<T>& a) {
    const HiddenRows<T> body(a);
    share_evenly(a.n_rows, body.work(),
                 [&](std::int64_t first, std::int64_t last) { body.forward(first, last); });
}

// Rows are cut into parts whose weight gradients are summed one after the other. How many depends
// on the shape of a single replica alone, not on threads or replicas, and so do the bits.
template <class T>
void hidden_product_backward(const HiddenProduct<T>& a) {
    const HiddenRows<T> body(a);
    const std::int64_t size = a.n_in * a.n_terms * a.n_replicas * a.n_out;
    std::vector<T> turned(static_cast<std::size_t>(size));
    for (std::int64_t j = 0; j < a.n_in; ++j) {
        for (std::int64_t term = 0; term < a.n_terms; ++term) {
            for (std::int64_t replica = 0; replica < a.n_replicas; ++replica) {
                for (std::int64_t o = 0; o < a.n_out; ++o) {
                    turned[((replica * a.n_terms + term) * a.n_out + o) * a.n_in + j] =
                        a.weight[((j * a.n_terms + term) * a.n_replicas + replica) * a.n_out + o];
                }
            }
        }
    }
    std::int64_t n_parts = body.work() / (a.n_replicas > 0 ? a.n_replicas : 1) / kWorthThreads;
    n_parts = n_parts < 1 ? 1 : n_parts > 16 ? 16 : n_parts;
    std::vector<T> partial(std::size_t(size * (n_parts - 1)));
    std::memset(a.weight_gradient, 0, sizeof(T) * std::size_t(size));
    const auto run = [&](int part) {
        body.backward(a.n_rows * part / n_parts, a.n_rows * (part + 1) / n_parts, turned.data(),
                      part == 0 ? a.weight_gradient : partial.data() + (part - 1) * size);
    };
    if (n_parts == 1) {
        run(0);
    } else {
        share(int(n_parts), run);
    }
    for (std::int64_t k = 0; k < size * (n_parts - 1); ++k) {
        a.weight_gradient[k % size] += partial[std::size_t(k)];
    }
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
