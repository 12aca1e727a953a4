// SPDX-License-Identifier: Apache-2.0
//
// Loading and launching on the host: what is rejected, many modules, many threads, a forked child.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "base/file.h"
#include "host_kernel.h"
#include "rejected.h"
#include "sanitized.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::HasSubstr;

std::string adds(int constant) {
    return "__device__ int amount() { static int value = " + std::to_string(constant) + R"(; return value; }
extern "C" __global__ void kernel(int n, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += amount();
})";
}

TEST(HostModule, ReportsItsArguments) {
    const HostKernel kernel(R"(
struct Big { int v[5]; };
extern "C" __global__ void kernel(int a, const double b, const kiln::half* __restrict__ c, Big d, char e, Big* out) {
    for (int i = 0; i < 5; ++i) out->v[i] = d.v[i] + a + int(b) + int(float(*c)) + e;
})");
    EXPECT_THAT(kernel.module().info().argument_bytes,
                testing::Optional(testing::ElementsAre(4, 8, 8, 20, 1, 8)));
    EXPECT_EQ(kernel.module().info().registers, std::nullopt);
    EXPECT_EQ(kernel.module().info().static_shared_bytes, 0u);
    EXPECT_EQ(kernel.module().blocks_per_multiprocessor({}), std::nullopt);
    struct Big {
        int v[5];
    } in{{1, 2, 3, 4, 5}}, out{};
    const half c(100.0f);
    kernel({}, {}, 0, 10, 20.0, &c, in, static_cast<char>(3), &out);
    EXPECT_THAT(out.v, testing::ElementsAre(134, 135, 136, 137, 138));
    const HostKernel none("extern \"C\" __global__ void kernel() {}");
    EXPECT_THAT(none.module().info().argument_bytes, testing::Optional(testing::IsEmpty()));
    none({}, {}, 0);
}

TEST(HostModule, RejectsWhatIsNoKernel) {
    const Device device = test::open_host();
    const auto load = [&](std::vector<std::byte> bytes, BinaryKind kind = BinaryKind::shared_object) {
        Binary binary;
        binary.kind = kind;
        binary.entry = "kernel";
        binary.bytes = std::move(bytes);
        return test::rejected<DeviceError>([&] { device.driver()->load(binary); });
    };
    const auto compiled = test::compile_for_host(adds(1)).bytes;
    const std::vector<std::byte> good(compiled.begin(), compiled.end());
    EXPECT_THAT(load({}), HasSubstr("too few for an ELF header"));
    EXPECT_THAT(load(std::vector<std::byte>(5000, std::byte{0x5a})), HasSubstr("does not start like an ELF"));
    EXPECT_THAT(load(good, BinaryKind::cubin), HasSubstr("made for a GPU"));
    for (std::size_t size = 0; size < good.size(); size += 97)
        EXPECT_THAT(load({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}),
                    HasSubstr("kernel"))
            << size;

    const auto version = [&](const char* text) {
        return test::rejected<DeviceError>([&] { device.driver()->load(test::compile_for_host(text)); });
    };
    EXPECT_THAT(version("#undef KILN_HOST_KERNEL\n#define KILN_HOST_KERNEL(name) extern \"C\" "
                        "__attribute__((visibility(\"default\"))) void other() {}\n"),
                HasSubstr("exports no kiln_host_kernel"));
    EXPECT_THAT(
        version("#undef KILN_HOST_KERNEL\n#define KILN_HOST_KERNEL(name) extern \"C\" { extern "
                "__attribute__((visibility(\"default\"))) const kiln_host::Kernel kiln_host_kernel; const "
                "kiln_host::Kernel kiln_host_kernel = {999, 0, nullptr, nullptr}; }\n"),
        HasSubstr("version 999"));
}

