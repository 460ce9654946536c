// What is known of the index arrays that come from Python.
#pragma once

#include <cstdint>

#include "arrays.h"

namespace graphconv {

// Throws ValueError unless every row lies within the entries and has columns in 0 .. n_columns only.
//
// Arrays that nobody can write to are looked at once: what was found is remembered for as long as
// they live. Others are looked at in every call.
void require_rows(const Array& begin, const Array& end, const Array& indices,
                  std::int64_t n_columns);

// Throws ValueError unless all numbers, 64 bits each, are in 0 .. limit.
void require_below(const Array& numbers, std::int64_t limit);

}  // namespace graphconv
