// What enters the kernels: plain pointers and sizes, checked by products.cpp and bindings.cpp.
//
// T is float or double, I is int32_t or int64_t. Dense matrices are row-major with rows of `width`
// elements. This header is shared by translation units compiled for different processors, so it
// holds data only: an inline function here could be compiled for the newest of them and then be
// linked into code meant for the oldest.
#pragma once

#include <cstdint>

namespace graphconv {

// Rows of a sparse matrix; row i holds entries begin[i] .. end[i], sorted by column, none twice.
template <class T, class I>
struct Rows {
    const I* begin;    // (n_rows,)
    const I* end;      // (n_rows,)
    const I* indices;  // (n_entries,) column of each entry
    const T* values;   // (n_entries,) or null: all ones
    std::int64_t n_rows;
    std::int64_t n_entries;  // length of the long arrays, which may hold more than these rows
};

// Which elements are dropped; n_keys = 0 means none.
struct Dropout {
    const std::uint64_t* keys;  // (n_keys,) one for each of n_keys equal blocks of columns
    int n_keys;
    std::uint32_t threshold;      // 1 .. 65535: kept if 16 bits of the hash are below it
    const std::int64_t* row_ids;  // (n_rows,) or null: 0, 1, ...
    std::int64_t first_row = 0;   // number of the first row, where a kernel is given later ones
};

template <class T, class I>
struct Propagate {
    Rows<T, I> rows;
    const T* dense;         // (n_columns, width)
    const T* row_scale;     // (n_rows,) or null
    const T* column_scale;  // (n_columns,) or null
    T* out;                 // (n_rows, width)
    std::int64_t n_columns;
    std::int64_t width;
    T self_weight;
    const T* entry_scale;     // (n_entries,) column_scale of each entry's column, or null
    std::int64_t out_stride;  // from a row of out to the next
    const T* bias = nullptr;  // (width,) or null
    // Of two terms that lie side by side, one is summed, the other the node's own.
    std::int64_t dense_stride = width;  // from a row of dense to the next
    const T* own = nullptr;             // (n_own, width) of rows `dense_stride` apart, or null
    std::int64_t n_own = 0;
    T* copy = nullptr;  // (n_rows, width) of rows `out_stride` apart, or null: what dense is
};

template <class T, class I>
struct PropagateDropped {
    Rows<T, I> rows;
    Dropout dropout;        // row_ids: (n_columns,) or null
    const T* dense;         // (n_columns, width), the same for all keys
    const T* row_scale;     // (n_rows,) or null
    const T* column_scale;  // (n_columns,) or null
    T* out;                 // (n_rows, n_keys, width)
    std::int64_t n_columns;
    std::int64_t width;
    int n_keys;  // that of dropout, unless nothing is dropped
    T self_weight;
};

template <class T, class I>
struct FeatureProduct {
    Rows<T, I> rows;
    Dropout dropout;
    const T* dense;  // weight (n_columns, width); transposed: (n_rows, width)
    T* out;          // (n_rows, width); transposed: (n_columns, width)
    std::int64_t n_columns;
    std::int64_t width;
};

template <class T, class I>
struct PackRows {
    Rows<T, I> rows;  // with values
    I* begin;         // (n_rows * n_ranges,)
    I* end;           // (n_rows * n_ranges,)
    I* indices;       // (entries of the rows,)
    T* values;        // (entries of the rows,)
    std::int64_t n_columns;
    std::int64_t n_ranges;
};

template <class T, class I>
struct PackedProduct {
    Rows<T, I> pieces;
    const T* weight;  // (n_columns, width)
    T* out;           // (pieces.n_rows / n_ranges, width)
    std::int64_t n_columns;
    std::int64_t width;
    std::int64_t n_ranges;
};

template <class T>
struct DropoutDense {
    Dropout dropout;
    const T* dense;     // (n_rows, width)
    const T* gradient;  // (n_rows, width); null in the forward direction
    T* out;             // (n_rows, width)
    std::int64_t n_rows;
    std::int64_t width;
    bool relu;
};

template <class T>
struct HiddenProduct {
    Dropout dropout;
    const T* dense;      // (n_rows, n_replicas, n_in)
    const T* weight;     // (n_in, n_terms, n_replicas, n_out)
    const T* gradient;   // (n_rows, n_terms, n_replicas, n_out), backward
    T* out;              // (n_rows, n_terms, n_replicas, n_out), forward
    T* dense_gradient;   // like dense, backward
    T* weight_gradient;  // like weight, backward
    std::int64_t n_rows, n_in, n_terms, n_replicas, n_out;
    bool relu;
    bool is_shared;  // dense is (n_rows, n_in), the same for all replicas; wide products only
    const T* bias;   // (n_terms, n_replicas, n_out) or null; wide products only
};

template <class T>
struct NormaliseRows {
    const T* dense;     // (n_rows, n_replicas, width)
    const T* gain;      // (n_replicas, width)
    const T* shift;     // (n_replicas, width)
    const T* added;     // like dense, or null; forward
    const T* gradient;  // like dense; backward
    T* out;             // like dense
    T* gain_gradient;   // (n_replicas, width), backward
    T* shift_gradient;  // (n_replicas, width), backward
    std::int64_t n_rows, n_replicas, width;
    T epsilon;
    bool relu;
};

template <class T>
struct NormaliseColumns {
    const T* dense;     // (n_rows, width)
    const T* gain;      // (width,)
    const T* shift;     // (width,)
    const T* gradient;  // like dense; backward
    T* mean;            // (width,)
    T* variance;        // (width,)
    T* out;             // like dense
    T* gain_gradient;   // (width,), backward
    T* shift_gradient;  // (width,), backward
    std::int64_t n_rows, width;
    T epsilon;
    bool relu;
    bool measures;  // whether mean and variance are those of dense, which are written, or given
};

template <class T>
struct AgreementOfCopies {
    const T* logits;  // (n_rows, n_copies, n_replicas, n_classes)
    T* gradient;      // like logits
    std::int64_t n_rows, n_copies, n_replicas, n_classes;
    double sharpness;  // at least 0: 1 / temperature
    bool is_multilabel;
};

template <class T>
struct ColumnSums {
    const T* rows;  // (n_rows, width)
    T* out;         // (width,)
    std::int64_t n_rows, width;
};

template <class T, class I>
struct PropagateSparse {
    Rows<T, I> rows;
    Rows<T, I> features;
    const T* row_scale;     // (rows.n_rows,) or null
    const T* column_scale;  // (features.n_rows,) or null
    I* indptr;
    I* columns;
    T* entries;
    std::int64_t n_columns;  // of the features
    T self_weight;
};

template <class T, class I>
struct Walks {
    Rows<T, I> rows;
    const double* totals;        // (rows.n_entries + 1,) or null
    const std::int64_t* starts;  // (n_walks,)
    std::int64_t* out;           // (n_walks, n_steps + 1)
    std::int64_t n_walks, n_steps;
    std::uint64_t key;
};

template <class T>
struct Loss {
    const T* logits;             // (n_rows, n_replicas, n_classes)
    const std::int64_t* labels;  // (n_rows,) or null
    const T* indicators;         // (n_rows, n_classes), if labels is null
    const double* weight;        // (n_rows,)
    T* gradient;                 // like logits, or null
    double* losses;              // (n_replicas,)
    double* right;               // (n_replicas,)
    std::int64_t n_rows, n_replicas, n_classes;
};

template <class T>
struct Adam {
    T* parameter;
    const T* gradient;
    T* mean;
    T* square;
    std::int64_t n;
    T rate, weight_decay, beta1, beta2, square_correction, epsilon;
};

// What a look at sparse rows has found.
struct RowCheck {
    std::int64_t wrong_row;  // the first that does not lie within the entries, or -1
    std::uint64_t greatest;  // column; one that is negative counts as very great
    bool empty;              // there are no entries
};

// The kernels for one pair of types.
template <class T, class I>
struct Kernels {
    RowCheck (*check_rows)(const I* begin, const I* end, const I* indices, std::int64_t n_rows,
                           std::int64_t n_entries);
    void (*propagate)(const Propagate<T, I>&);
    void (*propagate_dropped)(const PropagateDropped<T, I>&);
    void (*propagate_sparse)(const PropagateSparse<T, I>&);
    void (*feature_product)(const FeatureProduct<T, I>&);
    void (*feature_product_transposed)(const FeatureProduct<T, I>&);
    void (*pack_rows)(const PackRows<T, I>&);
    void (*packed_product)(const PackedProduct<T, I>&);
    void (*dropout_dense)(const DropoutDense<T>&);
    void (*hidden_product)(const HiddenProduct<T>&);
    void (*hidden_product_backward)(const HiddenProduct<T>&);
    void (*wide_product)(const HiddenProduct<T>&);
    void (*wide_product_backward)(const HiddenProduct<T>&);
    void (*normalise_rows)(const NormaliseRows<T>&);
    void (*normalise_rows_backward)(const NormaliseRows<T>&);
    void (*normalise_columns)(const NormaliseColumns<T>&);
    void (*normalise_columns_backward)(const NormaliseColumns<T>&);
    void (*column_sums)(const ColumnSums<T>&);
    void (*walks)(const Walks<T, I>&);
    void (*loss)(const Loss<T>&);
    void (*agreement)(const AgreementOfCopies<T>&);
    void (*adam)(const Adam<T>&);
};

// The kernels of one processor variant, for indices of either size.
template <class T>
struct Variant {
    const char* name;
    Kernels<T, std::int32_t> narrow;
    Kernels<T, std::int64_t> wide;
};

}  // namespace graphconv
