// SPDX-License-Identifier: Apache-2.0
//
// The state file: whatever is wrong with it is noticed, and makes the next store count.
#include "cache/disk_state.h"

#include <gtest/gtest.h>

#include "disk_support.h"

namespace kiln {
namespace {

using namespace test::disk;

DiskState sample() {
    DiskState state;
    state.entry_bytes = 123456789;
    state.counted_at = 1700000000;
    std::uint64_t value = 1;
    for (const auto& field : counter_fields()) state.counters.*field.value = value *= 7;
    return state;
}

TEST(DiskState, ComesBackAsItWentIn) {
    std::string reason = "not touched";
    const auto state = parse_state(state_text(sample()), reason);
    EXPECT_EQ(reason, "");
    EXPECT_EQ(state.entry_bytes, sample().entry_bytes);
    EXPECT_EQ(state.counted_at, sample().counted_at);
    EXPECT_EQ(state.counters, sample().counters);
}

TEST(DiskState, EveryChangeIsNoticed) {
    const std::string text = state_text(sample());
    std::string reason;
    for (std::size_t i = 0; i < text.size(); ++i) {
        for (const char bit : {'\x01', '\x10'}) {
            std::string changed = text;
            changed[i] = static_cast<char>(changed[i] ^ bit);
            EXPECT_EQ(parse_state(changed, reason).counted_at, 0) << i;
            EXPECT_NE(reason, "") << i;
        }
        EXPECT_EQ(parse_state(text.substr(0, i), reason).counted_at, 0) << i;
        EXPECT_NE(reason, "") << i;
    }
    EXPECT_EQ(parse_state(text + "\n", reason).counted_at, 0);
    EXPECT_EQ(parse_state(text.substr(0, text.size() - 1), reason).counters, sample().counters);
}

TEST(DiskState, AWrongStateIsCorrectedByTheNextStore) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    const auto state = directory.path() / "v1" / "state";
    const std::uint64_t bytes = entry_of(key_of("a"), 5000).size();
    ASSERT_TRUE(store(cache, "a", 5000).stored);
    const auto known_bytes = [&] {
        std::string reason;
        const auto known = parse_state(read_text_if_exists(state).value_or(""), reason);
        return reason.empty() && known.counted_at > 0 ? known.entry_bytes : 0;
    };
    EXPECT_EQ(known_bytes(), bytes);

    std::uint64_t entries = 1;
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    DiskState wrong;
    wrong.entry_bytes = 77;
    for (const std::int64_t counted_at : {now - 700, now + 5000, std::int64_t{0}, std::int64_t{-5}}) {
        wrong.counted_at = counted_at;
        write_text(state, state_text(wrong));
        ASSERT_TRUE(store(cache, std::to_string(entries++), 5000).stored);
        EXPECT_EQ(known_bytes(), entries * bytes) << counted_at;
    }
    for (const std::string text : {"", "garbage", "kiln-state 1\nentry_bytes 5\n"}) {
        write_text(state, text);
        ASSERT_TRUE(store(cache, std::to_string(entries++), 5000).stored);
        EXPECT_EQ(known_bytes(), entries * bytes) << text;
    }
    std::filesystem::remove(state);
    ASSERT_TRUE(store(cache, std::to_string(entries++), 5000).stored);
    EXPECT_EQ(known_bytes(), entries * bytes);
    // A recent one is believed: no store of a small cache counts all files.
    wrong.counted_at = now;
    write_text(state, state_text(wrong));
    ASSERT_TRUE(store(cache, std::to_string(entries++), 5000).stored);
    EXPECT_EQ(known_bytes(), 77 + bytes);
    cache.prune(std::uint64_t{1} << 40);
    EXPECT_EQ(known_bytes(), entries * bytes);
}

}  // namespace
}  // namespace kiln
