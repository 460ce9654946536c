// The bits that decide which elements dropout keeps; reference.py's `kept` is the definition.
//
// One 64-bit hash serves four consecutive elements of a row, 16 bits each:
// hash(key + (row_id * 2^32 + element / 4) * golden). Within a row the argument so grows by
// `golden` every four elements.
#pragma once

#include <cstdint>
#include <cstring>

#include "arguments.h"
#include "simd.h"
#include "splitmix.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace graphconv {
namespace GRAPHCONV_VARIANT {

#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__)
constexpr bool kBigEndian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
#else
constexpr bool kBigEndian = false;
#endif

GRAPHCONV_INLINE int lowest_bit(std::uint64_t bits) {
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    unsigned long position;
    _BitScanForward64(&position, bits);
    return int(position);
#endif
}

GRAPHCONV_INLINE int count_bits(std::uint64_t bits) {
#if defined(__GNUC__)
    return __builtin_popcountll(bits);
#else
    int n = 0;
    for (; bits; bits &= bits - 1) ++n;
    return n;
#endif
}

// The hash argument of a row's first four elements.
GRAPHCONV_INLINE std::uint64_t row_counter(const Dropout& dropout, int key, std::int64_t row) {
    row += dropout.first_row;
    const std::int64_t id = dropout.row_ids ? dropout.row_ids[row] : row;
    return dropout.keys[key] + (std::uint64_t(id) << 32) * kGolden;
}

#if defined(__AVX512F__)

// The hashes of eight arguments.
GRAPHCONV_INLINE __m512i hash8(__m512i z) {
    const auto xor_shift = [](__m512i z, int bits) GRAPHCONV_LAMBDA {
        return _mm512_xor_si512(z, _mm512_srli_epi64(z, unsigned(bits)));
    };
    z = _mm512_mullo_epi64(xor_shift(z, 30), _mm512_set1_epi64(std::int64_t(kMix1)));
    z = _mm512_mullo_epi64(xor_shift(z, 27), _mm512_set1_epi64(std::int64_t(kMix2)));
    return xor_shift(z, 31);
}

// Bit e tells whether element e of 32 is kept, given the eight hash arguments of four elements each.
GRAPHCONV_INLINE std::uint32_t kept32(__m512i arguments, __m512i threshold_less_1) {
    return _mm512_cmple_epu16_mask(hash8(arguments), threshold_less_1);
}

// The hash arguments of 32 elements of a row, given that of the first four.
GRAPHCONV_INLINE __m512i eight_arguments(std::uint64_t counter) {
    const auto step = [](std::uint64_t k) { return std::int64_t(k * kGolden); };
    const __m512i steps =
        _mm512_setr_epi64(step(0), step(1), step(2), step(3), step(4), step(5), step(6), step(7));
    return _mm512_add_epi64(_mm512_set1_epi64(std::int64_t(counter)), steps);
}

// Bit e tells whether element e of up to 64 is kept; `counter` is the hash argument of the first
// four.
GRAPHCONV_INLINE std::uint64_t kept_bits(std::uint64_t counter, std::uint32_t threshold,
                                         std::int64_t n) {
    const __m512i limit = _mm512_set1_epi16(short(threshold - 1));
    std::uint64_t bits = 0;
    for (int first = 0; first < n; first += 32, counter += 8 * kGolden) {
        bits |= std::uint64_t(kept32(eight_arguments(counter), limit)) << first;
    }
    return n < 64 ? bits & ((std::uint64_t(1) << n) - 1) : bits;
}

#elif defined(__AVX2__)

// Low 64 bits of the products of four lanes with a constant.
GRAPHCONV_INLINE __m256i multiply(__m256i a, std::uint64_t constant) {
    const __m256i halves = _mm256_set1_epi64x(std::int64_t(constant));
    const __m256i swapped = _mm256_set1_epi64x(std::int64_t(constant << 32 | constant >> 32));
    // Both products of a low with a high half, of which 32 bits matter, in one instruction.
    const __m256i cross = _mm256_mullo_epi32(a, swapped);
    const __m256i high = _mm256_add_epi32(cross, _mm256_slli_epi64(cross, 32));
    return _mm256_add_epi64(_mm256_mul_epu32(a, halves),
                            _mm256_blend_epi32(_mm256_setzero_si256(), high, 0xAA));
}

GRAPHCONV_INLINE __m256i xor_shift(__m256i z, int bits) {
    return _mm256_xor_si256(z, _mm256_srli_epi64(z, bits));
}

// Sixteen 16-bit lanes, all ones where the element is kept: hash <= threshold - 1, unsigned.
GRAPHCONV_INLINE __m256i kept16(__m256i counters, __m256i threshold_less_1) {
    __m256i z = multiply(xor_shift(counters, 30), kMix1);
    z = xor_shift(multiply(xor_shift(z, 27), kMix2), 31);
    return _mm256_cmpeq_epi16(_mm256_subs_epu16(z, threshold_less_1), _mm256_setzero_si256());
}

// Bit e tells whether element e of up to 64 is kept; `counter` is the hash argument of the first
// four. Hashes are made 32 elements at a time: a loop of one or two turns is predicted, and lanes
// past n cost less than a mispredicted branch.
GRAPHCONV_INLINE std::uint64_t kept_bits(std::uint64_t counter, std::uint32_t threshold,
                                         std::int64_t n) {
    const __m256i limit = _mm256_set1_epi16(short(threshold - 1));
    const __m256i steps = _mm256_setr_epi64x(0, std::int64_t(kGolden), std::int64_t(2 * kGolden),
                                             std::int64_t(3 * kGolden));
    std::uint64_t bits = 0;
    for (int first = 0; first < n; first += 32, counter += 8 * kGolden) {
        const __m256i low = _mm256_add_epi64(_mm256_set1_epi64x(std::int64_t(counter)), steps);
        const __m256i high =
            _mm256_add_epi64(_mm256_set1_epi64x(std::int64_t(counter + 4 * kGolden)), steps);
        // Packing to bytes leaves the four quarters in the order 0 2 1 3.
        const __m256i bytes = _mm256_permute4x64_epi64(
            _mm256_packs_epi16(kept16(low, limit), kept16(high, limit)), 0xD8);
        bits |= std::uint64_t(std::uint32_t(_mm256_movemask_epi8(bytes))) << first;
    }
    return n < 64 ? bits & ((std::uint64_t(1) << n) - 1) : bits;
}

#else

GRAPHCONV_INLINE std::uint64_t kept_bits(std::uint64_t counter, std::uint32_t threshold,
                                         std::int64_t n) {
    std::uint64_t bits = 0;
    for (int first = 0; first < n; first += 8, counter += 2 * kGolden) {
        const std::uint64_t low = hash(counter), high = hash(counter + kGolden);
#if defined(__SSE2__)
        const __m128i limit = _mm_set1_epi16(short(threshold - 1));
        const __m128i z = _mm_set_epi64x(std::int64_t(high), std::int64_t(low));
        const __m128i kept = _mm_cmpeq_epi16(_mm_subs_epu16(z, limit), _mm_setzero_si128());
        const std::uint64_t eight =
            std::uint64_t(_mm_movemask_epi8(_mm_packs_epi16(kept, _mm_setzero_si128())));
#else
        std::uint64_t eight = 0;
        for (int lane = 0; lane < 4; ++lane) {
            eight |= std::uint64_t(((low >> (16 * lane)) & 0xFFFF) < threshold) << lane;
            eight |= std::uint64_t(((high >> (16 * lane)) & 0xFFFF) < threshold) << (4 + lane);
        }
#endif
        bits |= eight << first;
    }
    return n < 64 ? bits & ((std::uint64_t(1) << n) - 1) : bits;
}

#endif

// What elements are multiplied by: 65536 / threshold if they are kept, else 0. Each of n hash
// arguments serves four; eight are worked on at a time, so there must be room for the last ones.
template <class T>
GRAPHCONV_INLINE void make_factors(const std::uint64_t* arguments, std::int64_t n,
                                   std::uint32_t threshold, T* factors) {
    const T scale = T(65536.0 / threshold);
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
        const __m512i limit = _mm512_set1_epi16(short(threshold - 1));
        const __m512 all = _mm512_set1_ps(scale);
        for (std::int64_t k = 0; k < n; k += 8) {
            const std::uint32_t kept = kept32(_mm512_loadu_si512(arguments + k), limit);
            _mm512_storeu_ps(factors + 4 * k, _mm512_maskz_mov_ps(__mmask16(kept), all));
            _mm512_storeu_ps(factors + 4 * k + 16, _mm512_maskz_mov_ps(__mmask16(kept >> 16), all));
        }
        return;
    }
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
        const __m256i limit = _mm256_set1_epi16(short(threshold - 1));
        const __m256 all = _mm256_set1_ps(scale);
        for (std::int64_t k = 0; k < n; k += 4) {
            const __m256i kept =
                kept16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(arguments + k)), limit);
            const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(kept));
            const __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(kept, 1));
            _mm256_storeu_ps(factors + 4 * k, _mm256_and_ps(_mm256_castsi256_ps(low), all));
            _mm256_storeu_ps(factors + 4 * k + 8, _mm256_and_ps(_mm256_castsi256_ps(high), all));
        }
        return;
    }
#endif
    // Plain loops, which compilers turn into vector code.
    constexpr std::int64_t kAtOnce = 64;
    for (std::int64_t first = 0; first < n; first += kAtOnce) {
        const std::int64_t here = n - first < kAtOnce ? n - first : kAtOnce;
        std::uint64_t hashes[kAtOnce];
        for (std::int64_t k = 0; k < here; ++k) hashes[k] = hash(arguments[first + k]);
        std::uint16_t lanes[4 * kAtOnce];
        std::memcpy(lanes, hashes, sizeof(hashes));
        const auto limit = std::uint16_t(threshold - 1);
        for (std::int64_t k = 0; k < 4 * here; ++k) {
            factors[4 * first + k] = lanes[kBigEndian ? k ^ 3 : k] <= limit ? scale : T(0);
        }
    }
}

// `kept_bits` out of line, for the few rows that need it: the kernels are smaller without.
GRAPHCONV_NOINLINE inline std::uint64_t next_kept_bits(std::uint64_t counter,
                                                       std::uint32_t threshold, std::int64_t n) {
    return kept_bits(counter, threshold, n < 64 ? n : 64);
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
