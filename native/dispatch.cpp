#include "dispatch.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace graphconv {

namespace baseline {
extern const Variant variant;
}
#if defined(GRAPHCONV_X86_VARIANTS)
namespace avx2 {
extern const Variant variant;
}
namespace avx512 {
extern const Variant variant;
}
#endif

namespace {

const Variant& choose() {
    const char* setting = std::getenv("GRAPHCONV_SIMD");
    const std::string wanted = setting == nullptr ? "" : setting;
#if defined(GRAPHCONV_X86_VARIANTS)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                          __builtin_cpu_supports("bmi2");
    const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                            __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (has_avx512 && (wanted.empty() || wanted == "avx512")) return avx512::variant;
    if (has_avx2 && (wanted.empty() || wanted == "avx2")) return avx2::variant;
    const std::string here =
        std::string("baseline") + (has_avx2 ? ", avx2" : "") + (has_avx512 ? ", avx512" : "");
#else
    const std::string here = "baseline";
#endif
    if (wanted.empty() || wanted == "baseline") return baseline::variant;
    throw std::invalid_argument("GRAPHCONV_SIMD must be one of " + here +
                                " on this processor, got " + wanted);
}

}  // namespace

const Variant& variant() {
    static const Variant& chosen = choose();
    return chosen;
}

}  // namespace graphconv
