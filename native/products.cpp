#include "products.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "arguments.h"
#include "arrays.h"
#include "dispatch.h"
#include "python_arguments.h"

namespace graphconv {
namespace {

constexpr const char* kTooFew = "columns and entries must have room for all sums";

// The arrays of a sum over neighbours, whose columns may be a part of those of `dense`.
class PropagateArrays {
public:
    PropagateArrays(nb::handle rows, nb::handle dense, nb::handle row_scale,
                    nb::handle column_scale, nb::handle self_weight, nb::handle entry_scale)
        : self_(number(self_weight, "self_weight")),
          csr_(rows),
          dense_(dense, "dense"),
          left_(row_scale, "row_scale", true),
          right_(column_scale, "column_scale", true),
          each_(entry_scale, "entry_scale", true) {
        require_float_matrix(dense_);
        csr_.require_values(dense_.kind(), " like dense");
        left_.require_kind(dense_.kind(), " like dense");
        right_.require_kind(dense_.kind(), " like dense");
        left_.require_vector(csr_.n_rows(), ", one for each row");
        right_.require_vector(dense_.size(0), ", one for each row of dense");
        each_.require_kind(dense_.kind(), " like dense");
        each_.require_vector(csr_.n_entries(), ", one for each entry");
        csr_.require_columns(dense_.size(0));
        if (right_.none() && !each_.none()) fail("entry_scale must be that of a column_scale");
    }

    std::int64_t n_rows() const { return csr_.n_rows(); }
    const Array& dense() const { return dense_; }

    // Sums `width` columns of dense from `first` on, `out` having rows of `out_stride` elements;
    // body(arguments) may add to them.
    template <class Body>
    void run(const Array& out, std::int64_t first, std::int64_t width, std::int64_t out_stride,
             std::int64_t out_first, Body body) const {
        with_types(dense_.kind(), csr_.wide(), [&](auto t, auto i) {
            using T = decltype(t);
            using I = decltype(i);
            Propagate<T, I> a{csr_.rows<T, I>(),
                              dense_.data<const T>() + first,
                              left_.none() ? nullptr : left_.data<const T>(),
                              right_.none() ? nullptr : right_.data<const T>(),
                              out.data<T>() + out_first,
                              dense_.size(0),
                              width,
                              T(self_),
                              each_.none() ? nullptr : each_.data<const T>(),
                              out_stride};
            a.dense_stride = dense_.size(1);
            body(a);
            kernels<T, I>().propagate(a);
        });
    }

private:
    double self_;
    CsrArrays csr_;
    Array dense_, left_, right_, each_;
};

nb::object propagate(nb::handle rows, nb::handle dense, nb::handle row_scale,
                     nb::handle column_scale, nb::handle self_weight, nb::handle entry_scale,
                     nb::handle bias, nb::handle own) {
    const PropagateArrays given(rows, dense, row_scale, column_scale, self_weight, entry_scale);
    const std::int64_t width = given.dense().size(1);
    const Array added(bias, "bias", true), each(own, "own", true);
    added.require_kind(given.dense().kind(), " like dense");
    added.require_elements(width, ", one for each column");
    each.require_kind(given.dense().kind(), " like dense");
    each.require_dimensions(2);
    if (!each.none() && each.size(1) != width) {
        fail("own must have " + std::to_string(width) + " columns, like dense, got " +
             std::to_string(each.size(1)));
    }
    nb::object result = new_matrix(given.n_rows(), width, given.dense().kind());
    given.run(Array(result, "out"), 0, width, width, 0, [&](auto& a) {
        using T = std::remove_pointer_t<decltype(a.out)>;
        a.bias = added.none() ? nullptr : added.data<const T>();
        a.own = each.none() ? nullptr : each.data<const T>();
        a.n_own = each.none() ? 0 : each.size(0);
    });
    return result;
}

// Of the two terms in `dense` the first, plus the sum over neighbours of the second.
nb::object propagate_beside(nb::handle rows, nb::handle dense, nb::handle row_scale,
                            nb::handle column_scale, nb::handle entry_scale, nb::handle bias) {
    const PropagateArrays given(rows, dense, row_scale, column_scale, nb::int_(0), entry_scale);
    const Array added(bias, "bias", true);
    if (given.dense().size(1) % 2 != 0) {
        fail("dense must have columns of two terms, got " + std::to_string(given.dense().size(1)));
    }
    if (given.n_rows() > given.dense().size(0)) {
        fail("dense must have a row for each of rows, got " +
             std::to_string(given.dense().size(0)) + " for " + std::to_string(given.n_rows()));
    }
    const std::int64_t width = given.dense().size(1) / 2;
    added.require_kind(given.dense().kind(), " like dense");
    added.require_elements(width, ", one for each column of a term");
    nb::object result = new_matrix(given.n_rows(), width, given.dense().kind());
    given.run(Array(result, "out"), width, width, width, 0, [&](auto& a) {
        using T = std::remove_pointer_t<decltype(a.out)>;
        a.own = given.dense().template data<const T>();
        a.n_own = given.n_rows();
        a.bias = added.none() ? nullptr : added.data<const T>();
    });
    return result;
}

// Its gradient for both terms: that of the first is the gradient itself.
nb::object propagate_beside_backward(nb::handle rows, nb::handle gradient, nb::handle row_scale,
                                     nb::handle column_scale, nb::handle entry_scale) {
    const PropagateArrays given(rows, gradient, row_scale, column_scale, nb::int_(0), entry_scale);
    const std::int64_t width = given.dense().size(1), both = size_product(2, width);
    size_product(given.n_rows(), both);
    nb::object result = new_matrix(given.n_rows(), both, given.dense().kind());
    const Array out(result, "out");
    given.run(out, 0, width, both, width, [&](auto& a) { a.copy = a.out - width; });
    return result;
}

nb::object propagate_dropped(nb::handle rows, nb::handle dense, nb::handle dropout,
                             nb::handle row_ids, nb::handle row_scale, nb::handle column_scale,
                             nb::handle self_weight) {
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
    const DropoutKeys keys(dropout, row_ids, from.size(0), 0);  // any width will do
    if (dropout.is_none()) throw nb::type_error("dropout must be a Dropout");
    csr.require_columns(from.size(0));
    const std::int64_t width = size_product(keys.n_keys(), from.size(1));
    size_product(csr.n_rows(), width);
    nb::object result = new_matrix(csr.n_rows(), width, from.kind());
    const Array out(result, "out");
    with_types(from.kind(), csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        kernels<T, I>().propagate_dropped({csr.rows<T, I>(), keys.dropout(), from.data<const T>(),
                                           left.none() ? nullptr : left.data<const T>(),
                                           right.none() ? nullptr : right.data<const T>(),
                                           out.data<T>(), from.size(0), from.size(1), keys.n_keys(),
                                           T(self)});
    });
    return result;
}

// How many entries sums over neighbours of sparse rows have at most.
template <class T, class I>
std::int64_t most_entries(const Rows<T, I>& rows, const Rows<T, I>& features, bool with_self,
                          std::int64_t n_columns) {
    const auto length = [&](std::int64_t row) { return features.end[row] - features.begin[row]; };
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < rows.n_rows; ++i) {
        std::int64_t n = with_self && i < features.n_rows ? length(i) : 0;
        for (std::int64_t e = rows.begin[i]; e < rows.end[i]; ++e) n += length(rows.indices[e]);
        total += n < n_columns ? n : n_columns;
    }
    return total;
}

