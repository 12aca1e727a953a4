// SPDX-License-Identifier: Apache-2.0
//
// What an observed kernel tells: the exact events of small kernels.
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
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::SizeIs;

// Runs a kernel with this body, which begins on line 6 of k.cu, in blocks of `threads` threads.
std::shared_ptr<EventLog> observe(const std::string& body, unsigned threads = 2,
                                  const std::string& includes = "kiln/device.h",
                                  const std::string& more = "//@ grid 1") {
    auto log = std::make_shared<EventLog>();
    ObservedService(log).run("//@ block " + std::to_string(threads) + "\n" + more + "\n#include \"" +
                                 includes + "\"\nextern \"C\" __global__ void k(float* a) {\n" + body +
                                 "\n}\n",
                             *log);
    return log;
}

bool is_clang(const EventLog& log) { return log.launch.binary.compiler.find("clang") != std::string::npos; }

TEST(Observe, ReportsSharedAccessesRelativeToTheirVariable) {
    const auto log = observe(R"(
        alignas(16) __shared__ float tile[64];
        __shared__ short other[4];
        tile[threadIdx.x + 1] = a[threadIdx.x];
        other[threadIdx.x] = 1;
        __syncthreads();
        a[8 + threadIdx.x] = tile[1 - threadIdx.x + 1] + other[3 - threadIdx.x];)");
    EXPECT_THAT(
        log->lines,
        ElementsAre("launch", "block 0",                                                        //
                    "0 load 4 a+0", "0 store 4 tile+4", "0 store 2 other+0",                    //
                    "1 load 4 a+4", "1 store 4 tile+8", "1 store 2 other+2", "meet block 0 1",  //
                    "0 load 4 tile+8", "0 load 2 other+6", "0 store 4 a+32",                    //
                    "1 load 4 tile+4", "1 load 2 other+4", "1 store 4 a+36", "end block", "end launch"));
    ASSERT_THAT(log->launch.shared, SizeIs(2));
    for (const SharedVariable& variable : log->launch.shared) {
        EXPECT_EQ(variable.size_bytes, variable.name == "tile" ? 256u : 8u);
        EXPECT_EQ(variable.address % 16, 0u);
        for (const SharedVariable& other : log->launch.shared) {
            EXPECT_TRUE(other.address <= variable.address ||
                        other.address - variable.address >= variable.size_bytes + 16384);
        }
    }
    EXPECT_EQ(log->launch.dynamic_shared_address, 0u);
    EXPECT_EQ(log->launch.binary.entry, "k");
    EXPECT_FALSE(log->launch.binary.bytes.empty());
    EXPECT_EQ(log->launch.block, (Dim3{2, 1, 1}));
}

TEST(Observe, NamesVariablesWhereverTheyAreDeclared) {
    auto log = std::make_shared<EventLog>();
    ObservedService(log).run(R"(//@ block 1
//@ grid 1
#include "kiln/device.h"
__shared__ float outside[2];
namespace deep { __shared__ float inside[2]; }
template <class T> __device__ T* own() { __shared__ T in_template[2]; return in_template; }
extern "C" __global__ void k(float* a) {
    if (a[0] == 0) { __shared__ float twice[2]; twice[1] = 1; }
    { __shared__ float twice[4]; twice[3] = 1; }
    outside[1] = deep::inside[1] = own<float>()[1] = 1;
    own<int>()[0] = 1;
})",
                             *log);
    EXPECT_THAT(log->lines,
                IsSupersetOf({"0 store 4 twice+4", "0 store 4 twice+12", "0 store 4 outside+4",
                              "0 store 4 inside+4", "0 store 4 in_template+4", "0 store 4 in_template+0"}));
}

TEST(Observe, ReportsDynamicSharedMemory) {
    const auto log = observe(R"(
        float* const tile = kiln::dynamic_shared<float>();
        tile[threadIdx.x * 3] = a[5];)",
                             2, "kiln/device.h", "//@ shared 64\n//@ grid 1");
    EXPECT_THAT(log->with("dynamic"), ElementsAre("0 store 4 dynamic+0", "1 store 4 dynamic+12"));
    EXPECT_EQ(log->launch.dynamic_shared_bytes, 64u);
    EXPECT_EQ(log->launch.dynamic_shared_address % 1024, 0u);
}

