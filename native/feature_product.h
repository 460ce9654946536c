// Products of sparse features, dropped out on the fly, with the weights.
#pragma once

#include "arguments.h"
#include "blocks.h"
#include "chunks.h"
#include "pool.h"
#include "propagate.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// out = dropout(X) @ weight
//
// rows    n_rows rows of X, columns in 0 .. n_columns
// dropout element number: an entry's position within its row
// weight  (n_columns, width), n_keys equal blocks of columns
// out     (n_rows, width), every element written
//
// Cost: entries * (1 - p) * width multiply-adds and n_keys * entries / 4 hashes. Moves
// entries * (index + value) and, if the weights do not fit a cache, entries * (1 - p) of its rows.
template <class T, class I>
struct FeatureRows {
    const FeatureProduct<T, I>& a;
    bool far;

    void operator()(std::int64_t first, std::int64_t last) const {
        const std::int64_t width = a.width / a.dropout.n_keys;
        for (std::int64_t row = first; row < last; row += kBlock) {
            Block<T, I> block(a.rows, row, row + kBlock < last ? row + kBlock : last);
            for (int key = 0; key < a.dropout.n_keys; ++key) {
                multiply(block, row, key, key * width, width, a.dense + key * width, a.width);
            }
        }
    }

    // Columns first .. first + width of one key; `weight` is that block, its rows `stride` apart.
    void multiply(Block<T, I>& block, std::int64_t row, int key, std::int64_t first,
                  std::int64_t width, const T* weight, std::int64_t stride) const {
        block.make_masks(a.dropout, key);
        for_each_tile<T>(width, [&](auto shape, std::int64_t column, std::int64_t last_pack) {
            using Tile = typename decltype(shape)::Tile;
            T* out = a.out + row * a.width + first + column;
            far ? tile<Tile, true>(block, weight + column, stride, out, last_pack)
                : tile<Tile, false>(block, weight + column, stride, out, last_pack);
        });
    }

    template <class Tile, bool Far>
    void tile(const Block<T, I>& block, const T* weight, std::int64_t stride, T* out,
              std::int64_t last) const {
        const std::int64_t width = a.width;
        const I* indices = a.rows.indices;
        const T* values = a.rows.values;
        const std::uint32_t threshold = a.dropout.threshold;
        const T scale = T(65536.0 / threshold);
        std::int64_t fetched = 0;
        const auto add = [&](std::int64_t e, Tile& sum) GRAPHCONV_LAMBDA {
            Tile row;
            row.load(weight + indices[e] * stride, last);
            if (values != nullptr) row.scale(values[e]);
            sum.add(row);
        };
        const auto finish = [&](std::int64_t row, Tile& sum) GRAPHCONV_LAMBDA {
            sum.scale(scale);
            sum.store(out + row * width, last);
        };
        std::int64_t k = 0;
        // A narrow tile waits for each of its additions; two rows at a time wait half as often.
        for (; Tile::kPacks <= 2 && !Far && k + 1 < block.n; k += 2) {
            auto walk0 = block.template walk<true>(k);
            auto walk1 = block.template walk<true>(k + 1);
            Tile sum0, sum1;
            sum0.clear();
            sum1.clear();
            while (walk0.more() && walk1.more()) {
                add(walk0.next(), sum0);
                add(walk1.next(), sum1);
            }
            walk0.finish(threshold, [&](std::int64_t e) GRAPHCONV_LAMBDA { add(e, sum0); });
            walk1.finish(threshold, [&](std::int64_t e) GRAPHCONV_LAMBDA { add(e, sum1); });
            finish(k, sum0);
            finish(k + 1, sum1);
        }
        for (; k < block.n; ++k) {
            if (Far) {
                block.look_ahead(k, fetched, [&](std::int64_t e) GRAPHCONV_LAMBDA {
                    prefetch<Tile>(weight + indices[e] * stride);
                });
            }
            Tile sum;
            sum.clear();
            auto walk = block.template walk<true>(k);
            walk.finish(threshold, [&](std::int64_t e) GRAPHCONV_LAMBDA { add(e, sum); });
            finish(k, sum);
        }
    }
};

// Copies `width` columns of one matrix to some of another; their rows are as far apart as said.
template <class T>
void copy_columns(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
                  std::int64_t width, std::int64_t n_rows) {
    // With a call of memcpy for each row, products of four replicas took up to a tenth longer.
    for_each_tile<T>(width, [&](auto shape, std::int64_t column, auto last_pack) {
        typename decltype(shape)::Tile row;
        for (std::int64_t j = 0; j < n_rows; ++j) {
            row.load(from + j * from_stride + column, last_pack);
            row.store(to + j * to_stride + column, last_pack);
        }
    });
}

// Columns of one replica.
template <class T, class I>
std::int64_t key_width(const FeatureProduct<T, I>& a) {
    return a.width / (a.dropout.n_keys > 0 ? a.dropout.n_keys : 1);
}

// Whether products are made key by key: those of replicas whose weights fit the scratch memory.
template <class T, class I>
bool by_key(const FeatureProduct<T, I>& a) {
    return a.dropout.n_keys >= 4 &&
           2 * a.n_columns * a.width * std::int64_t(sizeof(T)) <= kScratchBytes;
}

