// Threads that share out the chunks of one kernel call, and sleep in between.
#pragma once

namespace graphconv {

// Number of threads a kernel may use, the calling one included.
int threads();
void set_threads(int n);

// Calls body(context, chunk) once for every chunk in 0 .. n_chunks, on the calling thread and on
// whichever helpers wake up in time. The caller never waits for a helper that has not begun, so
// with every core busy elsewhere it does all chunks by itself. If another Python thread holds the
// helpers, the caller works alone.
void parallel_for(int n_chunks, void (*body)(void* context, int chunk), void* context);

// Scratch memory that outlives the call, one block per thread and so free of page faults after the
// first call; null if there is none left. `bytes` must be at most kScratchBytes.
constexpr long kScratchBytes = 1L << 22;
void* scratch(long bytes);

}  // namespace graphconv
