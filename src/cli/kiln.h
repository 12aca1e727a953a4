// SPDX-License-Identifier: Apache-2.0
//
// kiln: looks at templates, builds and warms variants, and shows all of the cache to its operator.
#pragma once

#include <string>
#include <vector>

namespace kiln::cli {

/// Runs the program on its arguments (without its name). Returns the exit status: 0 done, 1 the answer is no
/// (damage, a problem, variants that failed), 2 usage or an illegal variant, 3 compile error, 4 device error,
/// 128 + N ended by signal N. Throws nothing.
int kiln(const std::vector<std::string>& arguments);

}  // namespace kiln::cli
