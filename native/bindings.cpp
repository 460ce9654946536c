// The Python face of the kernels: checks types, shapes and indices, allocates the result, lets go of
// the interpreter lock and calls the kernel for the types at hand. No kernel reads or writes beyond an
// array, whatever Python gives, so long as nobody changes it during the call. Here all but the
// products, which are in products.cpp.
#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>

#include "arguments.h"
#include "arrays.h"
#include "dispatch.h"
#include "pool.h"
#include "products.h"
#include "python_arguments.h"
#include "sampling.h"

namespace nb = nanobind;

namespace graphconv {
namespace {

nb::object walks(nb::handle rows, nb::handle totals, nb::handle starts, nb::handle n_steps,
                 nb::handle key) {
    const CsrArrays csr(rows);
    const Array sums(totals, "totals", true), from(starts, "starts");
    sums.require_kind(Kind::float64, "");
    sums.require_vector(csr.n_entries() + 1, ", one more than entries");
    from.require_kind(Kind::int64, "");
    from.require_vector(-1, "");
    csr.require_columns(csr.n_rows());
    require_below(from, csr.n_rows());
    const std::int64_t steps = places(0, n_steps, "n_steps");
    const std::uint64_t hashed = sixty_four_bits(key, "key");
    nb::object result = new_matrix(from.size(0), steps + 1, Kind::int64);
    const Array out(result, "out");
    with_types(Kind::float32, csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        kernels<T, I>().walks({csr.rows<T, I>(), sums.none() ? nullptr : sums.data<const double>(),
                               from.data<const std::int64_t>(), out.data<std::int64_t>(),
                               from.size(0), steps, hashed});
    });
    return result;
}

// What is normalised, by what; `gradient` is None forward.
class NormaliseArrays {
public:
    NormaliseArrays(nb::handle gradient, nb::handle dense, nb::handle gain, nb::handle shift,
                    nb::handle epsilon, nb::handle relu, nb::handle added)
        : dense_(dense, "dense"),
          gain_(gain, "gain"),
          shift_(shift, "shift"),
          gradient_(gradient, "gradient", true),
          added_(added, "added", true),
          epsilon_(number(epsilon, "epsilon")),
          relu_(PyObject_IsTrue(relu.ptr()) == 1) {
        dense_.require_dimensions(2);
        require_float(dense_);
        gain_.require_dimensions(2);
        gain_.require_elements(dense_.size(1), ", one for each column of dense");
        shift_.require_elements(dense_.size(1), ", one for each column of dense");
        for (const Array* each : {&gain_, &shift_, &gradient_, &added_}) {
            each->require_kind(dense_.kind(), " like dense");
        }
        for (const Array* each : {&gradient_, &added_}) {
            each->require_elements(dense_.n_elements(), " like dense");
        }
    }

    const Array& dense() const { return dense_; }
    const Array& gain() const { return gain_; }

    template <class T>
    NormaliseRows<T> arguments(const Array& out) const {
        NormaliseRows<T> a{};
        a.dense = dense_.data<const T>();
        a.gain = gain_.data<const T>();
        a.shift = shift_.data<const T>();
        a.added = added_.none() ? nullptr : added_.data<const T>();
        a.gradient = gradient_.none() ? nullptr : gradient_.data<const T>();
        a.out = out.data<T>();
        a.n_rows = dense_.size(0);
        a.n_replicas = gain_.size(0);
        a.width = gain_.size(1);
        a.epsilon = T(epsilon_);
        a.relu = relu_;
        return a;
    }

private:
    Array dense_, gain_, shift_, gradient_, added_;
    double epsilon_;
    bool relu_;
};

nb::object normalise_rows(nb::handle dense, nb::handle gain, nb::handle shift, nb::handle epsilon,
                          nb::handle relu, nb::handle added) {
    const NormaliseArrays given(nb::none(), dense, gain, shift, epsilon, relu, added);
    nb::object result = new_like(given.dense());
    const Array out(result, "out");
    with_types(given.dense().kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        kernels<T, decltype(i)>().normalise_rows(given.arguments<T>(out));
    });
    return result;
}

// Gradients for dense, gain and shift.
nb::object normalise_rows_backward(nb::handle gradient, nb::handle dense, nb::handle gain,
                                   nb::handle shift, nb::handle epsilon, nb::handle relu) {
    if (gradient.is_none()) throw nb::type_error("gradient must be a numpy array, got NoneType");
    const NormaliseArrays given(gradient, dense, gain, shift, epsilon, relu, nb::none());
    nb::object for_dense = new_like(given.dense());
    nb::object for_gain = new_like(given.gain()), for_shift = new_like(given.gain());
    const Array out(for_dense, "out"), to_gain(for_gain, "gain"), to_shift(for_shift, "shift");
    with_types(given.dense().kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        NormaliseRows<T> a = given.arguments<T>(out);
        a.gain_gradient = to_gain.data<T>();
        a.shift_gradient = to_shift.data<T>();
        kernels<T, decltype(i)>().normalise_rows_backward(a);
    });
    return nb::make_tuple(for_dense, for_gain, for_shift);
}

