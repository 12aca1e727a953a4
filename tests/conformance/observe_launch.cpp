// SPDX-License-Identifier: Apache-2.0
//
// Observed launches as a whole: which blocks run, how they end, and what is compiled for them.
#include <gmock/gmock.h>
#include <kiln/error.h>

#include <memory>
#include <string>
#include <vector>

#include "observed.h"

namespace kiln {
namespace {

using test::EventLog;
using test::ObservedService;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(ObservedLaunch, SkipsBlocks) {
    auto log = std::make_shared<EventLog>();
    log->skipped = {0, 2};
    const auto values = ObservedService(log).run(R"(//@ block 1
//@ grid 4
#include "kiln/device.h"
extern "C" __global__ void k(float* a) { a[blockIdx.x] = -1; })",
                                                 *log);
    EXPECT_THAT(log->lines, ElementsAre("launch", "skip 0", "block 1", "0 store 4 a+4", "end block", "skip 2",
                                        "block 3", "0 store 4 a+12", "end block", "end launch"));
    EXPECT_THAT(std::vector(values.begin(), values.begin() + 4), ElementsAre(0.0f, -1.0f, 2.0f, -1.0f));
}

// Far more stack than a fiber has, as libraries that read debug information take.
class DeepLog : public EventLog {
  public:
    void accesses(unsigned thread, std::span<const ObservedAccess> accesses) override {
        use_stack();
        EventLog::accesses(thread, accesses);
    }
    void bad_index(unsigned thread, const ObservedBadIndex& what) override {
        use_stack();
        EventLog::bad_index(thread, what);
    }
    void meeting(std::span<const unsigned> threads, bool whole_block) override {
        use_stack();
        EventLog::meeting(threads, whole_block);
    }
    void exchange(std::span<const unsigned> threads) override {
        use_stack();
        EventLog::exchange(threads);
    }
    void release(unsigned thread, std::uint64_t object) override {
        use_stack();
        EventLog::release(thread, object);
    }
    void acquire(unsigned thread, std::uint64_t object) override {
        use_stack();
        EventLog::acquire(thread, object);
    }

  private:
    __attribute__((noinline)) static void use_stack() {
        volatile char bytes[1 << 20];
        for (std::size_t i = 0; i < sizeof bytes; i += 1024) bytes[sizeof bytes - 1 - i] = 1;
    }
};

TEST(ObservedLaunch, CallsTheObserverOnAnOsThreadsStack) {
    const std::string text = R"(//@ block 64
//@ grid 1
#include "kiln/async.h"
#include "kiln/reduce.h"
extern "C" __global__ void k(float* a) {
    __shared__ float tile[64];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    const float next = kiln::shuffle_xor(tile[63 - threadIdx.x], 1);
    volatile int beyond = 64;
    if (a[0] == 0) tile[beyond] = 1;
    kiln::named_barrier_sync(1, 64);
    a[threadIdx.x] = next;
})";
    auto deep = std::make_shared<DeepLog>();
    auto plain = std::make_shared<EventLog>();
    const auto values = ObservedService(deep).run(text, *deep);
    EXPECT_EQ(values, ObservedService(plain).run(text, *plain));
    EXPECT_EQ(deep->lines, plain->lines);
    EXPECT_EQ(values[0], 62.0f);
    EXPECT_THAT(deep->starting("bad"), SizeIs(64));
    EXPECT_THAT(deep->starting("release"), SizeIs(64));
    EXPECT_THAT(deep->starting("acquire"), SizeIs(64));
}

TEST(ObservedLaunch, EndsABlockThatFails) {
    for (const std::string failure : {"__trap();", "__syncwarp(3);"}) {
        auto log = std::make_shared<EventLog>();
        ObservedService observed(log);
        EXPECT_THROW(observed.run("//@ block 2\n//@ grid 2\n#include \"kiln/device.h\"\n"
                                  "extern \"C\" __global__ void k(float* a) { a[threadIdx.x] = 1; "
                                  "if (threadIdx.x == 0) " +
                                      failure + " else if (a[3] == 3) __syncthreads(); }",
                                  *log),
                     DeviceError);
        EXPECT_THAT(std::vector(log->lines.end() - 2, log->lines.end()),
                    ElementsAre("end block", "end launch"));
        EXPECT_THAT(log->lines, testing::Contains("0 store 4 a+0"));
        EXPECT_THAT(log->starting("block"), SizeIs(1));
    }
}

TEST(ObservedLaunch, IsForTheHost) {
    ServiceOptions options;
    options.observer = std::make_shared<EventLog>();
    EXPECT_EQ(Service(options).backend(), Backend::host);
    const auto message = [&] {
        try {
            const Service service(options);
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    options.backend = Backend::hip;
    EXPECT_THAT(message(), AllOf(HasSubstr("host"), HasSubstr("hip")));
    options.backend.reset();
    options.arch = "sm_90a";
    options.compile_only = true;
    EXPECT_THAT(message(), AllOf(HasSubstr("host"), HasSubstr("cuda")));
}

TEST(ObservedLaunch, HasKeysOfItsOwn) {
    ServiceOptions options;
    options.backend = Backend::host;
    const Service plain(options);
    options.observer = std::make_shared<EventLog>();
    const Service observed(options);
    const auto key = [](const Service& service) { return service.key(service.find("copy").variant()); };
    EXPECT_NE(key(plain).digest, key(observed).digest);
    EXPECT_THAT(key(plain).text, testing::Not(HasSubstr("sanitize")));
}

TEST(ObservedLaunch, CompilesToEqualBytesWithoutPathsOrLibrariesOfSanitizers) {
    const auto bytes = [] {
        ObservedService observed(std::make_shared<EventLog>());
        const Bytes all =
            observed.service().compile(observed.service().find("transpose_tiled").variant()).binary.bytes;
        return std::string(reinterpret_cast<const char*>(all.data()), all.size());
    };
    const std::string one = bytes();
    EXPECT_TRUE(one == bytes());  // not printed
    for (const char* const part : {"/tmp", "libtsan", "libubsan", "libclang_rt"})
        EXPECT_EQ(one.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace kiln
