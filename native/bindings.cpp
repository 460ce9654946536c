// The Python face of the kernels: checks types and shapes, allocates the result, lets go of the
// interpreter lock and calls the kernel for the types at hand. What the arrays hold is not checked:
// Graph has done that.
#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.h"
#include "arrays.h"
#include "dispatch.h"
#include "pool.h"
#include "sampling.h"

namespace nb = nanobind;

namespace graphconv {
namespace {

nb::handle item(nb::handle tuple, Py_ssize_t k) { return PyTuple_GET_ITEM(tuple.ptr(), k); }

void require_tuple(nb::handle source, Py_ssize_t size, const char* what) {
    if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) != size) {
        throw nb::type_error(what);
    }
}

[[noreturn]] void fail(const std::string& message) { throw nb::value_error(message.c_str()); }

// Arguments come in as objects, so that a wrong one gets our message and not a list of overloads.
std::int64_t integer(nb::handle source, const char* name) {
    const long long value = PyLong_AsLongLong(source.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw nb::type_error((std::string(name) + " must be an integer").c_str());
    }
    return value;
}

double number(nb::handle source, const char* name) {
    const double value = PyFloat_AsDouble(source.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw nb::type_error((std::string(name) + " must be a number").c_str());
    }
    return value;
}

// The four arrays of a graphconv.kernels.Csr.
class CsrArrays {
public:
    explicit CsrArrays(nb::handle csr)
        : begin_(item((require_tuple(csr, 4, "rows must be a Csr"), csr), 0), "rows.begin"),
          end_(item(csr, 1), "rows.end"),
          indices_(item(csr, 2), "rows.indices"),
          values_(item(csr, 3), "rows.values", true) {
        if (begin_.kind() != Kind::int64) begin_.require_kind(Kind::int32, " or int64");
        end_.require_kind(begin_.kind(), " like rows.begin");
        indices_.require_kind(begin_.kind(), " like rows.begin");
        begin_.require_vector(-1, "");
        end_.require_vector(n_rows(), " like rows.begin");
        indices_.require_vector(-1, "");
        values_.require_vector(indices_.size(0), " like rows.indices");
    }

    std::int64_t n_rows() const { return begin_.size(0); }
    std::int64_t n_entries() const { return indices_.size(0); }
    bool has_values() const { return !values_.none(); }
    bool wide() const { return begin_.kind() == Kind::int64; }
    void require_values(Kind kind, const char* like) const { values_.require_kind(kind, like); }

    template <class T, class I>
    Rows<T, I> rows() const {
        return {begin_.data<const I>(),   end_.data<const I>(), indices_.data<const I>(),
                values_.none() ? nullptr : values_.data<const T>(), n_rows(), indices_.size(0)};
    }

private:
    Array begin_, end_, indices_, values_;
};

// A graphconv.kernels.Dropout, or None, and the rows' names in its hash.
class DropoutKeys {
public:
    DropoutKeys(nb::handle dropout, nb::handle row_ids, std::int64_t n_rows, std::int64_t width)
        : row_ids_(row_ids, "row_ids", true) {
        row_ids_.require_kind(Kind::int64, "");
        row_ids_.require_vector(n_rows, ", one for each row");
        if (dropout.is_none()) return;
        require_tuple(dropout, 2, "dropout must be a Dropout or None");
        const nb::handle keys = item(dropout, 0);
        if (!PyTuple_Check(keys.ptr()) || PyTuple_GET_SIZE(keys.ptr()) == 0) {
            throw nb::value_error("dropout.keys must be a tuple of one integer or more");
        }
        const Py_ssize_t n_keys = PyTuple_GET_SIZE(keys.ptr());
        if (width % n_keys != 0) {
            fail("the width must be a multiple of the number of dropout keys, got " +
                 std::to_string(width) + " columns and " + std::to_string(n_keys) + " keys");
        }
        threshold_ = integer(item(dropout, 1), "dropout.threshold");
        if (threshold_ < 1 || threshold_ > 65536) {
            fail("dropout.threshold must be in 1 .. 65536, got " + std::to_string(threshold_));
        }
        for (Py_ssize_t k = 0; k < n_keys; ++k) {
            const std::uint64_t key = PyLong_AsUnsignedLongLong(item(keys, k).ptr());
            if (key == std::uint64_t(-1) && PyErr_Occurred() != nullptr) {
                PyErr_Clear();
                throw nb::value_error("dropout.keys must be integers of 64 bits, none negative");
            }
            keys_.push_back(key);
        }
    }

    // Keeping everything is not dropping out, so the kernels see thresholds below 65536 only.
    Dropout dropout() const {
        const bool keeps_all = threshold_ == 65536;
        return {keys_.data(), keeps_all ? 0 : int(keys_.size()), std::uint32_t(threshold_),
                row_ids_.none() ? nullptr : row_ids_.data<const std::int64_t>()};
    }

private:
    Array row_ids_;
    std::vector<std::uint64_t> keys_;
    std::int64_t threshold_ = 65536;
};

