// SPDX-License-Identifier: Apache-2.0
//
// Which of a template's parameters define the problem (what is computed), and which the way to compute it.
#pragma once

#include <kiln/service.h>
#include <kiln/template.h>

#include <string>
#include <vector>

namespace kiln {

/// Of the problem parameters, those that say what is done with the result: no tensor that every variant reads has extents or
/// values that depend on them. Its element type may.
std::vector<std::string> output_parameters(const Service& service, const Template& of);

/// The values that define the problem: those of `fixed`, except for boolean parameters that are false and that the
/// template lacks, and the defaults of the other problem parameters.
Values problem_values(const Service& service, const Template& of, const Values& fixed);

/// Whether the template has all of these parameters, and allows these values. A boolean parameter that it lacks
/// counts as false.
bool has_parameters(const Template& of, const Values& values);

/// A variant with these values: the defaults, or the first legal variant if the defaults are not legal.
/// Throws VariantError when there is none.
Variant some_variant(const Template& of, const Values& fixed = {});

/// Whether the variant has a problem of these sizes.
bool takes(const Variant& variant, const Sizes& sizes);

/// For sizes that `usual`, which has the fixed values, does not take: a variant that differs from it in parameters that
/// the `multiple` and `at_most` of sizes depend on, by values near its own first. Throws VariantError when there is none:
/// what `usual` says of the sizes.
Variant other_variant_for(const Variant& usual, const Values& fixed, const Sizes& sizes);

/// The grid of a launch with these sizes.
Dim3 grid_of(const Variant& variant, const Sizes& sizes);

/// How many values differ from the template's defaults.
int distance_from_default(const Variant& variant);

}  // namespace kiln
