// SPDX-License-Identifier: Apache-2.0
//
// The analytic model compared with measured times.
#include "tune/model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "choice_losses.h"
#include "tune/problem_space.h"

namespace kiln::test {
namespace {

struct Timed {
    Variant variant;
    Problem problem;
    double measured_ms;
    double model_ms;
    double uncalibrated_ms;
};

/// By shape.
std::map<std::string, std::vector<Timed>> measured_products() {
    const Template of = hopper().find("gemm_wgmma");
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    std::ifstream file(std::string(std::getenv("KILN_TEST_SOURCE_DIR")) +
                       "/tests/tune/data/h200_gemm_wgmma.txt");
    std::map<std::string, std::vector<Timed>> products;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with('#')) continue;
        std::istringstream words(line);
        std::int64_t m = 0, n = 0, k = 0, bm = 0, bn = 0, stages = 0, down = 0, right = 0, blocks = 0,
                     group = 0;
        double ms = 0;
        bool alternates = false;
        words >> m >> n >> k >> ms >> bm >> bn >> stages >> down >> right >> alternates >> blocks >> group;
        EXPECT_TRUE(words) << line;
        const Variant variant = of.variant({{"BM", bm},
                                            {"BN", bn},
                                            {"STAGES", stages},
                                            {"CLUSTER_M", down},
                                            {"CLUSTER_N", right},
                                            {"PINGPONG", alternates},
                                            {"BLOCKS_PER_SM", blocks},
                                            {"RASTER_GROUP", group}});
        const Problem problem = variant.problem({{"m", m}, {"n", n}, {"k", k}});
        Model::Features features{};
        const auto alone = model.uncalibrated(variant, problem, features);
        const double uncalibrated = alone ? alone->ms : 1e9;
        products[std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k)].push_back(
            {variant, problem, ms, model.ms(variant, problem).value_or(1e9), uncalibrated});
    }
    return products;
}

double best_ms(const std::vector<Timed>& variants) {
    return std::ranges::min(variants, {}, &Timed::measured_ms).measured_ms;
}

/// Spearman's: 1 where both put all in the same order, about 0 where they have nothing in common.
double rank_correlation(std::vector<Timed> variants) {
    const auto count = static_cast<double>(variants.size());
    std::ranges::sort(variants, {}, &Timed::measured_ms);
    std::vector<std::size_t> order(variants.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return variants[i].model_ms; });
    double squares = 0;
    for (std::size_t i = 0; i < order.size(); ++i)
        squares += std::pow(static_cast<double>(i) - static_cast<double>(order[i]), 2);
    return 1 - 6 * squares / (count * (count * count - 1));
}

TEST(TuneModel, PutsMeasuredProductsInTheirOrder) {
    const auto products = measured_products();
    ASSERT_EQ(products.size(), 9U);
    double slower = 0;
    for (const auto& [shape, variants] : products) {
        const Timed& first = std::ranges::min(variants, {}, &Timed::model_ms);
        const double ratio = first.measured_ms / best_ms(variants);
        EXPECT_LT(ratio, 1.1) << shape << ": " << first.variant.text();
        EXPECT_GT(rank_correlation(variants), 0.7) << shape;
        // The calibration is fitted to times of another day: clocks differ by up to a fifth, and only ratios count.
        EXPECT_NEAR(first.model_ms / first.measured_ms, 1, 0.25) << shape;
        const Timed& alone = std::ranges::min(variants, {}, &Timed::uncalibrated_ms);
        EXPECT_NEAR(alone.uncalibrated_ms / alone.measured_ms, 1, 0.15) << shape;
        slower += std::log(ratio);
    }
    EXPECT_LT(std::exp(slower / static_cast<double>(products.size())), 1.04);
}

