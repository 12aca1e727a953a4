// SPDX-License-Identifier: Apache-2.0
//
// What a template's parameters are about: the problem (what is computed) or the way to compute it.
#pragma once

#include <kiln/service.h>
#include <kiln/template.h>

#include <string>
#include <vector>

namespace kiln {

/// The values that fix the problem: those of `fixed`, but for switches that are off and that the template lacks, and
/// the defaults of the other problem parameters.
Values problem_values(const Service& service, const Template& of, const Values& fixed);

/// Whether it has all of these parameters, and they may have these values. A switch (bool) that it lacks is one that
/// is off.
bool has_parameters(const Template& of, const Values& values);

/// A variant with these values: the defaults, or the first that is legal where the defaults are not. Throws
/// VariantError when none is.
Variant some_variant(const Template& of, const Values& fixed = {});

/// The grid of a launch with these sizes.
Dim3 grid_of(const Variant& variant, const Sizes& sizes);

/// How many values differ from the template's defaults.
int distance_from_default(const Variant& variant);

}  // namespace kiln
