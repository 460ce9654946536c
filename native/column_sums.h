// Sums of a matrix' columns: the gradient of a bias.
#pragma once

#include <cstdint>
#include <memory>

#include "arguments.h"
#include "chunks.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// out[k] = sum over the rows of rows[row][k]
//
// rows (n_rows, width), out (width,). Sums run within parts of kSummedRows rows, then over those in
// double precision, each column by itself: the order depends on the number of rows alone. Cost:
// n_rows * width additions.
constexpr std::int64_t kSummedRows = 64;

template <class T>
void column_sums(const ColumnSums<T>& a) {
    const std::int64_t width = a.width, n_parts = (a.n_rows + kSummedRows - 1) / kSummedRows;
    const std::unique_ptr<T[]> found(new T[std::size_t(n_parts * width + 1)]());
    share_evenly(n_parts, a.n_rows * width, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t part = first; part < last; ++part) {
            const std::int64_t begin = part * kSummedRows, end = begin + kSummedRows;
            T* sums = found.get() + part * width;
            for (std::int64_t row = begin; row < (end < a.n_rows ? end : a.n_rows); ++row) {
                const T* own = a.rows + row * width;
                for (std::int64_t k = 0; k < width; ++k) sums[k] += own[k];
            }
        }
    });
    for (std::int64_t k = 0; k < width; ++k) {
        double total = 0;
        for (std::int64_t part = 0; part < n_parts; ++part)
            total += double(found[part * width + k]);
        a.out[k] = T(total);
    }
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
