// SPDX-License-Identifier: Apache-2.0
//
// Pipelines of loads by TMA with a mistake each: races of a load with what reads its target are found by a check, and what
// reads too late, or too early, computes wrong results on the host.
#include <kiln/run.h>

#include <algorithm>

#include "analyzer_support.h"

namespace kiln::test {
namespace {

constexpr const char* kSumReference = R"(//@ kernel bulk_sum_reference
//@ backend host
//@ block 1
//@ grid count
#include "kiln/reference.h"
extern "C" __global__ void bulk_sum_reference(long long count, const long long* which, double* expected, double* bound,
                                              const float* a, const float* b) {
    const long long at = blockIdx.x, i = which ? which[at] : at;
    expected[at] = double(a[i]) + double(b[i]);
    bound[at] = kiln::unit_roundoff<float> * fabs(expected[at]);
}
)";

// Warp 4 loads tiles of a and b, and the others add them up.
constexpr const char* kPipeline = R"(//@ kernel bulk_sum
//@ param BYTES int in 1024, 2048 = 2048
//@ param RELEASED int in 0..3 = 0  "behind the reads; 1: before them, 2: amid them, 3: behind, by a lane that waits for no other"
//@ param ROUNDS int in 1, 8 = 8
//@ param STAGES int in 1, 2 = 2
//@ size rows = 64 multiple 8
//@ input a [rows, 32]
//@ input b [rows, 32]
//@ output y [rows, 32] by bulk_sum_reference
//@ tensormap am = a [rows, 32] box [8, 32]
//@ tensormap bm = b [rows, 32] box [8, 32]
//@ arch sm_90a
//@ block 160
//@ grid ceil_div(rows, 8 * ROUNDS)
#include "kiln/tma.h"
extern "C" __global__ void bulk_sum(int rows, const float* a, const float* b, float* y,
                                    const __grid_constant__ kiln::TensorMap am, const __grid_constant__ kiln::TensorMap bm) {
    __shared__ alignas(128) float first[STAGES][256];
    __shared__ alignas(128) float second[STAGES][256];
    __shared__ kiln::Barrier full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            kiln::barrier_init(&full[i], 1);
            kiln::barrier_init(&empty[i], 4);
        }
        kiln::barrier_init_fence();
    }
    __syncthreads();
    const kiln::MbarrierPipeline<STAGES> pipe{full, empty};
    kiln::PipelineState<STAGES> state;
    const unsigned lane = threadIdx.x % 32;
    const int begin = blockIdx.x * 8 * ROUNDS, end = min(rows, begin + 8 * ROUNDS);
    if (threadIdx.x >= 128) {
        for (int row = begin; row < end && lane == 0; row += 8) {
            pipe.producer_acquire(state);
            kiln::barrier_arrive_and_expect_tx(&full[state.index], BYTES);
            kiln::tma_load(first[state.index], am, &full[state.index], row, 0);
            kiln::tma_load(second[state.index], bm, &full[state.index], row, 0);
            state.advance();
        }
        return;
    }
    for (int row = begin; row < end; row += 8) {
        pipe.consumer_wait(state);
        if (RELEASED == 1) pipe.consumer_release(state.index, lane);
        for (int i = threadIdx.x; i < 256; i += 128) {
            const float sum = first[state.index][i] + second[state.index][i];
            if (RELEASED == 2 && i < 128) pipe.consumer_release(state.index, lane);
            y[row * 32 + i] = sum;
        }
        if (RELEASED == 0) __syncwarp();
        if (RELEASED == 0 || RELEASED == 3) pipe.consumer_release(state.index, lane);
        state.advance();
    }
}
)";

class CheckBulk : public Analyzing {
  protected:
    void SetUp() override {
        add_template("bulk_sum", kPipeline);
        add_template("bulk_sum_reference", kSumReference);
        try {
            (void)Analyzer(target("host")).check(variant("copy"));
        } catch (const BuildError& error) {
            KILN_REQUIRE_OR_SKIP("host", false, error.what());
        }
    }
    std::vector<AccessProblem> check(const Values& values) {
        AnalyzeOptions options;
        options.most_ms = 20'000;
        return Analyzer(target()).check(variant("bulk_sum", values), options).problems;
    }
    bool passes(const Values& values) {
        ServiceOptions options = target_options("host", target().options().cache.directory.value());
        options.compile_only = false;
        Service service(std::move(options));
        RunOptions run;
        run.time = false;
        return Runner(service).run(service.find("bulk_sum").variant(values), run).pass();
    }
    static std::string texts(const std::vector<AccessProblem>& problems) {
        std::string all;
        for (const AccessProblem& problem : problems) all += problem.text() + "\n";
        return all;
    }
};

