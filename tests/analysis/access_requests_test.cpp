// SPDX-License-Identifier: Apache-2.0
//
// Copies of one access that a compiler put into several branches: lanes that come by different ones make one
// request. And whatever lanes do, each of their accesses is in one, in their order.
#include "analysis/access_requests.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

namespace kiln {
namespace {

// Codes 10 to 19 are the access 1 in the source, and so on.
struct Sink final : AccessSink {
    std::vector<AccessCode> codes;

    std::uint32_t new_instruction(const AccessCode& code) override {
        codes.push_back(code);
        return code.code / 10;
    }
    void out_of_bounds(unsigned, const ObservedAccess&, const Region&) override {}
    void read_only(unsigned, const ObservedAccess&) override {}
    void idle_lane(unsigned, const ObservedAccess&) override {}
    void each_access(unsigned, std::uint64_t, std::uint32_t) override {}
};

struct Fixture {
    Sink sink;
    Regions regions;
    AccessRequests requests{32, sink};

    Fixture() {
        ObservedLaunch launch;
        launch.shared = {{"tile", 0x1000, 4096}};
        regions = Regions(launch);
        requests.begin_launch(regions);
        requests.begin_block(32);
    }
    void run(unsigned thread, const std::vector<std::uint32_t>& codes, std::uint64_t offset = 0) {
        for (const std::uint32_t code : codes) {
            ObservedAccess access;
            access.address = 0x1000 + 4 * thread + offset;
            access.code = code;
            access.bytes = 4;
            requests.add(thread, {&access, 1});
        }
    }
    /// How many lanes each request has.
    std::vector<int> lanes() {
        std::vector<int> result;
        for (const RequestList* const list : requests.pending()) {
            for (const Request& request : list->requests) result.push_back(std::popcount(request.lanes));
        }
        return result;
    }
};

TEST(AccessRequests, CopiesOfOneAccess) {
    Fixture f;
    for (unsigned thread = 0; thread < 32; ++thread)
        f.run(thread, thread % 3 == 0 ? std::vector{10u, 20u, 10u} : std::vector{11u, 20u, 12u});
    EXPECT_EQ(f.lanes(), (std::vector{32, 32, 32}));
}

// tile[i] = inside ? source[i] : 0
TEST(AccessRequests, CopiesBehindAnAccessThatSomeLeaveOut) {
    Fixture f;
    for (unsigned thread = 0; thread < 32; ++thread)
        f.run(thread, thread < 20 ? std::vector{10u, 20u, 10u, 20u} : std::vector{21u, 21u});
    EXPECT_EQ(f.lanes(), (std::vector{20, 32, 20, 32}));
}

// if (col + 16 * i < cols) c[...] = ..., where the compiler unrolled the loop: not the next one that is there.
TEST(AccessRequests, StepsOfALoopThatSomeLeaveOut) {
    Fixture f;
    for (unsigned thread = 0; thread < 32; ++thread) {
        f.run(thread, {10});
        if (thread < 16) f.run(thread, {11}, 1024);
        f.run(thread, {12}, 2048);
    }
    EXPECT_EQ(f.lanes(), (std::vector{32, 16, 32}));
}

TEST(AccessRequests, OtherAccessesStayApart) {
    Fixture f;
    for (unsigned thread = 0; thread < 32; ++thread) f.run(thread, {thread < 16 ? 10u : 30u});
    EXPECT_EQ(f.lanes(), (std::vector{16, 16}));
}

// What a lane accessed, in order: the sources and addresses.
using Trace = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

std::vector<Trace> traces(Fixture& f, unsigned threads) {
    std::vector<Trace> result(threads);
    for (const RequestList* const list : f.requests.pending()) {
        each_access(*list, [&](std::size_t i, unsigned lane) {
            const Request& request = list->requests[i];
            const std::int64_t relative = list->relative[i * 32 + lane];
            result[lane].emplace_back(request.source, request.anchor + static_cast<std::uint64_t>(relative));
        });
    }
    return result;
}

// A lane that was brought to the second execution by a copy comes by the instruction itself again.
TEST(AccessRequests, ACopyDoesNotTakeWhatComesNext) {
    Fixture f;
    f.run(0, {20, 10, 11, 20, 10, 11});
    f.run(1, {11, 20, 10, 10, 11, 11});
    f.run(2, {10, 10, 10, 11, 11, 11});
    for (const Trace& trace : traces(f, 3)) EXPECT_EQ(trace.size(), 6u);
}

TEST(AccessRequests, NothingIsLostAndTheOrderIsKept) {
    std::mt19937 random(1);
    const auto below = [&](unsigned end) { return static_cast<unsigned>(random() % end); };
    for (int round = 0; round < 2000; ++round) {
        SCOPED_TRACE(round);
        Fixture f;
        const unsigned sources = 1 + below(3), copies = 1 + below(3), longest = 4 + below(20);
        const bool far = below(8) == 0;
        std::vector<std::uint32_t> common;
        for (unsigned i = 0; i < longest; ++i) common.push_back(10 * (1 + below(sources)) + below(copies));
        std::vector<Trace> expected(32);
        for (unsigned lane = 0; lane < 32; ++lane) {
            for (const std::uint32_t step : common) {
                std::uint32_t code = step;
                if (below(6) == 0) continue;
                if (below(6) == 0) code = 10 * (1 + below(sources)) + below(copies);
                ObservedAccess access;
                access.address = 0x1000 + 4 * below(512);
                if (far && below(4) == 0) access.address = std::uint64_t{1 + below(3)} << 40;
                access.code = code;
                access.bytes = 4;
                f.requests.add(lane, {&access, 1});
                expected[lane].emplace_back(code / 10, access.address);
            }
        }
        ASSERT_EQ(traces(f, 32), expected);
    }
}

}  // namespace
}  // namespace kiln
