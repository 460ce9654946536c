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
// Small enough that a helper which loses its core holds up little, and enough of them to share.
constexpr std::int64_t kChunkWork = 250000;
constexpr int kMaxChunks = 256;

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

GRAPHCONV_INLINE int n_chunks(std::int64_t work) {
    const std::int64_t n = work / kChunkWork;
    return n < 1 ? 1 : n < kMaxChunks ? int(n) : kMaxChunks;
}

// Calls body(chunk) for every chunk in 0 .. n, on several threads.
template <class Body>
void share(int n, const Body& body) {
    parallel_for(
        n, [](void* context, int chunk) { (*static_cast<const Body*>(context))(chunk); },
        const_cast<Body*>(&body));
}

// Calls body(first, last) over 0 .. n, on several threads if that much work pays.
template <class Body>
void share_evenly(std::int64_t n, std::int64_t work, const Body& body) {
    if (threads() == 1 || work < kWorthThreads) return body(std::int64_t(0), n);
    const int parts = n_chunks(work);
    share(parts, [&](int part) { body(n * part / parts, n * (part + 1) / parts); });
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
            share(chunks.n,
                  [&](int chunk) { body(chunks.bounds[chunk], chunks.bounds[chunk + 1]); });
            return;
        }
    }
    body(std::int64_t(0), rows.n_rows);
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
