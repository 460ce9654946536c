// Cross-entropy of logits, its gradient, and how many rows are labelled right.
#pragma once

#include <cmath>
#include <cstring>

#include "arguments.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// e^x for x <= 0 (smaller than -708 counts as -708), to about one unit in the last place. Written
// out, because a library's differs between processors, and so that loops over it become vector code.
GRAPHCONV_INLINE double exp_negative(double x) {
    constexpr double kRound = 6755399441055744.0;  // adding 1.5 * 2^52 rounds to an integer
    x = x < -708.0 ? -708.0 : x;
    const double shifted = x * 1.4426950408889634 + kRound;
    const double n = shifted - kRound;
    const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;  // Taylor to the 13th power: |r| <= log(2) / 2
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    std::uint64_t bits;
    std::memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 1023) << 52;  // 2^n: the low bits of `shifted` are n
    double power;
    std::memcpy(&power, &bits, sizeof(power));
    return p * power;
}

// For each replica (n_replicas blocks of n_classes columns) the weighted sums over rows of the loss
// and of being right; optionally the gradient of the loss.
//
// logits    (n_rows, n_replicas * n_classes)
// labels    (n_rows,) class numbers: softmax; or indicators (n_rows, n_classes): sigmoids, the mean
//           over classes
// weight    (n_rows,)
// gradient  (n_rows, n_replicas * n_classes) or null
//
// In double precision throughout: the figures decide when training stops. Cost: an exponential for
// each logit, on one thread.
template <class T>
struct Losses {
    const Loss<T>& a;

    static constexpr std::int64_t kStrip = 512;

    void run() const {
        for (std::int64_t k = 0; k < a.n_replicas; ++k) a.losses[k] = a.right[k] = 0;
        if (a.n_classes == 0) return;
        const std::int64_t n_units = a.n_rows * a.n_replicas;  // a unit: one row of one replica
        if (a.labels == nullptr) {
            for (std::int64_t unit = 0; unit < n_units; ++unit) sigmoids(unit);
            return;
        }
        double exponentials[kStrip];
        if (a.n_classes > kStrip) {
            for (std::int64_t unit = 0; unit < n_units; ++unit) wide(unit, exponentials);
            return;
        }
        const std::int64_t step = kStrip / a.n_classes;
        for (std::int64_t unit = 0; unit < n_units; unit += step) {
            const std::int64_t n = n_units - unit < step ? n_units - unit : step;
            double shift[kStrip];
            for (std::int64_t k = 0; k < n; ++k) {
                shift[k] = largest(unit + k);
                for (std::int64_t c = 0; c < a.n_classes; ++c) {
                    exponentials[k * a.n_classes + c] = logits(unit + k)[c] - shift[k];
                }
            }
            for (std::int64_t k = 0; k < n * a.n_classes; ++k) {
                exponentials[k] = exp_negative(exponentials[k]);
            }
            for (std::int64_t k = 0; k < n; ++k) {
                const double* own = exponentials + k * a.n_classes;
                double total = 0;
                for (std::int64_t c = 0; c < a.n_classes; ++c) total += own[c];
                finish(unit + k, shift[k], total);
                write_gradient(unit + k, 0, a.n_classes, own, total);
            }
        }
    }

    // More classes than a strip holds: the exponentials are made twice.
    void wide(std::int64_t unit, double* exponentials) const {
        const double shift = largest(unit);
        double total = 0;
        for (int pass = 0; pass < 2; ++pass) {
            for (std::int64_t c = 0; c < a.n_classes; c += kStrip) {
                const std::int64_t n = a.n_classes - c < kStrip ? a.n_classes - c : kStrip;
                for (std::int64_t k = 0; k < n; ++k) {
                    exponentials[k] = exp_negative(logits(unit)[c + k] - shift);
                }
                if (pass == 0) {
                    for (std::int64_t k = 0; k < n; ++k) total += exponentials[k];
                } else {
                    write_gradient(unit, c, n, exponentials, total);
                }
            }
        }
        finish(unit, shift, total);
    }

    GRAPHCONV_INLINE const T* logits(std::int64_t unit) const {
        return a.logits + unit * a.n_classes;
    }

    GRAPHCONV_INLINE double largest(std::int64_t unit) const {
        const T* z = logits(unit);
        T found = z[0];
        for (std::int64_t c = 1; c < a.n_classes; ++c) found = z[c] > found ? z[c] : found;
        return found;
    }

    // The first of several largest logits is the prediction, as in numpy's argmax.
    GRAPHCONV_INLINE void finish(std::int64_t unit, double shift, double total) const {
        const std::int64_t row = unit / a.n_replicas, replica = unit % a.n_replicas;
        const std::int64_t label = a.labels[row];
        const T* z = logits(unit);
        bool right = true;
        for (std::int64_t c = 0; c < a.n_classes; ++c) {
            right &= c == label || (c < label ? z[c] < z[label] : z[c] <= z[label]);
        }
        a.losses[replica] += a.weight[row] * (std::log(total) + shift - z[label]);
        a.right[replica] += right ? a.weight[row] : 0.0;
    }

    GRAPHCONV_INLINE void write_gradient(std::int64_t unit, std::int64_t first, std::int64_t n,
                                         const double* exponentials, double total) const {
        if (a.gradient == nullptr) return;
        const std::int64_t row = unit / a.n_replicas;
        const double factor = a.weight[row] / total;
        T* to = a.gradient + unit * a.n_classes + first;
        for (std::int64_t c = 0; c < n; ++c) to[c] = T(exponentials[c] * factor);
        const std::int64_t label = a.labels[row] - first;
        if (label >= 0 && label < n) to[label] = T(exponentials[label] * factor - a.weight[row]);
    }

    // log(1 + e^z) - y z, and its derivative sigmoid(z) - y, without overflow.
    void sigmoids(std::int64_t unit) const {
        const std::int64_t row = unit / a.n_replicas, replica = unit % a.n_replicas;
        const T* z = logits(unit);
        const T* wanted = a.indicators + row * a.n_classes;
        const double weight = a.weight[row] / double(a.n_classes);
        double loss = 0, right = 0;
        for (std::int64_t c = 0; c < a.n_classes; ++c) {
            const double x = z[c], y = wanted[c], small = exp_negative(x < 0 ? x : -x);
            loss += std::log1p(small) + (x > 0 ? x : 0.0) - x * y;
            right += (x > 0) == (y > 0.5);
            if (a.gradient != nullptr) {
                const double share = (x < 0 ? small : 1.0) / (1.0 + small);
                a.gradient[unit * a.n_classes + c] = T(weight * (share - y));
            }
        }
        a.losses[replica] += weight * loss;
        a.right[replica] += weight * right;
    }
};

template <class T>
void loss(const Loss<T>& a) {
    Losses<T>{a}.run();
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