// Fills `indptr`, `columns` and `entries`, which the caller has made large enough.
void propagate_sparse(nb::handle rows, nb::handle features, nb::handle columns,
                      nb::handle row_scale, nb::handle column_scale, nb::handle self_weight,
                      nb::handle out_indptr, nb::handle out_columns, nb::handle out_entries) {
    const double self = number(self_weight, "self_weight");
    const CsrArrays csr(rows), from(features);
    const Array left(row_scale, "row_scale", true), right(column_scale, "column_scale", true);
    const Array indptr(out_indptr, "indptr"), found(out_columns, "columns");
    const Array entries(out_entries, "entries");
    const Kind index = csr.wide() ? Kind::int64 : Kind::int32;
    require_float(entries);
    if (from.wide() != csr.wide()) fail("features must have indices like those of rows");
    for (const CsrArrays* each : {&csr, &from})
        each->require_values(entries.kind(), " like entries");
    left.require_kind(entries.kind(), " like entries");
    right.require_kind(entries.kind(), " like entries");
    left.require_vector(csr.n_rows(), ", one for each row");
    right.require_vector(from.n_rows(), ", one for each row of features");
    indptr.require_kind(index, " like rows.begin");
    indptr.require_vector(csr.n_rows() + 1, ", one more than rows");
    found.require_kind(index, " like rows.begin");
    found.require_vector(entries.size(0), " like entries");
    for (const Array* each : {&indptr, &found, &entries}) each->require_writable();
    const std::int64_t n_columns = places(0, columns, "n_columns");
    csr.require_columns(from.n_rows());
    from.require_columns(n_columns);
    for (const Array* out : {&indptr, &found, &entries}) {
        for (const Array* other : {&left, &right, &indptr, &found, &entries})
            out->require_apart(*other);
        for (const CsrArrays* each : {&csr, &from}) each->require_apart(*out);
    }
    with_types(entries.kind(), csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        const std::int64_t most =
            most_entries(csr.rows<T, I>(), from.rows<T, I>(), self != 0, n_columns);
        if (most > entries.size(0)) throw std::invalid_argument(kTooFew);
        kernels<T, I>().propagate_sparse(
            {csr.rows<T, I>(), from.rows<T, I>(), left.none() ? nullptr : left.data<const T>(),
             right.none() ? nullptr : right.data<const T>(), indptr.data<I>(), found.data<I>(),
             entries.data<T>(), n_columns, T(self)});
    });
}

