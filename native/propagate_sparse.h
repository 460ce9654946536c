// Sums over neighbours of sparse rows.
#pragma once

#include <cstdint>
#include <vector>

#include "arguments.h"
#include "dropout.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// A row that is being summed up: dense, with a bit for each column that has been touched.
template <class T, class I>
class SparseSum {
public:
    explicit SparseSum(std::int64_t n_columns)
        : sums_(std::size_t(n_columns)), touched_(std::size_t(n_columns + 63) / 64) {}

    GRAPHCONV_INLINE void add(T factor, const Rows<T, I>& rows, std::int64_t row) {
        T* const sums = sums_.data();
        std::uint64_t* const touched = touched_.data();
        for (std::int64_t e = rows.begin[row]; e < rows.end[row]; ++e) {
            const auto column = std::uint64_t(rows.indices[e]);
            sums[column] += rows.values == nullptr ? factor : factor * rows.values[e];
            touched[column / 64] |= std::uint64_t(1) << column % 64;
        }
    }

    // Writes the columns in their order and the sums times `scale`, forgets them, and returns how
    // many they are.
    std::int64_t take(T scale, I* columns, T* values) {
        std::int64_t n = 0;
        for (std::size_t word = 0; word < touched_.size(); ++word) {
            for (std::uint64_t bits = touched_[word]; bits; bits &= bits - 1) {
                const std::size_t column = word * 64 + std::size_t(lowest_bit(bits));
                columns[n] = I(column);
                values[n++] = scale * sums_[column];
                sums_[column] = 0;
            }
            touched_[word] = 0;
        }
        return n;
    }

private:
    std::vector<T> sums_;
    std::vector<std::uint64_t> touched_;
};

// As propagate, of sparse rows: out[i] = row_scale[i] * (sum_e values[e] * column_scale[j_e] *
// features[j_e] + self_weight * column_scale[i] * features[i])
//
// indptr           (rows.n_rows + 1,), every element written
// columns, entries each row's entries, one after the other, sorted by column: room for all that a
//                  row can have, min(terms of its sum, n_columns)
//
// Cost: a multiply-add for each entry of each row that is summed. It is made once for a batch, so
// one thread will do.
template <class T, class I>
void propagate_sparse(const PropagateSparse<T, I>& a) {
    SparseSum<T, I> sum(a.n_columns);
    const auto factor = [&](T weight, std::int64_t j) GRAPHCONV_LAMBDA {
        return a.column_scale == nullptr ? weight : weight * a.column_scale[j];
    };
    std::int64_t n = 0;
    a.indptr[0] = 0;
    for (std::int64_t i = 0; i < a.rows.n_rows; ++i) {
        for (std::int64_t e = a.rows.begin[i]; e < a.rows.end[i]; ++e) {
            const std::int64_t j = a.rows.indices[e];
            sum.add(factor(a.rows.values == nullptr ? T(1) : a.rows.values[e], j), a.features, j);
        }
        if (a.self_weight != 0 && i < a.features.n_rows) {
            sum.add(factor(a.self_weight, i), a.features, i);
        }
        n += sum.take(a.row_scale == nullptr ? T(1) : a.row_scale[i], a.columns + n, a.entries + n);
        a.indptr[i + 1] = I(n);
    }
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
