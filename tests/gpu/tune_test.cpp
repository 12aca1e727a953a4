// SPDX-License-Identifier: Apache-2.0
//
// The tuner on a GPU, where candidates of several templates share the memory of a problem.
#include <gmock/gmock.h>
#include <kiln/tune.h>

#include <algorithm>

#include "gpu_service.h"

namespace kiln::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class TuneOnGpu : public GpuService {
  protected:
    TunedShape tuned(const char* name, const Values& fixed, const Sizes& sizes) {
        const Chooser chooser(*service_, Wisdom());
        const std::vector<Template> templates = chooser.candidates(service_->find(name), fixed);
        TuneOptions options;
        options.fixed = fixed;
        options.shapes = {sizes};
        options.budget_seconds = 20;  // where nothing is compiled yet, on a few processors
        TunedShape shape = tune(*service_, templates, options).shapes.front();
        for (const TuneFailure& failure : shape.failures)
            EXPECT_FALSE(failure.wrong) << failure.variant << ": " << failure.reason;
        return shape;
    }
};

TEST_F(TuneOnGpu, GemmsOfAllTemplatesCompete) {
    for (const bool is_tn : {false, true}) {
        const TunedShape shape =
            tuned("gemm_mma", {{"T", "half"}, {"TRANS_B", is_tn}}, {{"m", 200}, {"n", 136}, {"k", 264}});
        EXPECT_GT(shape.best.size(), 2U) << "each template's best";
        EXPECT_THAT(shape.left_out, IsEmpty());
    }
}

// Rows that threads of the defaults would mostly leave without work.
TEST_F(TuneOnGpu, ShortRowsGetFewThreads) {
    for (const char* name : {"softmax", "layer_norm", "rms_norm"}) {
        const TunedShape shape = tuned(name, {{"T", "half"}}, {{"rows", 100000}, {"cols", 24}});
        ASSERT_THAT(shape.best, SizeIs(1));
        EXPECT_LE(shape.best.front().values.at("THREADS").as_int(), 16) << shape.best.front().text();
        ASSERT_TRUE(shape.default_ms.has_value());
        EXPECT_LT(5 * shape.best.front().median_ms, *shape.default_ms);
    }
}

}  // namespace
}  // namespace kiln::test
