// SPDX-License-Identifier: Apache-2.0
//
// The grid of a problem's launch, without launching it.
#pragma once

#include <kiln/template.h>

namespace kiln {

/// The grid for these sizes. Throws VariantError like Variant::grid.
Dim3 grid_of(const Variant& variant, const Problem& problem);

}  // namespace kiln
