// Batch normalisation: columns of mean 0 and variance 1.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>

#include "arguments.h"
#include "chunks.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// With x = dense or, if asked, ReLU(dense), its columns' mean and variance, and
// standard = (x - mean) / sqrt(variance + epsilon):
//
// Forward:  out = standard * gain + shift
// Backward: out = the gradient for dense; gain_gradient and shift_gradient summed over the rows
//
// dense, gradient, out                                       (n_rows, width)
// mean, variance, gain, shift, gain_gradient, shift_gradient (width,)
//
// If `measures`, mean and variance are worked out and written; else they are given, and have no
// gradient. Sums over rows run within parts of kPartRows, then over those in double precision, each
// column by itself: the order depends on the number of rows alone. Cost: n_rows * width elements,
// each read twice, from memory once where a part fits a cache.
template <class T>
class NormalisedColumns {
public:
    static constexpr std::int64_t kPartRows = 256;

    explicit NormalisedColumns(const NormaliseColumns<T>& arguments)
        : a(arguments),
          n_parts((a.n_rows + kPartRows - 1) / kPartRows),
          inverse(new T[std::size_t(a.width)]),
          factor(new T[std::size_t(a.width)]) {
        if (a.measures) measure();
        for (std::int64_t k = 0; k < a.width; ++k) {
            inverse[k] = T(1) / std::sqrt(a.variance[k] + a.epsilon);
            factor[k] = a.gain[k] * inverse[k];
        }
    }

    void forward() const {
        const T *mean = a.mean, *scale = factor.get(), *shift = a.shift;
        for_each_row([=](std::int64_t at, std::int64_t width, auto x) GRAPHCONV_LAMBDA {
            for (std::int64_t k = 0; k < width; ++k) {
                a.out[at + k] = (x(a.dense[at + k]) - mean[k]) * scale[k] + shift[k];
            }
        });
    }

    void backward() const {
        const std::unique_ptr<double[]> sums = summed_gradients();
        const std::unique_ptr<T[]> along(new T[std::size_t(a.width)]);
        const std::unique_ptr<T[]> level(new T[std::size_t(a.width)]);
        for (std::int64_t k = 0; k < a.width; ++k) {
            a.gain_gradient[k] = T(sums[k]);
            a.shift_gradient[k] = T(sums[a.width + k]);
            // Every row has a say in mean and variance.
            const T share = a.measures && a.n_rows > 0 ? T(1) / T(a.n_rows) : T(0);
            along[k] = share * a.gain_gradient[k] * inverse[k];
            level[k] = share * a.shift_gradient[k];
        }
        const T *mean = a.mean, *scale = factor.get(), *slope = along.get(), *mid = level.get();
        for_each_row([=](std::int64_t at, std::int64_t width, auto x) GRAPHCONV_LAMBDA {
            for (std::int64_t k = 0; k < width; ++k) {
                const T centred = x(a.dense[at + k]) - mean[k];
                const T found = (a.gradient[at + k] - mid[k] - centred * slope[k]) * scale[k];
                a.out[at + k] = x.passes(a.dense[at + k]) ? found : T(0);
            }
        });
    }

private:
    static constexpr std::int64_t kElementWork = 4;  // as much as so many multiply-adds

    struct AsItIs {
        GRAPHCONV_INLINE T operator()(T x) const { return x; }
        GRAPHCONV_INLINE bool passes(T) const { return true; }
    };
    struct Rectified {
        GRAPHCONV_INLINE T operator()(T x) const { return x > T(0) ? x : T(0); }
        GRAPHCONV_INLINE bool passes(T x) const { return x > T(0); }
    };

    template <class Body>
    void with_activation(Body body) const {
        a.relu ? body(Rectified{}) : body(AsItIs{});
    }

    // Calls body(place of its first element, width, what its elements are taken for).
    template <class Body>
    void for_each_row(Body body) const {
        with_activation([&](auto x) {
            share_evenly(a.n_rows, work(), [&](std::int64_t first, std::int64_t last) {
                for (std::int64_t row = first; row < last; ++row) body(row * a.width, a.width, x);
            });
        });
    }