// Calls body(key, matrices) for every key, on several threads: `n_matrices` of scratch memory, each
// (n_columns, width / n_keys).
template <class T, class I, class Body>
void share_keys(const FeatureProduct<T, I>& a, int n_matrices, const Body& body) {
    const std::int64_t size = n_matrices * a.n_columns * key_width(a);
    const bool reuses = threads() == 1;  // the same ones for each key, which stay in a cache
    const int n = reuses ? 1 : a.dropout.n_keys;
    T* matrices = static_cast<T*>(scratch(n * size * std::int64_t(sizeof(T))));
    share(a.dropout.n_keys, [&](int key) { body(key, reuses ? matrices : matrices + key * size); });
}

// Key by key, each with a copy of its own block of the weights. In place, the rows of a block lie
// a.width apart: they take up a few sets of the nearest cache over and over, and miss the others.
template <class T, class I>
void multiply_by_key(const FeatureProduct<T, I>& a) {
    const std::int64_t width = key_width(a);
    const FeatureRows<T, I> product{a, is_far<T>(a.n_columns, width)};
    share_keys(a, 1, [&](int key, T* weight) {
        copy_columns(a.dense + key * width, a.width, weight, width, width, a.n_columns);
        for (std::int64_t row = 0; row < a.rows.n_rows; row += kBlock) {
            const std::int64_t end = row + kBlock < a.rows.n_rows ? row + kBlock : a.rows.n_rows;
            Block<T, I> block(a.rows, row, end);
            product.multiply(block, row, key, key * width, width, weight, width);
        }
    });
}

// Wide weights are cut into slices of at most so many columns, each a matrix of its own, for the same
// reason as key by key.
template <class T>
constexpr std::int64_t kSlice = 256 / std::int64_t(sizeof(T));

// How many columns the slice has that begins with column `first` of so wide a matrix.
template <class T>
GRAPHCONV_INLINE std::int64_t slice_width(std::int64_t width, std::int64_t first) {
    return width - first < kSlice<T> ? width - first : kSlice<T>;
}

// Calls body(first column, n columns) for every slice of so wide a matrix.
template <class T, class Body>
GRAPHCONV_INLINE void for_each_slice(std::int64_t width, Body body) {
    for (std::int64_t first = 0; first < width; first += kSlice<T>) {
        body(first, slice_width<T>(width, first));
    }
}

// The slices of a matrix, one after the other, in scratch memory; the matrix itself if it is one.
template <class T>
const T* cut_slices(const T* matrix, std::int64_t n_rows, std::int64_t width) {
    if (width <= kSlice<T>) return matrix;
    T* slices = static_cast<T*>(scratch(n_rows * width * std::int64_t(sizeof(T))));
    for_each_slice<T>(width, [&](std::int64_t first, std::int64_t n) {
        copy_columns(matrix + first, width, slices + first * n_rows, n, n, n_rows);
    });
    return slices;
}

// Slice by slice: where a slice stays in a cache that all of the weights would not, and there are so
// many entries that copying the weights does not matter.
template <class T, class I>
bool slices_pay(const FeatureProduct<T, I>& a) {
    constexpr std::int64_t kLeastEntries = 8;  // to a row of the weights
    const std::int64_t n_bytes = a.n_columns * a.width * std::int64_t(sizeof(T));
    return a.width >= 2 * kSlice<T> && a.dropout.n_keys <= 1 && n_bytes > (1 << 20) &&
           count_entries(a.rows) >= kLeastEntries * a.n_columns;
}

template <class T, class I>
void multiply_by_slice(const FeatureProduct<T, I>& a) {
    T* weight = static_cast<T*>(scratch(a.n_columns * kSlice<T> * std::int64_t(sizeof(T))));
    for_each_slice<T>(a.width, [&](std::int64_t first, std::int64_t n) {
        share_evenly(a.n_columns, a.n_columns * n, [&](std::int64_t from, std::int64_t to) {
            copy_columns(a.dense + from * a.width + first, a.width, weight + from * n, n, n,
                         to - from);
        });
        const bool far = is_far<T>(a.n_columns, n);
        if (a.dropout.n_keys == 0) {
            const Propagate<T, I> product{a.rows,      weight, nullptr, nullptr, a.out + first,
                                          a.n_columns, n,      T(0),    nullptr, a.width};
            return share_rows(a.rows, n, PropagateRows<T, I>{product, far, false});
        }
        const FeatureRows<T, I> product{a, far};
        share_rows(a.rows, n, [&](std::int64_t from, std::int64_t to) {
            for (std::int64_t row = from; row < to; row += kBlock) {
                Block<T, I> block(a.rows, row, row + kBlock < to ? row + kBlock : to);
                product.multiply(block, row, 0, first, n, weight, n);
            }
        });
    });
}

template <class T, class I>
void feature_product(const FeatureProduct<T, I>& a) {
    if (slices_pay(a)) {
        multiply_by_slice(a);
    } else if (a.dropout.n_keys == 0) {
        propagate(Propagate<T, I>{a.rows, a.dense, nullptr, nullptr, a.out, a.n_columns, a.width,
                                  T(0), nullptr, a.width});
    } else if (by_key(a)) {
        multiply_by_key(a);
    } else {
        share_rows(a.rows, a.width, FeatureRows<T, I>{a, is_far<T>(a.n_columns, a.width)});
    }
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