// Columns to be normalised, by statistics of their own or by given ones.
class NormaliseColumnsArrays {
public:
    NormaliseColumnsArrays(nb::handle gradient, nb::handle dense, nb::handle gain, nb::handle shift,
                           nb::handle epsilon, nb::handle relu, nb::handle mean,
                           nb::handle variance)
        : dense_(dense, "dense"),
          gain_(gain, "gain"),
          shift_(shift, "shift"),
          gradient_(gradient, "gradient", true),
          epsilon_(number(epsilon, "epsilon")),
          relu_(PyObject_IsTrue(relu.ptr()) == 1),
          measures_(mean.is_none()) {
        require_float_matrix(dense_);
        if (mean.is_none() != variance.is_none()) fail("mean and variance belong together");
        Array given_mean(mean, "mean", true), given_variance(variance, "variance", true);
        for (const Array* each : {&gain_, &shift_, &given_mean, &given_variance}) {
            each->require_elements(dense_.size(1), ", one for each column of dense");
            each->require_kind(dense_.kind(), " like dense");
        }
        gradient_.require_kind(dense_.kind(), " like dense");
        gradient_.require_elements(dense_.n_elements(), " like dense");
        mean_ = measures_ ? new_like(gain_) : nb::borrow(mean);
        variance_ = measures_ ? new_like(gain_) : nb::borrow(variance);
    }

    const Array& dense() const { return dense_; }
    const Array& gain() const { return gain_; }
    const nb::object& mean() const { return mean_; }
    const nb::object& variance() const { return variance_; }

    // Calls body(type of an element, arguments), which adds what is still missing.
    template <class Body>
    void run(const Array& out, Body body) const {
        const Array mean(mean_, "mean"), variance(variance_, "variance");
        with_types(dense_.kind(), false, [&](auto t, auto i) {
            using T = decltype(t);
            NormaliseColumns<T> a{};
            a.dense = dense_.data<const T>();
            a.gain = gain_.data<const T>();
            a.shift = shift_.data<const T>();
            a.gradient = gradient_.none() ? nullptr : gradient_.data<const T>();
            a.mean = mean.data<T>();
            a.variance = variance.data<T>();
            a.out = out.data<T>();
            a.n_rows = dense_.size(0);
            a.width = dense_.size(1);
            a.epsilon = T(epsilon_);
            a.relu = relu_;
            a.measures = measures_;
            body(a, kernels<T, decltype(i)>());
        });
    }

private:
    Array dense_, gain_, shift_, gradient_;
    double epsilon_;
    bool relu_, measures_;
    nb::object mean_, variance_;
};

// What is normalised, and the mean and variance it was normalised by.
nb::object normalise_columns(nb::handle dense, nb::handle gain, nb::handle shift,
                             nb::handle epsilon, nb::handle relu, nb::handle mean,
                             nb::handle variance) {
    const NormaliseColumnsArrays given(nb::none(), dense, gain, shift, epsilon, relu, mean,
                                       variance);
    nb::object result = new_like(given.dense());
    given.run(Array(result, "out"),
              [](const auto& a, const auto& kernels) { kernels.normalise_columns(a); });
    return nb::make_tuple(result, given.mean(), given.variance());
}

// Gradients for dense, gain and shift.
nb::object normalise_columns_backward(nb::handle gradient, nb::handle dense, nb::handle gain,
                                      nb::handle shift, nb::handle epsilon, nb::handle relu,
                                      nb::handle mean, nb::handle variance) {
    if (gradient.is_none()) throw nb::type_error("gradient must be a numpy array, got NoneType");
    const NormaliseColumnsArrays given(gradient, dense, gain, shift, epsilon, relu, mean, variance);
    nb::object for_dense = new_like(given.dense());
    nb::object for_gain = new_like(given.gain()), for_shift = new_like(given.gain());
    const Array to_gain(for_gain, "gain"), to_shift(for_shift, "shift");
    given.run(Array(for_dense, "out"), [&](auto& a, const auto& kernels) {
        using T = std::remove_pointer_t<decltype(a.out)>;
        a.gain_gradient = to_gain.data<T>();
        a.shift_gradient = to_shift.data<T>();
        kernels.normalise_columns_backward(a);
    });
    return nb::make_tuple(for_dense, for_gain, for_shift);
}

