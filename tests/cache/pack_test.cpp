// SPDX-License-Identifier: Apache-2.0
//
// Seed packs as files: what goes in comes out, what can't be trusted or read finds nothing and says why, and
// a pack that could not be written leaves nothing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "base/file.h"
#include "pack_support.h"
#include "require.h"

namespace kiln {
namespace {

using test::Entries;
using test::pack_binary;
using test::pack_entries;
using test::pack_key;
using test::write_entries;
using testing::HasSubstr;

/// Root may read and write everything; for a while this process is a user who may not.
class AsNobody {
  public:
    AsNobody() : was_root_(::geteuid() == 0) {
        if (was_root_ && ::seteuid(65534) != 0) std::abort();
    }
    ~AsNobody() {
        if (was_root_ && ::seteuid(0) != 0) std::abort();
    }
    bool was_root() const { return was_root_; }

  private:
    bool was_root_;
};

class SeedPackTest : public testing::Test {
  protected:
    std::size_t files() const {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator(directory_.path()), {}));
    }
    static std::size_t open_files() {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
    }
    void expect_refused(const std::string& why) {
        const SeedPack pack(file_, {});
        EXPECT_THAT(pack.problem(), HasSubstr(why));
        EXPECT_THAT(pack.problem(), HasSubstr(file_.string()));
        EXPECT_EQ(pack.size(), 0u);
        const Lookup lookup = pack.find(pack_key(0));
        EXPECT_FALSE(lookup.binary);
        EXPECT_EQ(lookup.rejected, "");
    }

    TemporaryDirectory directory_;
    std::filesystem::path file_ = directory_.path() / "seed.pack";
};

TEST_F(SeedPackTest, ComesBackAsItWentIn) {
    for (const int count : {0, 1, 3, 1000}) {
        const Entries entries = pack_entries(count);
        const PackWritten written = write_entries(file_, entries);
        EXPECT_EQ(written.entries, static_cast<std::uint64_t>(count));
        EXPECT_EQ(written.bytes, std::filesystem::file_size(file_));
        const SeedPack pack(file_, {});
        ASSERT_EQ(pack.problem(), "");
        ASSERT_EQ(pack.size(), entries.size());
        std::size_t index = 0;
        for (const auto& [digest, entry] : entries) {
            EXPECT_EQ(pack.digest(index), digest);
            EXPECT_EQ(pack.entry(index++), entry);
        }
        for (int i = 0; i < count; ++i) {
            const Lookup lookup = pack.find(pack_key(i));
            ASSERT_TRUE(lookup.binary) << lookup.rejected;
            EXPECT_EQ(lookup.binary->bytes, pack_binary(i).bytes);
            EXPECT_EQ(lookup.binary->log, pack_binary(i).log);
            EXPECT_EQ(lookup.entry, entries.at(pack_key(i).digest));
            EXPECT_EQ(lookup.place, file_.string());
        }
        const Lookup none = pack.find(pack_key(count));
        EXPECT_FALSE(none.binary);
        EXPECT_EQ(none.rejected + none.place, "");
    }
}

TEST_F(SeedPackTest, IsMappedNotCopied) {
    write_entries(file_, pack_entries(3));
    const SeedPack pack(file_, {});
    const Lookup lookup = pack.find(pack_key(1));
    ASSERT_TRUE(lookup.binary);
    EXPECT_GE(lookup.binary->bytes.data(), lookup.entry.data());
    EXPECT_LE(lookup.binary->bytes.end(), lookup.entry.end());
    bool same = false;
    for (std::size_t i = 0; i < pack.size(); ++i) same = same || pack.entry(i).data() == lookup.entry.data();
    EXPECT_TRUE(same);
}

TEST_F(SeedPackTest, BytesOutliveThePackAndItsFile) {
    write_entries(file_, pack_entries(3));
    const std::size_t before = open_files();
    Bytes bytes;
    {
        const SeedPack pack(file_, {});
        EXPECT_EQ(open_files(), before);
        bytes = pack.find(pack_key(2)).binary->bytes;
    }
    std::filesystem::remove(file_);
    EXPECT_EQ(bytes, pack_binary(2).bytes);
}

