// SPDX-License-Identifier: Apache-2.0
//
// The model of shared-memory banks: the worked examples of layouts that kernels use, broadcast, phases,
// stores, and the order of lanes on CDNA.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/tools/banks.h>

#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace kiln {
namespace {

using Addresses = std::vector<std::optional<std::uint32_t>>;

Addresses lanes(const std::function<std::uint32_t(std::uint32_t)>& address, std::uint32_t count = 32) {
    Addresses result;
    for (std::uint32_t lane = 0; lane < count; ++lane) result.emplace_back(address(lane));
    return result;
}

struct Expected {
    int actual, ideal;
    bool aligned = true;
};

void expect(const Addresses& addresses, int width, const Expected& expected,
            const std::string& arch = "sm_90a", SharedAccess access = SharedAccess::load) {
    const Wavefronts found = wavefronts(addresses, width, bank_model(arch), access);
    EXPECT_EQ(found.actual, expected.actual);
    EXPECT_EQ(found.ideal, expected.ideal);
    EXPECT_EQ(found.aligned, expected.aligned);
}

/// A column: each lane in a row of its own.
Addresses column(std::uint32_t pitch_bytes) {
    return lanes([=](std::uint32_t lane) { return lane * pitch_bytes; });
}

/// Lanes 0-15 at the rows of the left chunk, the others at those of the right one, as ldmatrix.x4 reads.
Addresses matrix_rows(std::uint32_t pitch_bytes, const std::function<std::uint32_t(std::uint32_t)>& changed) {
    return lanes([=](std::uint32_t lane) {
        const std::uint32_t row = lane % 16, chunk = lane / 16;
        return row * pitch_bytes + (chunk ^ changed(row)) * 16;
    });
}
Addresses matrix_rows(std::uint32_t pitch_bytes) {
    return matrix_rows(pitch_bytes, [](std::uint32_t) { return 0u; });
}

TEST(Banks, ScalarColumnsOfHalf) {
    expect(column(32 * 2), 2, {16, 1});
    expect(column((32 + 1) * 2), 2, {1, 1});
    expect(column((32 + 8) * 2), 2, {4, 1});
}

TEST(Banks, ColumnsOfHalf2) {
    expect(column((64 + 1) * 2), 4, {3, 1, false});
    expect(column((64 + 2) * 2), 4, {1, 1});
}

TEST(Banks, RowsOfAMatrixFragment) {
    expect(matrix_rows(64 * 2), 16, {32, 4});
    EXPECT_FALSE(wavefronts(matrix_rows((64 + 1) * 2), 16, bank_model("sm_90a")).aligned);
    expect(matrix_rows((64 + 8) * 2), 16, {4, 4});
}

TEST(Banks, SwizzledRowsOfAMatrixFragment) {
    expect(matrix_rows(64 * 2, [](std::uint32_t row) { return row & 7; }), 16, {4, 4});
    expect(matrix_rows(32 * 2, [](std::uint32_t row) { return row >> 1 & 3; }), 16, {4, 4});
    expect(matrix_rows(32 * 2, [](std::uint32_t row) { return row & 3; }), 16, {8, 4});
}

TEST(Banks, ColumnsOfFloat) {
    expect(column(32 * 4), 4, {32, 1});
    expect(column(33 * 4), 4, {1, 1});
    EXPECT_FALSE(wavefronts(column(33 * 4), 16, bank_model("sm_90a")).aligned);
    expect(column(36 * 4), 16, {4, 4});
    EXPECT_EQ(wavefronts(column(32 * 4), 4, bank_model("sm_80")).degree, 32);
}

// A stride of s words meets gcd(s, 32) lanes in a bank.
TEST(Banks, StridesOfFloat) {
    for (std::uint32_t stride = 1; stride <= 64; ++stride)
        expect(column(stride * 4), 4, {static_cast<int>(std::gcd(stride, 32u)), 1});
}

TEST(Banks, ARowOfAnyWidth) {
    const auto row = [](std::uint32_t width) {
        return lanes([=](std::uint32_t lane) { return lane * width; });
    };
    expect(row(1), 1, {1, 1});
    expect(row(2), 2, {1, 1});
    expect(row(4), 4, {1, 1});
    expect(row(8), 8, {2, 2});
    expect(row(16), 16, {4, 4});
}

TEST(Banks, LanesInOneWordShareIt) {
    expect(lanes([](std::uint32_t) { return 128u; }), 4, {1, 1});
    expect(lanes([](std::uint32_t lane) { return lane % 4; }), 1, {1, 1});
    // Two words of one bank, sixteen lanes each.
    expect(lanes([](std::uint32_t lane) { return lane % 2 * 128; }), 4, {2, 1});
    // Stores: the bytes of a word go together, too.
    expect(lanes([](std::uint32_t lane) { return lane; }), 1, {1, 1}, "sm_90a", SharedAccess::store);
    expect(lanes([](std::uint32_t) { return 64u; }), 4, {1, 1}, "sm_90a", SharedAccess::store);
}

TEST(Banks, LanesThatDoNotTakePart) {
    Addresses some = column(128);
    for (std::size_t lane = 0; lane < some.size(); ++lane)
        if (lane % 8 != 0) some[lane].reset();
    expect(some, 4, {4, 1});
    expect(Addresses(32), 4, {0, 0});
    // The upper half is idle: of the four phases of 16 bytes two are needed.
    Addresses half = lanes([](std::uint32_t lane) { return lane * 16; });
    for (std::size_t lane = 16; lane < 32; ++lane) half[lane].reset();
    expect(half, 16, {2, 2});
}

// Phases do not disturb each other: lanes 0 and 16 in one bank are in different halves of an 8-byte access.
TEST(Banks, PhasesAreApart) {
    expect(lanes([](std::uint32_t lane) { return lane % 16 * 8 + lane / 16 * 1024; }), 8, {2, 2});
    expect(lanes([](std::uint32_t lane) { return lane % 8 * 16 + lane / 8 * 1024; }), 16, {4, 4});
    // The same distance inside a phase is a conflict.
    expect(lanes([](std::uint32_t lane) { return lane % 4 * 16 + lane / 4 * 1024; }), 16, {8, 4});
}

TEST(Banks, EqualPairsMergeInWideLoads) {
    for (const std::uint32_t width : {8u, 16u}) {
        const int apart = width == 8 ? 2 : 4;
        const auto beside = lanes([=](std::uint32_t lane) { return lane / 2 * width; });
        const auto across = lanes([=](std::uint32_t lane) { return (lane / 4 * 2 + lane % 2) * width; });
        expect(beside, static_cast<int>(width), {apart / 2, apart / 2});
        expect(across, static_cast<int>(width), {apart / 2, apart / 2});
        EXPECT_TRUE(wavefronts(beside, static_cast<int>(width), bank_model("sm_90a")).merged);
        expect(beside, static_cast<int>(width), {apart, apart}, "sm_90a", SharedAccess::store);
        // One pair that differs is enough.
        auto broken = beside;
        broken[1] = 512 + 64;
        expect(broken, static_cast<int>(width), {apart, apart});
        EXPECT_FALSE(wavefronts(broken, static_cast<int>(width), bank_model("sm_90a")).merged);
    }
}

// Nsight Compute's counters on an H200, per instruction that a warp executes: wavefronts and ideal.
TEST(Banks, IdealCountsMergedPhasesAsTheProfilerDoes) {
    expect(lanes([](std::uint32_t) { return 0u; }), 16, {2, 2});
    expect(lanes([](std::uint32_t lane) { return lane / 2 * 16; }), 16, {2, 2});
    expect(lanes([](std::uint32_t lane) { return lane / 2 * 8; }), 8, {1, 1});
    // gemm_tiled with VEC=4, rows of 4 FP32 of A: two rows of threads in a warp, 32 + 4 words apart.
    expect(lanes([](std::uint32_t lane) { return lane / 16 * 144; }), 16, {2, 2});
    // The same of B: 16 lanes side by side, the other 16 read the same.
    expect(lanes([](std::uint32_t lane) { return lane % 16 * 16; }), 16, {4, 4});
    // decode_paged: eight lanes store 16 bytes each.
    Addresses eight(32);
    for (std::uint32_t lane = 0; lane < 8; ++lane) eight[lane] = lane * 16;
    expect(eight, 16, {1, 1}, "sm_90a", SharedAccess::store);
}

/// By the words of the model's description, with sets.
Wavefronts plainly(const Addresses& addresses, std::uint32_t width, const BankModel& model,
                   SharedAccess access) {
    const auto all_pairs = [&](std::size_t bit) {
        for (std::size_t lane = 0; lane < addresses.size(); ++lane) {
            const std::size_t other = lane ^ bit;
            if (other < addresses.size() && addresses[lane] && addresses[other] &&
                addresses[lane] != addresses[other])
                return false;
        }
        return true;
    };
    const bool load = access == SharedAccess::load;
    auto together = static_cast<std::size_t>(width <= 4   ? model.lanes_of_4
                                             : width == 8 ? model.lanes_of_8
                                                          : model.lanes_of_16);
    Wavefronts result;
    result.merged = load && model.equal_pairs_merge && width > 4 && (all_pairs(1) || all_pairs(2));
    if (result.merged) together *= 2;
    for (std::size_t first = 0; first < static_cast<std::size_t>(model.lanes); first += together) {
        std::map<std::uint32_t, std::set<std::uint32_t>> banks;
        for (std::size_t at = first; at < first + together; ++at) {
            const bool reordered = load && width == 16 && !model.load_order_of_16.empty();
            const std::size_t lane = reordered ? static_cast<std::size_t>(model.load_order_of_16[at]) : at;
            if (lane >= addresses.size() || !addresses[lane]) continue;
            for (std::uint32_t byte = *addresses[lane]; byte < *addresses[lane] + width; ++byte)
                banks[byte / 4 % 32].insert(byte / 4);
        }
        int most = 0;
        for (const auto& [bank, words] : banks) most = std::max(most, static_cast<int>(words.size()));
        result.actual += most;
        result.ideal += most > 0;
        result.degree = std::max(result.degree, most);
    }
    return result;
}

TEST(Banks, RandomAddresses) {
    std::mt19937 random(7);
    const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
    for (int round = 0; round < 2000; ++round) {
        const BankModel model = bank_model(round % 3 == 0 ? "gfx90a" : "sm_90a");
        const std::uint32_t width = 1u << below(5), range = 1u << (4 + below(9)), share = 1u << below(4);
        Addresses addresses;
        for (int lane = 0; lane < model.lanes; ++lane) {
            const bool same = static_cast<std::uint32_t>(lane) % share != 0;
            addresses.push_back(same ? addresses.back()
                                     : std::optional(below(range) * (below(9) == 0 ? 1 : width)));
            if (below(40) == 0) addresses.back().reset();
        }
        const SharedAccess access = below(2) == 0 ? SharedAccess::load : SharedAccess::store;
        const Wavefronts found = wavefronts(addresses, static_cast<int>(width), model, access);
        const Wavefronts expected = plainly(addresses, width, model, access);
        ASSERT_EQ(found.actual, expected.actual) << round;
        ASSERT_EQ(found.ideal, expected.ideal) << round;
        ASSERT_EQ(found.degree, expected.degree) << round;
        ASSERT_EQ(found.merged, expected.merged) << round;
        ASSERT_GE(found.actual, found.ideal) << round;
    }
}

TEST(Banks, CdnaServesWideReadsCrosswise) {
    const auto row = lanes([](std::uint32_t lane) { return lane * 16; }, 64);
    expect(row, 16, {8, 8}, "gfx942");
    expect(row, 16, {8, 8}, "gfx942", SharedAccess::store);
    // 0-7, 8-15, ... without conflict is right for stores; reads take 0-3 with 20-23.
    const auto by_eight = lanes(
        [](std::uint32_t lane) { return lane % 8 * 16 + lane / 8 * 128 + (lane / 16 % 2 != 0 ? 64u : 0u); },
        64);
    EXPECT_EQ(wavefronts(by_eight, 16, bank_model("gfx942"), SharedAccess::store).actual, 8);
    EXPECT_EQ(wavefronts(by_eight, 16, bank_model("gfx942"), SharedAccess::load).actual, 16);
    EXPECT_THAT(bank_model("gfx90a").load_order_of_16,
                testing::AllOf(testing::SizeIs(64), testing::Contains(63)));
    const std::vector<int> order = bank_model("gfx908").load_order_of_16;
    EXPECT_THAT(std::vector<int>(order.begin(), order.begin() + 16),
                testing::ElementsAre(0, 1, 2, 3, 20, 21, 22, 23, 4, 5, 6, 7, 16, 17, 18, 19));
}

TEST(Banks, WavesOf64) {
    expect(lanes([](std::uint32_t lane) { return lane * 4; }, 64), 4, {2, 2}, "gfx90a");
    expect(lanes([](std::uint32_t lane) { return lane * 128; }, 64), 4, {64, 2}, "gfx90a");
    expect(lanes([](std::uint32_t lane) { return lane * 8; }, 64), 8, {4, 4}, "gfx906:sramecc+:xnack-");
}

TEST(Banks, Architectures) {
    for (const char* arch : {"sm_75", "sm_90a", "sm_100f", "sm_120", "gfx1030", "gfx1100"})
        EXPECT_EQ(bank_model(arch).lanes, 32) << arch;
    for (const char* arch : {"", "sm_", "sm_9x", "sm_30", "gfx950", "gfx10", "x86-64-v3"})
        EXPECT_THROW((void)bank_model(arch), UsageError) << arch;
    EXPECT_EQ(bank_of(4 * 33 + 3, bank_model("sm_80")), 1);
}

TEST(Banks, WrongArguments) {
    EXPECT_THROW((void)wavefronts(Addresses(32), 3, BankModel{}), UsageError);
    EXPECT_THROW((void)wavefronts(Addresses(33), 4, BankModel{}), UsageError);
    BankModel model;
    model.banks = 48;
    EXPECT_THROW((void)wavefronts(Addresses(32), 4, model), UsageError);
    model.banks = 256;
    EXPECT_THROW((void)wavefronts(Addresses(32), 4, model), UsageError);
    model = {};
    model.lanes = 65;
    EXPECT_THROW((void)wavefronts(Addresses(32), 4, model), UsageError);
    // The last address there is: the second word lies behind it.
    EXPECT_EQ(wavefronts(Addresses{0xffffffffu}, 4, BankModel{}).actual, 1);
}

}  // namespace
}  // namespace kiln
