// The check of sparse rows before a kernel reads them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "arguments.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// Looks for a row that does not lie within the entries, and for the greatest column of all rows. Read
// without a sign, so that a negative column is a very great one.
//
// Cost: reads every entry once. Rows that follow one another are read as one.
template <class I>
RowCheck check_rows(const I* begin, const I* end, const I* indices, std::int64_t n_rows,
                    std::int64_t n_entries) {
    using Unsigned = std::make_unsigned_t<I>;
    Unsigned greatest = 0;
    bool empty = true;
    for (std::int64_t row = 0; row < n_rows;) {
        const std::int64_t first = begin[row];
        std::int64_t last = first;
        do {
            if (begin[row] < 0 || end[row] < begin[row] || end[row] > n_entries) {
                return {row, 0, true};
            }
            last = end[row++];
        } while (row < n_rows && begin[row] == last);
        empty &= first == last;
        for (std::int64_t e = first; e < last; ++e) {
            const auto column = Unsigned(indices[e]);
            greatest = column > greatest ? column : greatest;
        }
    }
    return {-1, greatest, empty};
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
