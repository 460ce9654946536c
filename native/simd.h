// Groups of elements that live in registers, and how a row of any width is cut into them.
//
// Arithmetic is a multiplication and an addition, never fused (the build forbids contraction), and
// every element of a result is summed in one order whatever the width and the registers. So the
// kernels give the same bits on every processor, and a replica gives the bits of its single run.
//
// GRAPHCONV_VARIANT is the namespace of the processor variant that is being compiled.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__GNUC__)
#define GRAPHCONV_INLINE inline __attribute__((always_inline))
#define GRAPHCONV_LAMBDA __attribute__((always_inline))
#define GRAPHCONV_NOINLINE __attribute__((noinline))
#define GRAPHCONV_PREFETCH(address) __builtin_prefetch(address)
#else
#define GRAPHCONV_INLINE inline
#define GRAPHCONV_LAMBDA
#define GRAPHCONV_NOINLINE
#define GRAPHCONV_PREFETCH(address) static_cast<void>(address)
#endif

namespace graphconv {
namespace GRAPHCONV_VARIANT {

#if defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#elif defined(__AVX__)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

// Calls f(0), f(1), ... f(N - 1), each argument a constant: what such calls index stays in
// registers. Loops that the compiler was told to unroll left some of it in memory, and the
// transposed product took up to 40 % longer.
template <int N, class F>
GRAPHCONV_INLINE void unrolled(F f) {
    if constexpr (N > 0) {
        unrolled<N - 1>(f);
        f(std::integral_constant<int, N - 1>{});
    }
}

// L elements in as few registers as hold them; L = 1 is a scalar.
template <class T, int L>
struct Pack {
#if defined(__GNUC__)
    static constexpr int kBytes =
        L * int(sizeof(T)) < kRegisterBytes ? L * int(sizeof(T)) : kRegisterBytes;
    typedef T Vector __attribute__((vector_size(kBytes)));
    typedef T Memory __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
#else
    static constexpr int kBytes = sizeof(T);
    typedef T Vector;
    typedef T Memory;
#endif
    static constexpr int kPieces = L * int(sizeof(T)) / kBytes;
    static constexpr int kLanes = L / kPieces;
    Vector v[kPieces];

    GRAPHCONV_INLINE void clear() {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA { v[k] = Vector{}; });
    }
    GRAPHCONV_INLINE void load(const T* from) {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA {
            v[k] = *reinterpret_cast<const Memory*>(from + k * kLanes);
        });
    }
    GRAPHCONV_INLINE void store(T* to) const {
        unrolled<kPieces>(
            [&](auto k) GRAPHCONV_LAMBDA { *reinterpret_cast<Memory*>(to + k * kLanes) = v[k]; });
    }
    // Past the caches where the processor can: for an array too large to be found there later.
    // `to` is aligned to the pack. `end_of_stream` comes before anyone reads it.
    GRAPHCONV_INLINE void stream(T* to) const {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA {
            T* piece = to + k * kLanes;
#if defined(__AVX512F__)
            if constexpr (kBytes == 64) {
                return _mm512_stream_si512(reinterpret_cast<__m512i*>(piece), __m512i(v[k]));
            }
#endif
#if defined(__AVX__)
            if constexpr (kBytes == 32) {
                return _mm256_stream_si256(reinterpret_cast<__m256i*>(piece), __m256i(v[k]));
            }
#endif
#if defined(__SSE2__)
            if constexpr (kBytes == 16) {
                return _mm_stream_si128(reinterpret_cast<__m128i*>(piece), __m128i(v[k]));
            }
#endif
            *reinterpret_cast<Memory*>(piece) = v[k];
        });
    }
    GRAPHCONV_INLINE void add(const Pack& other) {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA { v[k] += other.v[k]; });
    }
    GRAPHCONV_INLINE void scale(T factor) {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA { v[k] *= factor; });
    }
    GRAPHCONV_INLINE void subtract(T number) {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA { v[k] -= number; });
    }
    GRAPHCONV_INLINE void subtract(const Pack& other) {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA { v[k] -= other.v[k]; });
    }
    GRAPHCONV_INLINE void multiply(const Pack& other) {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA { v[k] *= other.v[k]; });
    }
    // Zero instead of what is negative; what is no number stays so.
    GRAPHCONV_INLINE void rectify() {
        unrolled<kPieces>([&](auto k) GRAPHCONV_LAMBDA { v[k] = v[k] < 0 ? Vector{} : v[k]; });
    }
    // Zero where another is not positive.
    GRAPHCONV_INLINE void keep_where_positive(const Pack& other) {
        unrolled<kPieces>([&](auto k)
                              GRAPHCONV_LAMBDA { v[k] = other.v[k] > 0 ? v[k] : Vector{}; });
    }
    // The sum of all elements, halves added to each other until one is left.
    GRAPHCONV_INLINE T total() const {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 4 && L == 16) return _mm512_reduce_add_ps(v[0]);
#endif
        T sums[L];
        store(sums);
        for (int half = L / 2; half > 0; half /= 2) {
            for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
        }
        return sums[0];
    }
};

