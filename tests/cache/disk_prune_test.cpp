// SPDX-License-Identifier: Apache-2.0
//
// The byte limit: who goes first, clocks that jump, and many writers at once.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <tuple>

#include "disk_support.h"
#include "lock_processes.h"

namespace kiln {
namespace {

using namespace test::disk;

const std::uint64_t kEntryBytes = entry_of(key_of("0"), 5000).size();

// Entries of one size, which were used so many seconds ago.
void fill(DiskCache& cache, const std::vector<std::pair<std::string, double>>& entries) {
    for (const auto& [text, seconds_ago] : entries) {
        ASSERT_TRUE(store(cache, text, 5000).stored) << cache.problem();
        set_age(path_of(cache, text), seconds_ago);
    }
}

std::string present(const DiskCache& cache, const std::string& all) {
    std::string result;
    for (const char text : all)
        if (has(cache, std::string(1, text))) result += text;
    return result;
}

TEST(DiskPrune, TheLeastRecentlyUsedGoesFirst) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path(), kEntryBytes * 5});
    fill(cache, {{"a", 30}, {"b", 50}, {"c", 10}, {"d", 20}, {"e", 40}});
    const std::string all = "abcdefgh";
    ASSERT_EQ(present(cache, all), "abcde");
    EXPECT_EQ(store(cache, "f", 5000).pruned_entries, 2u) << "one for it, and one below the limit";
    EXPECT_EQ(present(cache, all), "acdf");
    // A look-up counts as use, a peek does not.
    EXPECT_TRUE(cache.peek(key_of("d")).binary);
    EXPECT_TRUE(cache.find(key_of("a")).binary);
    const auto stored = store(cache, "g", 5000);
    EXPECT_EQ(stored.pruned_entries, 0u);
    EXPECT_EQ(store(cache, "h", 5000).pruned_bytes, 2 * kEntryBytes);
    EXPECT_EQ(present(cache, all), "afgh");
}

TEST(DiskPrune, TheEntryThatIsStoredStays) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path(), kEntryBytes * 2});
    fill(cache, {{"a", -1000}, {"b", -2000}});
    // Though all others claim to be newer, and though it is replaced.
    for (const std::string text : {"c", "c", "d"}) {
        EXPECT_TRUE(store(cache, text, 5000).stored);
        EXPECT_TRUE(has(cache, text));
        EXPECT_LE(cache.usage().bytes, kEntryBytes * 2);
    }
    DiskCache exact({directory.path(), kEntryBytes});
    EXPECT_TRUE(store(exact, "e", 5000).stored);
    EXPECT_EQ(exact.usage().entries, 1u);
    EXPECT_TRUE(has(exact, "e"));
}

TEST(DiskPrune, AnEntryThatIsReplacedCountsOnce) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path(), kEntryBytes * 2});
    fill(cache, {{"a", 20}, {"b", 10}});
    for (int i = 0; i < 5; ++i) EXPECT_EQ(store(cache, "b", 5000).pruned_entries, 0u);
    EXPECT_EQ(present(cache, "ab"), "ab");
}

TEST(DiskPrune, OrderHoldsWhenTheClockHasJumped) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path(), kEntryBytes * 100});
    const double year = 365.0 * 24 * 3600;
    // Used in this order: c and d while the clock was far ahead, e while it stood at the start of all time.
    fill(cache, {{"a", 50}, {"b", 40}, {"c", -70 * year}, {"d", -71 * year}, {"e", 50 * year}});
    cache.prune(kEntryBytes * 4);
    EXPECT_EQ(present(cache, "abcde"), "abcd");
    // What lay in the future is now what was used last, in its own order, and ages from now on.
    for (const auto& item : cache.items()) EXPECT_LE(item.last_used, std::chrono::system_clock::now());
    ::usleep(20000);
    fill(cache, {{"f", 0}});
    cache.prune(kEntryBytes * 2);
    EXPECT_EQ(present(cache, "abcdf"), "df");
}

