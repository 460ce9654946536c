#include "pool.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace graphconv {
namespace {

// Every thread begins with chunks of its own, the same ones in call after call: what it reads, it has
// written itself as a rule, and finds in its own cache. When these are done it helps the others.
class Job {
public:
    Job(void (*body)(void*, int), void* context, int n_chunks, int n_threads)
        : body_(body),
          context_(context),
          n_shares_(n_threads < 1             ? 1
                    : n_threads < kMostShares ? n_threads
                                              : kMostShares) {
        for (int k = 0; k < n_shares_; ++k) {
            shares_[k].next = int(std::int64_t(n_chunks) * k / n_shares_);
            shares_[k].end = int(std::int64_t(n_chunks) * (k + 1) / n_shares_);
        }
    }

    // Thread 0 is the caller.
    void work(int thread) {
        for (int k = 0; k < n_shares_; ++k) {
            Share& share = shares_[(thread + k) % n_shares_];
            for (int chunk;
                 (chunk = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
                body_(context_, chunk);
            }
        }
    }

private:
    static constexpr int kMostShares = 32;

    struct alignas(64) Share {  // a cache line each
        std::atomic<int> next;
        int end;
    };

    void (*body_)(void*, int);
    void* context_;
    int n_shares_;
    Share shares_[kMostShares];
};

// The core that runs this thread; -1 if the system does not say.
int current_core() {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

// Whether a condition comes true soon. Waking a thread that sleeps takes 5 to 50 microseconds, as
// long as many a call; so one that has just worked waits that long, and lets any other thread have
// the core meanwhile.
template <class Condition>
bool comes_soon(const Condition& condition) {
    constexpr std::chrono::microseconds kPatience{50};
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

class Pool {
public:
    void run(Job& job, int n_helpers) {
        std::unique_lock<std::mutex> owner(owner_, std::try_to_lock);
        if (!owner.owns_lock()) {  // another caller has the helpers
            job.work(0);
            return;
        }
        grow(n_helpers);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            places_ = n_helpers;
            is_open_ = true;
            core_ = current_core();
        }
        if (n_helpers == 1) {
            wake_.notify_one();
        } else {
            wake_.notify_all();
        }
        job.work(0);
        std::unique_lock<std::mutex> lock(mutex_);
        job_ = nullptr;  // a helper that wakes from here on finds nothing and sleeps again
        is_open_ = false;
        lock.unlock();
        const auto all_have_left = [this] { return active_ == 0; };
        comes_soon(all_have_left);
        lock.lock();
        idle_.wait(lock, all_have_left);
    }

private:
    // Helpers are detached and the pool is never destroyed: at exit they sleep and hold nothing.
    void grow(int n_helpers) {
        while (n_started_ < n_helpers) {
            try {
                std::thread([this, thread = n_started_ + 1] { help(thread); }).detach();
            } catch (const std::system_error&) {
                return;  // no more threads to be had: the caller does the work
            }
            ++n_started_;
        }
    }

    void help(int thread) {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            lock.unlock();
            // On the caller's core it would only be in the way; woken later, it gets another.
            if (current_core() != core_) comes_soon([this] { return is_open_.load(); });
            lock.lock();
            wake_.wait(lock, [this] { return job_ != nullptr && places_ > 0; });
            Job* job = job_;
            if (--places_ == 0) is_open_ = false;
            ++active_;
            lock.unlock();
            job->work(thread);
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
    int n_started_ = 0;  // guarded by owner_
    // Written under the mutex, and looked at by those who wait without it.
    std::atomic<int> core_{-1};         // of the last caller
    std::atomic<bool> is_open_{false};  // there is a job that a helper may join
    std::atomic<int> active_{0};        // helpers that have joined and not left
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

void parallel_for(int n_chunks, int n_threads, void (*body)(void*, int), void* context) {
    int n_helpers = n_threads - 1;
    if (n_helpers > n_chunks - 1) {
        n_helpers = n_chunks - 1;
    }
    Job job(body, context, n_chunks, n_helpers + 1);
    if (n_helpers <= 0) {
        job.work(0);
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
