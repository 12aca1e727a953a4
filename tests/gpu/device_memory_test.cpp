// SPDX-License-Identifier: Apache-2.0
//
// Memory, streams and events on a CUDA device.
#include <gmock/gmock.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/dynamic_library.h"
#include "device/cuda_api.h"
#include "device_support.h"

namespace kiln::test {
namespace {
using testing::HasSubstr;

class DeviceMemoryTest : public DeviceTest {};

TEST_F(DeviceMemoryTest, DescribesItself) {
    const DeviceInfo& info = driver_->info();
    EXPECT_FALSE(info.name.empty());
    EXPECT_THAT(info.driver, testing::StartsWith("CUDA "));
    EXPECT_GT(info.memory_bytes, std::size_t{1} << 30);
    EXPECT_GT(driver_->free_bytes(), 0u);
    EXPECT_LE(driver_->free_bytes(), info.memory_bytes);
    EXPECT_GT(info.limits.multiprocessors, 0);
    EXPECT_EQ(info.arch.back() == 'a', major() >= 9) << info.arch;
    // The table that serves machines without the device says the same of it.
    const auto table = arch_limits(Backend::cuda, info.arch);
    ASSERT_TRUE(table) << info.arch;
    Limits same = info.limits;
    same.multiprocessors = 0;
    same.l2_bytes = 0;
    EXPECT_EQ(same.shared_bytes_per_block, table->shared_bytes_per_block);
    EXPECT_EQ(same.shared_bytes_per_block_optin, table->shared_bytes_per_block_optin);
    EXPECT_EQ(same.shared_bytes_per_multiprocessor, table->shared_bytes_per_multiprocessor);
    EXPECT_EQ(same.threads_per_multiprocessor, table->threads_per_multiprocessor);
    EXPECT_EQ(same.blocks_per_multiprocessor, table->blocks_per_multiprocessor);
    EXPECT_EQ(same, *table);
}

TEST_F(DeviceMemoryTest, CopiesOfOddSizesAreExact) {
    for (const std::size_t bytes : {1, 2, 3, 5, 255, 257, 4095, 65537, 1000003, 33554433}) {
        std::vector<std::uint8_t> values(bytes);
        std::iota(values.begin(), values.end(), static_cast<std::uint8_t>(bytes));
        EXPECT_EQ(Array<std::uint8_t>(driver_, values).values(), values) << bytes;
    }
}

TEST_F(DeviceMemoryTest, FillSetsWordsAndTheOddBytesAfterThem) {
    for (const std::size_t bytes : {1, 2, 3, 4, 5, 7, 8, 1023, 1000001}) {
        Array<std::uint8_t> array(driver_, std::vector<std::uint8_t>(bytes + 1, 0xee));
        driver_->fill(array.data(), 0x04030201u, bytes);
        std::vector<std::uint8_t> expected(bytes + 1);
        for (std::size_t i = 0; i < bytes; ++i) expected[i] = static_cast<std::uint8_t>(i % 4 + 1);
        expected[bytes] = 0xee;
        EXPECT_EQ(array.values(), expected) << bytes;
    }
}

TEST_F(DeviceMemoryTest, SizesPastFourGibibytes) {
    constexpr std::size_t kBytes = (std::size_t{1} << 32) + (std::size_t{1} << 20) + 3;
    if (driver_->free_bytes() < kBytes + (std::size_t{1} << 30)) GTEST_SKIP() << "less than 5 GiB free";
    Array<std::uint8_t> array(driver_, kBytes);
    driver_->fill(array.data(), 0x04030201u, kBytes);
    for (const std::size_t at : {std::size_t{0}, (std::size_t{1} << 32) - 4, kBytes - 7}) {
        std::uint8_t bytes[7];
        driver_->copy_from_device(bytes, array.data() + at, sizeof(bytes));
        for (std::size_t i = 0; i < sizeof(bytes); ++i) EXPECT_EQ(bytes[i], (at + i) % 4 + 1) << at + i;
    }
}

TEST_F(DeviceMemoryTest, NothingIsAllocatedCopiedOrFilledForZeroBytes) {
    EXPECT_EQ(driver_->allocate(0), nullptr);
    driver_->release(nullptr);
    driver_->copy_to_device(nullptr, nullptr, 0);
    driver_->copy_from_device(nullptr, nullptr, 0);
    driver_->fill(nullptr, 1, 0);
}

TEST_F(DeviceMemoryTest, AskingForTooMuchSaysHowMuchThereIs) {
    const auto error = device_error([&] { driver_->allocate(std::size_t{1} << 46); });
    EXPECT_EQ(error.call(), "cuMemAlloc");
    EXPECT_EQ(error.code(), 2);
    EXPECT_THAT(error.what(), HasSubstr("70368744177664 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
    Array<int> after(driver_, std::vector<int>{1, 2, 3});  // the device still works
    EXPECT_EQ(after.values(), (std::vector<int>{1, 2, 3}));
}

constexpr const char* kSlow = R"(
extern "C" __global__ void slow(long long cycles, int* out, int value) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
    *out = value;
}
)";
constexpr long long kSlowCycles = 200'000'000;  // about a tenth of a second

TEST_F(DeviceMemoryTest, CopiesAndFillsWaitForLaunchesOnAnyStream) {
    const auto module = load("slow", kSlow);
    Array<int> out(driver_, std::vector<int>{-1});
    const OwnedStream other(driver_);
    for (int i = 0; i < 3; ++i) {
        launch(*module, {}, i % 2 == 0 ? *stream_ : other, kSlowCycles, out.data(), i);
        EXPECT_EQ(out.values()[0], i);
    }
    launch(*module, {}, *stream_, kSlowCycles, out.data(), 7);
    driver_->fill(out.data(), 9, sizeof(int));
    EXPECT_EQ(out.values()[0], 9);
    launch(*module, {}, *stream_, kSlowCycles, out.data(), 7);
    const int value = 11;
    driver_->copy_to_device(out.data(), &value, sizeof(int));
    stream_->synchronize();
    EXPECT_EQ(out.values()[0], 11);
}

TEST_F(DeviceMemoryTest, EventsMeasureTheWorkBetweenThem) {
    const auto module = load("slow", kSlow);
    Array<int> out(driver_, 1);
    launch(*module, {}, *stream_, 1000LL, out.data(), 0);  // warms up
    void* const start = driver_->create_event();
    void* const end = driver_->create_event();
    driver_->record(start, stream_->handle());
    launch(*module, {}, *stream_, kSlowCycles, out.data(), 1);
    driver_->record(end, stream_->handle());
    driver_->synchronize_event(end);
    const double slow_ms = driver_->elapsed_ms(start, end);
    driver_->record(start, stream_->handle());
    driver_->record(end, stream_->handle());
    driver_->synchronize_event(end);
    const double nothing_ms = driver_->elapsed_ms(start, end);
    EXPECT_GT(slow_ms, 40);  // 200 M cycles at less than 5 GHz
    EXPECT_LT(slow_ms, 1000);
    EXPECT_GE(nothing_ms, 0);
    EXPECT_LT(nothing_ms, 5);
    driver_->destroy_event(start);
    driver_->destroy_event(end);
    driver_->destroy_event(nullptr);
}

TEST_F(DeviceMemoryTest, WorksFromThreadsThatNeverSawTheDevice) {
    const std::vector<int> values{1, 2, 3};
    Array<int> array(driver_, values);
    std::vector<int> seen;
    std::thread([&] { seen = array.values(); }).join();
    EXPECT_EQ(seen, values);
}

TEST_F(DeviceMemoryTest, WorksAfterTheApplicationChangedTheCurrentContext) {
    const auto module = load("slow", kSlow);
    Array<int> out(driver_, std::vector<int>{-1});
    ASSERT_EQ(cuda::api()->context_set_current(nullptr), cuda::kSuccess);
    launch(*module, {}, *stream_, 10LL, out.data(), 5);
    ASSERT_EQ(cuda::api()->context_set_current(nullptr), cuda::kSuccess);
    EXPECT_EQ(out.values()[0], 5);
}

TEST_F(DeviceMemoryTest, WorksWhereTheApplicationsOwnContextIsCurrent) {
    const auto module = load("slow", kSlow);
    Array<int> out(driver_, std::vector<int>{-1});
    const DynamicLibrary library = DynamicLibrary::open({"libcuda.so.1"});
    int (*create)(cuda::ContextHandle*, unsigned, int) = nullptr;
    int (*destroy)(cuda::ContextHandle) = nullptr;
    ASSERT_TRUE(library.resolve(create, "cuCtxCreate_v2") && library.resolve(destroy, "cuCtxDestroy_v2"));
    cuda::ContextHandle other = nullptr;
    ASSERT_EQ(create(&other, 0, 0), cuda::kSuccess);  // and makes it current
    launch(*module, {}, *stream_, 10LL, out.data(), 6);
    ASSERT_EQ(cuda::api()->context_set_current(other), cuda::kSuccess);
    EXPECT_EQ(out.values()[0], 6);
    EXPECT_EQ(destroy(other), cuda::kSuccess);
}

TEST_F(DeviceMemoryTest, TwoOpensShareOneContext) {
    const auto second = open_cuda_device(0);
    const std::vector<int> values{4, 5, 6};
    Array<int> array(driver_, values);
    std::vector<int> seen(3);
    second->copy_from_device(seen.data(), array.data(), array.bytes());
    EXPECT_EQ(seen, values);
}

TEST_F(DeviceMemoryTest, ClosesAndOpensAgain) {
    stream_.reset();
    for (int i = 0; i < 3; ++i) {
        driver_.reset();
        driver_ = open_cuda_device(0);
        EXPECT_EQ(Array<int>(driver_, std::vector<int>{i}).values()[0], i);
    }
}

}  // namespace
}  // namespace kiln::test