TEST(Observe, ReportsVectorsAsOneAccess) {
    const auto log = observe(R"(
        alignas(16) __shared__ kiln::half tile[64];
        const auto eight = kiln::load<8>(reinterpret_cast<const kiln::half*>(a) + 8);
        kiln::store(tile + 16, eight);
        kiln::Vec<kiln::half, 2> sums = {};
        for (int i = 0; i < 3; ++i) {
            const auto pair = kiln::load<2>(tile + 16 + 2 * i);
            for (int v = 0; v < 2; ++v) sums[v] = kiln::half(float(sums[v]) + float(pair[v]));
        }
        kiln::store(tile, sums);
        reinterpret_cast<float4*>(a)[9] = reinterpret_cast<const float4*>(tile)[2];)",
                             1);
    if (is_clang(*log)) GTEST_SKIP() << "Clang hands a struct of 16 bytes on as two of 8";
    EXPECT_THAT(log->lines, AllOf(IsSupersetOf({"0 load 16 a+16", "0 store 16 tile+32", "0 load 4 tile+32",
                                                "0 load 4 tile+36", "0 load 4 tile+40", "0 store 4 tile+0",
                                                "0 load 16 tile+32", "0 store 16 a+144"}),
                                  SizeIs(4 + 8)));
}

TEST(Observe, TakesCopiesOfStructsInPieces) {
    const auto log = observe(R"(
        struct Row { float v[12]; };
        __shared__ Row rows[2];
        rows[1] = *reinterpret_cast<const Row*>(a);)",
                             1);
    std::vector<std::string> stores = log->with("store 16 rows"), loads = log->with("load 16 a");
    for (auto* const lines : {&stores, &loads})
        for (std::string& line : *lines) line = line.substr(0, line.find(" unaligned"));
    EXPECT_THAT(stores, ElementsAre("0 store 16 rows+48", "0 store 16 rows+64", "0 store 16 rows+80"));
    EXPECT_THAT(loads, ElementsAre("0 load 16 a+0", "0 load 16 a+16", "0 load 16 a+32"));
}

TEST(Observe, MarksTypesWithoutAlignment) {
    const auto log = observe(R"(
        struct __attribute__((packed)) Odd { char c; float v; };
        __shared__ Odd odd[4];
        odd[threadIdx.x + 1].v = 3.0f;
        a[1] = odd[threadIdx.x + 2].v;)",
                             1);
    EXPECT_THAT(log->with("odd"), ElementsAre("0 store 4 odd+6 unaligned", "0 load 4 odd+11 unaligned"));
}

TEST(Observe, ReportsAnAtomicOnce) {
    const auto log = observe(R"(
        __shared__ unsigned counts[4];
        __shared__ float sums[4];
        if (threadIdx.x == 0) counts[2] = 5, sums[1] = 1.0f;
        __syncthreads();
        atomicAdd(&counts[2], 1u);
        atomicAdd(&sums[1], 0.5f);
        atomicMax(reinterpret_cast<int*>(a) + 3, 7);
        atomicCAS(&counts[2], 7u, 8u);
        __syncthreads();
        a[threadIdx.x] = sums[1] + counts[2];)");
    const auto begin = std::ranges::find(log->lines, "meet block 0 1") + 1;
    EXPECT_THAT(std::vector(begin, begin + 9),
                ElementsAre("0 atomic 4 counts+8", "0 atomic 4 sums+4", "0 atomic 4 a+12",
                            "0 atomic 4 counts+8", "1 atomic 4 counts+8", "1 atomic 4 sums+4",
                            "1 atomic 4 a+12", "1 atomic 4 counts+8", "meet block 0 1"));
}

TEST(Observe, ReportsWhoMeets) {
    const auto log = observe(R"(
        if (threadIdx.x < 2) __syncwarp(3);
        if (threadIdx.x == 30 || threadIdx.x == 31) a[threadIdx.x] = __shfl_xor_sync(0xc0000000u, threadIdx.x, 1);
        if (threadIdx.x == 33) return;
        __syncthreads();
        __syncwarp(threadIdx.x == 32 ? 1u : 0xffffffffu);
        if (__any_sync(threadIdx.x == 32 ? 1u : 0xffffffffu, 1)) a[0] = 1;)",
                             34);
    std::string all, warp;
    for (int i = 0; i < 33; ++i) {
        all += " " + std::to_string(i);
        if (i < 32) warp += " " + std::to_string(i);
    }
    EXPECT_THAT(log->starting("meet"), testing::UnorderedElementsAre("meet warp 0 1", "meet block" + all,
                                                                     "meet warp" + warp, "meet warp 32"));
    EXPECT_THAT(log->starting("exchange"),
                testing::UnorderedElementsAre("exchange 30 31", "exchange" + warp, "exchange 32"));
}