// A vector with an element for each column.
nb::object column_sums(nb::handle rows) {
    const Array given(rows, "rows");
    given.require_dimensions(2);
    require_float(given);
    nb::object result = new_matrix(1, given.size(1), given.kind());
    const Array out(result, "out");
    with_types(given.kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        kernels<T, decltype(i)>().column_sums(
            {given.data<const T>(), out.data<T>(), given.size(0), given.size(1)});
    });
    return result;
}

// The gradient, or None if it is not wanted; losses and shares of right rows.
nb::object loss(nb::handle logits, nb::handle labels, nb::handle weight, nb::handle with_gradient) {
    const Array given(logits, "logits"), wanted(labels, "labels"), counts(weight, "weight");
    given.require_dimensions(3);
    require_float(given);
    counts.require_kind(Kind::float64, "");
    counts.require_vector(given.size(0), ", one for each row");
    const bool indicators = wanted.n_dimensions() == 2;
    if (indicators) {
        wanted.require_kind(given.kind(), " like logits");
        wanted.require_elements(given.size(0) * given.size(2), ", one for each row and class");
    } else {
        wanted.require_kind(Kind::int64, "");
        wanted.require_vector(given.size(0), ", one for each row");
        require_below(wanted, given.size(2));
    }
    const bool wants_gradient = PyObject_IsTrue(with_gradient.ptr()) == 1;
    nb::object gradient = wants_gradient ? new_like(given) : nb::none();
    nb::object figures = new_matrix(2, given.size(1), Kind::float64);
    const Array to(gradient, "gradient", true), sums(figures, "figures");
    with_types(given.kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        kernels<T, decltype(i)>().loss(
            {given.data<const T>(), indicators ? nullptr : wanted.data<const std::int64_t>(),
             indicators ? wanted.data<const T>() : nullptr, counts.data<const double>(),
             to.none() ? nullptr : to.data<T>(), sums.data<double>(),
             sums.data<double>() + given.size(1), given.size(0), given.size(1), given.size(2)});
    });
    return nb::make_tuple(gradient, figures);
}

// The gradient of what copies of a model disagree by.
nb::object agreement(nb::handle logits, nb::handle temperature, nb::handle is_multilabel) {
    const Array given(logits, "logits");
    given.require_dimensions(4);
    require_float(given);
    const double softness = number(temperature, "temperature");
    if (!(softness > 0)) throw nb::value_error("temperature must be above 0");
    const bool several = PyObject_IsTrue(is_multilabel.ptr()) == 1;
    nb::object gradient = new_like(given);
    const Array to(gradient, "gradient");
    if (given.n_elements() == 0) return gradient;
    with_types(given.kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        kernels<T, decltype(i)>().agreement({given.data<const T>(), to.data<T>(), given.size(0),
                                             given.size(1), given.size(2), given.size(3),
                                             1 / softness, several});
    });
    return gradient;
}

void adam(nb::handle parameter, nb::handle gradient, nb::handle mean, nb::handle square,
          nb::handle step, nb::handle learning_rate, nb::handle weight_decay) {
    constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
    const Array to(parameter, "parameter"), from(gradient, "gradient");
    const Array means(mean, "mean"), squares(square, "square");
    require_float(to);
    for (const Array* other : {&from, &means, &squares}) {
        other->require_kind(to.kind(), " like parameter");
        other->require_elements(to.n_elements(), " like parameter");
    }
    for (const Array* each : {&to, &means, &squares}) each->require_writable();
    const double t = number(step, "step");
    const double rate = number(learning_rate, "learning_rate") / (1 - std::pow(kBeta1, t));
    const double decay = number(weight_decay, "weight_decay");
    const double correction = 1 / std::sqrt(1 - std::pow(kBeta2, t));
    with_types(to.kind(), false, [&](auto type, auto i) {
        using T = decltype(type);
        kernels<T, decltype(i)>().adam({to.data<T>(), from.data<const T>(), means.data<T>(),
                                        squares.data<T>(), to.n_elements(), T(rate), T(decay),
                                        T(kBeta1), T(kBeta2), T(correction), T(kEpsilon)});
    });
}

// Rows to copy must lie within the entries, and their copies within the result.
void require_rows_within(const Array& begin, const Array& end, const Array& offsets,
                         std::int64_t n_entries, std::int64_t n_results, std::int64_t most) {
    const auto *first = begin.data<const std::int64_t>(), *last = end.data<const std::int64_t>();
    const auto* to = offsets.data<const std::int64_t>();
    for (std::int64_t row = 0; row < begin.size(0); ++row) {
        if (first[row] < 0 || first[row] > last[row] || last[row] > n_entries) {
            fail("rows must lie within the " + std::to_string(n_entries) + " entries, got row " +
                 std::to_string(row) + " from " + std::to_string(first[row]) + " to " +
                 std::to_string(last[row]));
        }
        const std::int64_t length = last[row] - first[row];
        const std::int64_t taken = most == 0 || length < most ? length : most;
        if (to[row] < 0 || to[row] > n_results - taken) {
            fail("columns must have room for all rows, got " + std::to_string(n_results));
        }
    }
}