void require_float(const Array& array) {
    if (array.kind() != Kind::float64) array.require_kind(Kind::float32, " or float64");
}

void require_float_matrix(const Array& array) {
    array.require_dimensions(2);
    require_float(array);
}

// Calls f.run<T, I>() for the types of the arrays, without the interpreter lock.
template <class F>
void with_types(Kind kind, bool wide, F f) {
    nb::gil_scoped_release unlocked;
    if (kind == Kind::float32) {
        wide ? f(float(), std::int64_t()) : f(float(), std::int32_t());
    } else {
        wide ? f(double(), std::int64_t()) : f(double(), std::int32_t());
    }
}

// Whether to scale the rows of `dense` into memory of their own before they are gathered. Else each
// entry of a large graph waits for two far places, a row and its scale; scaling streams over the
// rows once, which pays if there are as many entries as cache lines. Values would be multiplied in
// another order, so with them the bits would differ.
bool scales_first(const CsrArrays& csr, const Array& dense, const Array& column_scale) {
    constexpr std::int64_t kFarScales = std::int64_t(1) << 22;
    const std::int64_t itemsize = dense.kind() == Kind::float32 ? 4 : 8;
    const std::int64_t n_bytes = dense.size(1) * itemsize;
    return !column_scale.none() && !csr.has_values() && n_bytes % 64 == 0 &&
           dense.size(0) * itemsize > kFarScales && csr.n_entries() >= dense.size(0) * n_bytes / 64;
}

nb::object propagate(nb::handle rows, nb::handle dense, nb::handle row_scale,
                     nb::handle column_scale, nb::handle self_weight) {
    const double self = number(self_weight, "self_weight");
    const CsrArrays csr(rows);
    const Array from(dense, "dense");
    const Array left(row_scale, "row_scale", true), right(column_scale, "column_scale", true);
    require_float_matrix(from);
    csr.require_values(from.kind(), " like dense");
    left.require_kind(from.kind(), " like dense");
    right.require_kind(from.kind(), " like dense");
    left.require_vector(csr.n_rows(), ", one for each row");
    right.require_vector(from.size(0), ", one for each row of dense");
    nb::object result = new_matrix(csr.n_rows(), from.size(1), from.kind());
    nb::object scaled = scales_first(csr, from, right) ? new_like(from) : nb::none();
    const Array out(result, "out"), to_scale(scaled, "scaled", true);
    with_types(from.kind(), csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        kernels<T, I>().propagate({csr.rows<T, I>(), from.data<const T>(),
                                   left.none() ? nullptr : left.data<const T>(),
                                   right.none() ? nullptr : right.data<const T>(), out.data<T>(),
                                   from.size(0), from.size(1), T(self),
                                   to_scale.none() ? nullptr : to_scale.data<T>()});
    });
    return result;
}

nb::object feature_product(nb::handle rows, nb::handle weight, nb::handle dropout,
                           nb::handle row_ids) {
    const CsrArrays csr(rows);
    const Array from(weight, "weight");
    require_float_matrix(from);
    csr.require_values(from.kind(), " like weight");
    const DropoutKeys keys(dropout, row_ids, csr.n_rows(), from.size(1));
    nb::object result = new_matrix(csr.n_rows(), from.size(1), from.kind());
    const Array out(result, "out");
    with_types(from.kind(), csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        kernels<T, I>().feature_product({csr.rows<T, I>(), keys.dropout(), from.data<const T>(),
                                         out.data<T>(), from.size(0), from.size(1)});
    });
    return result;
}

nb::object feature_product_transposed(nb::handle rows, nb::handle dense, nb::handle columns,
                                      nb::handle dropout, nb::handle row_ids) {
    const CsrArrays csr(rows);
    const Array from(dense, "dense");
    require_float_matrix(from);
    csr.require_values(from.kind(), " like dense");
    const std::int64_t n_columns = integer(columns, "n_columns");
    if (n_columns < 0) throw nb::value_error("n_columns must not be negative");
    if (from.size(0) != csr.n_rows()) {
        fail("dense must have one row for each row of the features, got " +
             std::to_string(from.size(0)) + " for " + std::to_string(csr.n_rows()));
    }
    const DropoutKeys keys(dropout, row_ids, csr.n_rows(), from.size(1));
    nb::object result = new_matrix(n_columns, from.size(1), from.kind());
    const Array out(result, "out");
    with_types(from.kind(), csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        kernels<T, I>().feature_product_transposed({csr.rows<T, I>(), keys.dropout(),
                                                    from.data<const T>(), out.data<T>(), n_columns,
                                                    from.size(1)});
    });
    return result;
}

