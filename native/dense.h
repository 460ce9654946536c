// Dropout of dense matrices, with ReLU.
#pragma once

#include "arguments.h"
#include "chunks.h"
#include "dropout.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// Forward:  out = dropout(relu(dense)), or dropout(dense)
// Backward: out = dropout(gradient where dense > 0), or dropout(gradient)
//
// dense, gradient, out  (n_rows, width)
// dropout               element number: the column within the block of its key
//
// Cost: n_rows * width multiplications and a quarter as many hashes.
template <class T>
struct DropoutRows {
    const DropoutDense<T>& a;

    void rows(std::int64_t first, std::int64_t last) const {
        if (a.gradient == nullptr) {
            a.relu ? run<false, true>(first, last) : run<false, false>(first, last);
        } else {
            a.relu ? run<true, true>(first, last) : run<true, false>(first, last);
        }
    }

    template <bool Backward, bool Relu>
    void run(std::int64_t first, std::int64_t last) const {
        constexpr std::int64_t kBuffer = 256;  // elements whose factors are made at once
        const int n_keys = a.dropout.n_keys > 0 ? a.dropout.n_keys : 1;
        const std::int64_t block = a.width / n_keys;
        T factors[kBuffer];
        if (a.dropout.n_keys == 0) {
            for (T& factor : factors) factor = 1;
        }
        for (std::int64_t i = first; i < last; ++i) {
            for (int key = 0; key < n_keys; ++key) {
                for (std::int64_t c = 0; c < block; c += kBuffer) {
                    const std::int64_t n = block - c < kBuffer ? block - c : kBuffer;
                    if (a.dropout.n_keys > 0) {
                        fill(row_counter(a.dropout, key, i) + std::uint64_t(c / 4) * kGolden, n,
                             factors);
                    }
                    const std::int64_t at = i * a.width + key * block + c;
                    apply<Backward, Relu>(at, n, factors);
                }
            }
        }
    }

    // 65536 / threshold for elements that are kept, else 0.
    GRAPHCONV_INLINE void fill(std::uint64_t counter, std::int64_t n, T* factors) const {
        const T scale = T(65536.0 / a.dropout.threshold);
        for (std::int64_t k = 0; k < n; k += 4, counter += kGolden) {
            const std::uint64_t z = hash(counter);
            for (int lane = 0; lane < 4; ++lane) {
                factors[k + lane] =
                    ((z >> (16 * lane)) & 0xFFFF) < a.dropout.threshold ? scale : T(0);
            }
        }
    }

    // A NaN stays one, as it does in numpy.
    template <bool Backward, bool Relu>
    GRAPHCONV_INLINE void apply(std::int64_t at, std::int64_t n, const T* factors) const {
        const T* dense = a.dense + at;
        T* out = a.out + at;
        if (Backward) {
            const T* gradient = a.gradient + at;
            for (std::int64_t k = 0; k < n; ++k) {
                out[k] = (Relu ? (dense[k] > 0 ? gradient[k] : T(0)) : gradient[k]) * factors[k];
            }
        } else {
            for (std::int64_t k = 0; k < n; ++k) {
                out[k] = (Relu ? (dense[k] < 0 ? T(0) : dense[k]) : dense[k]) * factors[k];
            }
        }
    }
};

template <class T>
void dropout_dense(const DropoutDense<T>& a) {
    DropoutRows<T> body{a};
    body.rows(0, a.n_rows);
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
