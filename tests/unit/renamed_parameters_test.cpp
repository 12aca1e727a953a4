// SPDX-License-Identifier: Apache-2.0
//
// Parameters that have another name today: the table agrees with the templates, and messages say the new name.
#include "base/renamed_parameters.h"

#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/service.h>

#include <sstream>

namespace kiln {
namespace {

using ::testing::HasSubstr;

Service service() {
    ServiceOptions options;
    options.backend = Backend::cuda;
    options.arch = "sm_90a";
    options.compile_only = true;
    options.cache.enabled = false;
    return Service(options);
}

TEST(RenamedParameters, AreThoseOfTheTemplates) {
    const Service kiln = service();
    for (const RenamedParameter& renamed : renamed_parameters()) {
        std::istringstream templates{std::string(renamed.templates)};
        for (std::string name; templates >> name;) {
            const Template of = kiln.find(name);
            EXPECT_NE(of.parameter(renamed.new_name), nullptr) << name << " " << renamed.new_name;
            EXPECT_EQ(of.parameter(renamed.old_name), nullptr) << name << " " << renamed.old_name;
            EXPECT_EQ(current_parameter_name(name, renamed.old_name), renamed.new_name);
            EXPECT_EQ(current_parameter_name(name, renamed.new_name), renamed.new_name);
        }
    }
    EXPECT_EQ(current_parameter_name("gemm_mma", "HEAD"), "HEAD");
    EXPECT_EQ(current_parameter_name("gemm", "GROUP"), "GROUP");
    EXPECT_EQ(current_parameter_name("", "GROUP"), "GROUP");
}

TEST(RenamedParameters, AMessageSaysTheNewName) {
    EXPECT_EQ(parameter_hint("softmax", "AGAIN", {"T", "RECOMPUTE"}), "; AGAIN is now RECOMPUTE");
    EXPECT_EQ(parameter_hint("softmax", "VEX", {"T", "VEC"}), "; did you mean VEC?");
    EXPECT_EQ(parameter_hint("softmax", "AGAIN", {"T"}), "") << "a template of the user with this name";
    try {
        static_cast<void>(service().find("gemm_wgmma").variant({{"SPLIT", 2}}));
        FAIL();
    } catch (const VariantError& error) {
        EXPECT_THAT(error.what(), HasSubstr("gemm_wgmma has no parameter SPLIT; there are T, BM, "));
        EXPECT_THAT(error.what(), HasSubstr("; SPLIT is now SPLIT_K"));
    }
}

}  // namespace
}  // namespace kiln