TEST(Observe, ReportsWhatNamedBarriersOrder) {
    const auto log = observe(R"(
        __shared__ float tile[64];
        if (threadIdx.x >= 32) {
            tile[threadIdx.x - 32] = 1;
            kiln::named_barrier_arrive(2, 64);
        } else {
            kiln::named_barrier_sync(2, 64);
            a[threadIdx.x] = tile[threadIdx.x];
        })",
                             64);
    const auto& lines = log->lines;
    const auto at = [&](const std::string& line) {
        const auto found = std::ranges::find(lines, line);
        EXPECT_NE(found, lines.end()) << line;
        return found;
    };
    EXPECT_LT(at("33 store 4 tile+4"), at("release 33 A"));
    EXPECT_LT(at("release 33 A"), at("acquire 1 A"));
    EXPECT_LT(at("acquire 1 A"), at("1 load 4 tile+4"));
    EXPECT_THAT(log->starting("release"), SizeIs(64));
    EXPECT_THAT(log->starting("acquire"), SizeIs(32));
    EXPECT_THAT(log->starting("meet"), IsEmpty());
}

TEST(Observe, ReportsWhatBarriersInMemoryOrder) {
    const auto log = observe(R"(
        __shared__ kiln::Barrier barrier;
        __shared__ float tile[2];
        if (threadIdx.x == 0) kiln::barrier_init(&barrier, 1);
        __syncthreads();
        if (threadIdx.x == 1) {
            tile[0] = 2;
            kiln::barrier_arrive(&barrier);
        } else {
            kiln::barrier_wait(&barrier, 0);
            a[0] = tile[0];
        })",
                             2, "kiln/tma.h");
    const auto begin = std::ranges::find(log->lines, "meet block 0 1") + 1;
    std::vector<std::string> behind(begin, log->lines.end());
    std::erase_if(behind,
                  [](const std::string& line) { return line.ends_with(" ?"); });  // the prelude's own data
    EXPECT_THAT(behind, ElementsAre("0 barrier_use 8 barrier+0", "1 store 4 tile+0",
                                    "1 barrier_use 8 barrier+0", "release 1 A", "acquire 0 A",
                                    "0 load 4 tile+0", "0 store 4 a+0", "end block", "end launch"));
    EXPECT_THAT(log->with("barrier+"), ElementsAre("0 barrier_init 8 barrier+0", "0 barrier_use 8 barrier+0",
                                                   "1 barrier_use 8 barrier+0"));
}

// Its arrivals are those of the phase that is under way; a wait with the other parity does not wait, and learns nothing.
TEST(Observe, PhasesOfABarrierInMemoryOrderApart) {
    const auto log = observe(R"(
        __shared__ kiln::Barrier barrier;
        kiln::barrier_init(&barrier, 1);
        kiln::barrier_wait(&barrier, 1);
        kiln::barrier_arrive(&barrier);
        kiln::barrier_wait(&barrier, 0);
        kiln::barrier_arrive(&barrier);
        kiln::barrier_wait(&barrier, 1);)",
                             1, "kiln/tma.h");
    EXPECT_THAT(log->with("A"), ElementsAre("acquire 0 A", "release 0 A", "acquire 0 A"));
    EXPECT_THAT(log->with("B"), ElementsAre("release 0 B", "acquire 0 B"));
}

TEST(Observe, ReportsAShuffleOfALaneThatDoesNotTakePart) {
    const auto log = observe(R"(
        a[threadIdx.x] = __shfl_down_sync(0xffffffffu, a[threadIdx.x], 2);)",
                             6);
    EXPECT_THAT(log->with("idle_lane"), ElementsAre("4 idle_lane 4 ?", "5 idle_lane 4 ?"));
}

TEST(Observe, ReportsTheStoresOfSincos) {
    const auto log = observe(R"(
        __shared__ float sine, cosine;
        sincosf(a[0], &sine, &cosine);
        a[1] = sine + cosine;)",
                             1);
    EXPECT_THAT(log->with(" store 4 sine+0"), SizeIs(1));
    EXPECT_THAT(log->with(" store 4 cosine+0"), SizeIs(1));
}

TEST(Observe, ReportsTheRowsOfMatrixLoads) {
    const auto log = observe(R"(
        alignas(16) __shared__ kiln::half tile[32 * 24];
        unsigned four[4], two[2];
        kiln::ldmatrix_x4(four, tile + threadIdx.x * 24);
        kiln::ldmatrix_x2_trans(two, tile + threadIdx.x * 24);
        float sums[4] = {};
        kiln::mma_m16n8k16<kiln::half>(sums, four, two[0], two[1]);
        a[threadIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];)",
                             32, "kiln/mma.h");
    std::vector<std::string> of_four, of_two;
    for (int lane = 0; lane < 32; ++lane) {
        const std::string line = std::to_string(lane) + " matrix_load 16 tile+" + std::to_string(lane * 48);
        of_four.push_back(line);
        if (lane < 16) of_two.push_back(line);
    }
    of_four.insert(of_four.end(), of_two.begin(), of_two.end());
    EXPECT_THAT(log->with("tile+"), testing::UnorderedElementsAreArray(of_four));
    EXPECT_THAT(log->with("?"), IsEmpty());
    EXPECT_THAT(log->starting("meet"), IsEmpty());
    EXPECT_THAT(log->with("store 4 a+"), SizeIs(32));
}

