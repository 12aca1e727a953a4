// SPDX-License-Identifier: Apache-2.0
//
// Tensors that kernels share, where the device has not enough memory for one of them.
#include "run/shared_tensors.h"

#include "rejected.h"
#include "run_support.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;

using SharedTensorsTest = Run;

TEST_F(SharedTensorsTest, AreAsBeforeAfterAFailedAllocation) {
    const std::string lines =
        "//@ size n = 8 test 8\n//@ param FACTOR int in 1, 2, 1125899906842624 = 1\n"
        "//@ scratch s[FACTOR * 2]\n//@ output y [n]\n";
    const Template of = service().parse(
        line_template(lines, "int n, float* s, float* y", "if (i < n) y[i] = 1;"), "tested.cu");
    const auto problem = [&](std::int64_t factor) { return of.variant({{"FACTOR", factor}}).problem({}); };
    SharedTensors shared(service(), 1);
    for (int again = 0; again < 2; ++again)
        EXPECT_THAT(rejected<DeviceError>([&] { shared.of(problem(std::int64_t{1} << 50)); }),
                    HasSubstr("can't allocate"));
    EXPECT_EQ(shared.of(problem(2)).size(), 2U);
    EXPECT_EQ(shared.held_bytes(), (8 + 4) * sizeof(float));
    shared.drop_scratch();
    EXPECT_EQ(shared.held_bytes(), 8 * sizeof(float));
}

}  // namespace
}  // namespace kiln::test
