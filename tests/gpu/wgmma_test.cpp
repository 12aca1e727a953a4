// SPDX-License-Identifier: Apache-2.0
//
// gemm_wgmma on a Hopper GPU: every kind of variant at sizes around its tiles and at large ones, exact for
// small integers and within the reference's bound for random numbers, with equal bits in repeated launches.
#include <kiln/run.h>

#include "base/file.h"
#include "gemm_fixture.h"

namespace kiln::test {
namespace {

struct WgmmaOnGpu : testing::Test {
    void SetUp() override {
        KILN_NEEDS_GPU();
        service = gpu_service(directory.path() / "cache");
        const std::string arch = service->target().arch;
        KILN_REQUIRE_OR_SKIP("hopper", arch == "sm_90a", "the device is " + arch);
    }

    Values values(int bm, int bn, int stages, int cluster, bool tma_store, const char* type = "half",
                  int group = 8) {
        return {{"BM", bm},
                {"BN", bn},
                {"STAGES", stages},
                {"CLUSTER_M", cluster},
                {"T", type},
                {"TMA_STORE", tma_store},
                {"RASTER_GROUP", group}};
    }

    void expect_right(const Values& chosen, const Shape& shape, Data data, const char* name = "gemm_wgmma") {
        const Variant variant = service->find(name).variant(chosen);
        SCOPED_TRACE(variant.text() + " at " + text(shape));
        RunOptions options;
        options.sizes = {{"m", shape.m}, {"n", shape.n}, {"k", shape.k}};
        options.data = data;
        options.warm_up = 0;
        options.iterations = 3;  // the last one's bits are compared with the first one's
        for (const std::string& failure : runner().run(variant, options).failures()) ADD_FAILURE() << failure;
    }

    Runner& runner() {
        if (!runner_) runner_ = std::make_unique<Runner>(*service);
        return *runner_;
    }

    std::vector<Values> variants() {
        return {values(128, 256, 4, 1, true),
                values(128, 256, 4, 2, true),
                values(128, 256, 4, 2, false, "bfloat16"),
                values(128, 192, 4, 2, true, "bfloat16", 1),
                values(128, 128, 6, 1, false),
                values(128, 64, 2, 2, true, "half", 32),
                values(256, 128, 4, 2, true),
                values(256, 64, 3, 1, false, "bfloat16"),
                {{"BN", 128}, {"STAGES", 6}, {"PINGPONG", true}},
                {{"BN", 192}, {"PINGPONG", true}, {"CLUSTER_N", 2}},
                {{"CLUSTER_M", 2}, {"CLUSTER_N", 2}},
                {{"BN", 128}, {"STAGES", 6}, {"CLUSTER_M", 2}, {"CLUSTER_N", 2}},
                {{"BN", 64}, {"STAGES", 8}, {"CLUSTER_N", 4}},
                {{"BM", 64}, {"BN", 128}, {"CLUSTER_M", 4}, {"STAGES", 8}},
                {{"BM", 64}, {"BN", 64}, {"BLOCKS_PER_SM", 2}},
                {{"BM", 192}, {"BN", 192}, {"STAGES", 3}},
                {{"BN", 128}, {"STAGES", 6}, {"SPLIT_K", 2}, {"TMA_STORE", false}},
                {{"SPLIT_K", 4}, {"TMA_STORE", false}},
                {{"BM", 64}, {"BN", 64}, {"SPLIT_K", 8}, {"TMA_STORE", false}},
                {{"BM", 256}, {"BN", 64}, {"SPLIT_K", 2}, {"TMA_STORE", false}},
                {{"BM", 192}, {"BN", 64}, {"SPLIT_K", 4}, {"TMA_STORE", false}},
                {{"BM", 64}, {"BN", 192}, {"SPLIT_K", 8}, {"TMA_STORE", false}, {"T", "bfloat16"}},
                {{"BN", 128}, {"STAGES", 6}, {"PINGPONG", true}, {"CLUSTER_N", 2}, {"T", "bfloat16"}}};
    }