// As the object does that compilers link for fast mathematics.
TEST(HostModule, WhatConstructorsDoToFloatsEndsWithThem) {
#if !defined(__x86_64__)
    GTEST_SKIP() << "flushing denormal numbers is set otherwise here";
#endif
    const volatile float denormal = 1e-40F;
    const HostKernel kernel(R"(
unsigned control() { unsigned value; asm volatile("stmxcsr %0" : "=m"(value)); return value; }
struct Flush {
    Flush() { const unsigned value = control() | 0x8040u; asm volatile("ldmxcsr %0" : : "m"(value)); }
} const flush;
extern "C" __global__ void kernel(float x, float* out) { *out = x * 0.5f; })");
    EXPECT_GT(denormal * 0.5F, 0.0F) << "of this thread";
    float out = 0;
    kernel({}, {}, 0, static_cast<float>(denormal), &out);
    EXPECT_GT(out, 0.0F) << "of the kernel";
}

TEST(HostModule, RejectsShapesBeyondTheDevice) {
    const HostKernel kernel(
        "extern \"C\" __global__ void kernel() { __shared__ volatile char s[1000]; s[0] = 1; }");
    const auto error = [&](Dim3 grid, Dim3 block, std::size_t shared) {
        return test::rejected<DeviceError>([&] {
            kernel.module().launch({grid, block, {}, shared}, nullptr, nullptr);
        });
    };
    EXPECT_THAT(error({}, {1025, 1, 1}, 0), HasSubstr("the block 1025x1x1 has more than the 1024 threads"));
    EXPECT_THAT(error({}, {32, 33, 1}, 0), HasSubstr("32x33x1"));
    EXPECT_THAT(error({}, {65536, 65536, 1}, 0), HasSubstr("65536x65536x1"));
    EXPECT_THAT(error({}, {1, 0, 1}, 0), HasSubstr("the block 1x0x1 is empty"));
    EXPECT_THAT(error({0, 1, 1}, {}, 0), HasSubstr("the grid 0x1x1 is empty"));
    EXPECT_THAT(error({1, 65536, 1}, {}, 0), HasSubstr("the grid 1x65536x1 is larger"));
    EXPECT_NO_THROW(kernel.module().launch({{2, 1, 1}, {}, {2, 1, 1}, 0}, nullptr, nullptr))
        << "each block is a cluster of its own";
    EXPECT_THAT(error({}, {}, 232448 - 999), HasSubstr("231449 bytes of dynamic and 1000 of static"));
    EXPECT_THROW(kernel.module().allow_dynamic_shared(232448 - 999), DeviceError);
    kernel.module().allow_dynamic_shared(232448 - 1000);
    kernel({}, {}, 232448 - 1000);
}

TEST(HostModule, KeepsModulesOfTheSameNameApart) {
    const HostKernel one(adds(1)), thousand(adds(1000));
    std::vector<int> out(100);
    for (int i = 0; i < 3; ++i) {
        one({1, 1, 1}, {128, 1, 1}, 0, 100, out.data());
        thousand({1, 1, 1}, {128, 1, 1}, 0, 100, out.data());
    }
    EXPECT_THAT(out, testing::Each(3003));
}

// GCC exports variables of templates, and makes them unique in the process unless it is told not to.
TEST(HostModule, KeepsVariablesOfTemplatesApart) {
    const auto text = [](int factor) {
        return "template <class T> __device__ T weights[2] = {" + std::to_string(factor) + ", " +
               std::to_string(2 * factor) + R"(};
extern "C" __global__ void kernel(int n, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = weights<int>[i % 2];
})";
    };
    const HostKernel one(text(1)), thousand(text(1000));
    std::vector<int> out(2);
    one({1, 1, 1}, {32, 1, 1}, 0, 2, out.data());
    EXPECT_THAT(out, testing::ElementsAre(1, 2));
    thousand({1, 1, 1}, {32, 1, 1}, 0, 2, out.data());
    EXPECT_THAT(out, testing::ElementsAre(1000, 2000));
}

// Odd modules stay loaded by the loader's will (a process-wide unique symbol) and must not be mistaken
// for later ones.
TEST(HostModule, LoadsAndUnloadsManyInARow) {
    const Device device = test::open_host();
    std::vector<Binary> binaries;
    for (int i = 0; i < 3; ++i) {
        std::string text = adds(i + 1);
        if (i == 1)
            text =
                "template <int> struct __attribute__((visibility(\"default\"))) Unique { inline static int "
                "value = 0; };\n"
                "__attribute__((visibility(\"default\"))) int* unique() { return &Unique<0>::value; }\n" +
                text;
        binaries.push_back(test::compile_for_host(text));
    }
    for (int i = 0; i < 300; ++i) {
        const HostKernel kernel(binaries[i % 3], device);
        std::vector<int> out(10);
        kernel({4, 1, 1}, {4, 1, 1}, 0, 10, out.data());
        ASSERT_THAT(out, testing::Each(i % 3 + 1)) << i;
    }
}

