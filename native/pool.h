// Threads that share out the chunks of one kernel call, and sleep in between.
#pragma once

#include <cstdint>

namespace graphconv {

// Number of threads a kernel may use, the calling one included.
int threads();
void set_threads(int n);

// Calls body(context, chunk) once for every chunk in 0 .. n_chunks, on the calling thread and on
// whichever helpers wake up in time, up to n_threads in all. The caller never waits for a helper that has not begun, so
// with every core busy elsewhere it does all chunks by itself. If another Python thread holds the
// helpers, the caller works alone.
void parallel_for(int n_chunks, int n_threads, void (*body)(void* context, int chunk),
                  void* context);

// Memory for partial sums, kept by the thread from call to call and so free of page faults after
// the first. Throws std::bad_alloc.
void* scratch(std::int64_t bytes);
constexpr std::int64_t kScratchBytes = std::int64_t(1) << 23;  // a reasonable size

}  // namespace graphconv