TEST_F(CheckBulk, AStageThatIsGivenBackBehindItsReadsIsSound) {
    EXPECT_EQ(texts(check({})), "");
    EXPECT_TRUE(passes({}));
    EXPECT_EQ(texts(check({{"ROUNDS", 1}})), "");
    EXPECT_TRUE(passes({{"ROUNDS", 1}}));
    EXPECT_EQ(texts(check({{"STAGES", 1}})), "");
    EXPECT_TRUE(passes({{"STAGES", 1}}));
}

TEST_F(CheckBulk, AStageThatIsGivenBackBeforeItIsReadIsARace) {
    for (const int released : {1, 2, 3}) {
        const std::vector<AccessProblem> problems = check({{"RELEASED", released}});
        ASSERT_FALSE(problems.empty()) << released;
        for (const AccessProblem& problem : problems) {
            EXPECT_EQ(problem.kind, ProblemKind::race) << texts(problems);
            EXPECT_TRUE(problem.variable == "first" || problem.variable == "second") << texts(problems);
            EXPECT_TRUE(problem.access == AccessKind::bulk_begin ||
                        problem.other_access == AccessKind::bulk_begin)
                << texts(problems);
        }
    }
    // That lanes do not wait for each other shows in the check only.
    for (const int stages : {1, 2})
        for (const int released : {1, 2}) EXPECT_FALSE(passes({{"RELEASED", released}, {"STAGES", stages}}));
}

// The phase ends with the first box, and the second may arrive later.
TEST_F(CheckBulk, ABoxThatIsNotAnnouncedIsNotThere) {
    const Values values = {{"BYTES", 1024}, {"ROUNDS", 1}};
    const std::vector<AccessProblem> problems = check(values);
    ASSERT_FALSE(problems.empty());
    for (const AccessProblem& problem : problems) {
        EXPECT_EQ(problem.kind, ProblemKind::race) << texts(problems);
        EXPECT_EQ(problem.variable, "second");
    }
    EXPECT_THAT(problems.front().text(), testing::HasSubstr("with no wait for the copy"));
    EXPECT_FALSE(passes(values));
}

// Whatever barriers there are: the box may be written at any time until it has arrived.
TEST_F(CheckBulk, WhatIsAccessedWhileABoxIsUnderWayIsARace) {
    const auto told = [&](const std::string& before, const std::string& behind, int second = 0) {
        const std::string text = std::string(R"(//@ kernel bulk_once
//@ input a [8, 32]
//@ output y [8, 32]
//@ tensormap am = a [8, 32] box [8, 32]
//@ arch sm_90a
//@ block 64
//@ grid 1
#include "kiln/tma.h"
extern "C" __global__ void bulk_once(const float* a, float* y, const __grid_constant__ kiln::TensorMap am) {
    __shared__ alignas(128) float tile[768];
    __shared__ kiln::Barrier full[2];
    if (threadIdx.x == 0) {
        kiln::barrier_init(&full[0], 1);
        kiln::barrier_init(&full[1], 1);
        kiln::barrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        kiln::barrier_arrive_and_expect_tx(&full[0], 1024);
        kiln::tma_load(tile, am, &full[0], 0, 0);
        kiln::barrier_arrive_and_expect_tx(&full[1], 1024);
        kiln::tma_load(tile + SECOND, am, &full[1], 0, 0);
    }
    __syncthreads();
    BEFORE
    kiln::barrier_wait(&full[0], 0);
    for (int i = threadIdx.x; i < 256; i += 64) y[i] = tile[i];
    __syncthreads();
    BEHIND
}
)");
        std::string changed = text;
        changed.replace(changed.find("SECOND"), 6, second == 0 ? "512" : std::to_string(second));
        changed.replace(changed.find("BEFORE"), 6, before);
        changed.replace(changed.find("BEHIND"), 6, behind);
        AnalyzeOptions options;
        options.most_ms = 20'000;
        return texts(
            Analyzer(target()).check(target().parse(changed, "bulk_once.cu").variant(), options).problems);
    };
    const std::string wait = "kiln::barrier_wait(&full[1], 0);",
                      read = "y[threadIdx.x] = tile[512 + threadIdx.x];";
    EXPECT_EQ(told("", wait + read), "");
    EXPECT_THAT(told("", read + wait), testing::HasSubstr("with no wait for the copy"));
    EXPECT_THAT(told("", read), testing::HasSubstr("with no wait for the copy"));
    EXPECT_THAT(told("if (threadIdx.x == 0) tile[512] = 1;", wait),
                testing::HasSubstr("with no wait for the copy between"));
    EXPECT_THAT(told("if (threadIdx.x == 1) tile[513] = 1;", wait),
                testing::HasSubstr("with no wait for the copy"));
    EXPECT_THAT(told("", wait, 128), testing::HasSubstr("with no wait for the copy between"))
        << "boxes that overlap";
}

}  // namespace
}  // namespace kiln::test
