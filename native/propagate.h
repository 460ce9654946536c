// Weighted sums over neighbours, and products of sparse rows with a dense matrix.
#pragma once

#include "arguments.h"
#include "chunks.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// A dense matrix past this size is fetched ahead of use. Smaller ones stay in a cache near enough
// for the processor's own reordering to hide; there, prefetching made products slower.
constexpr std::int64_t kNearBytes = std::int64_t(1) << 22;
constexpr std::int64_t kAhead = 16;  // entries between a prefetch and its use

template <class T>
GRAPHCONV_INLINE bool is_far(std::int64_t n_rows, std::int64_t width) {
    return n_rows * width * std::int64_t(sizeof(T)) > kNearBytes;
}

// Fetches the cache lines of a tile.
template <class Tile, class T>
GRAPHCONV_INLINE void prefetch(const T* from) {
    for (int k = 0; k < Tile::kElements; k += 64 / int(sizeof(T))) GRAPHCONV_PREFETCH(from + k);
    if (reinterpret_cast<std::uintptr_t>(from) % 64 != 0) {
        GRAPHCONV_PREFETCH(from + Tile::kElements - 1);
    }
}

// out[i] = row_scale[i] * (sum_e values[e] * column_scale[j_e] * dense[j_e]
//                          + self_weight * column_scale[i] * dense[i])
//
// rows         n_rows rows of a sparse matrix with columns j_e in 0 .. n_columns
// dense        (n_columns, width)
// row_scale    (n_rows,) or null
// column_scale (n_columns,) or null
// out          (n_rows, width), every element written
//
// Cost: entries * width multiply-adds. Moves entries * (index + value + width elements) if dense
// does not fit a cache, plus n_rows * width elements written.
template <class T, class I>
struct PropagateRows {
    const Propagate<T, I>& a;
    const T* gathered;      // a.dense and a.column_scale; or a.scaled, which has been scaled, and
    const T* gather_scale;  // null
    bool far;

    void operator()(std::int64_t first, std::int64_t last) const {
        // In blocks, so that a row cut into several tiles finds its entries in the nearest cache.
        for (std::int64_t row = first; row < last; row += 64) {
            const std::int64_t end = row + 64 < last ? row + 64 : last;
            for_each_tile<T>(a.width, [&](auto shape, std::int64_t column, std::int64_t last_pack) {
                using Tile = typename decltype(shape)::Tile;
                far ? tile<Tile, true>(row, end, column, last_pack)
                    : tile<Tile, false>(row, end, column, last_pack);
            });
        }
    }

    template <class Tile, bool Far>
    void tile(std::int64_t first_row, std::int64_t last_row, std::int64_t column,
              std::int64_t last) const {
        const T* dense = gathered + column;
        const I* indices = a.rows.indices;
        const T* values = a.rows.values;
        const T* column_scale = gather_scale;
        const std::int64_t width = a.width;
        const std::int64_t final_entry = a.rows.n_entries - 1;
        for (std::int64_t i = first_row; i < last_row; ++i) {
            Tile sum, row;
            sum.clear();
            const std::int64_t end = a.rows.end[i];
            for (std::int64_t e = a.rows.begin[i]; e < end; ++e) {
                const std::int64_t j = indices[e];
                if (Far) {
                    // Past the end of the row these are, as a rule, the entries of the next.
                    const std::int64_t ahead = e + kAhead < final_entry ? e + kAhead : final_entry;
                    prefetch<Tile>(dense + indices[ahead] * width);
                    if (column_scale != nullptr) GRAPHCONV_PREFETCH(column_scale + indices[ahead]);
                }
                row.load(dense + j * width, last);
                if (values != nullptr || column_scale != nullptr) {
                    T factor = values != nullptr ? values[e] : T(1);
                    if (column_scale != nullptr) factor *= column_scale[j];
                    row.scale(factor);
                }
                sum.add(row);
            }
            if (a.self_weight != 0 && i < a.n_columns) {
                row.load(a.dense + i * width + column, last);
                T factor = a.self_weight;
                if (a.column_scale != nullptr) factor *= a.column_scale[i];
                sum.add_scaled(factor, row);
            }
            if (a.row_scale != nullptr) sum.scale(a.row_scale[i]);
            sum.store(a.out + i * width + column, last);
        }
    }
};

// a.scaled = column_scale * dense; rows are whole packs of eight, aligned to them.
template <class T, class I>
void scale_rows(const Propagate<T, I>& a) {
    share_evenly(a.n_columns, a.n_columns * a.width, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t j = first; j < last; ++j) {
            for (std::int64_t c = 0; c < a.width; c += 8) {
                Pack<T, 8> pack;
                pack.load(a.dense + j * a.width + c);
                pack.scale(a.column_scale[j]);
                pack.stream(a.scaled + j * a.width + c);
            }
        }
        end_of_stream();
    });
}

template <class T, class I>
void propagate(const Propagate<T, I>& a) {
    const bool first = a.scaled != nullptr;
    if (first) scale_rows(a);
    share_rows(a.rows, a.width,
               PropagateRows<T, I>{a, first ? a.scaled : a.dense, first ? nullptr : a.column_scale,
                                   is_far<T>(a.n_columns, a.width)});
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
