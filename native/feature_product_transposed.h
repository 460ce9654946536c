// The gradient of the feature product for the weights.
#pragma once

#include <cstring>

#include "arguments.h"
#include "blocks.h"
#include "chunks.h"
#include "feature_product.h"
#include "pool.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// A part of the product: some rows of X, some columns of X, some columns of the width.
struct Part {
    std::int64_t first_row, last_row;
    std::int64_t first_feature, last_feature;
    std::int64_t first_column, last_column;
};

// out += dropout(X).T @ dense, or a part of it
//
// rows    n_rows rows of X, columns ("features") in 0 .. n_columns
// dropout as in feature_product: the same bits, worked out again
// dense   (n_rows, width), n_keys equal blocks of columns
// out     (n_columns, width)
//
// Cost: as feature_product, each multiply-add also reading and writing an element of out.
template <class T, class I>
struct FeatureScatter {
    const FeatureProduct<T, I>& a;
    T* out;               // a.out, or a partial sum
    std::int64_t stride;  // from a row of out to the next

    // `out` begins with column `out_column`.
    void add(const Part& part, std::int64_t out_column = 0) const {
        const bool drop = a.dropout.n_keys > 0;
        const std::int64_t own_width = key_width(a);
        const bool restricted = part.first_feature > 0 || part.last_feature < a.n_columns;
        for (std::int64_t row = part.first_row; row < part.last_row; row += kBlock) {
            const std::int64_t end_row =
                row + kBlock < part.last_row ? row + kBlock : part.last_row;
            Block<T, I> block(a.rows, row, end_row);
            if (restricted) {
                block.restrict_columns(a.rows.indices, part.first_feature, part.last_feature, drop);
            }
            for (std::int64_t first = part.first_column; first < part.last_column;) {
                const std::int64_t key = first / own_width;
                const std::int64_t key_end = (key + 1) * own_width;
                const std::int64_t end = key_end < part.last_column ? key_end : part.last_column;
                if (drop) block.make_masks(a.dropout, int(key));
                for_each_tile<T, true>(
                    end - first, [&](auto shape, std::int64_t column, auto last_pack) {
                        using Tile = typename decltype(shape)::Tile;
                        const T* dense = a.dense + row * a.width + first + column;
                        T* to = out + first + column - out_column;
                        const T* values = a.rows.values;
                        const auto add = [&](auto value) {
                            drop ? tile<Tile, true>(block, dense, to, last_pack, value)
                                 : tile<Tile, false>(block, dense, to, last_pack, value);
                        };
                        if constexpr (sizeof(I) == 8) {  // as in PropagateRows
                            add([values](std::int64_t e) {
                                return values == nullptr ? T(1) : values[e];
                            });
                        } else if (values == nullptr) {
                            add([](std::int64_t) { return T(1); });
                        } else {
                            add([values](std::int64_t e) { return values[e]; });
                        }
                    });
                first = end;
            }
        }
    }

    template <class Tile, bool Drop, class Last, class Value>
    void tile(const Block<T, I>& block, const T* dense, T* to, Last last, Value value) const {
        const std::int64_t width = a.width, out_width = stride;
        const I* indices = a.rows.indices;
        const std::uint32_t threshold = a.dropout.threshold;
        const T scale = Drop ? T(65536.0 / threshold) : T(1);
        // A load waits for earlier stores that may be to the same place. A row's entries go to
        // different ones, so of a few the loads can all come first.
        constexpr int kRegisters = int(sizeof(Tile)) / kRegisterBytes;
        constexpr int kMost = kRegisterBytes == 64 ? 16 : 8;  // half of the registers there are
        constexpr int kAtOnce = kRegisters <= kMost / 4 ? 4 : kRegisters <= kMost / 2 ? 2 : 1;
        for (std::int64_t k = 0; k < block.n; ++k) {
            auto walk = block.template walk<Drop>(k);
            do {
                if (!walk.more()) continue;  // a range leaves many rows without entries
                Tile source;  // loaded anew for every 64 entries: it need not outlive the hashing
                source.load(dense + k * width, last);
                if (Drop) source.scale(scale);
                // Where an entry's product goes, and the sum that then is there.
                const auto sum_up = [&](std::int64_t e, Tile& sum) GRAPHCONV_LAMBDA {
                    T* target = to + indices[e] * out_width;
                    Tile term = source;
                    sum.load(target, last);
                    term.scale(value(e));
                    sum.add(term);
                    return target;
                };
                for (std::int64_t n = walk.count(); kAtOnce > 1 && n >= kAtOnce; n -= kAtOnce) {
                    T* targets[kAtOnce];
                    Tile sums[kAtOnce];
                    unrolled<kAtOnce>([&](auto i) GRAPHCONV_LAMBDA {
                        targets[i] = sum_up(walk.next(), sums[i]);
                    });
                    unrolled<kAtOnce>([&](auto i)
                                          GRAPHCONV_LAMBDA { sums[i].store(targets[i], last); });
                }
                walk.take_mask([&](std::int64_t e) GRAPHCONV_LAMBDA {
                    Tile sum;
                    T* target = sum_up(e, sum);
                    sum.store(target, last);
                });
            } while (walk.advance(threshold));
        }
    }
};