TEST(TuneModel, LosesLittleOnProblemsThatItWasNotFittedTo) {
    const std::vector<double> losses = losses_of_choosing("h200_drawn.txt");
    ASSERT_GT(losses.size(), 35U);
    EXPECT_LT(geometric_mean(losses), 1.12);
    EXPECT_LT(losses[losses.size() * 9 / 10], 1.35);
    RecordProperty("geometric_mean", std::to_string(geometric_mean(losses)));
    RecordProperty("percentile_90", std::to_string(losses[losses.size() * 9 / 10]));
}

// Norms, softmax, column sums and transpositions: short rows want several in a block, long ones many threads.
TEST(TuneModel, ChoosesAmongKernelsThatStream) {
    const std::vector<double> losses = losses_of_choosing("h200_streamed.txt");
    ASSERT_GT(losses.size(), 18U);
    EXPECT_LT(geometric_mean(losses), 1.06);
    EXPECT_LT(losses.back(), 1.35);
}

// Vectors of the memory, for rows that would else be read element by element; and where all rows begin at vectors, these.
TEST(TuneModel, CutsTheVectorsOfRowsThatBeginAnywhereOnly) {
    const Chooser chooser(hopper(), Wisdom(), "NVIDIA H100 80GB HBM3");  // whose calibration has such times
    const auto is_cut = [&](const char* name, std::int64_t cols) {
        const Template of = hopper().find(name).for_target(hopper().target());
        return chooser.choose(of, {{"T", "bfloat16"}}, {{"rows", 222}, {"cols", cols}})
            .variant.value("ANY_ROWS")
            .as_bool();
    };
    EXPECT_TRUE(is_cut("softmax", 119145)) << "on an H200 51.6 us, and element by element 62.1";
    for (const char* name : {"softmax", "layer_norm", "rms_norm"})
        for (const std::int64_t cols : {119144, 3008})
            EXPECT_FALSE(is_cut(name, cols)) << name << " " << cols;
}

// With both ends cut a row that is held is up to VEC - 1 elements shorter than what the threads hold.
TEST(TuneModel, KnowsWhereRowsThatBeginAnywhereStopBeingHeld) {
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    const auto ms = [&](bool any, std::int64_t cols) {
        const Variant variant = hopper().find("softmax").variant(
            {{"T", "half"}, {"VEC", 8}, {"THREADS", 128}, {"ITEMS", 4}, {"ANY_ROWS", any}});
        Model::Features features;
        return model.uncalibrated(variant, variant.problem({{"rows", 10000}, {"cols", cols}}), features)
            .value()
            .ms;
    };
    EXPECT_GT(ms(true, 4090), 1.3 * ms(true, 4089));
    EXPECT_GT(ms(true, 4096), 1.3 * ms(false, 4096));
    EXPECT_LT(ms(false, 4096), 1.1 * ms(false, 4088));
}

// A block's short rows as one piece of memory, and long ones, of which wide accesses leave nothing unused, as they are.
TEST(TuneModel, StagesShortRowsOnly) {
    const Chooser chooser(hopper(), Wisdom(), "NVIDIA H100 80GB HBM3");  // whose calibration has such times
    for (const char* name : {"softmax", "layer_norm", "rms_norm"}) {
        const Template of = hopper().find(name).for_target(hopper().target());
        for (const auto& [cols, staged] : {std::pair{54, true}, {65536, false}}) {
            const Variant chosen =
                chooser.choose(of, {{"T", "half"}}, {{"rows", (1 << 28) / cols}, {"cols", cols}}).variant;
            EXPECT_EQ(chosen.value("STAGED").as_bool(), staged) << chosen.text() << " cols=" << cols;
        }
    }
}

