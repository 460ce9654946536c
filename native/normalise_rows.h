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
// elements, each read once.
template <class T>
class NormalisedRows {
public:
    static constexpr std::int64_t kPartRows = 256;

    explicit NormalisedRows(const NormaliseRows<T>& arguments)
        : a(arguments),
          row_width(a.n_replicas * a.width),
          n_packs(int((a.width + kLanes - 1) / kLanes)),
          rest(int(a.width % kLanes)) {
        T ones[kLanes] = {};
        for (int lane = 0; lane < rest; ++lane) ones[lane] = 1;
        inside.load(ones);
    }

    void forward(std::int64_t first, std::int64_t last) const {
        with_packs([&](auto constant) {
            Row<constant.value> x(n_packs);
            for_each_block(first, last, [&](std::int64_t at, std::int64_t replica) {
                const T* gain = a.gain + replica * a.width;
                const T* shift = a.shift + replica * a.width;
                standardise(a.dense + at, x);
                for (int k = 0; k < x.n(); ++k) {
                    Lanes value = x[k];
                    value.multiply(read(gain, k));
                    value.add(read(shift, k));
                    if (a.relu) value.rectify();
                    if (a.added != nullptr) value.add(read(a.added + at, k));
                    write(value, a.out + at, k);
                }
            });
        });
    }

    // `sums` (2, n_replicas, width) are those of the gains' and the shifts' gradients.
    void backward(std::int64_t first, std::int64_t last, T* sums) const {
        for (std::int64_t k = 0; k < 2 * row_width; ++k) sums[k] = 0;
        with_packs([&](auto constant) {
            Row<constant.value> x(n_packs), inner(n_packs);
            for_each_block(first, last, [&](std::int64_t at, std::int64_t replica) {
                const T* gain = a.gain + replica * a.width;
                const T* shift = a.shift + replica * a.width;
                T* for_gain = sums + replica * a.width;
                T* for_shift = for_gain + row_width;
                const T inverse = standardise(a.dense + at, x);
                Lanes total, along;
                total.clear();
                along.clear();
                for (int k = 0; k < x.n(); ++k) {
                    const Lanes gains = read(gain, k);
                    Lanes slope = read(a.gradient + at, k);
                    if (a.relu) {
                        Lanes value = x[k];
                        value.multiply(gains);
                        value.add(read(shift, k));
                        slope.keep_where_positive(value);
                    }
                    Lanes sum = read(for_shift, k), product = slope;
                    sum.add(slope);
                    write(sum, for_shift, k);
                    product.multiply(x[k]);
                    product.add(read(for_gain, k));
                    write(product, for_gain, k);
                    slope.multiply(gains);
                    inner[k] = slope;
                    total.add(slope);
                    slope.multiply(x[k]);
                    along.add(slope);
                }
                const T mean = total.total() / T(a.width), share = along.total() / T(a.width);
                for (int k = 0; k < x.n(); ++k) {
                    Lanes part = x[k], out = inner[k];
                    part.scale(share);
                    out.subtract(mean);
                    out.subtract(part);
                    out.scale(inverse);
                    write(out, a.out + at, k);
                }
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
        8;  // an element is as much as so many multiply-adds
    using Lanes = Pack<T, kLanes>;

    // The elements of a block in packs: N of them, which stay in registers, or any number if N is 0.
    template <int N>
    class Row {
    public:
        explicit Row(int n) : n_(n), more_(std::size_t(N > 0 ? 0 : n)) {}
        GRAPHCONV_INLINE int n() const { return N > 0 ? N : n_; }
        GRAPHCONV_INLINE Lanes& operator[](int k) {
            return N > 0 ? few_[k] : more_[std::size_t(k)];
        }

    private:
        int n_;
        Lanes few_[N > 0 ? N : 1];
        std::vector<Lanes> more_;
    };

    // Calls body with the number of packs as a constant where it is a usual one, or with 0.
    template <class Body>
    void with_packs(Body body) const {
        switch (n_packs) {
            case 1:
                return body(std::integral_constant<int, 1>{});
            case 2:
                return body(std::integral_constant<int, 2>{});
            case 4:
                return body(std::integral_constant<int, 4>{});
            default:
                return body(std::integral_constant<int, 0>{});
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

    // Pack k of a block; zeros past its end.
    GRAPHCONV_INLINE Lanes read(const T* from, int k) const {
        Lanes pack;
        if (rest == 0 || k < n_packs - 1) {
            pack.load(from + k * kLanes);
        } else {
            T padded[kLanes] = {};
            for (int lane = 0; lane < rest; ++lane) padded[lane] = from[k * kLanes + lane];
            pack.load(padded);
        }
        return pack;
    }

    GRAPHCONV_INLINE void write(const Lanes& pack, T* to, int k) const {
        if (rest == 0 || k < n_packs - 1) return pack.store(to + k * kLanes);
        T padded[kLanes];
        pack.store(padded);
        for (int lane = 0; lane < rest; ++lane) to[k * kLanes + lane] = padded[lane];
    }

    // Mean 0 and variance 1; returns the inverse of the root of the variance.
    template <class Packs>
    GRAPHCONV_INLINE T standardise(const T* from, Packs& x) const {
        Lanes sum;
        sum.clear();
        for (int k = 0; k < x.n(); ++k) {
            x[k] = read(from, k);
            sum.add(x[k]);
        }
        const T mean = sum.total() / T(a.width);
        sum.clear();
        for (int k = 0; k < x.n(); ++k) {
            x[k].subtract(mean);
            if (rest > 0 && k == n_packs - 1) x[k].multiply(inside);
            Lanes square = x[k];
            square.multiply(square);
            sum.add(square);
        }
        const T inverse = T(1) / std::sqrt(sum.total() / T(a.width) + a.epsilon);
        for (int k = 0; k < x.n(); ++k) x[k].scale(inverse);
        return inverse;
    }

    std::int64_t work() const { return a.n_rows * row_width * kElementWork; }

    const NormaliseRows<T>& a;
    const std::int64_t row_width;
    const int n_packs, rest;  // of a block, and elements of the last that is not full
    Lanes inside;             // ones for the elements of that pack
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
