#include "dispatch.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace graphconv {

namespace baseline {
extern const Variant<float> variant;
}
#if defined(GRAPHCONV_HAS_AVX2)
namespace avx2 {
extern const Variant<float> variant;
}
#endif
#if defined(GRAPHCONV_HAS_AVX512)
namespace avx512 {
extern const Variant<float> variant;
}
#endif

namespace {

// Variants that this processor runs, widest first; returns how many.
int available(const Variant<float>* (&found)[3]) {
    int n = 0;
#if defined(GRAPHCONV_HAS_AVX2) || defined(GRAPHCONV_HAS_AVX512)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                          __builtin_cpu_supports("popcnt");
#endif
#if defined(GRAPHCONV_HAS_AVX512)
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        found[n++] = &avx512::variant;
    }
#endif
#if defined(GRAPHCONV_HAS_AVX2)
    if (has_avx2) found[n++] = &avx2::variant;
#endif
    found[n++] = &baseline::variant;
    return n;
}

const Variant<float>& choose() {
    const Variant<float>* found[3];
    const int n = available(found);
    const char* wanted = std::getenv("GRAPHCONV_SIMD");
    if (wanted == nullptr || *wanted == '\0') return *found[0];
    std::string names;
    for (int k = 0; k < n; ++k) {
        if (std::strcmp(wanted, found[k]->name) == 0) return *found[k];
        names += (k ? ", " : "") + std::string(found[k]->name);
    }
    throw std::invalid_argument("GRAPHCONV_SIMD must be one of " + names +
                                " on this processor, got " + wanted);
}

}  // namespace

const Variant<float>& variant() {
    static const Variant<float>& chosen = choose();
    return chosen;
}

}  // namespace graphconv
