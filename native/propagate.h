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
// A result past this size is written past the caches: it would not be found there later.
constexpr std::int64_t kStreamedBytes = std::int64_t(1) << 25;
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
//                          + self_weight * column_scale[i] * dense[i]) + own[i] + bias
// copy[i] = dense[i], or zeros past its end
//
// rows         n_rows rows of a sparse matrix with columns j_e in 0 .. n_columns
// dense        (n_columns, width)
// row_scale    (n_rows,) or null
// column_scale (n_columns,) or null
// entry_scale  (n_entries,) or null: column_scale[j_e], looked up beforehand. Past the caches every
//              entry waits for two far places, a row and its scale; so for one only.
// own          (n_own, width): nothing is added past its end
// bias         (width,) or null
// out          (n_rows, width), every element written
// copy         (n_rows, width) or null, every element written
//
// Cost: entries * width multiply-adds. Moves entries * (index + value + width elements) if dense
// does not fit a cache, plus n_rows * width elements written.
template <class T, class I>
struct PropagateRows {
    const Propagate<T, I>& a;
    bool far;
    bool streams;  // whether out is written past the caches

    void operator()(std::int64_t first, std::int64_t last) const {
        // What an entry is multiplied by. In a loop that asks, asking takes a third of the time; only
        // a graph of over 2^31 entries waits for memory anyway and is not worth four loops.
        const T* values = a.rows.values;
        const T* scale = a.column_scale;
        const T* looked_up = a.entry_scale;
        if constexpr (sizeof(I) == 8) {
            blocks(first, last, [=](std::int64_t e, std::int64_t j) {
                const T value = values == nullptr ? T(1) : values[e];
                if (scale == nullptr) return value;
                return value * (looked_up == nullptr ? scale[j] : looked_up[e]);
            });
        } else if (values == nullptr && scale == nullptr) {
            blocks(first, last, [](std::int64_t, std::int64_t) { return T(1); });
        } else if (values == nullptr && looked_up == nullptr) {
            blocks(first, last, [scale](std::int64_t, std::int64_t j) { return scale[j]; });
        } else if (values == nullptr || scale == nullptr) {
            const T* of_entry = values == nullptr ? looked_up : values;
            blocks(first, last, [of_entry](std::int64_t e, std::int64_t) { return of_entry[e]; });
        } else {
            blocks(first, last, [=](std::int64_t e, std::int64_t j) {
                return values[e] * (looked_up == nullptr ? scale[j] : looked_up[e]);
            });
        }
        if (streams) end_of_stream();
    }

    // In blocks, so that a row cut into several tiles finds its entries in the nearest cache.
    template <class Factor>
    void blocks(std::int64_t first, std::int64_t last, Factor factor) const {
        for (std::int64_t row = first; row < last; row += 64) {
            const std::int64_t end = row + 64 < last ? row + 64 : last;
            for_each_tile<T>(a.width, [&](auto shape, std::int64_t column, std::int64_t last_pack) {
                using Tile = typename decltype(shape)::Tile;
                far ? tile<Tile, true>(row, end, column, last_pack, factor)
                    : tile<Tile, false>(row, end, column, last_pack, factor);
            });
        }
    }

    template <class Tile, bool Far, class Factor>
    void tile(std::int64_t first_row, std::int64_t last_row, std::int64_t column, std::int64_t last,
              Factor factor) const {
        const T* dense = a.dense + column;
        const I* indices = a.rows.indices;
        const T* far_scale = a.entry_scale == nullptr ? a.column_scale : nullptr;
        const std::int64_t stride = a.dense_stride;
        const std::int64_t final_entry = a.rows.n_entries - 1;
        const auto add = [&](std::int64_t e, Tile& sum) GRAPHCONV_LAMBDA {
            const std::int64_t j = indices[e];
            if (Far) {
                // Past the end of the row these are, as a rule, the entries of the next.
                const std::int64_t ahead = e + kAhead < final_entry ? e + kAhead : final_entry;
                prefetch<Tile>(dense + indices[ahead] * stride);
                if (far_scale != nullptr) GRAPHCONV_PREFETCH(far_scale + indices[ahead]);
            }
            Tile row;
            row.load(dense + j * stride, last);
            row.scale(factor(e, j));
            sum.add(row);
        };
        const auto finish = [&](std::int64_t i, Tile& sum) GRAPHCONV_LAMBDA {
            if (a.self_weight != 0 && i < a.n_columns) {
                Tile row;
                row.load(dense + i * stride, last);
                sum.add_scaled(
                    a.column_scale == nullptr ? a.self_weight : a.self_weight * a.column_scale[i],
                    row);
            }
            if (a.row_scale != nullptr) sum.scale(a.row_scale[i]);
            if (i < a.n_own) {
                Tile own;
                own.load(a.own + i * stride + column, last);
                sum.add(own);
            }
            if (a.copy != nullptr) {
                Tile row;
                row.clear();
                if (i < a.n_columns) row.load(dense + i * stride, last);
                row.store(a.copy + i * a.out_stride + column, last);
            }
            if (a.bias != nullptr) {
                Tile added;
                added.load(a.bias + column, last);
                sum.add(added);
            }
            T* out = a.out + i * a.out_stride + column;
            Far&& streams ? sum.stream(out) : sum.store(out, last);
        };
        std::int64_t i = first_row;
        // A narrow tile waits for each of its additions; two rows at a time wait half as often.
        for (; Tile::kPacks <= 2 && !Far && i + 1 < last_row; i += 2) {
            std::int64_t e0 = a.rows.begin[i], e1 = a.rows.begin[i + 1];
            const std::int64_t end0 = a.rows.end[i], end1 = a.rows.end[i + 1];
            Tile sum0, sum1;
            sum0.clear();
            sum1.clear();
            for (; e0 < end0 && e1 < end1; ++e0, ++e1) {
                add(e0, sum0);
                add(e1, sum1);
            }
            for (; e0 < end0; ++e0) add(e0, sum0);
            for (; e1 < end1; ++e1) add(e1, sum1);
            finish(i, sum0);
            finish(i + 1, sum1);
        }
        for (; i < last_row; ++i) {
            Tile sum;
            sum.clear();
            const std::int64_t end = a.rows.end[i];
            for (std::int64_t e = a.rows.begin[i]; e < end; ++e) add(e, sum);
            finish(i, sum);
        }
    }
};

// Whether out is large, and made of whole cache lines: writing past the caches then saves reading
// its old lines.
template <class T, class I>
bool should_stream(const Propagate<T, I>& a) {
    const std::int64_t row_bytes = a.width * std::int64_t(sizeof(T));
    return a.rows.n_rows * row_bytes > kStreamedBytes && row_bytes % 64 == 0 &&
           a.out_stride == a.width && reinterpret_cast<std::uintptr_t>(a.out) % 64 == 0;
}

template <class T, class I>
void propagate(const Propagate<T, I>& a) {
    const bool far = is_far<T>(a.n_columns, a.width);
    share_rows(a.rows, a.width, PropagateRows<T, I>{a, far, far && should_stream(a)});
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