// Fills `columns` and `chosen`, which the caller has made large enough.
void sample(nb::handle begin, nb::handle end, nb::handle offsets, nb::handle row_ids,
            nb::handle indices, nb::handle values, nb::handle fanout, nb::handle key,
            nb::handle columns, nb::handle chosen) {
    const Array first(begin, "begin"), last(end, "end"), to(offsets, "offsets");
    const Array ids(row_ids, "row_ids"), from(indices, "indices"), out(columns, "columns");
    const Array weights(values, "values", true), picked(chosen, "chosen", true);
    for (const Array* array : {&first, &last, &to, &ids}) {
        array->require_kind(Kind::int64, "");
        array->require_vector(first.size(0), " like begin");
    }
    if (from.kind() != Kind::int64) from.require_kind(Kind::int32, " or int64");
    out.require_kind(from.kind(), " like indices");
    if (weights.none() != picked.none()) fail("chosen must be there where values are");
    if (!weights.none() && weights.kind() != Kind::float64) {
        weights.require_kind(Kind::float32, " or float64");
    }
    if (!weights.none()) picked.require_kind(weights.kind(), " like values");
    weights.require_vector(from.n_elements(), " like indices");
    picked.require_vector(out.n_elements(), " like columns");
    for (const Array* each : {&out, &picked}) each->require_writable();
    const std::int64_t most = places(0, fanout, "fanout");
    const std::uint64_t hashed = sixty_four_bits(key, "key");
    for (const Array* written : {&out, &picked}) {
        for (const Array* other : {&first, &last, &to, &ids, &from, &weights, &out, &picked}) {
            written->require_apart(*other);
        }
    }
    require_rows_within(first, last, to, from.n_elements(), out.n_elements(), most);
    const Kind kind = weights.none() ? Kind::float32 : weights.kind();
    with_types(kind, from.kind() == Kind::int64, [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        sample_rows<T, I>({first.data<const std::int64_t>(), last.data<const std::int64_t>(),
                           to.data<const std::int64_t>(), ids.data<const std::int64_t>(),
                           from.data<const I>(), weights.none() ? nullptr : weights.data<const T>(),
                           out.data<I>(), picked.none() ? nullptr : picked.data<T>(), first.size(0),
                           most, hashed});
    });
}

}  // namespace
}  // namespace graphconv

NB_MODULE(_native, m) {
    m.doc() = "C++ kernels; graphconv.kernels.native is their documented face.";
    graphconv::variant();  // a wrong GRAPHCONV_SIMD should fail here, not in the first product
    const auto any = [](const char* name) { return nb::arg(name).none(); };
    graphconv::bind_products(m);
    m.def("walks", graphconv::walks, any("rows"), any("totals"), any("starts"), any("n_steps"),
          any("key"));
    m.def("normalise_rows", graphconv::normalise_rows, any("dense"), any("gain"), any("shift"),
          any("epsilon"), any("relu"), any("added"));
    m.def("normalise_rows_backward", graphconv::normalise_rows_backward, any("gradient"),
          any("dense"), any("gain"), any("shift"), any("epsilon"), any("relu"));
    m.def("normalise_columns", graphconv::normalise_columns, any("dense"), any("gain"),
          any("shift"), any("epsilon"), any("relu"), any("mean"), any("variance"));
    m.def("normalise_columns_backward", graphconv::normalise_columns_backward, any("gradient"),
          any("dense"), any("gain"), any("shift"), any("epsilon"), any("relu"), any("mean"),
          any("variance"));
    m.def("column_sums", graphconv::column_sums, any("rows"));
    m.def("loss", graphconv::loss, any("logits"), any("labels"), any("weight"),
          any("with_gradient"));
    m.def("agreement", graphconv::agreement, any("logits"), any("temperature"),
          any("is_multilabel"));
    m.def("adam", graphconv::adam, any("parameter"), any("gradient"), any("mean"), any("square"),
          any("step"), any("learning_rate"), any("weight_decay"));
    m.def("sample_rows", graphconv::sample, any("begin"), any("end"), any("offsets"),
          any("row_ids"), any("indices"), any("values"), any("fanout"), any("key"), any("columns"),
          any("chosen"));
    m.def("trim_memory", graphconv::trim_memory);
    m.def("set_threads", [](int n) {
        if (n < 1 || n > 1024) throw nb::value_error("the number of threads must be in 1 .. 1024");
        graphconv::set_threads(n);
    });
    m.def("get_threads", graphconv::threads);
    m.def("variant", [] { return graphconv::variant().name; });
}
