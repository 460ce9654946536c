// Rows of a sparse matrix copied out, whole or as a random sample of their entries.
#pragma once

#include <cstdint>

namespace graphconv {

// I is int32_t or int64_t, T is float or double.
template <class T, class I>
struct SampleRows {
    const std::int64_t* begin;    // (n_rows,) first entry of each row
    const std::int64_t* end;      // (n_rows,)
    const std::int64_t* offsets;  // (n_rows,) where each row goes in the two arrays below
    const std::int64_t* row_ids;  // (n_rows,) the rows' names in the hash
    const I* indices;             // column of each entry
    const T* values;              // value of each entry, or null
    I* columns;                   // out
    T* chosen;                    // out, or null where `values` is
    std::int64_t n_rows;
    std::int64_t fanout;  // at most so many entries of a row; 0: all
    std::uint64_t key;
};

// Of a row with more than `fanout` entries, every set of `fanout` is as likely as any other, and
// which one is taken depends on the key and the row's name only: kernels/reference.py says how. A
// row costs its number of entries out, whatever it has. Runs on several threads where that pays.
template <class T, class I>
void sample_rows(const SampleRows<T, I>& arguments);

}  // namespace graphconv