nb::object feature_product(nb::handle rows, nb::handle weight, nb::handle dropout,
                           nb::handle row_ids) {
    const CsrArrays csr(rows);
    const Array from(weight, "weight");
    require_float_matrix(from);
    csr.require_values(from.kind(), " like weight");
    csr.require_columns(from.size(0));
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
    const std::int64_t n_columns = places(0, columns, "n_columns");
    csr.require_columns(n_columns);
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

// Fills the arrays of the pieces, which the caller has made large enough.
void pack_rows(nb::handle rows, nb::handle columns, nb::handle ranges, nb::handle begin,
               nb::handle end, nb::handle indices, nb::handle values) {
    const CsrArrays csr(rows);
    const Array begins(begin, "begin"), ends(end, "end"), found(indices, "indices");
    const Array entries(values, "values");
    const std::int64_t n_columns = places(0, columns, "n_columns");
    const std::int64_t n_ranges = places(1, ranges, "n_ranges");
    const Kind index = csr.wide() ? Kind::int64 : Kind::int32;
    require_float(entries);
    csr.require_values(entries.kind(), " like values");
    if (!csr.has_values()) fail("rows.values must not be None");
    for (const Array* each : {&begins, &ends, &found})
        each->require_kind(index, " like rows.begin");
    for (const Array* each : {&begins, &ends, &found, &entries}) each->require_writable();
    const std::int64_t n_pieces = size_product(csr.n_rows(), n_ranges);
    begins.require_vector(n_pieces, ", one for each piece");
    ends.require_vector(n_pieces, ", one for each piece");
    csr.require_columns(n_columns);
    std::int64_t n_entries = 0;
    for (std::int64_t row = 0; row < csr.n_rows(); ++row) n_entries += csr.n_entries_of(row);
    entries.require_vector(n_entries, ", one for each entry of the rows");
    found.require_vector(n_entries, " like values");
    for (const Array* out : {&begins, &ends, &found, &entries}) {
        for (const Array* other : {&begins, &ends, &found, &entries}) out->require_apart(*other);
        csr.require_apart(*out);
    }
    with_types(entries.kind(), csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        kernels<T, I>().pack_rows({csr.rows<T, I>(), begins.data<I>(), ends.data<I>(),
                                   found.data<I>(), entries.data<T>(), n_columns, n_ranges});
    });
}

