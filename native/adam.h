// One step of Adam.
#pragma once

#include <cmath>

#include "arguments.h"
#include "chunks.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// gradient += weight_decay * parameter
// mean     += (1 - beta1) * (gradient - mean)
// square    = beta2 * square + (1 - beta2) * gradient^2
// parameter -= rate * mean / (sqrt(square) * square_correction + epsilon)
//
// All (n,); gradient is read only. Cost: n divisions and roots. Moves seven times the parameter.
template <class T>
void adam(const Adam<T>& a) {
    const auto update = [&](std::int64_t first, std::int64_t last) {
        const T decay = a.weight_decay, keep = a.beta2;
        const T mean_share = 1 - a.beta1, square_share = 1 - a.beta2;
        const T rate = a.rate, correction = a.square_correction, epsilon = a.epsilon;
        T* parameter = a.parameter;
        T* mean = a.mean;
        T* square = a.square;
        const T* given = a.gradient;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
        for (std::int64_t k = first; k < last; ++k) {
            const T gradient = given[k] + decay * parameter[k];
            mean[k] += mean_share * (gradient - mean[k]);
            square[k] = keep * square[k] + square_share * gradient * gradient;
            parameter[k] -= rate * mean[k] / (std::sqrt(square[k]) * correction + epsilon);
        }
    };
    share_evenly(a.n, a.n * 16, update);
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