template <class T>
struct Pack<T, 1> {
    T v;
    GRAPHCONV_INLINE void clear() { v = 0; }
    GRAPHCONV_INLINE void load(const T* from) { v = *from; }
    GRAPHCONV_INLINE void store(T* to) const { *to = v; }
    GRAPHCONV_INLINE void add(const Pack& other) { v += other.v; }
    GRAPHCONV_INLINE void scale(T factor) { v *= factor; }
};

// Makes what this thread has streamed visible to others.
GRAPHCONV_INLINE void end_of_stream() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

// N packs of a row. The last begins `last` elements after the first and may overlap its neighbour:
// five to seven columns are two packs of four. Overlapping elements hold equal values, and stores
// come after all loads, so nothing is added twice.
template <class T, int L, int N>
struct Tile {
    static constexpr int kElements = L * N;
    static constexpr int kPacks = N;
    Pack<T, L> p[N];

    static constexpr std::int64_t offset(int k, std::int64_t last) {
        return k == N - 1 ? last : k * L;
    }
    GRAPHCONV_INLINE void clear() {
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA { p[k].clear(); });
    }
    GRAPHCONV_INLINE void load(const T* from, std::int64_t last) {
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA { p[k].load(from + offset(k, last)); });
    }
    GRAPHCONV_INLINE void store(T* to, std::int64_t last) const {
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA { p[k].store(to + offset(k, last)); });
    }
    // As Pack::stream; packs of eight or more that do not overlap.
    GRAPHCONV_INLINE void stream(T* to) const {
        if constexpr (L >= 8)
            unrolled<N>([&](auto k) GRAPHCONV_LAMBDA { p[k].stream(to + k * L); });
    }
    GRAPHCONV_INLINE void add(const Tile& other) {
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA { p[k].add(other.p[k]); });
    }
    GRAPHCONV_INLINE void scale(T factor) {
        unrolled<N>([&](auto k) GRAPHCONV_LAMBDA { p[k].scale(factor); });
    }
    GRAPHCONV_INLINE void add_scaled(T factor, Tile other) {
        other.scale(factor);
        add(other);
    }
};

template <class T, int L, int N>
struct Shape {
    using Tile = GRAPHCONV_VARIANT::Tile<T, L, N>;
};

// Where the last of N packs of L begins if none overlaps. A constant: with a variable the
// transposed product of width 16 takes a tenth longer.
template <int L, int N>
using Whole = std::integral_constant<std::int64_t, L*(N - 1)>;

// Cuts `width` columns into tiles and calls body(shape, first column, last) for each. Packs are
// of eight elements and a tile has at most eight of them (four of doubles, which take two registers
// each), or half as many of sixteen; a rest of a pack is served by an overlapping one within the last
// tile.
//
// With `Halves` 16 columns are two packs of eight, whatever the registers: for kernels that soon load
// what they have stored, which takes longer with a whole line at once.
template <class T, bool Halves = false, class Body>
GRAPHCONV_INLINE void for_each_tile(std::int64_t width, Body body) {
    if (width < 8) {
        switch (width) {
            case 0:
                return;
            case 1:
                return body(Shape<T, 1, 1>{}, 0, 0);
            case 2:
                return body(Shape<T, 1, 2>{}, 0, 1);
            case 3:
                return body(Shape<T, 1, 3>{}, 0, 2);
            case 4:
                return body(Shape<T, 4, 1>{}, 0, 0);
            default:
                return body(Shape<T, 4, 2>{}, 0, width - 4);
        }
    }
    constexpr int widest = sizeof(T) == 4 ? 8 : 4;
    std::int64_t first = 0;
    for (std::int64_t packs = (width + 7) / 8; packs > 0;) {
        const bool partial = width % 8 != 0;
        // The overlapping pack needs its neighbour in the same tile.
        auto fits = [&](int n) { return packs >= n && !(partial && packs == n + 1); };
        const int n = widest == 8 && fits(8) ? 8 : fits(4) ? 4 : fits(3) ? 3 : fits(2) ? 2 : 1;
        if (partial && packs == n) {
            const std::int64_t last = width - first - 8;
            switch (n) {
                case 4:
                    return body(Shape<T, 8, 4>{}, first, last);
                case 3:
                    return body(Shape<T, 8, 3>{}, first, last);
                case 2:
                    return body(Shape<T, 8, 2>{}, first, last);
                default:
                    return body(Shape<T, 8, widest>{}, first, last);
            }
        }
        // Registers that hold 16 need half as many instructions.
        constexpr int own = kRegisterBytes / int(sizeof(T)) > 8 ? 16 : 8;
        switch (n) {
            case 4:
                body(Shape<T, own, 32 / own>{}, first, Whole<own, 32 / own>{});
                break;
            case 3:
                body(Shape<T, 8, 3>{}, first, Whole<8, 3>{});
                break;
            case 2:
                if constexpr (Halves) {
                    body(Shape<T, 8, 2>{}, first, Whole<8, 2>{});
                } else {
                    body(Shape<T, own, 16 / own>{}, first, Whole<own, 16 / own>{});
                }
                break;
            case 1:
                body(Shape<T, 8, 1>{}, first, Whole<8, 1>{});
                break;
            default:
                body(Shape<T, own, widest * 8 / own>{}, first, Whole<own, widest * 8 / own>{});
                break;
        }
        first += n * 8;
        packs -= n;
    }
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
