// SPDX-License-Identifier: Apache-2.0
//
// FileLock: between processes, between threads, across fork, and on files that are none of ours.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <system_error>

#include "base/file.h"
#include "base/file_lock.h"
#include "lock_processes.h"
#include "require.h"

namespace kiln {
namespace {

using test::Processes;
using test::Shared;

struct LockFile : testing::Test {
    TemporaryDirectory directory;
    const std::filesystem::path path = directory.path() / "lock";

    bool is_free() const { return FileLock::try_acquire(path).has_value(); }
    std::error_code error() const {
        try {
            FileLock::try_acquire(path);
        } catch (const std::system_error& failure) {
            EXPECT_NE(std::string(failure.what()).find(path.string()), std::string::npos) << failure.what();
            return failure.code();
        }
        return {};
    }
};

TEST_F(LockFile, OneHoldsItAndItsFileGoesWithIt) {
    auto lock = FileLock::try_acquire(path);
    ASSERT_TRUE(lock);
    struct stat status;
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    EXPECT_FALSE(is_free());

    FileLock moved = std::move(*lock);
    lock.reset();
    EXPECT_FALSE(is_free());
    auto other = FileLock::try_acquire(directory.path() / "other");
    moved = std::move(*other);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_TRUE(is_free());
    EXPECT_TRUE(std::filesystem::exists(directory.path() / "other"));
}

TEST_F(LockFile, ExcludesProcessesFromEachOtherWhileTheFileComesAndGoes) {
    struct Counts {
        std::atomic<int> inside{0}, most{0}, turns{0};
    };
    constexpr int kTurns = 2000;
    using Clock = std::chrono::steady_clock;
    Shared<Counts> counts;
    Processes processes;
    for (int p = 0; p < 4; ++p) {
        processes.start([&] {
            for (int turns = 0; turns < kTurns;) {
                const auto lock = FileLock::try_acquire(path);
                if (!lock) {
                    std::this_thread::yield();
                    continue;
                }
                if (const int inside = ++counts->inside; inside > counts->most) counts->most = inside;
                for (const auto end = Clock::now() + std::chrono::microseconds(20); Clock::now() < end;)
                    continue;
                --counts->inside;
                ++counts->turns;
                ++turns;
            }
        });
    }
    EXPECT_EQ(processes.join(), 4);
    EXPECT_EQ(counts->turns, 4 * kTurns);
    EXPECT_EQ(counts->most, 1);
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(LockFile, AForkedChildNeitherReleasesNorKeepsIt) {
    auto lock = FileLock::try_acquire(path);
    struct Steps {
        std::atomic<bool> destroyed{false}, end{false};
    };
    Shared<Steps> steps;
    Processes processes;
    processes.start([&] { lock.reset(); });
    EXPECT_EQ(processes.join(), 1);
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_FALSE(is_free());

    processes.start([&] {  // lives on with its copy of the open file
        while (!steps->end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    lock.reset();
    EXPECT_TRUE(is_free());
    steps->end = true;
    EXPECT_EQ(processes.join(), 1);
}

TEST_F(LockFile, IsFreeOnceItsHolderWasKilled) {
    Shared<std::atomic<bool>> held;
    Processes processes;
    const pid_t holder = processes.start([&] {
        const auto lock = FileLock::try_acquire(path);
        *held = true;
        ::pause();
    });
    ASSERT_TRUE(test::eventually([&] { return held->load(); }));
    EXPECT_FALSE(is_free());
    ::kill(holder, SIGKILL);
    processes.join();
    EXPECT_TRUE(is_free());
}

TEST_F(LockFile, DoesNotUnlinkAnotherHoldersFile) {
    const auto folder = directory.path() / "folder";
    std::filesystem::create_directory(folder);
    auto first = FileLock::try_acquire(folder / "lock");
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    auto second = FileLock::try_acquire(folder / "lock");
    ASSERT_TRUE(second);
    first.reset();
    EXPECT_TRUE(std::filesystem::exists(folder / "lock"));
    EXPECT_FALSE(FileLock::try_acquire(folder / "lock"));
}

TEST_F(LockFile, RejectsWhatIsNoFileOfOurs) {
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(error(), std::errc::invalid_argument);  // and does not hang
    std::filesystem::remove(path);

    const auto victim = directory.path() / "victim";
    write_text(victim, "text");
    std::filesystem::create_symlink(victim, path);
    EXPECT_EQ(error(), std::errc::too_many_symbolic_link_levels);
    EXPECT_TRUE(std::filesystem::exists(victim));
    std::filesystem::remove(path);

    std::filesystem::create_directory(path);
    EXPECT_EQ(error(), std::errc::is_a_directory);
    std::filesystem::remove(path);

    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "only root can give a file away");
    write_text(path, "");
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    EXPECT_EQ(error(), std::errc::operation_not_permitted);
}

// It would go with the lock.
TEST_F(LockFile, AFileThatHoldsSomethingIsNoLockOfAFile) {
    const auto file = directory.path() / "w.txt", place = directory.path() / "w.txt.lock";
    write_text(place, "diary");
    const auto acquired = [&] { return FileLock::acquire_for(file, std::chrono::milliseconds(0)); };
    try {
        static_cast<void>(acquired());
        FAIL() << "no error";
    } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), std::errc::file_exists);
    }
    EXPECT_EQ(read_text_if_exists(place), "diary");
    write_text(place, "");
    EXPECT_TRUE(acquired().has_value());
    EXPECT_FALSE(std::filesystem::exists(place));
}

TEST_F(LockFile, SharedWithItsGroupWhateverTheUmask) {
    const mode_t before = ::umask(077);
    const auto lock = FileLock::try_acquire(path, true);
    ::umask(before);
    ASSERT_TRUE(lock);
    struct stat status;
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0660u);
}

}  // namespace
}  // namespace kiln
