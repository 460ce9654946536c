// Random walks on a graph.
#pragma once

#include <algorithm>

#include "arguments.h"
#include "chunks.h"
#include "dropout.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

template <class T, class I>
GRAPHCONV_INLINE std::int64_t next_entry(const Walks<T, I>& a, std::int64_t begin, std::int64_t end,
                                         double chance) {
    std::int64_t chosen = begin + std::int64_t(chance * double(end - begin));
    if (a.totals != nullptr) {
        const double low = a.totals[begin], high = a.totals[end];
        chosen = std::upper_bound(a.totals + begin, a.totals + end, low + chance * (high - low)) -
                 a.totals - 1;
    }
    return chosen < begin ? begin : chosen < end ? chosen : end - 1;  // rounding may overshoot
}

// out[w] = starts[w] and the n_steps nodes that a walk from there comes to
//
// rows    the graph: row i holds the nodes that i leads to; a node without any keeps its walk
// totals  (n_entries + 1,) running sum of the entries' weights, or null: all weigh the same
// out     (n_walks, n_steps + 1)
//
// Step s of walk w is decided by hash(key + (w * 2^32 + s) * golden), so walks are the same for any
// number of threads. Cost: a hash and a far read or two for each step, and with weights a search.
template <class T, class I>
void walks(const Walks<T, I>& a) {
    // Each step waits for the one before; walks side by side wait at the same time.
    constexpr std::int64_t kTogether = 16;
    const std::int64_t width = a.n_steps + 1;
    const auto walk = [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t w = first; w < last; w += kTogether) {
            const std::int64_t n = last - w < kTogether ? last - w : kTogether;
            std::int64_t nodes[kTogether];
            for (std::int64_t k = 0; k < n; ++k)
                a.out[(w + k) * width] = nodes[k] = a.starts[w + k];
            for (std::int64_t step = 1; step <= a.n_steps; ++step) {
                for (std::int64_t k = 0; k < n; ++k) {
                    const std::int64_t begin = a.rows.begin[nodes[k]], end = a.rows.end[nodes[k]];
                    if (begin < end) {
                        const auto counter = (std::uint64_t(w + k) << 32) + std::uint64_t(step);
                        const double chance =
                            double(hash(a.key + counter * kGolden) >> 11) * 0x1p-53;
                        nodes[k] = a.rows.indices[next_entry(a, begin, end, chance)];
                    }
                    a.out[(w + k) * width + step] = nodes[k];
                }
            }
        }
    };
    share_evenly(a.n_walks, a.n_walks * (a.n_steps + 1) * 64, walk);
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
