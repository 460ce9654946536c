// Products of sparse features, dropped out on the fly, with the weights, and their gradient.
#pragma once

#include "arguments.h"
#include "chunks.h"
#include "dropout.h"
#include "propagate.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// Calls take(entry) for every entry begin .. end of a row that dropout keeps, in order. Walking
// the set bits of a mask costs one mispredicted branch in 64 entries, not one in two.
template <class Take>
GRAPHCONV_INLINE void for_each_kept(std::int64_t begin, std::int64_t end, std::uint64_t counter,
                                    std::uint32_t threshold, Take take) {
    for (; begin < end; begin += 64, counter += 16 * kGolden) {
        const std::int64_t n = end - begin < 64 ? end - begin : 64;
        for (std::uint64_t bits = kept_bits(counter, threshold, n); bits; bits &= bits - 1) {
            take(begin + lowest_bit(bits));
        }
    }
}

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

    void rows(std::int64_t first, std::int64_t last) const {
        const int n_keys = a.dropout.n_keys;
        const std::int64_t block = n_keys == 1 ? 64 : 4;
        for (std::int64_t row = first; row < last; row += block) {
            const std::int64_t end = row + block < last ? row + block : last;
            for (int key = 0; key < n_keys; ++key) {
                for_each_tile<T>(a.width / n_keys, [&](auto shape, std::int64_t column,
                                                       std::int64_t last_pack) {
                    tile<typename decltype(shape)::Tile>(row, end, key, column, last_pack);
                });
            }
        }
    }

    template <class Tile>
    void tile(std::int64_t first_row, std::int64_t last_row, int key, std::int64_t column,
              std::int64_t last) const {
        const std::int64_t width = a.width;
        column += key * (width / a.dropout.n_keys);
        const T* weight = a.dense + column;
        const I* indices = a.rows.indices;
        const T* values = a.rows.values;
        const std::uint32_t threshold = a.dropout.threshold;
        const T scale = T(65536.0 / threshold);
        for (std::int64_t i = first_row; i < last_row; ++i) {
            Tile sum, row;
            sum.clear();
            for_each_kept(a.rows.begin[i], a.rows.end[i], row_counter(a.dropout, key, i), threshold,
                          [&](std::int64_t e) GRAPHCONV_LAMBDA {
                              row.load(weight + indices[e] * width, last);
                              if (values != nullptr) row.scale(values[e]);
                              sum.add(row);
                          });
            sum.scale(scale);
            sum.store(a.out + i * width + column, last);
        }
    }
};

template <class T, class I>
void feature_product(const FeatureProduct<T, I>& a) {
    if (a.dropout.n_keys == 0) {
        propagate(Propagate<T, I>{a.rows, a.dense, nullptr, nullptr, a.out, a.n_columns, a.width, 0});
        return;
    }
    const FeatureRows<T, I> body{a};
    share_rows(a.rows, a.width, body);
}

// out = dropout(X).T @ dense, the gradient of feature_product for the weight
//
// rows    n_rows rows of X, columns in 0 .. n_columns
// dropout as in feature_product: the same bits, worked out again
// dense   (n_rows, width)
// out     (n_columns, width), zeroed and then added to
//
// Cost: as feature_product, each multiply-add also reading and writing an element of out.
template <class T, class I>
struct FeatureScatter {
    const FeatureProduct<T, I>& a;
    T* out;  // (n_columns, width): a.out, or a partial sum
    std::int64_t first_row, last_row;

    // Columns first .. last of the width.
    void columns(std::int64_t first, std::int64_t last) const {
        const std::int64_t n_keys = a.dropout.n_keys > 0 ? a.dropout.n_keys : 1;
        const std::int64_t block = a.width / n_keys;
        for (std::int64_t key = first / block; key * block < last; ++key) {
            const std::int64_t begin = first > key * block ? first : key * block;
            const std::int64_t end = last < (key + 1) * block ? last : (key + 1) * block;
            for_each_tile<T>(end - begin, [&](auto shape, std::int64_t column,
                                              std::int64_t last_pack) {
                using Tile = typename decltype(shape)::Tile;
                a.dropout.n_keys > 0 ? tile<Tile, true>(int(key), begin + column, last_pack)
                                     : tile<Tile, false>(int(key), begin + column, last_pack);
            });
        }
    }

    template <class Tile, bool Drop>
    void tile(int key, std::int64_t column, std::int64_t last) const {
        const std::int64_t width = a.width;
        const I* indices = a.rows.indices;
        const T* values = a.rows.values;
        const std::uint32_t threshold = a.dropout.threshold;
        T* to = out + column;
        for (std::int64_t i = first_row; i < last_row; ++i) {
            Tile source;
            source.load(a.dense + i * width + column, last);
            if (Drop) source.scale(T(65536.0 / threshold));
            auto take = [&](std::int64_t e) GRAPHCONV_LAMBDA {
                T* target = to + indices[e] * width;
                Tile sum, term = source;
                sum.load(target, last);
                if (values != nullptr) term.scale(values[e]);
                sum.add(term);
                sum.store(target, last);
            };
            if (Drop) {
                for_each_kept(a.rows.begin[i], a.rows.end[i], row_counter(a.dropout, key, i),
                              threshold, take);
            } else {
                for (std::int64_t e = a.rows.begin[i], end = a.rows.end[i]; e < end; ++e) take(e);
            }
        }
    }
};

template <class T, class I>
void feature_product_transposed(const FeatureProduct<T, I>& a) {
    std::memset(a.out, 0, sizeof(T) * std::size_t(a.n_columns * a.width));
    if (a.width == 0) return;
    FeatureScatter<T, I>{a, a.out, 0, a.rows.n_rows}.columns(0, a.width);
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
