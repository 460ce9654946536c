// Which processor variant of the kernels runs.
#pragma once

#include <cstdint>
#include <type_traits>

#include "arguments.h"

namespace graphconv {

namespace exact {
extern const Variant<double> variant;
}

// The widest variant that this processor runs, or the one that the environment variable
// GRAPHCONV_SIMD names. Throws std::invalid_argument if that one can't run here.
const Variant<float>& variant();

// Models are trained in float. Double serves to check gradients, so there is one variant of it.
template <class T, class I>
const Kernels<T, I>& kernels() {
    const auto& own = [&]() -> const Variant<T>& {
        if constexpr (std::is_same_v<T, double>) {
            return exact::variant;
        } else {
            return variant();
        }
    }();
    if constexpr (std::is_same_v<I, std::int64_t>) {
        return own.wide;
    } else {
        return own.narrow;
    }
}

}  // namespace graphconv
