// SPDX-License-Identifier: Apache-2.0
//
// expect_right(), expect_right_with(): a variant's results, against its reference.
#pragma once

#include <gtest/gtest.h>
#include <kiln/run.h>
#include <kiln/service.h>

#include <string>

namespace kiln::test {

/// All elements of all outputs are within their bounds. Failures tell the variant and the sizes.
inline void expect_right_with(Service& service, const std::string& name, const Values& values,
                              RunOptions options) {
    const Variant variant = service.find(name).variant(values);
    std::string problem = variant.text();
    for (const auto& [size, value] : options.sizes) problem += " " + size + "=" + std::to_string(value);
    SCOPED_TRACE(problem);
    options.check = Check::full;
    options.time = false;
    for (const std::string& failure : Runner(service).run(variant, options).failures())
        ADD_FAILURE() << failure;
}
/// At the test sizes, those in `sizes` excepted.
inline void expect_right(Service& service, const std::string& name, const Values& values,
                         const Sizes& sizes) {
    RunOptions options;
    options.sizes = sizes;
    options.test_sizes = true;
    expect_right_with(service, name, values, options);
}

}  // namespace kiln::test
