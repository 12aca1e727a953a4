// SPDX-License-Identifier: Apache-2.0
//
// Writers killed at random instants leave whole entries, a state that never says too little, and temporary
// files that the next one sweeps.
#include <gtest/gtest.h>
#include <signal.h>

#include <random>

#include "cache/disk_scan.h"
#include "cache/disk_state.h"
#include "disk_support.h"

namespace kiln {
namespace {

using namespace test::disk;

constexpr std::uint64_t kKilledLimit = 600000;

[[noreturn]] void store_for_ever(const std::filesystem::path& directory, unsigned seed) {
    DiskCache cache({directory, kKilledLimit});
    std::mt19937 random(seed);
    Counters counters;
    counters.compiles = 1;
    for (;;) {
        store(cache, std::to_string(random() % 40), 1 + random() % 60000,
              static_cast<unsigned char>(random()));
        cache.find(key_of(std::to_string(random() % 40)));
        cache.add(counters);
    }
}

DiskState state_of(const std::filesystem::path& directory, std::string& reason) {
    return parse_state(read_text_if_exists(directory / "v1" / "state").value_or(""), reason);
}

TEST(DiskKilled, TwoThousandWriters) {
    const TemporaryDirectory directory;
    const unsigned writers = kSanitized ? 200 : 2000;
    constexpr unsigned kAtATime = 16;
    std::mt19937 random(20);
    std::uint64_t served = 0;
    std::uint64_t temporaries_seen = 0;
    const DiskCache reader({directory.path(), kKilledLimit});
    for (unsigned started = 0; started < writers;) {
        std::vector<pid_t> children;
        for (; children.size() < kAtATime && started < writers; ++started) {
            children.push_back(start_child([&] {
                store_for_ever(directory.path(), started);
                return 0;
            }));
            ASSERT_GT(children.back(), 0);
        }
        std::shuffle(children.begin(), children.end(), random);
        for (const pid_t child : children) {
            ::usleep(static_cast<useconds_t>(random() % 3000));
            ::kill(child, SIGKILL);
            EXPECT_EQ(wait_for(child), -SIGKILL);
            const auto found = reader.find(key_of(std::to_string(random() % 40)));
            EXPECT_EQ(found.rejected, "");
            served += found.binary.has_value();
        }
        temporaries_seen += count_temporaries(reader);
        std::string reason;
        const auto state = state_of(directory.path(), reason);
        EXPECT_EQ(reason, "") << "a state was half written";
        if (state.counted_at > 0) {
            EXPECT_GE(state.entry_bytes, reader.usage().bytes);
        }
        EXPECT_LE(reader.usage().bytes, kKilledLimit);
    }
    EXPECT_GT(served, writers / 4);
    EXPECT_GT(temporaries_seen, 0u) << "nobody was killed in the middle";

    DiskCache cache({directory.path(), kKilledLimit});
    for (const auto& damage : cache.verify(false).damaged)
        EXPECT_EQ(damage.file.parent_path().filename(), "tmp") << damage.file << ": " << damage.reason;
    EXPECT_TRUE(store(cache, "last").stored) << cache.problem();
    EXPECT_EQ(count_temporaries(cache), 0u) << "a first store sweeps";
    cache.prune(kKilledLimit);
    std::string reason;
    const auto state = state_of(directory.path(), reason);
    const auto usage = cache.usage();
    EXPECT_EQ(state.entry_bytes, usage.bytes);
    EXPECT_GT(state.counted_at, 0);
    EXPECT_GT(usage.entries, 5u);
    EXPECT_GT(usage.counters.compiles, 0u);
    const auto verified = cache.verify(false);
    EXPECT_EQ(verified.sound, usage.entries);
    EXPECT_TRUE(verified.damaged.empty());
}

}  // namespace
}  // namespace kiln