TEST(DiskPrune, OfOperators) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    fill(cache, {{"a", 30}, {"b", 20}, {"c", 10}});
    auto gone = cache.prune(kEntryBytes * 2);
    EXPECT_EQ(gone.entries, 1u);
    EXPECT_EQ(gone.bytes, kEntryBytes);
    EXPECT_EQ(present(cache, "abc"), "bc");
    EXPECT_EQ(cache.prune(kEntryBytes * 2).entries, 0u);
    Counters counters;
    counters.misses = 4;
    cache.add(counters);
    EXPECT_EQ(cache.usage().counters.misses, 4u);
    write_text(path_of(cache, "b"), "");  // counts nothing, and goes all the same
    gone = cache.clear();
    EXPECT_EQ(gone.entries, 2u);
    EXPECT_EQ(gone.bytes, kEntryBytes);
    EXPECT_EQ(cache.usage().entries, 0u);
    EXPECT_EQ(cache.usage().counters.misses, 0u);
    EXPECT_EQ(count_files(directory.path()), 0u);
    EXPECT_TRUE(std::filesystem::is_directory(directory.path()));
    EXPECT_TRUE(store(cache, "a").stored);
}

// Entries that were there from before the end of the first of two listings until after the start of the
// second were all there at one instant: a lower bound of what the directory held then, without stopping
// anybody.
std::uint64_t bytes_at_once(const std::filesystem::path& directory) {
    using Identity = std::tuple<std::string, ino_t, time_t, long>;
    const auto list = [&] {
        std::map<Identity, std::uint64_t> files;
        std::error_code error;
        std::filesystem::directory_iterator shards(directory / "v1", error);
        for (; !error && shards != std::filesystem::directory_iterator(); shards.increment(error)) {
            std::filesystem::directory_iterator items(shards->path(), error);
            for (; !error && items != std::filesystem::directory_iterator(); items.increment(error)) {
                struct stat status;
                if (items->path().extension() == ".kiln" && ::stat(items->path().c_str(), &status) == 0)
                    files[{items->path().string(), status.st_ino, status.st_mtim.tv_sec,
                           status.st_mtim.tv_nsec}] = static_cast<std::uint64_t>(status.st_size);
            }
            error.clear();
        }
        return files;
    };
    const auto first = list();
    const auto second = list();
    std::uint64_t bytes = 0;
    for (const auto& [identity, size] : first)
        if (second.contains(identity)) bytes += size;
    return bytes;
}

TEST(DiskPrune, TheLimitHoldsUnderEightWriters) {
    const TemporaryDirectory directory;
    constexpr std::uint64_t kLimit = 200000;
    constexpr std::size_t kLargest = 20000;
    const int rounds = kSanitized ? 20 : 60;
    constexpr int kLooks = 25;
    // On a busy machine the watcher gets its share late: the writers go on until it has seen them work.
    const test::Shared<std::atomic<int>> looks;
    std::vector<pid_t> writers;
    for (int writer = 0; writer < 8; ++writer) {
        writers.push_back(start_child([&] {
            DiskCache cache({directory.path(), kLimit});
            std::mt19937 random(static_cast<unsigned>(writer));
            for (int i = 0; i < rounds || *looks < kLooks; ++i) {
                const std::string text = std::to_string(random() % 500);
                const auto stored = store(cache, text, 500 + random() % (kLargest - 500));
                if (!stored.stored) return fail_in_child("not stored: " + cache.problem() + stored.reason);
                const auto found = cache.find(key_of(std::to_string(random() % 500)));
                if (!found.rejected.empty()) return fail_in_child(found.rejected);
            }
            return 0;
        }));
    }
    std::uint64_t most = 0;
    for (std::size_t running = writers.size(); running > 0; ++*looks) {
        most = std::max(most, bytes_at_once(directory.path()));
        int status = 0;
        if (::waitpid(-1, &status, WNOHANG) <= 0) continue;
        --running;
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    EXPECT_LE(most, kLimit + kLargest + 1000);
    EXPECT_GT(most, kLimit / 2) << "the watcher saw nothing";
    EXPECT_GE(*looks, kLooks);
    DiskCache cache({directory.path(), kLimit});
    EXPECT_LE(cache.usage().bytes, kLimit);
    EXPECT_GT(cache.usage().bytes, kLimit * 8 / 10) << "too much was removed";
    EXPECT_TRUE(cache.verify(false).damaged.empty());
}

}  // namespace
}  // namespace kiln
