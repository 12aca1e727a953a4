// SPDX-License-Identifier: Apache-2.0
//
// Modules on a CUDA device: loading, what the driver reports about a kernel, arguments, shared memory,
// clusters, and how each failure reads.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda_api.h"
#include "device_support.h"

namespace kiln::test {
namespace {
using testing::AllOf;
using testing::HasSubstr;

class DeviceModuleTest : public DeviceTest {
  protected:
    std::size_t optin() const {
        return static_cast<std::size_t>(driver_->info().limits.shared_bytes_per_block_optin);
    }
};

struct Mixed {
    int a;
    double b;
    char c;
};

constexpr const char* kArguments = R"(
struct Mixed { int a; double b; char c; };
extern "C" __global__ void arguments(char c, short s, int i, long long l, float f, double d, kiln::half h,
                                     kiln::bfloat16 b, bool t, const int* p, Mixed m, double* out) {
    out[0] = c; out[1] = s; out[2] = i; out[3] = double(l); out[4] = f; out[5] = d; out[6] = float(h);
    out[7] = float(b); out[8] = t; out[9] = *p; out[10] = m.a; out[11] = m.b; out[12] = m.c;
}
)";

TEST_F(DeviceModuleTest, ArgumentsOfEveryKindArriveAndTheirSizesAreKnown) {
    const auto module = load("arguments", kArguments);
    if (module->info().argument_bytes) {
        EXPECT_EQ(*module->info().argument_bytes,
                  (std::vector<std::size_t>{1, 2, 4, 8, 4, 8, 2, 2, 1, 8, sizeof(Mixed), 8}));
    } else {
        EXPECT_EQ(cuda::api()->function_get_param_info, nullptr);
    }
    Array<int> pointee(driver_, std::vector<int>{-77});
    Array<double> out(driver_, 13);
    launch(*module, {}, *stream_, char{-3}, short{-300}, 70000, -(1LL << 40), 0.25f, 1.0 / 3, half(1.5f),
           bfloat16(-2.0f), true, static_cast<const int*>(pointee.data()), Mixed{5, 6.5, 7}, out.data());
    EXPECT_EQ(out.values(), (std::vector<double>{-3, -300, 70000, -1099511627776.0, 0.25, 1.0 / 3, 1.5, -2, 1,
                                                 -77, 5, 6.5, 7}));
}

TEST_F(DeviceModuleTest, AKernelWithoutArgumentsHasNone) {
    const auto module = load("nothing", "extern \"C\" __global__ void nothing() {}\n");
    EXPECT_EQ(module->info().argument_bytes.value_or(std::vector<std::size_t>{}).size(), 0u);
    launch(*module, {}, *stream_, 0);  // one pointer too many is not looked at
    stream_->synchronize();
    EXPECT_NE(module->function_handle(), nullptr);
    EXPECT_NE(module->module_handle(), nullptr);
}

// 1024 bytes of static shared memory; the sum of all words of the dynamic part and of the static one.
constexpr const char* kShared = R"(
extern "C" __global__ void shared(int words, unsigned long long* out) {
    __shared__ int fixed[256];
    int* dynamic = kiln::dynamic_shared<int>();
    for (int i = threadIdx.x; i < words; i += blockDim.x) dynamic[i] = i;
    fixed[threadIdx.x] = threadIdx.x;
    __syncthreads();
    const int step = blockDim.x;
    unsigned long long sum = fixed[(threadIdx.x + 1) % 256];
    for (int i = words - 1 - int(threadIdx.x); i >= 0; i -= step) sum += dynamic[i];
    atomicAdd(out, sum);
}
)";

unsigned long long shared_sum(std::size_t dynamic_bytes) {
    const unsigned long long words = dynamic_bytes / 4;
    return words * (words - 1) / 2 + 255 * 256 / 2;
}

LaunchShape shared_shape(std::size_t dynamic_bytes) {
    return {Dim3{}, Dim3{256, 1, 1}, Dim3{}, dynamic_bytes};
}

TEST_F(DeviceModuleTest, SharedMemoryUpToTheLimitStaticPartIncluded) {
    const auto module = load("shared", kShared);
    ASSERT_EQ(module->info().static_shared_bytes, 1024u);
    const std::size_t most = optin() - 1024;
    // Without leave: up to 48 KB in all. The marks go up and down; the leave only goes up.
    for (const std::size_t bytes :
         {std::size_t{4096}, std::size_t{48 * 1024 - 1024}, most, std::size_t{8192}, most}) {
        module->allow_dynamic_shared(bytes);
        Array<unsigned long long> out(driver_, std::vector<unsigned long long>{0});
        launch(*module, shared_shape(bytes), *stream_, static_cast<int>(bytes / 4), out.data());
        EXPECT_EQ(out.values()[0], shared_sum(bytes)) << bytes;
    }
    EXPECT_EQ(module->blocks_per_multiprocessor(shared_shape(most)), 1);
}