nb::object packed_product(nb::handle pieces, nb::handle ranges, nb::handle weight) {
    const CsrArrays csr(pieces);
    const Array from(weight, "weight");
    require_float_matrix(from);
    csr.require_values(from.kind(), " like weight");
    if (!csr.has_values()) fail("rows.values must not be None");
    const std::int64_t n_ranges = places(1, ranges, "n_ranges");
    if (csr.n_rows() % n_ranges != 0) {
        fail("pieces must be a multiple of n_ranges, got " + std::to_string(csr.n_rows()) +
             " and " + std::to_string(n_ranges));
    }
    csr.require_columns(from.size(0));
    nb::object result = new_matrix(csr.n_rows() / n_ranges, from.size(1), from.kind());
    const Array out(result, "out");
    with_types(from.kind(), csr.wide(), [&](auto t, auto i) {
        using T = decltype(t);
        using I = decltype(i);
        kernels<T, I>().packed_product({csr.rows<T, I>(), from.data<const T>(), out.data<T>(),
                                        from.size(0), from.size(1), n_ranges});
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
    // With `may_share`, dense may have the columns of a single replica, which all of them share.
    HiddenArrays(nb::handle dense, nb::handle weight, nb::handle gradient, nb::handle dropout,
                 nb::handle row_ids, nb::handle relu, bool may_share = false)
        : dense_(dense, "dense"),
          weight_(weight, "weight"),
          gradient_(gradient, "gradient", true),
          is_shared_(may_share && dense_.n_dimensions() == 2 && weight_.n_dimensions() == 4 &&
                     weight_.size(2) > 1 && dense_.size(1) == weight_.size(0)),
          keys_(dropout, row_ids, (require_float_matrix(dense_), dense_.size(0)),
                dense_.size(1) * (is_shared_ ? weight_.size(2) : 1)),
          relu_(PyObject_IsTrue(relu.ptr()) == 1) {
        weight_.require_dimensions(4);
        weight_.require_kind(dense_.kind(), " like dense");
        gradient_.require_kind(dense_.kind(), " like dense");
        gradient_.require_elements(size_product(n_rows(), out_width()),
                                   ", one for each of the product");
        if (!is_shared_ && dense_.size(1) != weight_.size(0) * weight_.size(2)) {
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
        a.is_shared = is_shared_;
        return a;
    }

private:
    Array dense_, weight_, gradient_;
    bool is_shared_;
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

nb::object wide_product(nb::handle dense, nb::handle weight, nb::handle dropout, nb::handle row_ids,
                        nb::handle relu, nb::handle bias) {
    const HiddenArrays given(dense, weight, nb::none(), dropout, row_ids, relu, true);
    const Array added(bias, "bias", true);
    added.require_kind(given.dense().kind(), " like dense");
    added.require_elements(given.out_width(), ", one for each column of the product");
    nb::object result = new_matrix(given.n_rows(), given.out_width(), given.dense().kind());
    const Array out(result, "out");
    with_types(given.dense().kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        HiddenProduct<T> a = given.arguments<T>();
        a.out = out.data<T>();
        a.bias = added.none() ? nullptr : added.data<const T>();
        kernels<T, decltype(i)>().wide_product(a);
    });
    return result;
}

// The gradient of dense, or None if it is not wanted, and that of the weight.
nb::object wide_product_backward(nb::handle gradient, nb::handle dense, nb::handle weight,
                                 nb::handle dropout, nb::handle row_ids, nb::handle relu,
                                 nb::handle for_dense) {
    const bool wants_dense = PyObject_IsTrue(for_dense.ptr()) == 1;
    const HiddenArrays given(dense, weight, gradient, dropout, row_ids, relu, !wants_dense);
    nb::object dense_gradient = wants_dense ? new_like(given.dense()) : nb::none();
    nb::object weight_gradient = new_like(given.weight());
    const Array to_dense(dense_gradient, "dense", true), to_weight(weight_gradient, "weight");
    with_types(given.dense().kind(), false, [&](auto t, auto i) {
        using T = decltype(t);
        HiddenProduct<T> a = given.arguments<T>();
        a.dense_gradient = wants_dense ? to_dense.data<T>() : nullptr;
        a.weight_gradient = to_weight.data<T>();
        kernels<T, decltype(i)>().wide_product_backward(a);
    });
    return nb::make_tuple(dense_gradient, weight_gradient);
}

}  // namespace

void bind_products(nb::module_& m) {
    const auto any = [](const char* name) { return nb::arg(name).none(); };
    m.def("propagate", propagate, any("rows"), any("dense"), any("row_scale"), any("column_scale"),
          any("self_weight"), any("entry_scale"), any("bias") = nb::none(),
          any("own") = nb::none());
    m.def("propagate_beside", propagate_beside, any("rows"), any("dense"), any("row_scale"),
          any("column_scale"), any("entry_scale"), any("bias"));
    m.def("propagate_beside_backward", propagate_beside_backward, any("rows"), any("gradient"),
          any("row_scale"), any("column_scale"), any("entry_scale"));
    m.def("propagate_dropped", propagate_dropped, any("rows"), any("dense"), any("dropout"),
          any("row_ids"), any("row_scale"), any("column_scale"), any("self_weight"));
    m.def("propagate_sparse", propagate_sparse, any("rows"), any("features"), any("n_columns"),
          any("row_scale"), any("column_scale"), any("self_weight"), any("indptr"), any("columns"),
          any("entries"));
    m.def("feature_product", feature_product, any("rows"), any("weight"), any("dropout"),
          any("row_ids"));
    m.def("feature_product_transposed", feature_product_transposed, any("rows"), any("dense"),
          any("n_columns"), any("dropout"), any("row_ids"));
    m.def("pack_rows", pack_rows, any("rows"), any("n_columns"), any("n_ranges"), any("begin"),
          any("end"), any("indices"), any("values"));
    m.def("packed_product", packed_product, any("pieces"), any("n_ranges"), any("weight"));
    m.def("dropout_dense", dropout_dense, any("gradient"), any("dense"), any("dropout"),
          any("row_ids"), any("relu"));
    m.def("hidden_product", hidden_product, any("dense"), any("weight"), any("dropout"),
          any("row_ids"), any("relu"));
    m.def("hidden_product_backward", hidden_product_backward, any("gradient"), any("dense"),
          any("weight"), any("dropout"), any("row_ids"), any("relu"));
    m.def("wide_product", wide_product, any("dense"), any("weight"), any("dropout"), any("row_ids"),
          any("relu"), any("bias") = nb::none());
    m.def("wide_product_backward", wide_product_backward, any("gradient"), any("dense"),
          any("weight"), any("dropout"), any("row_ids"), any("relu"), any("for_dense"));
}

}  // namespace graphconv
