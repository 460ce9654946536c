#include "sampling.h"

#include <algorithm>
#include <vector>

#include "pool.h"
#include "splitmix.h"

namespace graphconv {
namespace {

// Copying is bound by memory: below so many entries one thread is as fast.
constexpr std::int64_t kWorthThreads = 100000;
constexpr std::int64_t kChunkRows = 2048;
constexpr int kMaxChunks = 1 << 20;

// Floyd's algorithm: `fanout` positions of 0 .. n - 1, ascending.
void choose(std::uint64_t counter, std::int64_t n, std::int64_t fanout, std::int64_t* positions) {
    for (std::int64_t step = 0; step < fanout; ++step, counter += kGolden) {
        const std::uint64_t last = std::uint64_t(n - fanout + step);
        const std::int64_t drawn = std::int64_t(((hash(counter) >> 32) * (last + 1)) >> 32);
        std::int64_t* const place = std::lower_bound(positions, positions + step, drawn);
        if (place != positions + step && *place == drawn) {
            positions[step] = std::int64_t(last);  // larger than all drawn before
        } else {
            std::copy_backward(place, positions + step, positions + step + 1);
            *place = drawn;
        }
    }
}

template <class T, class I>
void copy_rows(const SampleRows<T, I>& a, std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> positions(std::size_t(a.fanout));
    for (std::int64_t row = first; row < last; ++row) {
        const std::int64_t n = a.end[row] - a.begin[row];
        const I* const columns = a.indices + a.begin[row];
        I* const out = a.columns + a.offsets[row];
        if (a.fanout == 0 || n <= a.fanout) {
            std::copy(columns, columns + n, out);
            if (a.values) {
                const T* const values = a.values + a.begin[row];
                std::copy(values, values + n, a.chosen + a.offsets[row]);
            }
            continue;
        }
        const std::uint64_t counter = a.key + (std::uint64_t(a.row_ids[row]) << 32) * kGolden;
        choose(counter, n, a.fanout, positions.data());
        for (std::int64_t k = 0; k < a.fanout; ++k) out[k] = columns[positions[std::size_t(k)]];
        if (a.values) {
            const T* const values = a.values + a.begin[row];
            T* const chosen = a.chosen + a.offsets[row];
            for (std::int64_t k = 0; k < a.fanout; ++k) {
                chosen[k] = values[positions[std::size_t(k)]];
            }
        }
    }
}

template <class T, class I>
struct Job {
    const SampleRows<T, I>* arguments;
    std::int64_t rows_per_chunk;
};

}  // namespace

template <class T, class I>
void sample_rows(const SampleRows<T, I>& arguments) {
    std::int64_t n_entries = 0;
    for (std::int64_t row = 0; row < arguments.n_rows; ++row) {
        const std::int64_t n = arguments.end[row] - arguments.begin[row];
        n_entries += arguments.fanout == 0 ? n : std::min(n, arguments.fanout);
    }
    if (threads() == 1 || n_entries < kWorthThreads) {
        copy_rows(arguments, 0, arguments.n_rows);
        return;
    }
    Job<T, I> job{&arguments, kChunkRows};
    while ((arguments.n_rows + job.rows_per_chunk - 1) / job.rows_per_chunk > kMaxChunks) {
        job.rows_per_chunk *= 2;
    }
    const int n_chunks = int((arguments.n_rows + job.rows_per_chunk - 1) / job.rows_per_chunk);
    parallel_for(
        n_chunks, threads(),
        [](void* context, int chunk) {
            const Job<T, I>& own = *static_cast<Job<T, I>*>(context);
            const std::int64_t first = chunk * own.rows_per_chunk;
            copy_rows(*own.arguments, first,
                      std::min(first + own.rows_per_chunk, own.arguments->n_rows));
        },
        &job);
}

template void sample_rows(const SampleRows<float, std::int32_t>&);
template void sample_rows(const SampleRows<float, std::int64_t>&);
template void sample_rows(const SampleRows<double, std::int32_t>&);
template void sample_rows(const SampleRows<double, std::int64_t>&);

}  // namespace graphconv