TEST_F(DeviceModuleTest, TheStaticPartCountsTowardsTheFirst48Kilobytes) {
    const auto module = load("shared", kShared);
    const std::size_t bytes = 48 * 1024 - 512;  // with 1024 static ones above 48 KB, alone below
    module->allow_dynamic_shared(bytes);
    Array<unsigned long long> out(driver_, std::vector<unsigned long long>{0});
    launch(*module, shared_shape(bytes), *stream_, static_cast<int>(bytes / 4), out.data());
    EXPECT_EQ(out.values()[0], shared_sum(bytes));
}

TEST_F(DeviceModuleTest, SharedMemoryBeyondTheLimitIsRejectedWithTheNumbers) {
    const auto module = load("shared", kShared);
    for (const std::size_t bytes : {optin() - 1023, optin(), optin() + 1, ~std::size_t{0}}) {
        const auto error = device_error([&] { module->allow_dynamic_shared(bytes); });
        EXPECT_THAT(error.what(), AllOf(HasSubstr("1024 bytes of static"), HasSubstr(std::to_string(bytes)),
                                        HasSubstr("at most " + std::to_string(optin())),
                                        HasSubstr(std::to_string(optin() - 1024))));
    }
    module->allow_dynamic_shared(optin() - 1024);
}

TEST_F(DeviceModuleTest, ALaunchWithMoreThanWasAllowedSaysSo) {
    const auto module = load("shared", kShared);
    Array<unsigned long long> out(driver_, 1);
    const std::size_t bytes = optin() - 1024;
    const auto error = device_error(
        [&] { launch(*module, shared_shape(bytes), *stream_, static_cast<int>(bytes / 4), out.data()); });
    EXPECT_EQ(error.call(), "cuLaunchKernel");
    EXPECT_EQ(error.code(), cuda::kErrorInvalidValue);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'shared'"), HasSubstr("256x1x1 threads"),
                                    HasSubstr("was allowed 48128 bytes")));
}

TEST_F(DeviceModuleTest, ManyThreadsRaiseTheMarkAndLaunchAtOnce) {
    const auto module = load("shared", kShared);
    const std::size_t sizes[] = {optin() - 1024, optin() - 8192};
    std::vector<std::string> problems(8);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < problems.size(); ++t) {
        threads.emplace_back([&, t] {
            try {
                const std::size_t bytes = sizes[t % 2];
                const OwnedStream stream(driver_);
                Array<unsigned long long> out(driver_, std::vector<unsigned long long>{0});
                constexpr unsigned kLaunches = 200;
                for (unsigned i = 0; i < kLaunches; ++i) {
                    module->allow_dynamic_shared(bytes);
                    launch(*module, shared_shape(bytes), stream, static_cast<int>(bytes / 4), out.data());
                }
                stream.synchronize();
                if (out.values()[0] != kLaunches * shared_sum(bytes)) problems[t] = "a wrong sum";
            } catch (const Error& error) {
                problems[t] = error.what();
            }
        });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& problem : problems) EXPECT_EQ(problem, "");
}

constexpr const char* kCluster = R"(
extern "C" __global__ void cluster(int* out) {
    unsigned blocks = 1, rank = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    if (threadIdx.x == 0) out[blockIdx.x] = int(blocks * 100 + rank);
}
)";

TEST_F(DeviceModuleTest, ClustersHaveTheirSize) {
    const auto module = load("cluster", kCluster);
    Array<int> out(driver_, 32);
    const auto run = [&](unsigned blocks) {
        launch(*module, {Dim3{32, 1, 1}, Dim3{32, 1, 1}, Dim3{blocks, 1, 1}, 0}, *stream_, out.data());
        return out.values();
    };
    EXPECT_EQ(run(1)[5], 100);
    if (major() < 9) {
        EXPECT_THAT(device_error([&] { run(4); }).what(), HasSubstr("compute capability 9.0"));
        return;
    }
    std::vector<unsigned> sizes{2, 4, 8};
    if (major() == 9 || major() == 10) sizes.push_back(16);  // not portable, so it needs an opt-in
    for (const unsigned blocks : sizes) {
        const auto seen = run(blocks);
        for (unsigned i = 0; i < 32; ++i)
            EXPECT_EQ(seen[i], static_cast<int>(blocks * 100 + i % blocks)) << i;
    }
    const auto error = device_error([&] { run(5); });
    EXPECT_EQ(error.call(), "cuLaunchKernelEx");
    EXPECT_THAT(error.what(), AllOf(HasSubstr("32x1x1 blocks"), HasSubstr("clusters of 5x1x1")));
    EXPECT_EQ(run(2)[3], 201);  // the device still works
}

TEST_F(DeviceModuleTest, ABlockThatTheKernelDoesNotTakeIsRejectedWithTheNumbers) {
    const auto module = load(
        "bounded", "extern \"C\" __global__ void __launch_bounds__(64) bounded(int* out) { *out = 1; }\n");
    EXPECT_EQ(module->info().max_threads_per_block, 64);
    EXPECT_GT(module->info().registers.value_or(0), 0);
    EXPECT_EQ(module->info().local_bytes, 0u);
    Array<int> out(driver_, 1);
    const auto error = device_error([&] {
        launch(*module, {Dim3{}, Dim3{128, 1, 1}, Dim3{}, 0}, *stream_, out.data());
    });
    EXPECT_THAT(error.what(), AllOf(HasSubstr("128x1x1 threads"), HasSubstr("at most 64 threads")));
    EXPECT_GT(module->blocks_per_multiprocessor({Dim3{}, Dim3{64, 1, 1}, Dim3{}, 0}).value_or(0), 0);
}