// Forward if `gradient` is None.
nb::object dropout_dense(nb::handle gradient, nb::handle dense, nb::handle dropout,
                         nb::handle row_ids, nb::handle relu) {
    const bool rectify = PyObject_IsTrue(relu.ptr()) == 1;
    const Array from(dense, "dense"), upstream(gradient, "gradient", true);
    require_float_matrix(from);
    if (!upstream.none()) {
        upstream.require_dimensions(2);
        upstream.require_kind(from.kind(), " like dense");
        if (upstream.size(0) != from.size(0) || upstream.size(1) != from.size(1)) {
            throw nb::value_error("gradient must have the shape of dense");
        }
    }
    const DropoutKeys keys(dropout, row_ids, from.size(0), from.size(1));
    nb::object result = new_matrix(from.size(0), from.size(1), from.kind());
    const Array out(result, "out");
    with_types(from.kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        kernels<T, decltype(i)>().dropout_dense(
            {keys.dropout(), from.data<const T>(),
             upstream.none() ? nullptr : upstream.data<const T>(), out.data<T>(), from.size(0),
             from.size(1), rectify});
    });
    return result;
}

// dense, weight and, backward, gradient of a hidden product.
class HiddenArrays {
public:
    HiddenArrays(nb::handle dense, nb::handle weight, nb::handle gradient, nb::handle dropout,
                 nb::handle row_ids, nb::handle relu)
        : dense_(dense, "dense"),
          weight_(weight, "weight"),
          gradient_(gradient, "gradient", true),
          keys_(dropout, row_ids, (require_float_matrix(dense_), dense_.size(0)), dense_.size(1)),
          relu_(PyObject_IsTrue(relu.ptr()) == 1) {
        weight_.require_dimensions(4);
        weight_.require_kind(dense_.kind(), " like dense");
        gradient_.require_kind(dense_.kind(), " like dense");
        gradient_.require_elements(n_rows() * out_width(), ", one for each of the product");
        if (dense_.size(1) != weight_.size(0) * weight_.size(2)) {
            fail("dense must have a column for each replica and input of the weight, got " +
                 std::to_string(dense_.size(1)) + " for " + std::to_string(weight_.size(2)) +
                 " times " + std::to_string(weight_.size(0)));
        }
        const int n_keys = keys_.dropout().n_keys;
        if (n_keys > 0 && n_keys != weight_.size(2)) {
            fail("dropout must have a key for each replica, got " + std::to_string(n_keys) +
                 " for " + std::to_string(weight_.size(2)));
        }
    }

    std::int64_t n_rows() const { return dense_.size(0); }
    std::int64_t out_width() const { return weight_.size(1) * weight_.size(2) * weight_.size(3); }
    const Array& dense() const { return dense_; }
    const Array& weight() const { return weight_; }

    template <class T>
    HiddenProduct<T> arguments() const {
        HiddenProduct<T> a{};
        a.dropout = keys_.dropout();
        a.dense = dense_.data<const T>();
        a.weight = weight_.data<const T>();
        a.gradient = gradient_.none() ? nullptr : gradient_.data<const T>();
        a.n_rows = n_rows();
        a.n_in = weight_.size(0);
        a.n_terms = weight_.size(1);
        a.n_replicas = weight_.size(2);
        a.n_out = weight_.size(3);
        a.relu = relu_;
        return a;
    }

private:
    Array dense_, weight_, gradient_;
    DropoutKeys keys_;
    bool relu_;
};

nb::object hidden_product(nb::handle dense, nb::handle weight, nb::handle dropout,
                          nb::handle row_ids, nb::handle relu) {
    const HiddenArrays given(dense, weight, nb::none(), dropout, row_ids, relu);
    nb::object result = new_matrix(given.n_rows(), given.out_width(), given.dense().kind());
    const Array out(result, "out");
    with_types(given.dense().kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        HiddenProduct<T> a = given.arguments<T>();
        a.out = out.data<T>();
        kernels<T, decltype(i)>().hidden_product(a);
    });
    return result;
}

nb::object hidden_product_backward(nb::handle gradient, nb::handle dense, nb::handle weight,
                                   nb::handle dropout, nb::handle row_ids, nb::handle relu) {
    const HiddenArrays given(dense, weight, gradient, dropout, row_ids, relu);
    nb::object dense_gradient = new_like(given.dense());
    nb::object weight_gradient = new_like(given.weight());
    const Array to_dense(dense_gradient, "dense"), to_weight(weight_gradient, "weight");
    with_types(given.dense().kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        HiddenProduct<T> a = given.arguments<T>();
        a.dense_gradient = to_dense.data<T>();
        a.weight_gradient = to_weight.data<T>();
        kernels<T, decltype(i)>().hidden_product_backward(a);
    });
    return nb::make_tuple(dense_gradient, weight_gradient);
}