TEST(Observe, ReportsAnAsynchronousCopyWhenItBeginsAndArrives) {
    const auto log = observe(R"(
        alignas(16) __shared__ float tile[16];
        kiln::AsyncCopies<> copies;
        copies.copy<4>(tile + 4, a + 8);
        copies.copy<4>(tile + 8, a + 12, 3);
        copies.copy<2>(tile, a, 0);
        copies.commit();
        a[0] = 1;
        copies.wait<0>();
        a[1] = tile[4];)",
                             1, "kiln/async.h");
    EXPECT_THAT(
        log->lines,
        ElementsAre("launch", "block 0", "0 load 16 a+32", "0 async_copy 16 tile+16", "0 load 4 a+56",
                    "0 load 8 a+48", "0 async_copy 16 tile+32", "0 async_copy 8 tile+0", "0 store 4 a+0",
                    "0 async_arrival 16 tile+16", "0 async_arrival 16 tile+32", "0 async_arrival 8 tile+0",
                    "0 load 4 tile+16", "0 store 4 a+4", "end block", "end launch"));
}

TEST(Observe, ReportsIndicesBeyondTheirArray) {
    const auto log = observe(R"(        __shared__ float tile[4][64];
        tile[threadIdx.x][a[65] == 65 ? int(a[65]) : 0] = 1;
        tile[threadIdx.x][int(a[0]) - 1] = 1;)",
                             1);
    EXPECT_THAT(log->starting("bad"),
                ElementsAre("bad 0 k.cu:7 float [64] 65", "bad 0 k.cu:8 float [64] -1"));
    EXPECT_THAT(log->with("tile"), ElementsAre("0 store 4 tile+260"));
    EXPECT_EQ(log->all.back().address, log->launch.shared.at(0).address - 4);
}

TEST(Observe, SurvivesAnOverrun) {
    const auto log = observe(R"(
        __shared__ float tile[4];
        float* const dynamic = kiln::dynamic_shared<float>();
        for (int i = 0; i < 4092; ++i) tile[4 + i] = dynamic[4 + i] = 1;)",
                             1, "kiln/device.h", "//@ shared 16\n//@ grid 1");
    EXPECT_THAT(log->with("tile+"), SizeIs(4092));
    EXPECT_THAT(log->with("dynamic+"), SizeIs(4092));
}

TEST(Observe, LeavesOutTheThreadsOwnStack) {
    const auto log = observe(R"(
        float own[8];
        for (int i = 0; i < 8; ++i) own[i] = a[i];
        a[0] = own[int(a[1])];
        a[2] = __shfl_sync(0xffffffffu, a[3], 0);)",
                             1);
    EXPECT_THAT(log->with("?"), IsEmpty());
    EXPECT_THAT(log->with(" a+"), SizeIs(8 + 2 + 2));
}

TEST(Observe, GivesTheCallOfAFunctionThatIsNotInlined) {
    auto log = std::make_shared<EventLog>();
    ObservedService(log).run(R"(//@ block 1
//@ grid 1
#include "kiln/device.h"
__attribute__((noinline)) __device__ void deeper(float* a) { a[1] = a[0]; }
__attribute__((noinline)) __device__ void helper(float* a) { deeper(a + 1); a[7] = 1; __syncthreads(); a[8] = 1; }
extern "C" __global__ void k(float* a) {
    a[0] = 1;
    helper(a);
    helper(a + 10);
    a[20] = 1;
})",
                             *log);
    const auto& all = log->all;
    ASSERT_THAT(all, SizeIs(10));
    EXPECT_EQ(all[0].caller, 0u);
    EXPECT_EQ(all[9].caller, 0u);
    EXPECT_NE(all[1].caller, 0u);
    for (int i = 1; i < 5; ++i) {
        EXPECT_EQ(all[i].caller, all[1].caller) << i;
        EXPECT_EQ(all[i].code, all[i + 4].code) << i;
        EXPECT_EQ(all[i + 4].caller, all[5].caller) << i;
    }
    EXPECT_GT(all[5].caller, all[1].caller);
    EXPECT_GT(all[1].caller, all[0].code);
    EXPECT_LT(all[5].caller, all[9].code);
}

TEST(Observe, GivesEqualPlacesToAllThreads) {
    const auto log = observe(R"(
        __shared__ float tile[64];
        for (int i = 0; i < 8; ++i) tile[threadIdx.x + i] = a[i];)",
                             4);
    std::set<std::pair<std::uint32_t, AccessKind>> places;
    for (const ObservedAccess& access : log->all) places.insert({access.code, access.kind});
    EXPECT_THAT(places, SizeIs(2));
    EXPECT_THAT(log->all, SizeIs(4 * 8 * 2));
}

}  // namespace
}  // namespace kiln
