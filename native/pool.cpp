#include "pool.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace graphconv {
namespace {

struct Job {
    void (*body)(void*, int);
    void* context;
    int n_chunks;
    std::atomic<int> next{0};

    void work() {
        for (int chunk; (chunk = next.fetch_add(1, std::memory_order_relaxed)) < n_chunks;) {
            body(context, chunk);
        }
    }
};

class Pool {
public:
    void run(Job& job, int n_helpers) {
        std::unique_lock<std::mutex> owner(owner_, std::try_to_lock);
        if (!owner.owns_lock()) {  // another caller has the helpers
            job.work();
            return;
        }
        grow(n_helpers);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            places_ = n_helpers;
        }
        if (n_helpers == 1) {
            wake_.notify_one();
        } else {
            wake_.notify_all();
        }
        job.work();
        std::unique_lock<std::mutex> lock(mutex_);
        job_ = nullptr;  // a helper that wakes from here on finds nothing and sleeps again
        idle_.wait(lock, [this] { return active_ == 0; });
    }

private:
    // Helpers are detached and the pool is never destroyed: at exit they sleep and hold nothing.
    void grow(int n_helpers) {
        while (n_started_ < n_helpers) {
            try {
                std::thread([this] { help(); }).detach();
            } catch (const std::system_error&) {
                return;  // no more threads to be had: the caller does the work
            }
            ++n_started_;
        }
    }

    void help() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [this] { return job_ != nullptr && places_ > 0; });
            Job* job = job_;
            --places_;
            ++active_;
            lock.unlock();
            job->work();
            lock.lock();
            if (--active_ == 0) {
                idle_.notify_one();
            }
        }
    }

    std::mutex owner_;  // held for the length of a job
    std::mutex mutex_;  // guards what follows
    std::condition_variable wake_;
    std::condition_variable idle_;
    Job* job_ = nullptr;
    int places_ = 0;     // helpers that may still join
    int active_ = 0;     // helpers that have joined and not left
    int n_started_ = 0;  // guarded by owner_
};

std::atomic<int> n_threads{1};
std::atomic<Pool*> pool{nullptr};

// A forked child has none of its parent's threads, and mutexes in whatever state they were: it
// starts with a new pool. The old one is left as it is.
void forget_pool() { pool.store(nullptr); }

Pool& current_pool() {
    Pool* current = pool.load(std::memory_order_acquire);
    if (current == nullptr) {
#if !defined(_WIN32)
        static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
        static_cast<void>(registered);
#endif
        auto fresh = std::make_unique<Pool>();
        if (pool.compare_exchange_strong(current, fresh.get())) {
            current = fresh.release();
        }
    }
    return *current;
}

}  // namespace

int threads() { return n_threads.load(std::memory_order_relaxed); }

void set_threads(int n) { n_threads.store(n, std::memory_order_relaxed); }

void parallel_for(int n_chunks, void (*body)(void*, int), void* context) {
    Job job{body, context, n_chunks};
    int n_helpers = threads() - 1;
    if (n_helpers > n_chunks - 1) {
        n_helpers = n_chunks - 1;
    }
    if (n_helpers <= 0) {
        job.work();
    } else {
        current_pool().run(job, n_helpers);
    }
}

void* scratch(std::int64_t bytes) {
    constexpr std::align_val_t kLine{
        64};  // rows of 16 floats then are in one cache line, not in two
    struct Delete {
        void operator()(void* block) const { ::operator delete(block, kLine); }
    };
    thread_local std::unique_ptr<void, Delete> block;
    thread_local std::int64_t size = 0;
    if (size < bytes) {
        size = 0;
        block.reset(::operator new(static_cast<std::size_t>(bytes), kLine));
        size = bytes;
    }
    return block.get();
}

}  // namespace graphconv
