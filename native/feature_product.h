// Products of sparse features, dropped out on the fly, with the weights.
#pragma once

#include "arguments.h"
#include "blocks.h"
#include "chunks.h"
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
                block.make_masks(a.dropout, key);
                for_each_tile<T>(width, [&](auto shape, std::int64_t column,
                                            std::int64_t last_pack) {
                    using Tile = typename decltype(shape)::Tile;
                    far ? tile<Tile, true>(block, row, key * width + column, last_pack)
                        : tile<Tile, false>(block, row, key * width + column, last_pack);
                });
            }
        }
    }

    template <class Tile, bool Far>
    void tile(const Block<T, I>& block, std::int64_t first_row, std::int64_t column,
              std::int64_t last) const {
        const std::int64_t width = a.width;
        const T* weight = a.dense + column;
        const I* indices = a.rows.indices;
        const T* values = a.rows.values;
        const std::uint32_t threshold = a.dropout.threshold;
        const T scale = T(65536.0 / threshold);
        T* out = a.out + first_row * width + column;
        std::int64_t fetched = 0;
        const auto add = [&](std::int64_t e, Tile& sum) GRAPHCONV_LAMBDA {
            Tile row;
            row.load(weight + indices[e] * width, last);
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
                    prefetch<Tile>(weight + indices[e] * width);
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

template <class T, class I>
void feature_product(const FeatureProduct<T, I>& a) {
    if (a.dropout.n_keys == 0) {
        propagate(Propagate<T, I>{a.rows, a.dense, nullptr, nullptr, a.out, a.n_columns, a.width,
                                  T(0), nullptr});
    } else {
        share_rows(a.rows, a.width, FeatureRows<T, I>{a, is_far<T>(a.n_columns, a.width)});
    }
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