// Rows of 64 16-bit elements begin in the same bank, those of 72 four banks further each.
TEST(TuneModel, KnowsTheBankConflictsOfStagedRows) {
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    const auto us = [&](int threads, int items, std::int64_t cols) {
        const Variant variant = hopper().find("softmax").variant({{"T", "half"},
                                                                  {"STAGED", true},
                                                                  {"VEC", 2},
                                                                  {"THREADS", threads},
                                                                  {"ROWS", 128 / threads},
                                                                  {"ITEMS", items}});
        const Problem problem = variant.problem({{"rows", 1000000}, {"cols", cols}});
        Model::Features features;
        return model.uncalibrated(variant, problem, features).value().traffic_ms * 1000;
    };
    EXPECT_GT(us(4, 16, 64), 1.2 * us(4, 16, 72));
    EXPECT_LT(us(32, 2, 64), 1.1 * us(32, 2, 72));
}

// Attention: wgmma or mma.sync, one wave or two, and whether blocks share the keys.
TEST(TuneModel, ChoosesAmongKernelsOfAttention) {
    const std::vector<double> losses = losses_of_choosing("h100_attention.txt", "NVIDIA H100 80GB HBM3");
    ASSERT_EQ(losses.size(), 9U);
    EXPECT_LT(geometric_mean(losses), 1.02);
    EXPECT_LT(losses.back(), 1.1);
}

// Sequences of 6 to 16000 tokens: few queries in each of two blocks of a multiprocessor, or many in one.
TEST(TuneModel, ChoosesAmongKernelsOfPackedAttention) {
    const std::vector<double> losses = losses_of_choosing("h100_packed.txt", "NVIDIA H100 80GB HBM3");
    ASSERT_EQ(losses.size(), 64U);
    EXPECT_LT(geometric_mean(losses), 1.05);
    EXPECT_LT(losses[losses.size() * 9 / 10], 1.15);
}

// Few queries of many keys: their blocks don't fill the device unless they share the keys. Of many queries, or few keys, the
// parts' results are more than they gain.
TEST(TuneModel, SharesTheKeysOfFewQueriesOnly) {
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    const auto us = [&](const char* name, Values values, std::int64_t queries, std::int64_t keys) {
        const Variant variant = hopper().find(name).variant(std::move(values));
        const Sizes sizes = {
            {"batch", 8}, {"kv_heads", 2}, {"group", 4}, {"queries", queries}, {"keys", keys}};
        return model.ms(variant, variant.problem(sizes)).value_or(0) * 1000;
    };
    EXPECT_LT(us("attention_mma", {{"SPLIT_KEYS", 32}}, 32, 29296),
              us("attention_wgmma", {{"HEAD_DIM", 64}}, 32, 29296));
    EXPECT_GT(us("attention_mma", {{"SPLIT_KEYS", 8}}, 32, 64), us("attention_mma", {}, 32, 64));
    EXPECT_GT(us("attention_mma", {{"SPLIT_KEYS", 8}}, 4096, 4096),
              us("attention_wgmma", {{"HEAD_DIM", 64}}, 4096, 4096));
    EXPECT_GT(us("attention_wgmma", {{"BN", 176}}, 256, 32), us("attention_wgmma", {{"BN", 64}}, 256, 32))
        << "keys that are not there";
}

TEST(TuneModel, CountsCopiesInFlightInThePipeline) {
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    const Template of = hopper().find("decode_mma");
    const auto ms = [&](int head, int warps, int stages, int blocks) {
        const Variant variant =
            of.variant({{"HEAD_DIM", head}, {"WARPS", warps}, {"STAGES", stages}, {"BLOCKS_PER_SM", blocks}});
        Model::Features features;
        return model.uncalibrated(variant, variant.problem({}), features).value().ms;
    };
    EXPECT_LT(ms(64, 8, 3, 1), ms(64, 8, 2, 1)) << "another stage under way";
    EXPECT_LT(ms(128, 8, 2, 1), ms(128, 4, 4, 1)) << "more warps, with as much shared memory";
    EXPECT_LT(ms(128, 8, 2, 1), ms(128, 4, 2, 2)) << "as many warps in one block";
    EXPECT_LT(ms(128, 4, 4, 1), ms(128, 4, 4, 2)) << "the second block has to wait for its place";
}

