// How the rows of a call are shared out among threads.
#pragma once

#include <cstdint>

#include "arguments.h"
#include "pool.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// Sharing a call costs the caller some 10 microseconds (measured on two busy cores: a shared call
// that does nothing, median 10, nine in ten below 14), and the helper begins 6 microseconds later
// (median; one time in ten, 37 or more). So a call with less work than this, about 100 microseconds,
// stays on the calling thread. In multiply-adds, of which the products do 10 to 15 in a nanosecond.
constexpr std::int64_t kWorthThreads = 1500000;
// What a thread must have to do for waking it to pay, and a chunk holds at most: small enough that
// a helper which loses its core holds up little.
constexpr std::int64_t kChunkWork = 250000;
// Enough chunks for threads that take the next one when they are done to end together.
constexpr int kChunksPerThread = 16;
constexpr int kMaxChunks = 1024;

// Consecutive rows of about equal work each.
struct Chunks {
    std::int64_t bounds[kMaxChunks + 1];
    int n;
};

template <class T, class I>
GRAPHCONV_INLINE std::int64_t count_entries(const Rows<T, I>& rows) {
    std::int64_t n_entries = 0;
    for (std::int64_t i = 0; i < rows.n_rows; ++i) n_entries += rows.end[i] - rows.begin[i];
    return n_entries;
}

// Cuts the rows so that each chunk holds about its share of entries, a row itself counting as one.
template <class T, class I>
void cut(const Rows<T, I>& rows, std::int64_t n_entries, int n_chunks, Chunks& chunks) {
    const std::int64_t total = n_entries + rows.n_rows;
    std::int64_t done = 0;
    chunks.n = 0;
    chunks.bounds[0] = 0;
    for (std::int64_t i = 0; i < rows.n_rows && chunks.n < n_chunks - 1; ++i) {
        done += rows.end[i] - rows.begin[i] + 1;
        if (done * n_chunks >= total * (chunks.n + 1)) chunks.bounds[++chunks.n] = i + 1;
    }
    if (chunks.bounds[chunks.n] < rows.n_rows) chunks.bounds[++chunks.n] = rows.n_rows;
}

// How many threads have enough to do.
GRAPHCONV_INLINE int busy_threads(std::int64_t work) {
    const std::int64_t n = work / kChunkWork;
    return n < 1 ? 1 : n < threads() ? int(n) : threads();
}

GRAPHCONV_INLINE int n_chunks(std::int64_t work) {
    const std::int64_t n = work / kChunkWork, least = kChunksPerThread * busy_threads(work);
    return int(n < least ? least : n < kMaxChunks ? n : kMaxChunks);
}

// Calls body(chunk) for every chunk in 0 .. n, on up to so many threads.
template <class Body>
void share(int n, const Body& body, int n_threads) {
    parallel_for(
        n, n_threads, [](void* context, int chunk) { (*static_cast<const Body*>(context))(chunk); },
        const_cast<Body*>(&body));
}

template <class Body>
void share(int n, const Body& body) {
    share(n, body, threads());
}

// Calls body(first, last) over 0 .. n, on several threads if that much work pays.
template <class Body>
void share_evenly(std::int64_t n, std::int64_t work, const Body& body) {
    if (threads() == 1 || work < kWorthThreads) return body(std::int64_t(0), n);
    const int most = n_chunks(work), parts = n < most ? int(n) : most;
    share(
        parts, [&](int part) { body(n * part / parts, n * (part + 1) / parts); },
        busy_threads(work));
}

// Calls body(first, last) over all rows, on several threads if that pays. Each row is worked on by
// one thread and in one way, so the result does not depend on how the rows are shared out.
template <class T, class I, class Body>
void share_rows(const Rows<T, I>& rows, std::int64_t width, const Body& body) {
    if (threads() > 1) {
        const std::int64_t n_entries = count_entries(rows);
        const std::int64_t work = (n_entries + rows.n_rows) * (width + 4);
        if (work >= kWorthThreads) {
            Chunks chunks;
            cut(rows, n_entries, n_chunks(work), chunks);
            share(
                chunks.n, [&](int chunk) { body(chunks.bounds[chunk], chunks.bounds[chunk + 1]); },
                busy_threads(work));
            return;
        }
    }
    body(std::int64_t(0), rows.n_rows);
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
