// Products of sparse rows that lie in the order in which they are read.
//
// Where rows are long and weights wide, a product takes some columns of X at a time, a range, so that
// the weights they meet stay in the nearest cache. Rows are cut into pieces, one for each range. In
// place, these are short pieces of memory with gaps between, which the processor does not foresee; so
// they are copied into the order of use: all rows of a block, range by range.
#pragma once

#include <algorithm>

#include "arguments.h"
#include "chunks.h"
#include "feature_product.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

constexpr std::int64_t kPackedBlock = 64;  // rows; graphconv.kernels.PACKED_BLOCK

// Cuts rows into pieces: those of blocks of kPackedBlock rows one after the other, of a block range by
// range, of a range row by row. Range r has the columns below n_columns * (r + 1) / n_ranges.
//
// Cost: reads every entry and writes it. It is done once for many products, so one thread will do.
template <class T, class I>
void pack_rows(const PackRows<T, I>& a) {
    std::int64_t piece = 0, to = 0;
    for (std::int64_t first = 0; first < a.rows.n_rows; first += kPackedBlock) {
        const std::int64_t last = std::min(first + kPackedBlock, a.rows.n_rows);
        I next[kPackedBlock];  // each row's first entry past the ranges before
        std::copy(a.rows.begin + first, a.rows.begin + last, next);
        for (std::int64_t range = 0; range < a.n_ranges; ++range) {
            const std::int64_t limit = a.n_columns * (range + 1) / a.n_ranges;
            for (std::int64_t row = first; row < last; ++row, ++piece) {
                std::int64_t e = next[row - first];
                a.begin[piece] = I(to);
                for (; e < a.rows.end[row] && a.rows.indices[e] < limit; ++e, ++to) {
                    a.indices[to] = a.rows.indices[e];
                    a.values[to] = a.rows.values[e];
                }
                a.end[piece] = I(to);
                next[row - first] = I(e);
            }
        }
    }
}

// out = X @ weight
//
// pieces  of the rows of X, as pack_rows cuts them
// weight  (n_columns, width)
// out     (n_rows, width), every element written
//
// Cost: entries * width multiply-adds. Moves entries * (index + value) for every slice of the
// weights, all but the first time from the second cache.
template <class T, class I>
class PackedBlocks {
public:
    PackedBlocks(const PackedProduct<T, I>& arguments, const T* slices)
        : a(arguments), n_rows(a.pieces.n_rows / a.n_ranges), slices_(slices) {}

    void operator()(std::int64_t first_block, std::int64_t last_block) const {
        for (std::int64_t block = first_block; block < last_block; ++block) {
            for_each_slice<T>(a.width, [&](std::int64_t slice, std::int64_t n) {
                for_each_tile<T>(n, [&](auto shape, std::int64_t column, auto last_pack) {
                    using Tile = typename decltype(shape)::Tile;
                    const T* weight = slices_ + slice * a.n_columns + column;
                    T* out = a.out + slice + column;
                    if (n == Tile::kElements) {  // with a constant it takes 3 % less
                        constexpr std::integral_constant<std::int64_t, Tile::kElements> kStride{};
                        multiply<Tile>(block * kPackedBlock, weight, kStride, out, last_pack);
                    } else {
                        multiply<Tile>(block * kPackedBlock, weight, n, out, last_pack);
                    }
                });
            });
        }
    }

    std::int64_t n_blocks() const { return (n_rows + kPackedBlock - 1) / kPackedBlock; }

private:
    // A block of rows by a tile of the weights, whose rows lie `stride` apart.
    template <class Tile, class Stride, class Last>
    void multiply(std::int64_t first, const T* weight, Stride stride, T* out,
                  Last last_pack) const {
        // Read once: for all the compiler knows, storing a sum may change them.
        const std::int64_t n = std::min(kPackedBlock, n_rows - first), n_ranges = a.n_ranges;
        const std::int64_t width = a.width;
        const I* begins = a.pieces.begin;
        const I* ends = a.pieces.end;
        const I* indices = a.pieces.indices;
        const T* values = a.pieces.values;
        std::int64_t piece = first * n_ranges;
        alignas(64) T sums[kPackedBlock * Tile::kElements];  // of the ranges before
        for (std::int64_t range = 0; range < n_ranges; ++range) {
            for (std::int64_t row = 0; row < n; ++row, ++piece) {
                T* waiting = sums + row * Tile::kElements;
                Tile sum;
                if (range == 0) {
                    sum.clear();
                } else {
                    sum.load(waiting, last_pack);
                }
                const std::int64_t end = ends[piece];
                for (std::int64_t e = begins[piece]; e < end; ++e) {
                    Tile terms;
                    terms.load(weight + indices[e] * stride, last_pack);
                    terms.scale(values[e]);
                    sum.add(terms);
                }
                sum.store(range + 1 == n_ranges ? out + (first + row) * width : waiting, last_pack);
            }
        }
    }

    const PackedProduct<T, I>& a;
    const std::int64_t n_rows;
    const T* slices_;
};

template <class T, class I>
void packed_product(const PackedProduct<T, I>& a) {
    const PackedBlocks<T, I> body(a, cut_slices(a.weight, a.n_columns, a.width));
    share_evenly(body.n_blocks(), count_entries(a.pieces) * a.width, body);
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