/// gemm_tiled under other names, of its parameters and of its sizes.
std::string renamed_product() {
    const std::filesystem::path source = std::getenv("KILN_TEST_SOURCE_DIR");
    std::ostringstream read;
    read << std::ifstream(source / "kernels_src/gemm_tiled.cu").rdbuf();
    std::string text = read.str();
    const std::pair<const char*, const char*> names[] = {{"gemm_tiled", "mine"},
                                                         {"BM", "TALL"},
                                                         {"BN", "BROAD"},
                                                         {"BK", "DEEP"},
                                                         {"TM", "MY_ROWS"},
                                                         {"TN", "MY_COLUMNS"},
                                                         {"VEC", "AT_ONCE"},
                                                         {"PAD", "SPARE"},
                                                         {"m", "p"},
                                                         {"n", "q"},
                                                         {"k", "r"}};
    for (const auto& [from, to] : names)
        text = std::regex_replace(text, std::regex("\\b" + std::string(from) + "\\b"), to);
    return text;
}

std::string without_model_lines(std::string text) {
    return std::regex_replace(text, std::regex("//@ model[^\n]*\n"), "");
}

TEST(TuneModel, KnowsATemplateByItsModelLinesAlone) {
    const Template known = hopper().find("gemm_tiled").for_target(hopper().target());
    const Template mine = hopper().parse(renamed_product(), "mine.cu").for_target(hopper().target());
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    const auto ms = [&](const Template& of, const Values& values, const Sizes& sizes) {
        const Variant variant = of.variant(values);
        return model.ms(variant, variant.problem(sizes)).value();
    };
    for (const int rows : {16, 64, 128})
        for (const int width : {1, 4})
            EXPECT_EQ(
                ms(known, {{"BM", rows}, {"VEC", width}, {"PAD", 4}}, {{"m", 999}, {"n", 2000}, {"k", 333}}),
                ms(mine, {{"TALL", rows}, {"AT_ONCE", width}, {"SPARE", 4}},
                   {{"p", 999}, {"q", 2000}, {"r", 333}}));

    const Chooser chooser(hopper(), Wisdom{});
    const Choice of_known = chooser.choose(known, {}, {{"m", 4096}, {"n", 4096}, {"k", 4096}});
    const Choice of_mine = chooser.choose(mine, {}, {{"p", 4096}, {"q", 4096}, {"r", 4096}});
    EXPECT_EQ(of_mine.variant.value("TALL"), of_known.variant.value("BM"));
    EXPECT_EQ(of_mine.variant.value("BROAD"), of_known.variant.value("BN"));
    EXPECT_EQ(of_mine.variant.value("MY_ROWS"), of_known.variant.value("TM"));
    EXPECT_EQ(of_mine.variant.value("AT_ONCE"), of_known.variant.value("VEC"));
    EXPECT_NE(of_mine.variant, mine.variant()) << "something better than the defaults is found";

    const Template silent =
        hopper().parse(without_model_lines(renamed_product()), "mine.cu").for_target(hopper().target());
    EXPECT_EQ(chooser.choose(silent, {}, {{"p", 4096}, {"q", 4096}, {"r", 4096}}).variant, silent.variant());
}

TEST(TuneModel, FillsTheDeviceWithATallNarrowReduction) {
    const Template of = hopper().find("column_sum");
    const Chooser chooser(hopper(), Wisdom{});
    const Sizes tall = {{"rows", 1000000}, {"cols", 64}};
    EXPECT_GE(grid_of(chooser.choose(of, {}, tall).variant, tall).count(), 128U);
}

