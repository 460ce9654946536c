// Weighted sums over neighbours of dense rows that are dropped out on the way.
#pragma once

#include <cstring>

#include "arguments.h"
#include "chunks.h"
#include "dense.h"
#include "propagate.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// out[i, k] = row_scale[i] * (sum_e values[e] * column_scale[j_e] * dropout_k(dense)[j_e]
//                             + self_weight * column_scale[i] * dropout_k(dense)[i])
//
// rows         n_rows rows of a sparse matrix with columns j_e in 0 .. n_columns
// dense        (n_columns, width)
// dropout      element number: the column; a key for each replica k
// row_scale    (n_rows,) or null
// column_scale (n_columns,) or null
// out          (n_rows, n_keys, width), every element written
//
// Multiplications and additions are those of dropout_dense and propagate, in their order: so are the
// bits. Nothing is written but out, yet each entry hashes its row anew. Cost: entries * n_keys * width
// multiply-adds and a quarter as many hashes.
template <class T, class I>
struct PropagateDroppedRows {
    const PropagateDropped<T, I>& a;
    bool far;

    void operator()(std::int64_t first, std::int64_t last) const {
        for (std::int64_t i = first; i < last; ++i) {
            for (int key = 0; key < a.n_keys; ++key) {
                T* out = a.out + (i * a.n_keys + key) * a.width;
                std::int64_t column = 0;
#if defined(__AVX512F__)
                if constexpr (sizeof(T) == 4) {
                    if (a.dropout.n_keys > 0) {
                        for (; column + 128 <= a.width; column += 128) {
                            in_registers<8>(i, key, column, out);
                        }
                        for (; column + 32 <= a.width; column += 32) {
                            in_registers<2>(i, key, column, out);
                        }
                    }
                }
#endif
                if (column < a.width) in_place(i, key, column, out);
            }
        }
    }

private:
    static constexpr std::int64_t kGroup =
        DropoutRows<T>::kGroup;  // columns whose factors are made together

    // Calls body(j, factor) for every term of the sum i, the node's own last.
    template <class Body>
    GRAPHCONV_INLINE void for_each_term(std::int64_t i, std::int64_t column, std::int64_t n_columns,
                                        Body body) const {
        const T* values = a.rows.values;
        const T* scale = a.column_scale;
        const std::int64_t final_entry = a.rows.n_entries - 1, end = a.rows.end[i];
        for (std::int64_t e = a.rows.begin[i]; e < end; ++e) {
            const std::int64_t j = a.rows.indices[e];
            if (far) {
                // Past the end of the row these are, as a rule, the entries of the next.
                const std::int64_t ahead = e + kAhead < final_entry ? e + kAhead : final_entry;
                const T* row = a.dense + a.rows.indices[ahead] * a.width + column;
                for (std::int64_t k = 0; k < n_columns; k += 64 / int(sizeof(T))) {
                    GRAPHCONV_PREFETCH(row + k);
                }
            }
            const T value = values == nullptr ? T(1) : values[e];
            body(j, scale == nullptr ? value : value * scale[j]);
        }
        if (a.self_weight != 0 && i < a.n_columns) {
            body(i, scale == nullptr ? a.self_weight : a.self_weight * scale[i]);
        }
    }

    GRAPHCONV_INLINE std::uint64_t counter(int key, std::int64_t j, std::int64_t column) const {
        return row_counter(a.dropout, key, j) + std::uint64_t(column / 4) * kGolden;
    }

#if defined(__AVX512F__)
    // N registers' columns from one on: sums, and what decides about dropping, stay in registers.
    template <int N>
    void in_registers(std::int64_t i, int key, std::int64_t column, T* out) const {
        const __m512i limit = _mm512_set1_epi16(short(a.dropout.threshold - 1));
        const __m512 scale = _mm512_set1_ps(T(65536.0 / a.dropout.threshold));
        __m512 sums[N];
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA { sums[k] = _mm512_setzero_ps(); });
        for_each_term(i, column, 16 * N, [&](std::int64_t j, T factor) GRAPHCONV_LAMBDA {
            const T* row = a.dense + j * a.width + column;
            const std::uint64_t first = counter(key, j, column);
            const __m512 times = _mm512_set1_ps(factor);
            unrolled<N / 2>([&](auto pair) GRAPHCONV_LAMBDA {
                const std::uint32_t kept =
                    kept32(eight_arguments(first + std::uint64_t(8 * pair) * kGolden), limit);
                unrolled<2>([&](auto half) GRAPHCONV_LAMBDA {
                    constexpr int k = 2 * decltype(pair)::value + decltype(half)::value;
                    const __m512 factors =
                        _mm512_maskz_mov_ps(__mmask16(kept >> (16 * half)), scale);
                    const __m512 dropped = _mm512_mul_ps(_mm512_loadu_ps(row + 16 * k), factors);
                    sums[k] = _mm512_add_ps(sums[k], _mm512_mul_ps(dropped, times));
                });
            });
        });
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA {
            if (a.row_scale != nullptr) {
                sums[k] = _mm512_mul_ps(sums[k], _mm512_set1_ps(a.row_scale[i]));
            }
            _mm512_storeu_ps(out + column + 16 * k, sums[k]);
        });
    }
#endif

    // All columns from one on, added to where they are.
    void in_place(std::int64_t i, int key, std::int64_t column, T* out) const {
        const std::int64_t n_left = a.width - column;
        std::memset(out + column, 0, sizeof(T) * std::size_t(n_left));
        for_each_term(i, column, n_left, [&](std::int64_t j, T factor) {
            for (std::int64_t c = column; c < a.width; c += kGroup) {
                const std::int64_t n = a.width - c < kGroup ? a.width - c : kGroup;
                const T* row = a.dense + j * a.width + c;
                T* to = out + c;
                if (a.dropout.n_keys == 0) {
                    for (std::int64_t k = 0; k < n; ++k) to[k] += row[k] * factor;
                    continue;
                }
                typename DropoutRows<T>::Group group;
                group.n_hashes = 0;
                group.push(counter(key, j, c), (n + 3) / 4);
                group.make_factors(a.dropout.threshold);
                for (std::int64_t k = 0; k < n; ++k) to[k] += row[k] * group.factors[k] * factor;
            }
        });
        if (a.row_scale == nullptr) return;
        for (std::int64_t c = column; c < a.width; ++c) out[c] *= a.row_scale[i];
    }
};

template <class T, class I>
void propagate_dropped(const PropagateDropped<T, I>& a) {
    constexpr std::int64_t kHashWork = 2;  // times that of a multiply-add
    const std::int64_t width = a.n_keys * a.width;
    share_rows(a.rows, kHashWork * width,
               PropagateDroppedRows<T, I>{a, is_far<T>(a.n_columns, a.width)});
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
