// Layer normalisation: rows of mean 0 and variance 1, with what follows it in a block of layers.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "arguments.h"
#include "chunks.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// Forward:  out = f(standard(dense) * gain + shift) + added, with f = ReLU if asked
// Backward: out = the gradient for dense; gain_gradient and shift_gradient summed over the rows
//
// dense, gradient, out, added          (n_rows, n_replicas, width)
// gain, shift and their gradients      (n_replicas, width)
//
// A row's sums run over 16 interleaved parts that are then added in a tree, and sums over rows run
// within parts of kPartRows, then over those: the order depends on the width and the number of rows
// alone. So nothing depends on threads, replicas or registers. Cost: n_rows * n_replicas * width
// elements, read twice from the nearest cache.
template <class T>
class NormalisedRows {
public:
    static constexpr std::int64_t kPartRows = 256;

    explicit NormalisedRows(const NormaliseRows<T>& arguments)
        : a(arguments), row_width(a.n_replicas * a.width) {}

    void forward(std::int64_t first, std::int64_t last) const {
        with_constants([&](auto constant, auto relu) {
            for_each_block(first, last, [&](std::int64_t at, std::int64_t replica) {
                const std::int64_t width = constant.value > 0 ? constant.value : a.width;
                normalise<relu.value>(width, a.dense + at, a.gain + replica * width,
                                      a.shift + replica * width, a.out + at);
                if (a.added != nullptr) add(width, a.added + at, a.out + at);
            });
        });
    }

    // `sums` (2, n_replicas, width) are those of the gains' and the shifts' gradients.
    void backward(std::int64_t first, std::int64_t last, T* sums) const {
        std::vector<T> memory(std::size_t(2 * a.width));
        for (std::int64_t k = 0; k < 2 * row_width; ++k) sums[k] = 0;
        with_constants([&](auto constant, auto relu) {
            for_each_block(first, last, [&](std::int64_t at, std::int64_t replica) {
                const std::int64_t width = constant.value > 0 ? constant.value : a.width;
                T* for_gain = sums + replica * width;
                slope<relu.value>(width, a.dense + at, a.gain + replica * width,
                                  a.shift + replica * width, a.gradient + at, for_gain,
                                  for_gain + row_width, memory.data(), memory.data() + width,
                                  a.out + at);
            });
        });
    }

    void run_forward() const {
        share_evenly(a.n_rows, work(),
                     [&](std::int64_t first, std::int64_t last) { forward(first, last); });
    }

    void run_backward() const {
        const std::int64_t n_parts = (a.n_rows + kPartRows - 1) / kPartRows, size = 2 * row_width;
        std::unique_ptr<T[]> sums(new T[std::size_t(n_parts * size + 1)]);
        share_evenly(n_parts, work(), [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t part = first; part < last; ++part) {
                const std::int64_t row = part * kPartRows;
                const std::int64_t end = row + kPartRows < a.n_rows ? row + kPartRows : a.n_rows;
                backward(row, end, sums.get() + part * size);
            }
        });
        std::vector<double> exact(std::size_t(size), 0.0);
        for (std::int64_t part = 0; part < n_parts; ++part) {
            for (std::int64_t k = 0; k < size; ++k) {
                exact[std::size_t(k)] += double(sums[std::size_t(part * size + k)]);
            }
        }
        for (std::int64_t k = 0; k < row_width; ++k) {
            a.gain_gradient[k] = T(exact[std::size_t(k)]);
            a.shift_gradient[k] = T(exact[std::size_t(row_width + k)]);
        }
    }

