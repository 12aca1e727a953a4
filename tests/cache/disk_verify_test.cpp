// SPDX-License-Identifier: Apache-2.0
//
// Verifying a directory: what is damaged, misplaced, foreign or left behind is found, told and removed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <map>
#include <thread>

#include "cache/disk_temporary.h"
#include "disk_support.h"

namespace kiln {
namespace {

using namespace test::disk;
using std::filesystem::path;

TEST(DiskVerify, FindsAndRemovesWhatIsWrong) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    for (const std::string text : {"sound", "damaged", "misplaced", "misnamed", "writable", "state"})
        ASSERT_TRUE(store(cache, text, 5000).stored);
    const path v1 = directory.path() / "v1";
    std::map<path, std::string> wrong;

    std::filesystem::resize_file(path_of(cache, "damaged"), 4000);
    wrong[path_of(cache, "damaged")] = "bytes and should have";
    const path elsewhere = path_of(cache, "sound").parent_path() / path_of(cache, "misplaced").filename();
    ASSERT_NE(elsewhere, path_of(cache, "misplaced"));
    std::filesystem::rename(path_of(cache, "misplaced"), elsewhere);
    wrong[elsewhere] = "belongs into the directory";
    const std::string digest = key_of("misnamed").digest;
    const path misnamed = path_of(cache, "misnamed").parent_path() / (digest.substr(0, 60) + "0000.kiln");
    std::filesystem::rename(path_of(cache, "misnamed"), misnamed);
    wrong[misnamed] = "other ingredients";
    ASSERT_EQ(::chmod(path_of(cache, "writable").c_str(), 0666), 0);
    wrong[path_of(cache, "writable")] = "others may write";
    for (const path& foreign : {path_of(cache, "sound").parent_path() / "notes.txt", v1 / "notes.txt"}) {
        write_text(foreign, "not ours");
        wrong[foreign] = "no ";
    }
    const path link = path_of(cache, "sound").parent_path() / (std::string(64, 'a') + ".kiln");
    std::filesystem::create_symlink(path_of(cache, "sound"), link);
    wrong[link] = "";
    write_text(v1 / "state", "kiln-state 1\n");
    wrong[v1 / "state"] = "checksum";
    path left_behind;
    EXPECT_EQ(in_child([&] {
                  const FileDescriptor version(::open(v1.c_str(), O_RDONLY | O_DIRECTORY));
                  const DiskTemporary temporary(version.value(), {});
                  ::kill(::getpid(), SIGKILL);
                  return 0;
              }),
              -SIGKILL);
    const FileDescriptor version(::open(v1.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const auto& item : std::filesystem::directory_iterator(v1 / "tmp")) left_behind = item.path();
    wrong[left_behind] = "writer died";
    const DiskTemporary in_the_making(version.value(), {});
    const path kept = v1 / "keep";
    std::filesystem::create_directories(kept / "full");
    wrong[kept] = "no part of the cache";

    for (const bool remove : {false, true}) {
        const auto result = cache.verify(remove);
        EXPECT_EQ(result.sound, 2u);
        auto expected = wrong;
        for (const auto& damage : result.damaged) {
            ASSERT_TRUE(expected.contains(damage.file)) << damage.file << ": " << damage.reason;
            EXPECT_NE(damage.reason, "");
            EXPECT_NE(damage.reason.find(expected[damage.file]), std::string::npos)
                << damage.file << ": " << damage.reason;
            expected.erase(damage.file);
        }
        for (const auto& [file, reason] : expected) ADD_FAILURE() << file << " was not found";
    }
    for (const auto& [file, reason] : wrong)
        EXPECT_EQ(std::filesystem::exists(std::filesystem::symlink_status(file)), file == kept) << file;
    EXPECT_EQ(count_temporaries(cache), 1u) << "a living writer's file was removed";
    EXPECT_TRUE(has(cache, "sound"));
    EXPECT_TRUE(std::filesystem::exists(kept / "full")) << "a directory with something in it was removed";
    EXPECT_EQ(cache.verify(true).damaged.size(), 1u);
}

// How the names of this process's temporary files start.
std::string of_living_process() {
    const TemporaryDirectory directory;
    const FileDescriptor version(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const DiskTemporary temporary(version.value(), {});
    const auto file = *std::filesystem::directory_iterator(directory.path() / "tmp");
    const std::string name = file.path().filename();
    return name.substr(0, name.rfind('-') + 1);
}

// Process ids are given again, in a new container from the start. What is not the cache's stays.
TEST(DiskVerify, LeftBehindFilesThatMayHaveAWriterGoAfterADay) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    ASSERT_TRUE(store(cache, "a").stored);
    const path temporaries = directory.path() / "v1" / "tmp";
    const std::map<std::string, double> ages = {{"4000000-0123456789abcdef-youngyoungyo", 3600},
                                                {"4000000-0123456789abcdef-oldoldoldold", 90000},
                                                {"4000000-0123456789abcdef-futurefuture", -90000},
                                                {of_living_process() + "youngyoungyo", 3600},
                                                {of_living_process() + "oldoldoldold", 90000},
                                                {"foreign", 10},
                                                {"foreign-old", 90000}};
    for (const auto& [name, age] : ages) {
        write_text(temporaries / name, "x");
        set_age(temporaries / name, age);
    }
    cache.prune(1 << 20);
    std::vector<std::string> left;
    for (const auto& item : std::filesystem::directory_iterator(temporaries))
        left.push_back(item.path().filename().string());
    std::sort(left.begin(), left.end());
    std::vector<std::string> young = {"4000000-0123456789abcdef-youngyoungyo", "foreign", "foreign-old",
                                      of_living_process() + "youngyoungyo"};
    std::sort(young.begin(), young.end());
    EXPECT_EQ(left, young);
    cache.clear();
    for (const char* foreign : {"foreign", "foreign-old"})
        EXPECT_TRUE(std::filesystem::exists(temporaries / foreign)) << foreign;
}

TEST(DiskVerify, RunningOutOfDescriptorsIsNotDamage) {
    if (test::kAddressSanitized) GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors";
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    constexpr int kEntries = 60;
    for (int i = 0; i < kEntries; ++i) ASSERT_TRUE(store(cache, std::to_string(i)).stored);
    EXPECT_EQ(in_child([&] {
                  const rlimit limit{40, 40};
                  ::setrlimit(RLIMIT_NOFILE, &limit);
                  std::atomic<bool> done{false};
                  std::thread eater([&] {
                      std::vector<FileDescriptor> eaten;
                      while (!done) {
                          eaten.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
                          if (eaten.back()) continue;
                          ::usleep(300);
                          eaten.clear();
                          ::usleep(300);
                      }
                  });
                  int failed = 0;
                  std::size_t damaged = 0;
                  for (int i = 0; i < 150; ++i) {
                      try {
                          damaged += cache.verify(true).damaged.size();
                      } catch (const CacheError&) {
                          ++failed;
                      }
                  }
                  done = true;
                  eater.join();
                  if (failed == 0) return fail_in_child("there was no want");
                  return damaged == 0 ? 0 : fail_in_child(std::to_string(damaged) + " damaged");
              }),
              0);
    EXPECT_EQ(cache.usage().entries, std::uint64_t{kEntries});
}

TEST(DiskVerify, OperatorsSeeWhatIsWrongWithTheDirectory) {
    const TemporaryDirectory directory;
    ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
    DiskCache cache({directory.path()});
    const auto expect_told = [&](const std::function<void()>& call) {
        try {
            call();
            ADD_FAILURE() << "nothing was thrown";
        } catch (const CacheError& error) {
            EXPECT_NE(std::string(error.what()).find("chmod"), std::string::npos) << error.what();
        }
    };
    expect_told([&] { cache.items(); });
    expect_told([&] { cache.usage(); });
    expect_told([&] { cache.verify(true); });
    expect_told([&] { cache.prune(0); });
    expect_told([&] { cache.clear(); });
}

}  // namespace
}  // namespace kiln
