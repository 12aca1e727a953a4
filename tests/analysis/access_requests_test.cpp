// SPDX-License-Identifier: Apache-2.0
//
// Copies of one access that a compiler put into several branches: lanes that come by different ones make one
// request.
#include "analysis/access_requests.h"

#include <gtest/gtest.h>

#include <bit>
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

}  // namespace
}  // namespace kiln
