// The Python face of the kernels: checks types and shapes, allocates the result, lets go of the
// interpreter lock and calls the kernel for the types at hand. What the arrays hold is not checked:
// Graph has done that.
#include <nanobind/nanobind.h>

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

double number(nb::handle source) {
    const double value = PyFloat_AsDouble(source.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw nb::type_error("self_weight must be a number");
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

void require_float_matrix(const Array& array) {
    array.require_matrix();
    if (array.kind() != Kind::float64) array.require_kind(Kind::float32, " or float64");
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

nb::object propagate(nb::handle rows, nb::handle dense, nb::handle row_scale,
                     nb::handle column_scale, nb::handle self_weight) {
    const double self = number(self_weight);
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
    const Array out(result, "out");
    with_types(from.kind(), csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        kernels<T, I>().propagate({csr.rows<T, I>(), from.data<const T>(),
                                   left.none() ? nullptr : left.data<const T>(),
                                   right.none() ? nullptr : right.data<const T>(), out.data<T>(),
                                   from.size(0), from.size(1), T(self)});
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
        upstream.require_matrix();
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
    m.def("sample_rows", graphconv::sample, any("begin"), any("end"), any("offsets"),
          any("row_ids"), any("indices"), any("values"), any("fanout"), nb::arg("key"),
          any("columns"), any("chosen"));
    m.def("set_threads", [](int n) {
        if (n < 1 || n > 1024) throw nb::value_error("the number of threads must be in 1 .. 1024");
        graphconv::set_threads(n);
    });
    m.def("get_threads", graphconv::threads);
    m.def("variant", [] { return graphconv::variant().name; });
}
