// SPDX-License-Identifier: Apache-2.0
//
// The `dependent` line: a condition on parameters, and a kernel that waits.
#include "service/loaded_kernel.h"
#include "template/tensor_maps.h"
#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;

constexpr const char* kWaits = "__device__ void w() { kiln::wait_for_previous_grid(); }\n";

TEST(TemplateDependent, IsWhatTheConditionSays) {
    const auto chosen =
        make("//@ param EARLY bool = false\n//@ param N int in 1..4 = 1\n//@ dependent EARLY && N > 2\n",
             "int m, int n, float* c", std::string("//@ block 32\n//@ grid n\n") + kWaits);
    EXPECT_FALSE(may_overlap(chosen.variant()));
    EXPECT_FALSE(may_overlap(chosen.variant({{"EARLY", true}})));
    EXPECT_FALSE(may_overlap(chosen.variant({{"N", 3}})));
    EXPECT_TRUE(may_overlap(chosen.variant({{"EARLY", true}, {"N", 3}})));
    EXPECT_FALSE(may_overlap(make("").variant()));
}

// PTX is what an NVRTC makes for a device that is newer than it, from code for an older one, which does not wait.
TEST(TemplateDependent, CodeForAnOlderDeviceDoesNotWait) {
    const auto early = make("//@ dependent true\n", "int m, int n, float* c",
                            std::string("//@ block 32\n//@ grid n\n") + kWaits);
    const auto on = [&](const char* arch) { return early.for_target(test::cuda_target(arch)).variant(); };
    EXPECT_TRUE(waits_itself(on("sm_90a"), BinaryKind::cubin));
    EXPECT_FALSE(waits_itself(on("sm_90a"), BinaryKind::ptx));
    EXPECT_FALSE(waits_itself(on("sm_80"), BinaryKind::cubin));
    EXPECT_FALSE(waits_itself(make("").for_target(test::cuda_target("sm_90a")).variant(), BinaryKind::cubin));
}

TEST(TemplateDependent, MustWait) {
    expect_template_error(
        template_text("//@ dependent true\n"), 2, 5,
        "must call kiln::wait_for_previous_grid() (kiln/launch.h), and there is no such call in this "
        "file");
}

TEST(TemplateDependent, NeedsACondition) {
    expect_template_error(template_text("//@ dependent 3\n") + kWaits, 2, 15,
                          "must be true or false; 3 is not");
    expect_template_error(template_text("//@ dependent true, false\n") + kWaits, 2, 19, "the condition");
    expect_template_error(template_text("//@ dependent true\n//@ dependent true\n") + kWaits, 3, 5,
                          "a second dependent line");
    expect_template_error(template_text("//@ dependent n > 3\n") + kWaits, 2, 15, "n");
}

}  // namespace
}  // namespace kiln
