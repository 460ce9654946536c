// All kernels for one processor variant and GRAPHCONV_ELEMENT, float or double. Compiled once for
// each, with GRAPHCONV_VARIANT naming it and the compiler allowed its instructions; dispatch.h picks
// one at run time.
#include "adam.h"
#include "agreement.h"
#include "arguments.h"
#include "column_sums.h"
#include "dense.h"
#include "feature_product.h"
#include "feature_product_transposed.h"
#include "hidden_product.h"
#include "loss.h"
#include "normalise_columns.h"
#include "normalise_rows.h"
#include "packed_product.h"
#include "propagate.h"
#include "propagate_dropped.h"
#include "propagate_sparse.h"
#include "row_check.h"
#include "walks.h"
#include "wide_product.h"

#define GRAPHCONV_QUOTE(name) #name
#define GRAPHCONV_NAME(name) GRAPHCONV_QUOTE(name)

namespace graphconv {
namespace GRAPHCONV_VARIANT {

template <class T, class I>
constexpr Kernels<T, I> kernels() {
    return {check_rows<I>,
            propagate<T, I>,
            propagate_dropped<T, I>,
            propagate_sparse<T, I>,
            feature_product<T, I>,
            feature_product_transposed<T, I>,
            pack_rows<T, I>,
            packed_product<T, I>,
            dropout_dense<T>,
            hidden_product<T>,
            hidden_product_backward<T>,
            wide_product<T>,
            wide_product_backward<T>,
            normalise_rows<T>,
            normalise_rows_backward<T>,
            normalise_columns<T>,
            normalise_columns_backward<T>,
            column_sums<T>,
            walks<T, I>,
            loss<T>,
            agreement<T>,
            adam<T>};
}

extern const Variant<GRAPHCONV_ELEMENT> variant;
const Variant<GRAPHCONV_ELEMENT> variant{GRAPHCONV_NAME(GRAPHCONV_VARIANT),
                                         kernels<GRAPHCONV_ELEMENT, std::int32_t>(),
                                         kernels<GRAPHCONV_ELEMENT, std::int64_t>()};

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
