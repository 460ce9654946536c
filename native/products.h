// The products, sparse and dense, as Python functions.
#pragma once

#include <nanobind/nanobind.h>

namespace graphconv {

void bind_products(nanobind::module_& m);

}  // namespace graphconv