nb::object walks(nb::handle rows, nb::handle totals, nb::handle starts, nb::handle n_steps,
                 nb::handle key) {
    const CsrArrays csr(rows);
    const Array sums(totals, "totals", true), from(starts, "starts");
    sums.require_kind(Kind::float64, "");
    sums.require_vector(csr.n_entries() + 1, ", one more than entries");
    from.require_kind(Kind::int64, "");
    from.require_vector(-1, "");
    const std::int64_t steps = integer(n_steps, "n_steps");
    if (steps < 0) throw nb::value_error("n_steps must not be negative");
    const std::uint64_t hashed = PyLong_AsUnsignedLongLong(key.ptr());
    if (hashed == std::uint64_t(-1) && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw nb::value_error("key must be an integer of 64 bits, not negative");
    }
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
    }
    const bool wants_gradient = PyObject_IsTrue(with_gradient.ptr()) == 1;
    nb::object gradient = wants_gradient ? new_like(given) : nb::none();
    nb::object figures = new_matrix(2, given.size(1), Kind::float64);
    const Array to(gradient, "gradient", true), sums(figures, "figures");
    with_types(given.kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        kernels<T, decltype(i)>().loss({given.data<const T>(),
                                        indicators ? nullptr : wanted.data<const std::int64_t>(),
                                        indicators ? wanted.data<const T>() : nullptr,
                                        counts.data<const double>(),
                                        to.none() ? nullptr : to.data<T>(), sums.data<double>(),
                                        sums.data<double>() + given.size(1), given.size(0),
                                        given.size(1), given.size(2)});
    });
    return nb::make_tuple(gradient, figures);
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

// Fills `columns` and `chosen`, which the caller has made large enough.
void sample(nb::handle begin, nb::handle end, nb::handle offsets, nb::handle row_ids,
            nb::handle indices, nb::handle values, nb::handle fanout, std::uint64_t key,
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
    const std::int64_t most = integer(fanout, "fanout");
    if (most < 0) fail("fanout must not be negative");
    const Kind kind = weights.none() ? Kind::float32 : weights.kind();
    with_types(kind, from.kind() == Kind::int64, [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        sample_rows<T, I>({first.data<const std::int64_t>(), last.data<const std::int64_t>(),
                           to.data<const std::int64_t>(), ids.data<const std::int64_t>(),
                           from.data<const I>(), weights.none() ? nullptr : weights.data<const T>(),
                           out.data<I>(), picked.none() ? nullptr : picked.data<T>(), first.size(0),
                           most, key});
    });
}

}  // namespace
}  // namespace graphconv

NB_MODULE(_native, m) {
    m.doc() = "C++ kernels; graphconv.kernels.native is their documented face.";
    graphconv::variant();  // a wrong GRAPHCONV_SIMD should fail here, not in the first product
    const auto any = [](const char* name) { return nb::arg(name).none(); };
    m.def("propagate", graphconv::propagate, any("rows"), any("dense"), any("row_scale"),
          any("column_scale"), any("self_weight"));
    m.def("feature_product", graphconv::feature_product, any("rows"), any("weight"), any("dropout"),
          any("row_ids"));
    m.def("feature_product_transposed", graphconv::feature_product_transposed, any("rows"),
          any("dense"), any("n_columns"), any("dropout"), any("row_ids"));
    m.def("dropout_dense", graphconv::dropout_dense, any("gradient"), any("dense"), any("dropout"),
          any("row_ids"), any("relu"));
    m.def("hidden_product", graphconv::hidden_product, any("dense"), any("weight"), any("dropout"),
          any("row_ids"), any("relu"));
    m.def("hidden_product_backward", graphconv::hidden_product_backward, any("gradient"),
          any("dense"), any("weight"), any("dropout"), any("row_ids"), any("relu"));
    m.def("walks", graphconv::walks, any("rows"), any("totals"), any("starts"), any("n_steps"),
          any("key"));
    m.def("loss", graphconv::loss, any("logits"), any("labels"), any("weight"),
          any("with_gradient"));
    m.def("adam", graphconv::adam, any("parameter"), any("gradient"), any("mean"), any("square"),
          any("step"), any("learning_rate"), any("weight_decay"));
    m.def("sample_rows", graphconv::sample, any("begin"), any("end"), any("offsets"),
          any("row_ids"), any("indices"), any("values"), any("fanout"), nb::arg("key"),
          any("columns"), any("chosen"));
    m.def("trim_memory", graphconv::trim_memory);
    m.def("set_threads", [](int n) {
        if (n < 1 || n > 1024) throw nb::value_error("the number of threads must be in 1 .. 1024");
        graphconv::set_threads(n);
    });
    m.def("get_threads", graphconv::threads);
    m.def("variant", [] { return graphconv::variant().name; });
}