    // Calls body(part, first row, row after the last).
    template <class Body>
    void for_each_part(Body body) const {
        share_evenly(n_parts, work(), [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t part = first; part < last; ++part) {
                const std::int64_t row = part * kPartRows, end = row + kPartRows;
                body(part, row, end < a.n_rows ? end : a.n_rows);
            }
        });
    }

    // Means and sums of squares around them of each part, then those of all rows.
    void measure() const {
        const std::int64_t width = a.width;
        const std::unique_ptr<T[]> found(new T[std::size_t(2 * n_parts * width + 1)]());
        with_activation([&](auto x) {
            for_each_part([&](std::int64_t part, std::int64_t first, std::int64_t last) {
                T *mean = found.get() + 2 * part * width, *squares = mean + width;
                for (std::int64_t row = first; row < last; ++row) {
                    const T* own = a.dense + row * width;
                    for (std::int64_t k = 0; k < width; ++k) mean[k] += x(own[k]);
                }
                for (std::int64_t k = 0; k < width; ++k) mean[k] /= T(last - first);
                for (std::int64_t row = first; row < last; ++row) {
                    const T* own = a.dense + row * width;
                    for (std::int64_t k = 0; k < width; ++k) {
                        const T centred = x(own[k]) - mean[k];
                        squares[k] += centred * centred;
                    }
                }
            });
        });
        for (std::int64_t k = 0; k < width; ++k) {
            double n = 0, mean = 0, squares = 0;
            for (std::int64_t part = 0; part < n_parts; ++part) {
                const T* own = found.get() + 2 * part * width + k;
                const std::int64_t left = a.n_rows - part * kPartRows;
                const double more = double(left < kPartRows ? left : kPartRows);
                const double away = double(own[0]) - mean;
                squares += double(own[width]) + away * away * n * more / (n + more);
                mean += away * more / (n + more);
                n += more;
            }
            a.mean[k] = T(mean);
            a.variance[k] = T(squares / (n > 0 ? n : 1));
        }
    }

    // Of the gradients times what is standard, and of the gradients.
    std::unique_ptr<double[]> summed_gradients() const {
        const std::int64_t width = a.width;
        const std::unique_ptr<T[]> found(new T[std::size_t(2 * n_parts * width + 1)]());
        const T *mean = a.mean, *scale = inverse.get();
        with_activation([&](auto x) {
            for_each_part([&](std::int64_t part, std::int64_t first, std::int64_t last) {
                T *for_gain = found.get() + 2 * part * width, *for_shift = for_gain + width;
                for (std::int64_t row = first; row < last; ++row) {
                    const T *own = a.dense + row * width, *slope = a.gradient + row * width;
                    for (std::int64_t k = 0; k < width; ++k) {
                        for_gain[k] += slope[k] * ((x(own[k]) - mean[k]) * scale[k]);
                        for_shift[k] += slope[k];
                    }
                }
            });
        });
        std::unique_ptr<double[]> sums(new double[std::size_t(2 * width + 1)]());
        for (std::int64_t part = 0; part < n_parts; ++part) {
            for (std::int64_t k = 0; k < 2 * width; ++k) {
                sums[k] += double(found[std::size_t(2 * part * width + k)]);
            }
        }
        return sums;
    }

    std::int64_t work() const { return a.n_rows * a.width * kElementWork; }

    const NormaliseColumns<T>& a;
    const std::int64_t n_parts;
    const std::unique_ptr<T[]> inverse, factor;  // of the spread; the gain times it
};

template <class T>
void normalise_columns(const NormaliseColumns<T>& a) {
    NormalisedColumns<T>(a).forward();
}

template <class T>
void normalise_columns_backward(const NormaliseColumns<T>& a) {
    NormalisedColumns<T>(a).backward();
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