TEST_F(DeviceModuleTest, DamagedBinariesAreRejectedAndTheDeviceGoesOn) {
    const Binary sound = compile("shared", kShared);
    std::vector<Binary> damaged(5, sound);
    damaged[0].bytes = {};
    damaged[1].bytes = sound.bytes.part(0, sound.bytes.size() / 2);
    damaged[2].bytes = sound.bytes.part(0, sound.bytes.size() - 1);
    damaged[3].bytes = std::vector<std::byte>(sound.bytes.size(), std::byte{0x5a});
    std::vector<std::byte> foreign(sound.bytes.begin(), sound.bytes.end());
    foreign[18] = std::byte{62};  // an x86-64 file
    damaged[4].bytes = std::move(foreign);
    for (std::size_t i = 0; i < damaged.size(); ++i) {
        const auto error = device_error([&] { driver_->load(damaged[i]); });
        EXPECT_EQ(error.call(), "cuModuleLoadData") << i;
        EXPECT_NE(error.code(), 0) << i;
        EXPECT_THAT(error.what(), HasSubstr("'shared'")) << i;
    }
    EXPECT_NE(driver_->load(sound), nullptr);
}

TEST_F(DeviceModuleTest, ABinaryForAnotherArchitectureIsRejected) {
    const char* const other = major() == 7 ? "sm_80" : "sm_75";
    const Binary binary = compile("shared", kShared, other);
    const auto error = device_error([&] { driver_->load(binary); });
    EXPECT_EQ(error.code(), 209);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"), HasSubstr(driver_->info().arch)));
}

TEST_F(DeviceModuleTest, AMissingKernelAndAForeignBinaryAreNamed) {
    Binary binary = compile("shared", kShared);
    binary.entry = "absent";
    const auto error = device_error([&] { driver_->load(binary); });
    EXPECT_EQ(error.call(), "cuModuleGetFunction");
    EXPECT_THAT(error.what(), HasSubstr("'absent'"));
    binary.kind = BinaryKind::code_object;
    EXPECT_THAT(device_error([&] { driver_->load(binary); }).what(), HasSubstr("another backend"));
}

TEST_F(DeviceModuleTest, PtxIsCompiledByTheDriverAndItsLogIsReported) {
    Binary binary;
    binary.kind = BinaryKind::ptx;
    binary.entry = "cluster";
    const auto set = [&](const std::string& text) {
        const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
        binary.bytes = std::vector<std::byte>(bytes, bytes + text.size());
    };
    const std::string text = ptx("cluster", kCluster);
    set(text.substr(0, text.find('\0')));
    const auto module = driver_->load(binary);
    Array<int> out(driver_, std::vector<int>{-1});
    launch(*module, {}, *stream_, out.data());
    EXPECT_EQ(out.values()[0], 100);

    set(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry cluster() { nonsense; }\n");
    const auto error = device_error([&] { driver_->load(binary); });
    EXPECT_EQ(error.call(), "cuModuleLoadDataEx");
    EXPECT_THAT(error.what(), HasSubstr("nonsense"));
}

TEST_F(DeviceModuleTest, UnloadsAfterUseAndAfterTheDriverObjectIsGone) {
    const Binary binary = compile("shared", kShared);
    Array<unsigned long long> out(driver_, std::vector<unsigned long long>{0});
    std::size_t free_after_ten = 0;
    for (int i = 0; i < 100; ++i) {
        const auto module = driver_->load(binary);
        launch(*module, shared_shape(1024), *stream_, 256, out.data());
        stream_->synchronize();
        if (i == 9) free_after_ten = driver_->free_bytes();
    }
    EXPECT_EQ(out.values()[0], 100 * shared_sum(1024));
    EXPECT_LT(free_after_ten - std::min(free_after_ten, driver_->free_bytes()), std::size_t{16} << 20);

    auto module = open_cuda_device(0)->load(binary);  // the driver object is gone at once
    launch(*module, shared_shape(1024), *stream_, 256, out.data());
    stream_->synchronize();
    module.reset();
}

TEST_F(DeviceModuleTest, AnIllegalAddressIsReportedByTheNextCallWithAHint) {
    testing::GTEST_FLAG(death_test_style) =
        "threadsafe";  // the context is lost, so this needs a process of its own
    const auto fault = [this] {
        const auto module = load("fault", "extern \"C\" __global__ void fault(int* out) { *out = 1; }\n");
        launch(*module, {}, *stream_, reinterpret_cast<int*>(std::uintptr_t{64}));
        const auto error = device_error([&] { stream_->synchronize(); });
        const std::string message = error.what();
        const bool told = error.code() == cuda::kErrorIllegalAddress &&
                          message.find("An earlier launch may be the cause") != std::string::npos;
        std::exit(told ? 0 : 1);
    };
    EXPECT_EXIT(fault(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kiln::test