// Of 32 threads across 16 columns all but a few have nothing to do; across 1024 none.
TEST(TuneModel, CountsTheThreadsBeyondTheLastColumnAsIdle) {
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    const auto us = [&](int across, int down, std::int64_t cols) {
        const Variant variant = hopper()
                                    .find("column_sum")
                                    .variant({{"T", "half"},
                                              {"VEC", 4},
                                              {"THREADS_X", across},
                                              {"THREADS_Y", down},
                                              {"SPLIT_ROWS", 64}});
        const Problem problem = variant.problem({{"rows", (1 << 24) / cols}, {"cols", cols}});
        Model::Features features;
        const Estimate estimate = model.uncalibrated(variant, problem, features).value();
        return 1000 * (estimate.traffic_ms + estimate.latency_ms);
    };
    EXPECT_GT(us(32, 8, 16), 2 * us(4, 64, 16));
    EXPECT_LT(us(32, 8, 1024), 1.5 * us(4, 64, 1024));
}

// Parts and waves are those of a GPU.
TEST(TuneModel, EstimatesForTheHostHaveNoParts) {
    ServiceOptions options;
    options.backend = Backend::host;
    options.compile_only = true;
    const Service host(options);
    const Variant variant = host.find("gemm_tiled").for_target(host.target()).variant({});
    const auto estimate = Model(Machine(host.target(), "host")).estimate(variant, variant.problem({}));
    ASSERT_TRUE(estimate.has_value());
    EXPECT_GT(estimate->ms, 0);
    EXPECT_EQ(estimate->text(), "estimated for the host");
}

// The last four features: whether vectors are cut at a row's ends, and the logarithms of how much of its room a row takes, of a
// block's columns, and of how many more are computed than there are.
TEST(TuneModel, FeaturesTellCutVectorsAndTheRoomThatARowTakes) {
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Model model(machine);
    struct Case {
        const char* name;
        Values values;
        Sizes sizes;
        float any_rows, share_of_row, edge_tile, whole_tiles;
    };
    const float none = std::log2(1e-9f);
    for (const Case& c :
         {Case{"transpose_tiled", {{"ANY_ROWS", false}}, {{"rows", 4096}, {"cols", 640}}, 0, 0, none, 0},
          Case{"transpose_tiled", {{"ANY_ROWS", true}}, {{"rows", 4099}, {"cols", 641}}, 1, 0, none, 0},
          Case{"column_sum", {}, {{"rows", 67}, {"cols", 512}}, 0, 0, 7, 0},
          Case{"column_sum", {}, {{"rows", 67}, {"cols", 16}}, 0, 0, 7, 3},
          Case{"softmax", {}, {{"rows", 64}, {"cols", 1024}}, 0, -2, none, 0},
          Case{"softmax", {}, {{"rows", 64}, {"cols", 16384}}, 0, 0, none, 0},
          Case{"softmax", {{"ANY_ROWS", true}}, {{"rows", 64}, {"cols", 4089}}, 1, 0, none, 0}}) {
        const Variant variant = hopper().find(c.name).for_target(hopper().target()).variant(c.values);
        SCOPED_TRACE(variant.text());
        Model::Features features{};
        ASSERT_TRUE(model.uncalibrated(variant, variant.problem(c.sizes), features).has_value());
        EXPECT_EQ(features[Model::kFeatures - 4], c.any_rows);
        EXPECT_EQ(features[Model::kFeatures - 3], c.share_of_row);
        EXPECT_FLOAT_EQ(features[Model::kFeatures - 2], c.edge_tile);
        EXPECT_EQ(features[Model::kFeatures - 1], c.whole_tiles);
    }
}

/// Before it is calibrated.
Estimate estimated(const std::string& name, const Values& values, const Sizes& sizes) {
    const Machine machine(hopper().target(), "NVIDIA H200");
    const Variant variant = hopper().find(name).for_target(hopper().target()).variant(values);
    Model::Features features{};
    return Model(machine).uncalibrated(variant, variant.problem(sizes), features).value();
}