// The file of the kernel that was loaded is closed again, and names are none of objects before: descriptors, and addresses of
// what was unloaded, are given again.
TEST(HostModule, NeedsNoDescriptorOnceItIsLoaded) {
    const auto descriptors = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    };
    const Device device = test::open_host();
    std::vector<Binary> binaries;
    for (int i = 0; i < 4; ++i) binaries.push_back(test::compile_for_host(adds(i + 1)));
    const HostKernel first(binaries[0], device);
    std::vector<int> out(10);
    first({4, 1, 1}, {4, 1, 1}, 0, 10, out.data());
    const auto before = descriptors();
    std::atomic<int> wrong{0};
    std::deque<HostKernel> kernels;
    for (int i = 0; i < 200; ++i) kernels.emplace_back(binaries[i % 4], device);
    EXPECT_EQ(descriptors(), before);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                const HostKernel own(binaries[(i + t) % 4], device);
                std::vector<int> of_own(10);
                own({4, 1, 1}, {4, 1, 1}, 0, 10, of_own.data());
                for (const int v : of_own) wrong += v != (i + t) % 4 + 1;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    for (int i = 0; i < 200; ++i) {
        std::ranges::fill(out, 0);
        kernels[static_cast<std::size_t>(i)]({4, 1, 1}, {4, 1, 1}, 0, 10, out.data());
        ASSERT_THAT(out, testing::Each(i % 4 + 1)) << i;
    }
    EXPECT_EQ(descriptors(), before);
}

TEST(HostModule, WithoutDescriptorsTheErrorNamesTheLimit) {
    if (test::kAddressSanitized) GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors";
    const Device device = test::open_host();
    const Binary binary = test::compile_for_host(adds(1));
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
    // The file in memory can't be opened; and it can, and then not by the loader.
    for (const int free : {0, 1}) {
        const FileDescriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        rlimit limit = usual;
        limit.rlim_cur = static_cast<rlim_t>(next.value() + 1 + free);
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
        const std::string error =
            test::rejected<DeviceError>([&] { static_cast<void>(device.driver()->load(binary)); });
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
        EXPECT_THAT(error, HasSubstr("as many open files as it may, " + std::to_string(limit.rlim_cur)));
        EXPECT_THAT(error, HasSubstr("ulimit -n"));
    }
}

TEST(HostModule, LaunchesFromManyThreadsAtOnce) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(int n, int add, int* out) {
    __shared__ int s[256];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? out[i] : 0;
    __syncthreads();
    const int v = s[255 - t];
    __syncthreads();
    s[255 - t] = v + add;
    __syncthreads();
    if (i < n) out[i] = s[t];
})");
    const HostKernel shared(binary, test::open_host({}, 3));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            std::vector<int> out(256 * 20);
            for (int i = 0; i < 50; ++i) shared({20, 1, 1}, {256, 1, 1}, 0, 256 * 20, t, out.data());
            for (const int v : out) wrong += v != 50 * t;
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST(HostModule, LaunchesInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#endif
    const HostKernel kernel(test::compile_for_host(adds(2)), test::open_host({}, 4));
    std::vector<int> out(1000);
    kernel({100, 1, 1}, {10, 1, 1}, 0, 1000, out.data());
    const pid_t child = ::fork();
    if (child == 0) {
        kernel({100, 1, 1}, {10, 1, 1}, 0, 1000, out.data());
        for (const int v : out) {
            if (v != 4) ::_exit(1);
        }
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    kernel({100, 1, 1}, {10, 1, 1}, 0, 1000, out.data());
    EXPECT_THAT(out, testing::Each(4));
}

}  // namespace
}  // namespace kiln