// Threads share the product in one of four ways. All give bits that depend on X alone: neither on
// the number of threads nor on the width, so that a replica's are those it would have by itself.
//
// 1. Many entries to a feature: rows are cut into parts, each is summed up on its own, and the sums
//    are added in order.
template <class T, class I>
int n_row_parts(const FeatureProduct<T, I>& a, std::int64_t n_entries) {
    constexpr std::int64_t kUsualWidth = 16;
    if ((n_entries + a.rows.n_rows) * (kUsualWidth + 4) < kWorthThreads) return 1;
    const std::int64_t out_bytes = a.n_columns * kUsualWidth * std::int64_t(sizeof(T));
    std::int64_t n = n_entries / (64 * a.n_columns);  // adding up takes a twentieth of the time
    if (n > 8) n = 8;
    while (n > 1 && (n - 1) * out_bytes > kScratchBytes) --n;
    return n < 1 ? 1 : int(n);
}

// Sums up one part after the other: columns first .. first + width of the product into out.
template <class T, class I>
void add_parts(const FeatureProduct<T, I>& a, const Chunks& parts, std::int64_t first,
               std::int64_t width, T* out, T* partial) {
    const std::int64_t size = a.n_columns * width;
    for (int part = 0; part < parts.n; ++part) {
        T* sum = part == 0 ? out : partial;
        std::memset(sum, 0, sizeof(T) * std::size_t(size));
        FeatureScatter<T, I>{a, sum, width}.add(
            {parts.bounds[part], parts.bounds[part + 1], 0, a.n_columns, first, first + width},
            first);
        for (std::int64_t k = 0; part > 0 && k < size; ++k) out[k] += partial[k];
    }
}

template <class T, class I>
void scatter_rows(const FeatureProduct<T, I>& a, const Chunks& parts) {
    const std::int64_t size = a.n_columns * a.width, bytes = size * std::int64_t(sizeof(T));
    if (threads() == 1 || bytes * (parts.n - 1) > 4 * kScratchBytes) {
        return add_parts(a, parts, 0, a.width, a.out, static_cast<T*>(scratch(bytes)));
    }
    T* partial = static_cast<T*>(scratch(bytes * (parts.n - 1)));
    share(parts.n, [&](int part) {
        T* sum = part == 0 ? a.out : partial + (part - 1) * size;
        std::memset(sum, 0, std::size_t(bytes));
        FeatureScatter<T, I>{a, sum, a.width}.add(
            {parts.bounds[part], parts.bounds[part + 1], 0, a.n_columns, 0, a.width});
    });
    for (int part = 1; part < parts.n; ++part) {
        const T* from = partial + (part - 1) * size;
        for (std::int64_t k = 0; k < size; ++k) a.out[k] += from[k];
    }
}

// 2. Several keys: each for itself, as it would be summed up alone, in a matrix of its own that is
//    copied out at the end; multiply_by_key says why.
template <class T, class I>
bool scatters_by_key(const FeatureProduct<T, I>& a, const Chunks& parts) {
    constexpr std::int64_t kNearMatrix = 1 << 17;  // copying out a larger one takes too long
    const std::int64_t n_bytes = a.n_columns * key_width(a) * std::int64_t(sizeof(T));
    return by_key(a) && (n_bytes <= kNearMatrix || parts.n > 1);
}

template <class T, class I>
void scatter_keys(const FeatureProduct<T, I>& a, const Chunks& parts) {
    const std::int64_t width = key_width(a), size = a.n_columns * width;
    share_keys(a, 2, [&](int key, T* sum) {
        add_parts(a, parts, key * width, width, sum, sum + size);
        copy_columns(sum, width, a.out + key * width, a.width, width, a.n_columns);
    });
}

