// SPDX-License-Identifier: Apache-2.0
//
// The grids of a problem's launch, without launching it.
#pragma once

#include <kiln/template.h>

#include <vector>

namespace kiln {

/// The grid of each kernel for these sizes; that of the first is not empty. Throws VariantError like Variant::grid.
std::vector<Dim3> grids_of(const Variant& variant, const Problem& problem);
/// That of the first.
Dim3 grid_of(const Variant& variant, const Problem& problem);

}  // namespace kiln
