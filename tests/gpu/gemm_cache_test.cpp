// SPDX-License-Identifier: Apache-2.0
//
// Where kernels come from on a GPU: memory, disk, and what happens when the disk's entry is damaged or
// holds what the driver rejects. Whatever happens, the call gives a kernel that computes the right thing.
#include <barrier>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "cache/disk_cache.h"
#include "cache/entry.h"
#include "gemm_fixture.h"

namespace kiln::test {
namespace {

struct GemmCacheOnGpu : testing::Test {
    void SetUp() override { KILN_NEEDS_GPU(); }

    std::filesystem::path cache() const { return directory.path() / "cache"; }
    /// A service that warns into `warnings`.
    std::unique_ptr<Service> open() {
        ServiceOptions options;
        options.backend = gpu_backend();
        options.cache.directory = cache();
        options.on_warning = [this](std::string_view text) { warnings.emplace_back(text); };
        return std::make_unique<Service>(options);
    }
    static Variant variant(const Service& service) {
        return service.find("gemm_tiled").variant({{"PAD", 1}});
    }
    /// Builds and expects this origin and the right product.
    static void expect_builds(Service& service, Origin origin) {
        const auto gemm = service.build<GemmFn<half>>(variant(service));
        EXPECT_EQ(name(gemm.origin()), name(origin));
        expect_multiplies(service, gemm, Inputs<half>(service.device(), {131, 257, 65}, 7));
    }
    std::filesystem::path entry_of(const Service& service) const {
        return DiskCache({cache()}).entry_path(service.key(variant(service)).digest);
    }

    TemporaryDirectory directory;
    std::vector<std::string> warnings;
};

TEST_F(GemmCacheOnGpu, CompiledThenMemoryThenDisk) {
    const auto first = open();
    expect_builds(*first, Origin::compiled);
    expect_builds(*first, Origin::memory);
    EXPECT_EQ(first->counters().compiles, 1u);
    const auto second = open();
    expect_builds(*second, Origin::disk);
    expect_builds(*second, Origin::memory);
    EXPECT_EQ(second->counters().compiles, 0u);
    EXPECT_TRUE(warnings.empty()) << warnings.front();
}

TEST_F(GemmCacheOnGpu, ADamagedEntryIsRebuiltInTheSameCall) {
    const auto path = [&] {
        const auto service = open();
        expect_builds(*service, Origin::compiled);
        return entry_of(*service);
    }();
    // One bit, in the middle of the binary.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2);
    const int byte = file.seekg(middle).get();
    file.seekp(middle).put(static_cast<char>(byte ^ 1));
    file.close();
    ASSERT_TRUE(file);

    const auto damaged = open();
    expect_builds(*damaged, Origin::compiled);
    EXPECT_EQ(damaged->counters().rejected_entries, 1u);
    EXPECT_EQ(warnings.size(), 1u);
    expect_builds(*open(), Origin::disk);
}

TEST_F(GemmCacheOnGpu, ABinaryThatTheDriverRejectsIsRebuiltInTheSameCall) {
    const auto service = open();
    // Whole in every respect, for an architecture that this device can't run.
    ServiceOptions options;
    options.backend = service->backend();
    options.compile_only = true;
    options.cache.enabled = false;
    if (service->backend() == Backend::cuda)
        options.arch = service->target().arch.starts_with("sm_8") ? "sm_90" : "sm_80";
    else
        options.arch = service->target().arch == "gfx90a" ? "gfx1030" : "gfx90a";
    Service other(options);
    const Binary foreign = other.compile(variant(other)).binary;
    const BuildKey key = service->key(variant(*service));
    ASSERT_TRUE(DiskCache({cache()}).store(key.digest, encode_entry(key, foreign)).stored);

    expect_builds(*service, Origin::compiled);
    EXPECT_EQ(service->counters().rejected_entries, 1u);
    EXPECT_EQ(service->counters().compiles, 1u);
    EXPECT_EQ(warnings.size(), 1u);
    expect_builds(*open(), Origin::disk);
}

TEST_F(GemmCacheOnGpu, ManyThreadsOnTheirOwnStreamsBuildOnceAndAreRight) {
    constexpr int kThreads = 16, kRepeats = 8;
    const int pads[] = {0, 1, 2, 4};
    const auto service = open();
    const Inputs<half> inputs(service->device(), {193, 321, 129}, 11);
    std::vector<std::vector<GuardedOutput>> outputs(kThreads);
    for (auto& mine : outputs)
        for (int i = 0; i < kRepeats; ++i) mine.emplace_back(service->device(), inputs.shape());

    std::barrier together(kThreads);
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                together.arrive_and_wait();
                const Stream stream = service->device().stream();
                const auto [m, n, k] = inputs.shape();
                for (int i = 0; i < kRepeats; ++i) {
                    const auto gemm = service->build<GemmFn<half>>(
                        service->find("gemm_tiled").variant({{"PAD", pads[(t + i) % 4]}}));
                    gemm(stream, m, n, k, inputs.device_a(), inputs.device_b(),
                         outputs[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)].data());
                }
                stream.synchronize();
            });
        }
    }
    std::vector<std::span<const float>> results;
    for (auto& mine : outputs)
        for (auto& output : mine) results.push_back(output.read());
    for (const Verdict& verdict : compare_with_fp64(inputs.shape(), inputs.a(), inputs.b(), results))
        EXPECT_EQ(verdict.wrong, 0u) << verdict.first;
    EXPECT_EQ(service->counters().compiles, std::size(pads));
}

}  // namespace
}  // namespace kiln::test