// 3. Wide gradients: a slice of the columns at a time, in a matrix of its own, as in
//    multiply_by_slice; where there are some for every thread.
template <class T, class I>
bool scatters_by_slice(const FeatureProduct<T, I>& a) {
    const std::int64_t n_slices = a.width / kSlice<T>;
    return slices_pay(a) && (threads() == 1 || n_slices >= 2 * threads());
}

template <class T, class I>
void scatter_slices(const FeatureProduct<T, I>& a, const Chunks& parts) {
    const std::int64_t size = a.n_columns * kSlice<T>;
    share(int((a.width + kSlice<T> - 1) / kSlice<T>), [&](int slice) {
        const std::int64_t first = slice * kSlice<T>, width = slice_width<T>(a.width, first);
        const std::int64_t n_matrices = parts.n > 1 ? 2 : 1;
        T* sum = static_cast<T*>(scratch(n_matrices * size * std::int64_t(sizeof(T))));
        add_parts(a, parts, first, width, sum, sum + size);
        copy_columns(sum, width, a.out + first, a.width, width, a.n_columns);
    });
}

// 4. Otherwise: each thread takes a range of the features, that is of the rows of out. Ranges are
// balanced by a histogram of some of the rows.
template <class T, class I>
void scatter_features(const FeatureScatter<T, I>& scatter, std::int64_t n_entries) {
    constexpr int kBuckets = 1024;
    const FeatureProduct<T, I>& a = scatter.a;
    int shift = 0;
    while ((a.n_columns - 1) >> shift >= kBuckets) ++shift;
    std::int64_t counts[kBuckets] = {};
    const std::int64_t stride = n_entries / 16384 + 1;
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < a.rows.n_rows; i += stride) {
        for (std::int64_t e = a.rows.begin[i]; e < a.rows.end[i]; ++e, ++total) {
            ++counts[a.rows.indices[e] >> shift];
        }
    }
    // One for each thread: every range goes over all rows to find its entries.
    const int wanted = threads() < kMaxChunks ? threads() : kMaxChunks;
    Chunks ranges;
    ranges.n = 0;
    ranges.bounds[0] = 0;
    std::int64_t done = 0;
    for (int bucket = 0; bucket < kBuckets && ranges.n < wanted - 1; ++bucket) {
        const std::int64_t end = std::int64_t(bucket + 1) << shift;
        if (end >= a.n_columns) break;
        done += counts[bucket];
        // A feature without entries costs something too: its row of out is zeroed.
        if ((done / double(total + 1) + 0.25 * end / double(a.n_columns)) * wanted >=
            1.25 * (ranges.n + 1)) {
            ranges.bounds[++ranges.n] = end;
        }
    }
    ranges.bounds[++ranges.n] = a.n_columns;
    share(ranges.n, [&](int range) {
        const std::int64_t first = ranges.bounds[range], last = ranges.bounds[range + 1];
        std::memset(a.out + first * a.width, 0, sizeof(T) * std::size_t((last - first) * a.width));
        scatter.add({0, a.rows.n_rows, first, last, 0, a.width});
    });
}

template <class T, class I>
void feature_product_transposed(const FeatureProduct<T, I>& a) {
    if (a.n_columns == 0 || a.width == 0) return;
    const std::int64_t n_entries = count_entries(a.rows);
    if (n_entries == 0) {
        std::memset(a.out, 0, sizeof(T) * std::size_t(a.n_columns * a.width));
        return;
    }
    Chunks parts;
    cut(a.rows, n_entries, n_row_parts(a, n_entries), parts);
    if (scatters_by_key(a, parts)) return scatter_keys(a, parts);
    if (scatters_by_slice(a)) return scatter_slices(a, parts);
    if (parts.n > 1) return scatter_rows(a, parts);
    const FeatureScatter<T, I> scatter{a, a.out, a.width};
    const bool worth = (n_entries + a.rows.n_rows) * (a.width + 4) >= kWorthThreads;
    if (worth && threads() > 1) return scatter_features(scatter, n_entries);
    std::memset(a.out, 0, sizeof(T) * std::size_t(a.n_columns * a.width));
    scatter.add({0, a.rows.n_rows, 0, a.n_columns, 0, a.width});
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
