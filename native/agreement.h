// What makes copies of a model agree: the gradient of their distance from their sharpened mean.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>

#include "arguments.h"
#include "chunks.h"
#include "loss.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

// With p_s the probabilities that copy s of S gives a row, and q ~ (1 / S sum_s p_s)^sharpness
// their sharpened mean, taken as given: gradient = that of 1 / S sum_s |p_s - q|^2 for the logits.
// Of several labels a row each class is a yes or no of its own, and the mean over classes counts.
//
// logits, gradient (n_rows, n_copies, n_replicas, n_classes)
//
// In double precision; each row and replica by itself, so that the result depends on nothing else.
// Cost: an exponential for each logit, a logarithm and an exponential for each row's class.
template <class T>
class Agreement {
public:
    explicit Agreement(const AgreementOfCopies<T>& arguments) : a(arguments) {}

    void run() const {
        const std::int64_t n_pairs = a.n_rows * a.n_replicas;  // rows of a replica
        const std::int64_t n_numbers = a.n_copies * a.n_classes;
        share_evenly(
            n_pairs, n_pairs * n_numbers * kElementWork,
            [&](std::int64_t first, std::int64_t last) {
                const std::unique_ptr<double[]> shares(new double[std::size_t(n_numbers + 1)]);
                const std::unique_ptr<double[]> wanted(new double[std::size_t(a.n_classes + 1)]);
                for (std::int64_t pair = first; pair < last; ++pair) {
                    const std::int64_t row = pair / a.n_replicas, replica = pair % a.n_replicas;
                    const std::int64_t at =
                        (row * a.n_copies * a.n_replicas + replica) * a.n_classes;
                    a.is_multilabel ? of_answers(at, shares.get(), wanted.get())
                                    : of_classes(at, shares.get(), wanted.get());
                }
            });
    }

private:
    static constexpr std::int64_t kElementWork = 30;  // as much as so many multiply-adds

    // A softmax over classes.
    void of_classes(std::int64_t at, double* shares, double* wanted) const {
        for (std::int64_t s = 0; s < a.n_copies; ++s) {
            const T* z = a.logits + at + s * step();
            double* own = shares + s * a.n_classes;
            T largest = z[0];
            for (std::int64_t c = 1; c < a.n_classes; ++c)
                largest = z[c] > largest ? z[c] : largest;
            double total = 0;
            for (std::int64_t c = 0; c < a.n_classes; ++c) {
                total += own[c] = exp_negative(double(z[c]) - double(largest));
            }
            for (std::int64_t c = 0; c < a.n_classes; ++c) own[c] /= total;
        }
        double largest = 0, total = 0;
        for (std::int64_t c = 0; c < a.n_classes; ++c) {
            wanted[c] = mean(shares + c);
            largest = wanted[c] > largest ? wanted[c] : largest;
        }
        for (std::int64_t c = 0; c < a.n_classes; ++c) {
            total += wanted[c] = sharpened(wanted[c] / largest);  // one of them is 1
        }
        for (std::int64_t s = 0; s < a.n_copies; ++s) {
            const double* own = shares + s * a.n_classes;
            T* to = a.gradient + at + s * step();
            double along = 0;
            for (std::int64_t c = 0; c < a.n_classes; ++c) {
                along += (own[c] - wanted[c] / total) * own[c];
            }
            for (std::int64_t c = 0; c < a.n_classes; ++c) {
                const double away = own[c] - wanted[c] / total;
                to[c] = T(2.0 / double(a.n_copies) * own[c] * (away - along));
            }
        }
    }

    // A sigmoid for each class.
    void of_answers(std::int64_t at, double* shares, double* wanted) const {
        for (std::int64_t s = 0; s < a.n_copies; ++s) {
            const T* z = a.logits + at + s * step();
            for (std::int64_t c = 0; c < a.n_classes; ++c) {
                const double small = exp_negative(z[c] < 0 ? z[c] : -z[c]);
                shares[s * a.n_classes + c] = (z[c] < 0 ? small : 1.0) / (1.0 + small);
            }
        }
        for (std::int64_t c = 0; c < a.n_classes; ++c) {
            const double yes = mean(shares + c), larger = yes > 0.5 ? yes : 1 - yes;
            const double of_yes = sharpened(yes / larger), of_no = sharpened((1 - yes) / larger);
            wanted[c] = of_yes / (of_yes + of_no);
        }
        for (std::int64_t s = 0; s < a.n_copies; ++s) {
            for (std::int64_t c = 0; c < a.n_classes; ++c) {
                const double own = shares[s * a.n_classes + c];
                // Both answers of each class count, and classes are averaged.
                const double factor = 4.0 / double(a.n_copies) / double(a.n_classes);
                const double slope = factor * (own - wanted[c]) * own * (1 - own);
                a.gradient[at + s * step() + c] = T(slope);
            }
        }
    }

    // Elements from one copy to the next.
    GRAPHCONV_INLINE std::int64_t step() const { return a.n_replicas * a.n_classes; }

    GRAPHCONV_INLINE double mean(const double* shares) const {
        double total = 0;
        for (std::int64_t s = 0; s < a.n_copies; ++s) total += shares[s * a.n_classes];
        return total / double(a.n_copies);
    }

    // share^sharpness, for shares of at most 1.
    GRAPHCONV_INLINE double sharpened(double share) const {
        return share > 0 ? exp_negative(std::log(share) * a.sharpness) : 0.0;
    }

    const AgreementOfCopies<T>& a;
};

template <class T>
void agreement(const AgreementOfCopies<T>& a) {
    Agreement<T>(a).run();
}

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
