// Which processor variant of the kernels runs.
#pragma once

#include <cstdint>

#include "arguments.h"

namespace graphconv {

// The widest variant that this processor runs, or the one that the environment variable
// GRAPHCONV_SIMD names. Throws std::invalid_argument if that one can't run here.
const Variant& variant();

template <class T, class I>
struct Select;
template <>
struct Select<float, std::int32_t> {
    static const Kernels<float, std::int32_t>& from(const Variant& v) { return v.f32_i32; }
};
template <>
struct Select<float, std::int64_t> {
    static const Kernels<float, std::int64_t>& from(const Variant& v) { return v.f32_i64; }
};
template <>
struct Select<double, std::int32_t> {
    static const Kernels<double, std::int32_t>& from(const Variant& v) { return v.f64_i32; }
};
template <>
struct Select<double, std::int64_t> {
    static const Kernels<double, std::int64_t>& from(const Variant& v) { return v.f64_i64; }
};

template <class T, class I>
const Kernels<T, I>& kernels() {
    return Select<T, I>::from(variant());
}

}  // namespace graphconv
