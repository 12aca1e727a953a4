// SPDX-License-Identifier: Apache-2.0
//
// Attention and decode on a GPU, against their references: every type and head size, causal and full, tiles
// that fit and tiles that do not, lengths from one token on; equal bits at every run.
#include <gmock/gmock.h>
#include <kiln/run.h>

#include <random>
#include <tuple>

#include "apart_sequences.h"
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

    /// sample_elements: of an output, where checking all would take seconds; 0: as the runner likes.
    void expect_right(const Variant& variant, const Sizes& sizes, std::uint64_t sample_elements = 0) {
        std::string trace = variant.text();
        for (const auto& [name, value] : sizes) trace += " " + name + "=" + std::to_string(value);
        SCOPED_TRACE(trace);
        RunOptions options;
        options.sizes = sizes;
        options.test_sizes = true;
        options.time = false;
        options.keep_results = true;
        if (sample_elements > 0) {
            options.check = Check::sample;
            options.sample_elements = sample_elements;
        }
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
                const Variant variant = item.variant({{"HEAD_DIM", head}, {"CAUSAL", causal}});
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

TEST_F(AttentionOnGpu, OtherHeadsAreRight) {
    const std::pair<const char*, Values> others[] = {
        {"attention_mma", {{"HEAD_DIM", 96}}},
        {"attention_mma", {{"HEAD_DIM", 192}}},
        {"attention_mma", {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}, {"BM", 128}}},
        {"attention_mma", {{"HEAD_DIM", 256}, {"BN", 32}}},
        {"attention_mma", {{"SPLIT_KEYS", 8}}},
        {"attention_mma", {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}, {"SPLIT_KEYS", 32}}},
        {"attention_naive", {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}}},
        {"attention_wgmma", {{"HEAD_DIM", 96}}},
        {"attention_wgmma", {{"HEAD_DIM", 192}}},
        {"attention_wgmma", {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}}},
        {"attention_wgmma", {{"HEAD_DIM", 256}}}};
    std::vector<Variant> variants;
    for (const auto& [name, head] : others) {
        const Template item = service->find(name);
        if (!item.runs_on(service->backend(), service->target().arch)) continue;
        for (const bool causal : {false, true}) {
            Values values = head;
            values.emplace("CAUSAL", causal);
            variants.push_back(item.variant(values));
        }
    }
    compile_together(*service, variants);
    for (const Variant& variant : variants) {
        for (const auto& [queries, keys] : {std::pair{1, 129}, {65, 63}, {129, 127}, {257, 1031}})
            expect_right(variant, {{"queries", queries}, {"keys", keys}}, 2048);
    }
}

TEST_F(AttentionOnGpu, AnyForwardVariantIsRight) {
    for (const char* name : {"attention", "attention_mma", "attention_wgmma"}) {
        const Template item = service->find(name);
        if (!item.runs_on(service->backend(), service->target().arch)) continue;
        const std::vector<Variant> variants = some(item, 12);
        compile_together(*service, variants);
        for (const Variant& variant : variants) expect_right(variant, {{"queries", 150}, {"keys", 333}});
    }
}

// What the matrix instructions are given differs with each of these.
TEST_F(AttentionOnGpu, WgmmaIsRightWithEveryTile) {
    const Template item = service->find("attention_wgmma");
    if (!item.runs_on(service->backend(), service->target().arch)) GTEST_SKIP() << "not on this device";
    std::vector<Variant> variants;
    for (const int head : {64, 96, 128}) {
        for (const int bm : {128, 192}) {
            for (const int bn : {64, 96, 128, 144, 160, 176, 192}) {
                const auto legal = item.variants({{"T", "half"},
                                                  {"HEAD_DIM", head},
                                                  {"BM", bm},
                                                  {"BN", bn},
                                                  {"CAUSAL", true},
                                                  {"PERSISTENT", false}});
                if (legal.empty()) continue;
                // Variants with the fewest and the most stages, with and without ping-pong.
                variants.push_back(legal.front());
                variants.push_back(legal.back());
            }
        }
    }
    compile_together(*service, variants);
    for (const Variant& variant : variants) expect_right(variant, {{"queries", 150}, {"keys", 333}});
}

