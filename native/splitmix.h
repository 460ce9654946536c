// SplitMix64, where all randomness that must not depend on the order of work comes from; kernels/
// hashing.py is the same in Python.
//
// The function has internal linkage: code for one processor must not get another's copy of it.
#pragma once

#include <cstdint>

namespace graphconv {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;
constexpr std::uint64_t kMix1 = 0xBF58476D1CE4E5B9u;
constexpr std::uint64_t kMix2 = 0x94D049BB133111EBu;

#if defined(__GNUC__)
__attribute__((always_inline))
#endif
inline std::uint64_t hash(std::uint64_t z) {
    z = (z ^ (z >> 30)) * kMix1;
    z = (z ^ (z >> 27)) * kMix2;
    return z ^ (z >> 31);
}

}  // namespace
}  // namespace graphconv
