// SPDX-License-Identifier: Apache-2.0
//
// A template from its front matter alone, and expectations on errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/template.h>

#include <string>

namespace kiln::test {

/// Line 1 is the kernel line, `lines` follow from line 2 on.
inline std::string template_text(const std::string& lines,
                                 const std::string& arguments = "int m, int n, float* c",
                                 const std::string& shape = "//@ block 32\n//@ grid n\n") {
    return "//@ kernel k\n" + lines + shape + "extern \"C\" __global__ void k(" + arguments + ") {}\n";
}

inline Template make(const std::string& lines, const std::string& arguments = "int m, int n, float* c",
                     const std::string& shape = "//@ block 32\n//@ grid n\n") {
    return Template::parse(template_text(lines, arguments, shape), "dir/k.cu");
}

inline void expect_template_error(const std::string& text, int line, int column, const std::string& part) {
    try {
        Template::parse(text, "dir/k.cu");
        ADD_FAILURE() << "no error for\n" << text;
    } catch (const TemplateError& error) {
        EXPECT_EQ(error.file(), "dir/k.cu");
        EXPECT_EQ(error.line(), line) << error.what() << "\n" << text;
        EXPECT_EQ(error.column(), column) << error.what() << "\n" << text;
        EXPECT_THAT(error.what(), testing::HasSubstr(part)) << text;
        const std::string prefix = "dir/k.cu:" + std::to_string(line) + ":" + std::to_string(column) + ": ";
        EXPECT_THAT(error.what(), testing::StartsWith(prefix));
    }
}

/// The message of the VariantError that `call` throws; "" and a failure when it throws none.
template <class Call>
std::string variant_error(Call call) {
    try {
        call();
    } catch (const VariantError& error) {
        return error.what();
    }
    ADD_FAILURE() << "no VariantError";
    return {};
}

inline Target cuda_target(const std::string& arch = "sm_80") {
    Target target{Backend::cuda, arch, {}};
    target.limits.shared_bytes_per_block_optin = 166912;
    return target;
}

}  // namespace kiln::test