TEST_F(SeedPackTest, AReplacedPackStaysWholeForThoseWhoHaveItOpen) {
    write_entries(file_, pack_entries(3));
    const SeedPack pack(file_, {});
    write_entries(file_, {});
    EXPECT_TRUE(pack.find(pack_key(1)).binary);
    EXPECT_EQ(SeedPack(file_, {}).size(), 0u);
}

TEST_F(SeedPackTest, APackThatWasChangedInPlaceIsNotReadAnyFurther) {
    write_entries(file_, pack_entries(3));
    const SeedPack pack(file_, {});
    ASSERT_TRUE(pack.find(pack_key(1)).binary);
    ASSERT_EQ(::truncate(file_.c_str(), 0), 0);
    const Lookup lookup = pack.find(pack_key(1));
    EXPECT_FALSE(lookup.binary);
    EXPECT_THAT(lookup.rejected, HasSubstr("changed in place"));
}

TEST_F(SeedPackTest, FollowsSymbolicLinks) {
    write_entries(directory_.path() / "other", pack_entries(3));
    std::filesystem::create_symlink("other", file_);
    EXPECT_TRUE(SeedPack(file_, {}).find(pack_key(0)).binary);
}

TEST_F(SeedPackTest, ThreadsMayLookUpAtOnce) {
    write_entries(file_, pack_entries(20));
    const SeedPack pack(file_, {});
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 20; ++i)
                EXPECT_EQ(pack.find(pack_key(i)).binary->bytes, pack_binary(i).bytes);
        });
}

TEST_F(SeedPackTest, WhatIsNoPackIsRejectedWithAReason) {
    expect_refused("No such file");
    std::filesystem::create_directory(file_);
    expect_refused("it is a directory");
    std::filesystem::remove(file_);
    ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
    expect_refused("it is a FIFO and no regular file");  // and nobody waits for a writer
    std::filesystem::remove(file_);
    write_text(file_, "");
    expect_refused("it is too short");
    write_text(file_, std::string(1000, 'x'));
    expect_refused("it does not start like a Kiln pack");
}

TEST_F(SeedPackTest, WhatOthersMayWriteIsRejected) {
    write_entries(file_, pack_entries(1));
    for (const mode_t mode : {0646, 0666, 0664}) {
        ASSERT_EQ(::chmod(file_.c_str(), mode), 0);
        expect_refused("write");
    }
    EXPECT_EQ(SeedPack(file_, {.group = true}).problem(), "");
    ASSERT_EQ(::chmod(file_.c_str(), 0444), 0);
    EXPECT_EQ(SeedPack(file_, {}).problem(), "");
}

TEST_F(SeedPackTest, WhatBelongsToSomebodyElseIsRejected) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "only root can give a file away");
    write_entries(file_, pack_entries(1));
    ASSERT_EQ(::chown(file_.c_str(), 1001, 1001), 0);
    expect_refused("1001");
}

TEST_F(SeedPackTest, WhatCannotBeReadIsRejected) {
    write_entries(file_, pack_entries(1));
    ASSERT_EQ(::chmod(file_.c_str(), 0), 0);
    ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
    const AsNobody nobody;
    expect_refused("Permission denied");
}

TEST_F(SeedPackTest, RepeatedDigestsAreWrittenOnceAndEmptyAnswersLeftOut) {
    const Entries entries = pack_entries(3);
    std::vector<std::string> digests;
    for (const auto& [digest, entry] : entries) digests.insert(digests.end(), 2, digest);
    int asked = 0;
    const auto written = write_pack(file_, digests, [&](const std::string& digest) {
        ++asked;
        return digest == pack_key(1).digest ? Bytes() : entries.at(digest);
    });
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(written.entries, 2u);
    const SeedPack pack(file_, {});
    EXPECT_EQ(pack.size(), 2u);
    EXPECT_TRUE(pack.find(pack_key(0)).binary);
    EXPECT_FALSE(pack.find(pack_key(1)).binary);
    EXPECT_TRUE(pack.find(pack_key(2)).binary);
}

