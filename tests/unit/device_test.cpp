// SPDX-License-Identifier: Apache-2.0
//
// The public handles Device, Buffer, Stream and Event on the host, and the words for a device that is
// not there.
#include <gmock/gmock.h>
#include <kiln/device.h>
#include <kiln/error.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/host_arch.h"
#include "rejected.h"

namespace kiln {
namespace {

using testing::HasSubstr;

TEST(Device, DescribesTheHost) {
    std::string reason = "old";
    const auto devices = Device::list(Backend::host, &reason);
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_EQ(reason, "");
    const Device device = Device::open(Backend::host);
    EXPECT_EQ(device.info().name, devices[0].name);
    EXPECT_EQ(device.info().arch, host_arch());
    EXPECT_EQ(device.target().arch, host_arch());
    EXPECT_EQ(device.target().backend, Backend::host);
    EXPECT_EQ(device.info().limits.threads_per_block, 1024);
    EXPECT_EQ(device.info().limits.warp_size, 32);
    EXPECT_EQ(device.info().limits.shared_bytes_per_block, 49152);
    EXPECT_EQ(device.info().limits.shared_bytes_per_block_optin, 232448);
    EXPECT_GE(device.info().limits.multiprocessors, 1);
    EXPECT_GT(device.free_bytes(), 0u);
    EXPECT_LE(device.free_bytes(), device.info().memory_bytes);
}

TEST(Device, NamesWhatIsThereWhenAnOrdinalIsNot) {
    const auto message = test::rejected<DeviceError>([] { Device::open(Backend::host, 3); });
    EXPECT_THAT(message, HasSubstr("no host device 3; there is 0 ("));
    EXPECT_THROW(Device::open(Backend::host, -1), DeviceError);
}

TEST(Device, SaysWhyAGpuIsMissing) {
    for (const Backend backend : {Backend::cuda, Backend::hip}) {
        std::string reason;
        if (!Device::list(backend, &reason).empty()) continue;
        EXPECT_NE(reason, "");
        const auto message = test::rejected<DeviceError>([&] { Device::open(backend); });
        EXPECT_THAT(message, HasSubstr(reason));
        EXPECT_THAT(message, HasSubstr("host backend"));
    }
}

TEST(Buffer, CopiesAndFillsWithinItsSize) {
    const Device device = Device::open(Backend::host);
    Buffer buffer = device.allocate(11);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0u);
    EXPECT_EQ(buffer.size_bytes(), 11u);
    buffer.fill(0x04030201u);
    std::vector<std::byte> out(11);
    buffer.copy_to(out);
    for (int i = 0; i < 11; ++i) EXPECT_EQ(static_cast<int>(out[i]), i % 4 + 1);
    const std::vector<std::byte> in(3, std::byte{9});
    buffer.copy_from(in);
    buffer.copy_to(std::span(out).first(4));
    EXPECT_THAT(std::vector<int>({static_cast<int>(out[2]), static_cast<int>(out[3])}),
                testing::ElementsAre(9, 4));
    EXPECT_THAT(test::rejected<UsageError>([&] { buffer.copy_from(std::vector<std::byte>(12)); }),
                HasSubstr("A copy of 12 bytes does not fit a buffer of 11 bytes"));
    std::vector<std::byte> large(12);
    EXPECT_THROW(buffer.copy_to(large), UsageError);
}

TEST(Buffer, MovesItsMemory) {
    const Device device = Device::open(Backend::host);
    Buffer a = device.allocate(100), b = device.allocate(50);
    void* const data = a.data();
    b = std::move(a);
    EXPECT_EQ(b.data(), data);
    EXPECT_EQ(b.size_bytes(), 100u);
    EXPECT_EQ(a.data(), nullptr);
    EXPECT_EQ(a.size_bytes(), 0u);
    const Buffer c(std::move(b));
    EXPECT_EQ(c.data(), data);
    Buffer empty = device.allocate(0);
    EXPECT_EQ(empty.data(), nullptr);
    empty.fill(1);
    empty.copy_from({});
    EXPECT_THROW(Buffer(nullptr, 4), UsageError);
}

TEST(Buffer, DoesNotPromiseMoreThanThereIs) {
    const Device device = Device::open(Backend::host);
    for (const std::size_t bytes : {device.info().memory_bytes + 1, ~std::size_t{0}}) {
        const auto message = test::rejected<DeviceError>([&] { device.allocate(bytes); });
        EXPECT_THAT(message, HasSubstr("can't allocate " + std::to_string(bytes) + " bytes"));
        EXPECT_THAT(message,
                    HasSubstr(" of its " + std::to_string(device.info().memory_bytes) + " are available"));
    }
}

TEST(Event, MeasuresTime) {
    const Device device = Device::open(Backend::host);
    const Stream stream = device.stream();
    Event start = device.event(), end = device.event();
    EXPECT_THROW(end.elapsed_ms_since(start), DeviceError);
    start.record(stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    end.record(stream);
    end.synchronize();
    stream.synchronize();
    EXPECT_GE(end.elapsed_ms_since(start), 20.0);
    EXPECT_LT(end.elapsed_ms_since(start), 20'000.0);
    Event moved(std::move(end));
    EXPECT_GE(moved.elapsed_ms_since(start), 20.0);
    EXPECT_THROW(end.synchronize(), UsageError);
    EXPECT_THROW(Stream().synchronize(), UsageError);
    EXPECT_THROW(moved.record(Stream()), UsageError);
}

}  // namespace
}  // namespace kiln