private:
    static constexpr int kLanes = 16;
    static constexpr std::int64_t kElementWork =
        8;  // an element takes as long as so many multiply-adds

    struct Moments {
        T mean, inverse;  // of the root of the variance
    };

    // Calls body(width, relu) with constants: loops that know how often they turn take a third of
    // the time. An unusual width is 0.
    template <class Body>
    GRAPHCONV_INLINE void with_constants(Body body) const {
        const auto with_relu = [&](auto width) {
            a.relu ? body(width, std::true_type{}) : body(width, std::false_type{});
        };
        switch (a.width) {
            case 16:
                return with_relu(std::integral_constant<std::int64_t, 16>{});
            case 32:
                return with_relu(std::integral_constant<std::int64_t, 32>{});
            case 64:
                return with_relu(std::integral_constant<std::int64_t, 64>{});
            default:
                return with_relu(std::integral_constant<std::int64_t, 0>{});
        }
    }

    // Calls body(place of its first element, replica) for each row and replica.
    template <class Body>
    GRAPHCONV_INLINE void for_each_block(std::int64_t first, std::int64_t last, Body body) const {
        for (std::int64_t row = first; row < last; ++row) {
            for (std::int64_t replica = 0; replica < a.n_replicas; ++replica) {
                body(row * row_width + replica * a.width, replica);
            }
        }
    }

    template <bool Relu>
    GRAPHCONV_INLINE void normalise(std::int64_t width, const T* GRAPHCONV_APART x,
                                    const T* GRAPHCONV_APART gain, const T* GRAPHCONV_APART shift,
                                    T* GRAPHCONV_APART out) const {
        const Moments own = moments(x, width);
        for (std::int64_t k = 0; k < width; ++k) {
            const T value = (x[k] - own.mean) * own.inverse * gain[k] + shift[k];
            out[k] = Relu && value < 0 ? T(0) : value;
        }
    }

    GRAPHCONV_INLINE static void add(std::int64_t width, const T* GRAPHCONV_APART from,
                                     T* GRAPHCONV_APART to) {
        for (std::int64_t k = 0; k < width; ++k) to[k] += from[k];
    }

    template <bool Relu>
    GRAPHCONV_INLINE void slope(std::int64_t width, const T* GRAPHCONV_APART x,
                                const T* GRAPHCONV_APART gain, const T* GRAPHCONV_APART shift,
                                const T* GRAPHCONV_APART gradient, T* GRAPHCONV_APART for_gain,
                                T* GRAPHCONV_APART for_shift, T* GRAPHCONV_APART standard,
                                T* GRAPHCONV_APART inner, T* GRAPHCONV_APART out) const {
        const Moments own = moments(x, width);
        for (std::int64_t k = 0; k < width; ++k) {
            standard[k] = (x[k] - own.mean) * own.inverse;
            const T value = standard[k] * gain[k] + shift[k];
            const T passed = !Relu || value > 0 ? gradient[k] : T(0);
            for_gain[k] += passed * standard[k];
            for_shift[k] += passed;
            inner[k] = passed * gain[k];
        }
        const T mean = total(inner, width, [](T each) { return each; }) / T(width);
        for (std::int64_t k = 0; k < width; ++k) out[k] = inner[k] * standard[k];
        const T along = total(out, width, [](T each) { return each; }) / T(width);
        for (std::int64_t k = 0; k < width; ++k) {
            out[k] = (inner[k] - mean - standard[k] * along) * own.inverse;
        }
    }

    GRAPHCONV_INLINE Moments moments(const T* x, std::int64_t width) const {
        const T mean = total(x, width, [](T each) { return each; }) / T(width);
        const T variance =
            total(x, width, [mean](T each) { return (each - mean) * (each - mean); });
        return {mean, T(1) / std::sqrt(variance / T(width) + a.epsilon)};
    }

    template <class Of>
    GRAPHCONV_INLINE static T total(const T* x, std::int64_t width, Of of) {
        T sums[kLanes] = {};
        std::int64_t k = 0;
        for (; k + kLanes <= width; k += kLanes) {
            for (int lane = 0; lane < kLanes; ++lane) sums[lane] += of(x[k + lane]);
        }
        for (int lane = 0; k + lane < width; ++lane) sums[lane] += of(x[k + lane]);
        for (int half = kLanes / 2; half > 0; half /= 2) {
            for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
        }
        return sums[0];
    }

    std::int64_t work() const { return a.n_rows * row_width * kElementWork; }

    const NormaliseRows<T>& a;
    const std::int64_t row_width;
};

template <class T>
void normalise_rows(const NormaliseRows<T>& a) {
    NormalisedRows<T>(a).run_forward();
}

template <class T>
void normalise_rows_backward(const NormaliseRows<T>& a) {
    NormalisedRows<T>(a).run_backward();
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