// 3 x 34 tiles take a wave of 132 multiprocessors; clusters of two rows of tiles cover 4 x 34, and take two. On an H200:
// 27.8 and 52.8 us.
TEST(TuneModel, CountsTheTilesThatFillUpClusters) {
    const Values alone = {{"BM", 128}, {"BN", 192}, {"STAGES", 4}, {"CLUSTER_M", 1}};
    const Values pairs = {{"BM", 128}, {"BN", 192}, {"STAGES", 4}, {"CLUSTER_M", 2}};
    const Sizes sizes = {{"m", 336}, {"n", 6464}, {"k", 2864}};
    EXPECT_GT(estimated("gemm_wgmma", pairs, sizes).ms, 1.5 * estimated("gemm_wgmma", alone, sizes).ms);
    // They are no parts of k either.
    const Sizes one_row = {{"m", 10}, {"n", 7240}, {"k", 13208}};
    EXPECT_GE(estimated("gemm_wgmma", pairs, one_row).compute_ms,
              estimated("gemm_wgmma", alone, one_row).compute_ms);
}

// With a short k, storing is what takes time. On an H200 28.5 and 15.9 us.
TEST(TuneModel, KnowsWhatStoresFromRegistersTake) {
    Values values = {{"BM", 128}, {"BN", 64}, {"STAGES", 3}, {"PINGPONG", true}};
    const Sizes sizes = {{"m", 12904}, {"n", 424}, {"k", 8}};
    const double by_tma = estimated("gemm_wgmma", values, sizes).ms;
    values.emplace("TMA_STORE", false);
    EXPECT_GT(estimated("gemm_wgmma", values, sizes).ms, 1.1 * by_tma);
    // Where B is n x k, C then leaves row by row, through shared memory.
    values.emplace("TRANS_B", true);
    EXPECT_LT(estimated("gemm_wgmma", values, sizes).ms, 1.1 * by_tma);
}

// Persistent blocks are as many as the device has places for, also where a chooser has only its name.
TEST(TuneModel, GivesADeviceThatIsElsewhereItsMultiprocessors) {
    const Chooser chooser(hopper(), Wisdom{}, "NVIDIA H200");
    const Sizes sizes = {{"m", 8192}, {"n", 8192}, {"k", 4096}};
    const Variant chosen = chooser.choose(hopper().find("gemm_wgmma"), {}, sizes).variant;
    EXPECT_GE(grid_of(chosen, sizes).count(), 120U) << chosen.text();
    const auto multiprocessors_of = [](const std::string& device) {
        return Machine(hopper().target(), device).target.limits.multiprocessors;
    };
    EXPECT_EQ(multiprocessors_of("NVIDIA H100 PCIe"), 114);
    EXPECT_EQ(multiprocessors_of("a device of tomorrow"), multiprocessors_of("NVIDIA H200"));
}

std::string with_any_raster(const Variant& variant) {
    return std::regex_replace(variant.text(), std::regex(" RASTER_GROUP=\\d+"), "");
}

TEST(TuneModel, WhatIsChosenWithoutWisdomIsAmongTheFastest) {
    const Template of = hopper().find("gemm_wgmma");
    const Chooser chooser(hopper(), Wisdom{});
    const std::vector<Template> all = chooser.alternatives(of, {});
    ASSERT_GT(all.size(), 3U);
    int known = 0;
    for (const auto& [shape, variants] : measured_products()) {
        const Choice choice = chooser.choose(all, {}, variants.front().problem.sizes);
        EXPECT_EQ(choice.variant.template_name(), "gemm_wgmma") << shape << ": the sizes are multiples of 8";
        ASSERT_EQ(choice.origin, ChoiceOrigin::model);
        // The model doesn't know the rasterisation: of all that were timed, it may be the slowest.
        double slowest = 0;
        for (const Timed& timed : variants)
            if (with_any_raster(timed.variant) == with_any_raster(choice.variant))
                slowest = std::max(slowest, timed.measured_ms);
        if (slowest == 0) continue;  // nobody timed it
        ++known;
        EXPECT_LT(slowest / best_ms(variants), 1.1) << shape << ": " << choice.variant.text();
    }
    EXPECT_GE(known, 4);
}

}  // namespace
}  // namespace kiln::test
