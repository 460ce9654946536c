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

    void operator()(std::int64_t first, std::int64_t last) const {
        if (a.gradient == nullptr) {
            a.relu ? run<false, true>(first, last) : run<false, false>(first, last);
        } else {
            a.relu ? run<true, true>(first, last) : run<true, false>(first, last);
        }
    }

    // Elements are taken in groups whose factors are made together: a few rows, or a part of one.
    template <bool Backward, bool Relu>
    void run(std::int64_t first, std::int64_t last) const {
        const int n_keys = a.dropout.n_keys;
        if (n_keys == 0) {
            apply<Backward, Relu>(first * a.width, (last - first) * a.width, nullptr);
            return;
        }
        const std::int64_t block = a.width / n_keys;
        if (block == 0) return;
        const std::int64_t padded = (block + 3) / 4 * 4;  // hashes serve four elements
        const std::int64_t end = last * n_keys;
        Group group;
        if (padded > kGroup) {
            for (std::int64_t unit = first * n_keys; unit < end; ++unit) {
                for (std::int64_t c = 0; c < block; c += kGroup) {
                    const std::int64_t n = block - c < kGroup ? block - c : kGroup;
                    group.n_hashes = 0;
                    group.push(counter(unit) + std::uint64_t(c / 4) * kGolden, (n + 3) / 4);
                    group.make_factors(a.dropout.threshold);
                    apply<Backward, Relu>(unit * block + c, n, group.factors);
                }
            }
            return;
        }
        const std::int64_t units = kGroup / padded;
        for (std::int64_t unit = first * n_keys; unit < end; unit += units) {
            const std::int64_t n = end - unit < units ? end - unit : units;
            group.n_hashes = 0;
            for (std::int64_t k = 0; k < n; ++k) group.push(counter(unit + k), padded / 4);
            group.make_factors(a.dropout.threshold);
            if (padded == block) {
                apply<Backward, Relu>(unit * block, n * block, group.factors);
            } else {
                for (std::int64_t k = 0; k < n; ++k) {
                    apply<Backward, Relu>((unit + k) * block, block, group.factors + k * padded);
                }
            }
        }
    }

    static constexpr std::int64_t kGroup = 256;  // elements

    struct Group {
        std::uint64_t hashes[kGroup / 4];  // their arguments
        T factors[kGroup];
        std::int64_t n_hashes;

        GRAPHCONV_INLINE void push(std::uint64_t counter, std::int64_t n) {
            for (std::int64_t k = 0; k < n; ++k) {
                hashes[n_hashes + k] = counter + std::uint64_t(k) * kGolden;
            }
            n_hashes += n;
        }

        GRAPHCONV_INLINE void make_factors(std::uint32_t threshold) {
            GRAPHCONV_VARIANT::make_factors(hashes, n_hashes, threshold, factors);
        }
    };

    // A unit is the block of one key in one row.
    GRAPHCONV_INLINE std::uint64_t counter(std::int64_t unit) const {
        if (a.dropout.n_keys == 1) return row_counter(a.dropout, 0, unit);
        return row_counter(a.dropout, int(unit % a.dropout.n_keys), unit / a.dropout.n_keys);
    }

    // Without factors nothing is dropped. A NaN stays one, as it does in numpy.
    template <bool Backward, bool Relu>
    GRAPHCONV_INLINE void apply(std::int64_t at, std::int64_t n, const T* factors) const {
        const T* dense = a.dense + at;
        const T* gradient = Backward ? a.gradient + at : nullptr;
        T* out = a.out + at;
        const auto value = [&](std::int64_t k) GRAPHCONV_LAMBDA {
            if (Backward) return Relu ? (dense[k] > 0 ? gradient[k] : T(0)) : gradient[k];
            return Relu ? (dense[k] < 0 ? T(0) : dense[k]) : dense[k];
        };
        if (factors == nullptr) {
            for (std::int64_t k = 0; k < n; ++k) out[k] = value(k);
        } else {
            for (std::int64_t k = 0; k < n; ++k) out[k] = value(k) * factors[k];
        }
    }
};

template <class T>
void dropout_dense(const DropoutDense<T>& a) {
    const DropoutRows<T> body{a};
    share_evenly(a.n_rows, a.n_rows * a.width * 8, body);  // a hash costs that much
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