TEST_F(SeedPackTest, OfEntriesThatFitTheFirstOneWrittenServes) {
    Source source{"k.cu", "k", "text", {}};
    const Target target{Backend::cuda, "sm_90a", {}};
    Entries entries;
    std::vector<std::string> digests;
    for (int i = 0; i < 5; ++i) {
        source.include_digest = std::to_string(i);
        const BuildKey key = make_build_key(target, "compiler 1.0", {}, source);
        entries.emplace(key.digest, encode_entry(key, pack_binary(i)));
        digests.push_back(key.digest);
    }
    source.include_digest.clear();
    const BuildKey open = make_open_key(target, {}, source);
    for (int i = 0; i < 5; ++i) {
        std::ranges::rotate(digests, digests.begin() + 1);
        write_pack(file_, digests, [&](const std::string& digest) { return entries.at(digest); });
        const SeedPack pack(file_, {});
        EXPECT_EQ(pack.find_of_any_compiler(open, Includes::any).key.digest, digests[0]);
        EXPECT_FALSE(pack.find_of_any_compiler(open, Includes::same).binary);
    }
}

TEST_F(SeedPackTest, SameEntriesSameBytes) {
    write_entries(file_, pack_entries(5));
    const auto first = read_bytes_if_exists(file_);
    write_entries(file_, pack_entries(5));
    EXPECT_EQ(first, read_bytes_if_exists(file_));
}

TEST_F(SeedPackTest, EverybodyMayReadItAsFarAsTheUmaskGoes) {
    for (const auto& [mask, mode] : {std::pair<mode_t, mode_t>{022, 0644}, {077, 0600}, {0, 0644}}) {
        std::filesystem::remove(file_);  // an existing one would keep its mode
        const mode_t before = ::umask(mask);
        write_entries(file_, pack_entries(1));
        ::umask(before);
        struct stat status;
        ASSERT_EQ(::stat(file_.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777, mode);
    }
    EXPECT_EQ(files(), 1u);
}

TEST_F(SeedPackTest, AWriterThatFailsLeavesNothingNew) {
    write_entries(file_, pack_entries(1));
    const auto before = read_bytes_if_exists(file_);
    const std::vector<std::string> digests = {pack_key(0).digest, pack_key(1).digest};
    EXPECT_THROW(
        write_pack(file_, digests, [](const std::string&) -> Bytes { throw std::runtime_error("x"); }),
        std::runtime_error);
    EXPECT_THROW(write_pack(file_, {"no digest"}, [](const std::string&) { return Bytes(); }),
                 std::system_error);
    EXPECT_THROW(write_entries(directory_.path() / "none" / "seed.pack", pack_entries(1)), std::system_error);
    std::filesystem::create_directory(directory_.path() / "folder");
    EXPECT_THROW(write_entries(directory_.path() / "folder", pack_entries(1)), std::system_error);
    EXPECT_EQ(before, read_bytes_if_exists(file_));
    EXPECT_EQ(files(), 2u);
}

TEST_F(SeedPackTest, WhenThereIsNoRoomNothingStays) {
    // A limit on the size of files fails like a full disk, in the midst of a write.
    struct rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit small = before;
    for (const rlim_t limit : {0, 100, 3000}) {
        small.rlim_cur = limit;
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
        EXPECT_THROW(write_entries(file_, pack_entries(10)), std::system_error) << limit;
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
        EXPECT_EQ(files(), 0u);
    }
    std::signal(SIGXFSZ, handler);
}

TEST_F(SeedPackTest, WhereNothingMayBeWrittenNothingStays) {
    ASSERT_EQ(::chmod(directory_.path().c_str(), 0555), 0);
    {
        const AsNobody nobody;
        EXPECT_THROW(write_entries(file_, pack_entries(1)), std::system_error);
    }
    EXPECT_EQ(files(), 0u);
    ASSERT_EQ(::chmod(directory_.path().c_str(), 0700), 0);
}

}  // namespace
}  // namespace kiln
