// SPDX-License-Identifier: Apache-2.0
//
// Attention and decode on a GPU, against their references: every type and head size, causal and full, tiles
// that fit and tiles that do not, lengths from one token on; equal bits at every run.
#include <gmock/gmock.h>
#include <kiln/run.h>

#include <random>

#include "base/file.h"
#include "gemm_fixture.h"
#include "variants.h"

namespace kiln::test {
namespace {

using testing::IsEmpty;

struct AttentionOnGpu : testing::Test {
    void SetUp() override {
        KILN_NEEDS_GPU();
        service = gpu_service(directory.path() / "cache");
        runner = std::make_unique<Runner>(*service);
    }

    void expect_right(const Variant& variant, const Sizes& sizes) {
        std::string trace = variant.text();
        for (const auto& [name, value] : sizes) trace += " " + name + "=" + std::to_string(value);
        SCOPED_TRACE(trace);
        RunOptions options;
        options.sizes = sizes;
        options.test_sizes = true;
        options.time = false;
        options.keep_results = true;
        const RunResult first = runner->run(variant, options);
        EXPECT_THAT(first.failures(), IsEmpty());
        options.check = Check::none;
        const RunResult second = runner->run(variant, options);
        EXPECT_TRUE(first.outputs == second.outputs) << "two runs differ";
    }

    static std::vector<Variant> some(const Template& item, std::size_t count) {
        std::mt19937 random(20261121);
        return random_variants(item, random, count);
    }

    TemporaryDirectory directory;
    std::unique_ptr<Service> service;
    std::unique_ptr<Runner> runner;
};

TEST_F(AttentionOnGpu, ForwardIsRightAtEverySize) {
    for (const char* name : {"attention", "attention_mma", "attention_wgmma"}) {
        const Template item = service->find(name);
        if (!item.runs_on(service->backend(), service->target().arch)) continue;
        for (const int head : {64, 128}) {
            for (const bool causal : {false, true}) {
                const Variant variant = item.variant({{"HEAD", head}, {"CAUSAL", causal}});
                for (const auto& [queries, keys] : {std::pair{1, 1},
                                                    {1, 129},
                                                    {63, 65},
                                                    {64, 64},
                                                    {65, 63},
                                                    {129, 127},
                                                    {257, 1031},
                                                    {500, 200}})
                    expect_right(variant, {{"queries", queries}, {"keys", keys}});
            }
        }
    }
}

TEST_F(AttentionOnGpu, AnyForwardVariantIsRight) {
    for (const char* name : {"attention", "attention_mma", "attention_wgmma"}) {
        const Template item = service->find(name);
        if (!item.runs_on(service->backend(), service->target().arch)) continue;
        for (const Variant& variant : some(item, 12))
            expect_right(variant, {{"queries", 150}, {"keys", 333}});
    }
}

TEST_F(AttentionOnGpu, DecodeIsRightAtEveryLength) {
    for (const int head : {64, 128}) {
        const Values values = {{"HEAD", head}};
        for (const int length : {1, 2, 15, 16, 17, 255, 257, 1025, 5000}) {
            for (const int splits : {1, 7, 40})
                expect_right(service->find("decode_paged").variant(values),
                             {{"max_length", length}, {"splits", splits}, {"batch", 5}});
            for (const char* name : {"decode_persistent", "decode_mma"})
                expect_right(service->find(name).variant(values), {{"max_length", length}, {"batch", 5}});
        }
    }
}

TEST_F(AttentionOnGpu, AnyDecodeVariantIsRight) {
    for (const char* name : {"decode_paged", "decode_persistent", "decode_mma"})
        for (const Variant& variant : some(service->find(name), 10))
            expect_right(variant, {{"max_length", 1500}, {"batch", 7}});
}

// Many more work items than blocks; the tickets must be zero again after each launch.
TEST_F(AttentionOnGpu, DecodeCanBeReplayed) {
    for (const char* name : {"decode_paged", "decode_persistent", "decode_mma"}) {
        RunOptions options;
        options.sizes = {{"batch", 64}, {"max_length", 1100}};
        options.graph = true;
        options.iterations = 40;
        const RunResult result = runner->run(service->find(name).variant(), options);
        EXPECT_THAT(result.failures(), IsEmpty()) << name;
        EXPECT_TRUE(result.graph_time.has_value()) << name;
    }
}

}  // namespace
}  // namespace kiln::test