    TemporaryDirectory directory;
    std::unique_ptr<Service> service;
    std::unique_ptr<Runner> runner_;
};

TEST_F(WgmmaOnGpu, IsExactForSmallIntegersAroundItsTiles) {
    const Shape shapes[] = {{1, 8, 8},      {127, 64, 64},   {128, 256, 64},    {129, 264, 72},
                            {255, 136, 56}, {513, 520, 200}, {1000, 1016, 4096}};
    for (const Values& chosen : variants())
        for (const Shape& shape : shapes) expect_right(chosen, shape, Data::integers);
}

TEST_F(WgmmaOnGpu, IsWithinTheBoundForRandomNumbers) {
    for (const Values& chosen : variants()) {
        expect_right(chosen, {1009, 1032, 1016}, Data::random);
        expect_right(chosen, {2048, 1024, 4096}, Data::random);
    }
}

// Many tiles per block, so that the ring goes round and the stores of one tile meet the products of the next.
TEST_F(WgmmaOnGpu, IsRightWhereBlocksComputeManyTiles) {
    for (const Values& chosen : variants()) expect_right(chosen, {8191, 8200, 72}, Data::integers);
    expect_right(values(128, 256, 4, 2, true), {8192, 8192, 8192}, Data::random);
}

// Output types, layouts, operands of the epilogue, activations, and the joins of several clusters.
TEST_F(WgmmaOnGpu, EpiloguesAreRight) {
    const Values split = {{"TMA_STORE", false}, {"BM", 64}, {"BN", 64}, {"STAGES", 3}};
    const auto with = [](Values values, const Values& more) {
        for (const auto& [name, value] : more) values.insert_or_assign(name, value);
        return values;
    };
    const Values both = {{"OUT", "half"}, {"BIAS", 1}, {"RESIDUAL", true}, {"BETA", 0.5f}};
    const Values brain = {{"T", "bfloat16"}, {"OUT", "bfloat16"}};
    const std::vector<Values> epilogues = {
        {{"OUT", "half"}},
        {{"TRANS_A", true}},
        {{"TRANS_B", true}, {"OUT", "half"}, {"BIAS", 1}, {"ACTIVATION", 2}, {"CLUSTER_M", 2}},
        {{"TRANS_A", true}, {"TRANS_B", true}, {"BIAS", 2}, {"ALPHA", 2.0f}, {"ACTIVATION", 1}},
        with(both, {{"ACTIVATION", 3}, {"CLUSTER_N", 2}}),
        with(both, {{"ACTIVATION", 2}, {"PINGPONG", true}, {"STAGES", 6}, {"TRANS_B", true}}),
        with(both, {{"BM", 192}, {"BN", 192}, {"STAGES", 3}, {"ACTIVATION", 3}, {"OUT", "float"}}),
        with(both, {{"BM", 64}, {"BN", 128}, {"BLOCKS_PER_SM", 2}, {"STAGES", 3}}),
        with(both, with(brain, {{"BM", 256}, {"BN", 128}, {"TRANS_B", true}, {"BIAS", 2}})),
        with(both, {{"TMA_STORE", false}, {"TRANS_B", true}}),
        with(split, {{"SPLIT_K", 2}, {"SPLIT_CLUSTERS", 2}}),
        with(split, with(both, {{"SPLIT_CLUSTERS", 4}, {"ACTIVATION", 2}})),
        with(split, with(brain, {{"SPLIT_K", 4}, {"SPLIT_CLUSTERS", 4}, {"TRANS_A", true}})),
        with(split, with(both, {{"SPLIT_K", 8}, {"TRANS_B", true}, {"ACTIVATION", 1}}))};
    for (const Values& chosen : epilogues)
        for (const Shape& shape : {Shape{8, 8, 0}, {136, 264, 72}, {1000, 1016, 1000}, {520, 136, 4104}})
            for (const Data data : {Data::random, Data::integers}) expect_right(chosen, shape, data);

    // Rows of C of any length leave through shared memory.
    const Values rows = {{"TRANS_B", true}, {"TMA_STORE", false}};
    for (const Values& chosen :
         {with(rows, {}), with(rows, {{"BM", 192}, {"BN", 192}, {"STAGES", 3}}),
          with(rows, with(brain, {{"BM", 256}, {"BN", 128}, {"BIAS", 1}})),
          with(rows, with(both, {{"ACTIVATION", 2}})),
          with(rows, {{"PINGPONG", true}, {"BN", 128}, {"STAGES", 6}, {"BIAS", 1}, {"ACTIVATION", 1}}),
          with(rows, {{"BM", 64}, {"BN", 64}, {"STAGES", 3}, {"BLOCKS_PER_SM", 2}, {"OUT", "half"}}),
          with(rows, {{"CLUSTER_M", 2}, {"CLUSTER_N", 2}})})
        for (const Shape& shape : {Shape{1, 1, 8}, {131, 265, 136}, {1001, 1003, 1000}, {3000, 4097, 24}})
            for (const Data data : {Data::random, Data::integers}) expect_right(chosen, shape, data);

    for (const Values& chosen : {with(both, {{"ACTIVATION", 2}}), with(both, {{"TRANS_B", true}}),
                                 with(both, {{"OUT", "float"}, {"BM", 64}, {"BN", 256}, {"STAGES", 2}}),
                                 with(brain, {{"TRANS_A", true}, {"BIAS", 2}, {"ACTIVATION", 3}}),
                                 with(both, {{"SPLIT_K", 8}, {"ACTIVATION", 2}}),
                                 with(brain, {{"SPLIT_K", 2}, {"SPLIT_CLUSTERS", 3}, {"TRANS_B", true}}),
                                 Values{{"SPLIT_CLUSTERS", 16}, {"BM", 64}, {"BN", 64}}})
        for (const Shape& shape : {Shape{1, 1, 0}, {131, 265, 139}, {1001, 1003, 1005}, {29, 131, 8197}})
            for (const Data data : {Data::random, Data::integers})
                expect_right(chosen, shape, data, "gemm_wgmma_any");
}

TEST_F(WgmmaOnGpu, AnyRowsAreServedByTheKernelWithoutTma) {
    const Shape shapes[] = {{1, 1, 1},      {127, 65, 63},     {129, 257, 72},   {1009, 1013, 1019},
                            {64, 2049, 57}, {4095, 4097, 130}, {1000, 1016, 512}};
    for (const Values& chosen : {Values{}, Values{{"BM", 64}, {"BN", 256}, {"STAGES", 3}},
                                 Values{{"BN", 64}, {"STAGES", 6}, {"T", "bfloat16"}}}) {
        for (const Shape& shape : shapes) expect_right(chosen, shape, Data::integers, "gemm_wgmma_any");
        expect_right(chosen, {513, 515, 4099}, Data::random, "gemm_wgmma_any");
    }
}

TEST_F(WgmmaOnGpu, RowsThatTmaCantReadAreRejected) {
    const auto gemm = service->build<GemmFn<half>>(service->find("gemm_wgmma").variant());
    for (const Shape shape : {Shape{64, 68, 64}, Shape{64, 64, 68}}) {
        const Inputs<half> inputs(service->device(), shape, 1);
        GuardedOutput output(service->device(), shape);
        EXPECT_THROW(multiply(gemm, service->stream(), inputs, output), Error) << text(shape);
    }
}

}  // namespace
}  // namespace kiln::test