// More tiles of queries than multiprocessors, of which with CAUSAL some see no keys.
TEST_F(AttentionOnGpu, PersistentBlocksTakeManyTiles) {
    const Template item = service->find("attention_wgmma");
    if (!item.runs_on(service->backend(), service->target().arch)) GTEST_SKIP() << "not on this device";
    for (const Values& values : {Values{}, Values{{"HEAD_DIM", 64}, {"BM", 192}, {"STAGES", 4}},
                                 Values{{"BN", 176}, {"PINGPONG", false}, {"T", "bfloat16"}}}) {
        for (const bool causal : {false, true}) {
            Values chosen = values;
            chosen.insert({{"PERSISTENT", true}, {"CAUSAL", causal}});
            for (const auto& [queries, keys] : {std::pair{500, 200}, {257, 1031}})
                expect_right(item.variant(chosen),
                             {{"batch", 40}, {"kv_heads", 4}, {"queries", queries}, {"keys", keys}});
        }
    }
}

// One sequence, many of which most are empty, and lengths around those of tiles.
TEST_F(AttentionOnGpu, PackedSequencesAreRight) {
    std::vector<Variant> variants;
    const std::pair<const char*, Values> some_values[] = {
        {"attention_packed_naive", {}},
        {"attention_packed_wgmma", {}},
        {"attention_packed_wgmma", {{"HEAD_DIM", 64}, {"BM", 192}, {"T", "bfloat16"}}},
        {"attention_packed_wgmma", {{"HEAD_DIM", 64}, {"BM", 64}}},
        {"attention_packed_wgmma", {{"BM", 64}, {"BN", 64}, {"T", "bfloat16"}}},
        {"attention_packed_wgmma", {{"HEAD_DIM", 96}, {"STAGES", 3}}},
        {"attention_packed_wgmma", {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}, {"PINGPONG", false}}},
        {"attention_packed_wgmma", {{"BN", 176}, {"PINGPONG", false}}},
        {"attention_packed_wgmma", {{"HEAD_DIM", 256}}}};
    for (const auto& [name, chosen] : some_values) {
        const Template item = service->find(name);
        if (!item.runs_on(service->backend(), service->target().arch)) continue;
        for (const bool causal : {false, true}) {
            Values values = chosen;
            values.emplace("CAUSAL", causal);
            variants.push_back(item.variant(values));
        }
    }
    compile_together(*service, variants);
    for (const Variant& variant : variants)
        for (const auto& [batch, queries, keys] :
             {std::tuple{1, 1, 1}, {1, 129, 700}, {3, 1000, 1000}, {40, 3000, 2500}, {2000, 900, 1100}})
            expect_right(variant, {{"batch", batch}, {"total_queries", queries}, {"total_keys", keys}}, 2048);
}

TEST_F(AttentionOnGpu, ASequenceKnowsNothingOfTheOthers) {
    const Template item = service->find("attention_packed_wgmma");
    if (!item.runs_on(service->backend(), service->target().arch)) GTEST_SKIP() << "not on this device";
    // A sequence that ends just where a tile of keys does, before it and behind it; empty ones.
    for (const bool causal : {false, true})
        for (const auto& [head, values] : {std::pair<int, Values>{64, {{"BM", 192}}},
                                           {64, {{"BM", 64}, {"BN", 64}}},
                                           {96, {{"STAGES", 3}}},
                                           {128, {}},
                                           {128, {{"BN", 176}, {"PINGPONG", false}}},
                                           {256, {}}}) {
            Values all = values;
            all.insert({{"HEAD_DIM", head}, {"CAUSAL", causal}});
            expect_sequences_apart(*service, item.variant(all), static_cast<std::size_t>(head),
                                   {0, 5, 133, 133, 310, 437, 1000, 1001, 1193, 1193});
        }
}

TEST_F(AttentionOnGpu, DecodeIsRightAtEveryLength) {
    for (const int head : {64, 128}) {
        const Values values = {{"HEAD_DIM", head}};
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

// The counters from which blocks take their tiles must be zero again after each launch.
TEST_F(AttentionOnGpu, PersistentBlocksCanBeReplayed) {
    const Template item = service->find("attention_wgmma");
    if (!item.runs_on(service->backend(), service->target().arch)) GTEST_SKIP() << "not on this device";
    RunOptions options;
    options.sizes = {{"batch", 8}, {"kv_heads", 8}, {"queries", 700}, {"keys", 700}};
    options.graph = true;
    options.iterations = 40;
    const RunResult result = runner->run(item.variant({{"PERSISTENT", true}, {"CAUSAL", true}}), options);
    EXPECT_THAT(result.failures(), IsEmpty());
    EXPECT_TRUE(result.graph_time.has_value());
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
