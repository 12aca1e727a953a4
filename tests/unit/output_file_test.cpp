// SPDX-License-Identifier: Apache-2.0
//
// base/output_file: a file appears whole where links end, and keeps its mode and owner; nothing else that is there is
// ever replaced or removed.
#include "base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/tools/regress.h>
#include <kiln/wisdom.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/file.h"
#include "base/file_name.h"
#include "require.h"
#include "tune/journal.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr uid_t kSomebody = 65534;

class OutputFiles : public ::testing::Test {
  protected:
    OutputFiles() { ::umask(022); }

    fs::path path(const std::string& name) const { return folder_.path() / name; }
    struct stat status(const std::string& name) const {
        struct stat found {};
        EXPECT_EQ(::lstat(path(name).c_str(), &found), 0) << name;
        return found;
    }
    mode_t mode(const std::string& name) const { return status(name).st_mode & 07777; }
    std::string content(const std::string& name) const {
        return read_text_if_exists(path(name)).value_or("(none)");
    }
    std::size_t count() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
    }
    static std::string error(const fs::path& name) {
        try {
            write_output_file(name, "new");
        } catch (const FileError& failure) {
            EXPECT_THAT(failure.what(), HasSubstr("can't write " + name.string() + ": "));
            return failure.reason();
        }
        return "no error";
    }

    TemporaryDirectory folder_;
};

/// As another user, as long as it lives; root only.
class AsSomebody {
  public:
    AsSomebody() { EXPECT_EQ(::seteuid(kSomebody), 0); }
    ~AsSomebody() { EXPECT_EQ(::seteuid(0), 0); }
};

TEST_F(OutputFiles, ANewOneHasWhatTheUmaskLeaves) {
    write_output_file(path("new"), "first");
    EXPECT_EQ(content("new"), "first");
    EXPECT_EQ(mode("new"), 0644u);
    EXPECT_EQ(count(), 1u);
    OutputFile file(path("private"), 0600);
    file.publish();
    EXPECT_EQ(mode("private"), 0600u);
}

TEST_F(OutputFiles, AnExistingOneIsReplacedAndKeepsItsMode) {
    write_text(path("old"), "first");
    ASSERT_EQ(::chmod(path("old").c_str(), 0751), 0);
    const ino_t before = status("old").st_ino;
    const FileDescriptor reader(::open(path("old").c_str(), O_RDONLY));
    write_output_file(path("old"), "the second, longer");
    EXPECT_EQ(content("old"), "the second, longer");
    EXPECT_EQ(mode("old"), 0751u);
    EXPECT_NE(status("old").st_ino, before);
    EXPECT_EQ(read_descriptor_text(reader.value(), "reader"), "first")
        << "who reads it sees the whole old one";
    EXPECT_EQ(count(), 1u);
}

TEST_F(OutputFiles, AnExistingOneKeepsItsOwner) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "only root can give a file away");
    write_text(path("old"), "first");
    ASSERT_EQ(::chmod(path("old").c_str(), 0640), 0);
    ASSERT_EQ(::chown(path("old").c_str(), kSomebody, 12345), 0);
    write_output_file(path("old"), "second");
    EXPECT_EQ(content("old"), "second");
    EXPECT_EQ(status("old").st_uid, kSomebody);
    EXPECT_EQ(status("old").st_gid, 12345u);
    EXPECT_EQ(mode("old"), 0640u);
}

TEST_F(OutputFiles, ChainsOfLinksAreFollowed) {
    fs::create_directory(path("folder"));
    write_text(path("folder/target"), "first");
    fs::create_symlink("target", path("folder/second"));
    fs::create_symlink("folder/second", path("first"));
    fs::create_symlink(path("first"), path("absolute"));
    fs::create_symlink("folder", path("way"));
    fs::create_symlink("way/../folder/target", path("roundabout"));
    for (const char* name : {"first", "absolute", "roundabout"}) {
        EXPECT_EQ(OutputPlace(path(name)).path().filename(), "target");
        write_output_file(path(name), name);
        EXPECT_EQ(content("folder/target"), name);
        EXPECT_TRUE(fs::is_symlink(path(name))) << name;
    }
    EXPECT_TRUE(fs::is_symlink(path("folder/second")));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path("folder/target"))));
    EXPECT_EQ(count(), 5u);
}

TEST_F(OutputFiles, ALinkToNothingMakesItsTarget) {
    fs::create_symlink("second", path("first"));
    fs::create_symlink("target", path("second"));
    write_output_file(path("first"), "new");
    EXPECT_TRUE(fs::is_symlink(path("first")));
    EXPECT_TRUE(fs::is_symlink(path("second")));
    EXPECT_EQ(content("target"), "new");

    fs::create_symlink("none/target", path("nowhere"));
    EXPECT_THAT(error(path("nowhere")), HasSubstr("there is no directory " + path("none").string()));
    fs::create_symlink("circle", path("circle"));
    EXPECT_THAT(error(path("circle")), HasSubstr("Too many levels"));
}

TEST_F(OutputFiles, DirectoriesAndSocketsAreErrors) {
    EXPECT_THAT(error(folder_.path()), HasSubstr("it is a directory; name a file in it"));
    EXPECT_THAT(error(path("")), HasSubstr("directory"));
    EXPECT_THAT(error(path("none/file")), HasSubstr("there is no directory " + path("none").string()));
    EXPECT_THAT(error(path("..")), HasSubstr("directory"));
    EXPECT_THAT(error(""), HasSubstr("empty"));

    const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path("socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.value(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    fs::create_symlink("socket", path("link"));
    EXPECT_THAT(error(path("socket")), HasSubstr("it is a socket"));
    EXPECT_THAT(error(path("link")), HasSubstr(path("socket").string() + " is a socket"));
    EXPECT_TRUE(S_ISSOCK(status("socket").st_mode));
    EXPECT_EQ(count(), 2u);
}

TEST_F(OutputFiles, AFifoIsWrittenAndStays) {
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    fs::create_symlink("fifo", path("link"));
    const std::string large(200'000, 'x');  // more than a pipe holds
    for (const char* name : {"fifo", "link"}) {
        std::string found;
        std::thread reader([&] {
            // Later than the writer, who has to wait.
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            const FileDescriptor fifo(::open(path("fifo").c_str(), O_RDONLY));
            found = read_descriptor_text(fifo.value(), "fifo");
        });
        write_output_file(path(name), large);
        reader.join();
        EXPECT_EQ(found, large);
    }
    EXPECT_TRUE(S_ISFIFO(status("fifo").st_mode));
    EXPECT_TRUE(fs::is_symlink(path("link")));
    EXPECT_EQ(count(), 2u);
}

TEST_F(OutputFiles, AReaderThatGoesAwayIsAnErrorAndNoSignal) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const FileDescriptor write_end(ends[1]);
    ::close(ends[0]);
    EXPECT_THAT(error("/dev/fd/" + std::to_string(ends[1])), HasSubstr("Broken pipe"));
}

TEST_F(OutputFiles, DevicesAreWrittenAndStay) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "only root makes devices");
    struct Case {
        const char* name;
        unsigned minor;
    };
    constexpr Case kDevices[] = {{"null", 3}, {"full", 7}};
    for (const Case& device : kDevices) {
        const bool made = ::mknod(path(device.name).c_str(), S_IFCHR | 0666, makedev(1, device.minor)) == 0;
        KILN_REQUIRE_OR_SKIP("root", made, "no devices can be made here");
        fs::create_symlink(device.name, path(std::string("to-") + device.name));
    }
    EXPECT_EQ(error(path("null")), "no error");
    EXPECT_EQ(error(path("to-null")), "no error");
    EXPECT_THAT(error(path("full")), HasSubstr("No space left"));
    EXPECT_THAT(error(path("to-full")), HasSubstr("No space left"));
    for (const Case& device : kDevices) {
        EXPECT_TRUE(S_ISCHR(status(device.name).st_mode));
        EXPECT_EQ(status(device.name).st_rdev, makedev(1, device.minor));
        EXPECT_EQ(mode(device.name), 0644u);
    }
    ASSERT_EQ(::mknod(path("disk").c_str(), S_IFBLK | 0600, makedev(7, 250)), 0);
    EXPECT_THAT(error(path("disk")), HasSubstr("it is a block device"));
    EXPECT_TRUE(S_ISBLK(status("disk").st_mode));
    EXPECT_EQ(count(), 5u);
}

TEST_F(OutputFiles, DescriptorsAreWrittenWhereTheyStand) {
    write_text(path("log"), "before\n");
    const ino_t before = status("log").st_ino;
    const FileDescriptor log(::open(path("log").c_str(), O_WRONLY | O_APPEND));
    const std::string number = std::to_string(log.value());
    fs::create_symlink("/dev/fd/" + number, path("link"));
    fs::create_symlink("/proc/self/fd", path("descriptors"));
    write_output_file("/dev/fd/" + number, "one\n");
    write_output_file("/proc/self/fd/" + number, "two\n");
    write_output_file("/proc/" + std::to_string(::getpid()) + "/fd/" + number, "three\n");
    write_output_file(path("link"), "four\n");
    write_output_file(path("descriptors/" + number), "five\n");
    write_output_file("/proc/thread-self/fd/" + number, "six\n");
    EXPECT_EQ(content("log"), "before\none\ntwo\nthree\nfour\nfive\nsix\n");
    EXPECT_EQ(status("log").st_ino, before);
    EXPECT_TRUE(OutputPlace("/dev/stdout").is_standard_output());
    EXPECT_TRUE(OutputPlace("/dev/fd/1").is_standard_output());
    EXPECT_TRUE(OutputPlace("/dev/../dev/./stdout").is_standard_output());
    EXPECT_FALSE(OutputPlace("/dev/stderr").is_standard_output());
    EXPECT_TRUE(OutputPlace("/dev/stderr").is_stream());
    EXPECT_FALSE(OutputPlace(path("log")).is_stream());

    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const FileDescriptor reader(ends[0]);
    FileDescriptor writer(ends[1]);
    write_output_file("/dev/fd/" + std::to_string(writer.value()), "by a socket");
    writer.reset();
    EXPECT_EQ(read_descriptor_text(reader.value(), "socket"), "by a socket");
    EXPECT_THAT(error("/dev/fd/987"), HasSubstr("Bad file descriptor"));
}

TEST_F(OutputFiles, AnotherProcesssDescriptorIsWritten) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, 0), 0);
    const FileDescriptor reader(ends[0]);
    FileDescriptor writer(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const std::string name = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(writer.value());
    writer.reset();  // only the child has it now
    write_output_file(name, "there");
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(read_descriptor_text(reader.value(), "pipe"), "there");
}

TEST_F(OutputFiles, NothingIsSeenBeforeItIsPublished) {
    write_text(path("old"), "first");
    {
        OutputFile file(path("old"));
        file.write(std::as_bytes(std::span(std::string_view("second"))));
        EXPECT_EQ(content("old"), "first");
    }
    EXPECT_EQ(content("old"), "first");
    EXPECT_EQ(count(), 1u);

    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const FileDescriptor reader(ends[0]);
    FileDescriptor writer(ends[1]);
    {
        OutputFile file("/dev/fd/" + std::to_string(writer.value()));
        file.write(std::as_bytes(std::span(std::string_view("half of it"))));
    }
    writer.reset();
    EXPECT_EQ(read_descriptor_text(reader.value(), "pipe"), "");
}

TEST_F(OutputFiles, AProcessThatDiesBeforeTheRenameLeavesTheOldFile) {
    write_text(path("old"), "first");
    const pid_t child = ::fork();
    if (child == 0) {
        OutputFile file(path("old"));
        file.write(std::as_bytes(std::span(std::string_view("second"))));
        ::kill(::getpid(), SIGKILL);
    }
    int end = 0;
    ::waitpid(child, &end, 0);
    EXPECT_TRUE(WIFSIGNALED(end));
    EXPECT_EQ(content("old"), "first");
    write_output_file(path("old"), "third");
    EXPECT_EQ(content("old"), "third");
}

TEST_F(OutputFiles, TheStartCanBeWrittenLast) {
    for (const bool as_stream : {false, true}) {
        FileDescriptor open(::open(path("stream").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
        OutputFile file(as_stream ? fs::path("/dev/fd/" + std::to_string(open.value())) : path("file"));
        file.write(std::as_bytes(std::span(std::string_view("...rest"))));
        file.go_to_start();
        file.write(std::as_bytes(std::span(std::string_view("the"))));
        file.publish();
        EXPECT_EQ(content(as_stream ? "stream" : "file"), "therest");
    }
}

TEST_F(OutputFiles, WhatMayNotBeWrittenStays) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "another user is needed");
    fs::create_directory(path("theirs"));
    write_text(path("theirs/file"), "first");
    write_text(path("protected"), "first");
    ASSERT_EQ(::chown(path("theirs/file").c_str(), kSomebody, kSomebody), 0);
    ASSERT_EQ(::chown(path("protected").c_str(), kSomebody, kSomebody), 0);
    ASSERT_EQ(::chmod(path("protected").c_str(), 0444), 0);
    ASSERT_EQ(::chown(folder_.path().c_str(), kSomebody, kSomebody), 0);
    {
        const AsSomebody somebody;
        EXPECT_THAT(error(path("theirs/file")),
                    HasSubstr("no file can be made in " + path("theirs").string()));
        EXPECT_THAT(error(path("theirs/new")), HasSubstr("Permission denied"));
        EXPECT_THAT(error(path("protected")), HasSubstr("it may not be written"));
    }
    EXPECT_EQ(content("theirs/file"), "first");
    EXPECT_EQ(content("protected"), "first");
    EXPECT_FALSE(fs::exists(path("theirs/new")));
}

TEST_F(OutputFiles, WhoCantGiveItAwayOwnsIt) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "another user is needed");
    write_text(path("shared"), "first");
    ASSERT_EQ(::chmod(path("shared").c_str(), 0666), 0);
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
    {
        const AsSomebody somebody;
        write_output_file(path("shared"), "second");
    }
    EXPECT_EQ(content("shared"), "second");
    EXPECT_EQ(status("shared").st_uid, kSomebody);
    EXPECT_EQ(mode("shared"), 0666u);
}

// As fs.protected_symlinks and protected_regular have it, which a rename does not ask.
TEST_F(OutputFiles, WhatOthersPlantedIsNotFollowed) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "another user is needed");
    fs::create_directory(path("tmp"));
    ASSERT_EQ(::chmod(path("tmp").c_str(), 01777), 0);
    write_text(path("precious"), "first");
    write_text(path("tmp/theirs"), "first");
    ASSERT_EQ(::chmod(path("tmp/theirs").c_str(), 0666), 0);
    fs::create_symlink(path("precious"), path("tmp/link"));
    ASSERT_EQ(::lchown(path("tmp/link").c_str(), kSomebody, kSomebody), 0);
    ASSERT_EQ(::lchown(path("tmp/theirs").c_str(), kSomebody, kSomebody), 0);
    EXPECT_THAT(error(path("tmp/link")),
                HasSubstr("another user (65534) put into a directory that all users"));
    EXPECT_THAT(error(path("tmp/theirs")), HasSubstr("another user"));
    EXPECT_EQ(content("precious"), "first");
    ASSERT_EQ(::lchown(path("tmp/link").c_str(), 0, 0), 0);
    write_output_file(path("tmp/link"), "by one's own link");
    EXPECT_EQ(content("precious"), "by one's own link");
}

TEST_F(OutputFiles, AFullDiskLeavesTheOldFile) {
    const pid_t child = ::fork();
    if (child == 0) {
        constexpr int kNoMounts = 42;
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("kiln-test", folder_.path().c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0)
            ::_exit(kNoMounts);
        write_text(path("old"), "first");
        int failures = 0;
        try {
            write_output_file(path("old"), std::string(1 << 20, 'x'));
            ++failures;
        } catch (const FileError& error) {
            if (error.code().value() != ENOSPC) ++failures;
        }
        if (content("old") != "first" || count() != 1) ++failures;
        ::_exit(failures);
    }
    int end = 0;
    ::waitpid(child, &end, 0);
    ASSERT_TRUE(WIFEXITED(end));
    KILN_REQUIRE_OR_SKIP("mounts", WEXITSTATUS(end) != 42, "no mount namespaces here");
    EXPECT_EQ(WEXITSTATUS(end), 0);
}

TEST_F(OutputFiles, ThePublicFunctionsThrowUsageErrors) {
    write_output(path("file"), "text");
    EXPECT_EQ(read_input(path("file"), 100), "text");
    fs::create_symlink("file", path("link"));
    const OutputTarget target = output_target(path("link"));
    EXPECT_EQ(target.path, path("file"));
    EXPECT_FALSE(target.is_stream);
    EXPECT_TRUE(output_target("/dev/null").is_stream);
    EXPECT_TRUE(output_target("/dev/stdout").is_standard_output);
    {
        const auto lock = lock_output(path("link"));
        EXPECT_TRUE(lock);
        EXPECT_TRUE(fs::exists(path("file.lock")));
        EXPECT_FALSE(lock_output(path("file"))) << "it is held";
    }
    EXPECT_FALSE(fs::exists(path("file.lock")));
    EXPECT_THROW(static_cast<void>(lock_output("/dev/null")), UsageError);
    EXPECT_THROW(static_cast<void>(lock_output(folder_.path())), UsageError);
    write_output(path("file.lock"), "my diary");
    EXPECT_THROW(static_cast<void>(lock_output(path("file"))), UsageError) << "it is no lock";
    EXPECT_THROW(write_output(folder_.path(), ""), UsageError);
    EXPECT_THROW(static_cast<void>(output_target(folder_.path())), UsageError);
    EXPECT_THROW(static_cast<void>(read_input(path("none"), 100)), UsageError);
    EXPECT_THROW(static_cast<void>(read_input(path("file"), 3)), UsageError);
}

TEST_F(OutputFiles, BaselinesWisdomAndJournalsLieWhereTheirLinksLead) {
    const ManifestTarget target{Backend::host, "x86-64-v3"};
    const std::string name = Baselines::file_name(target);
    fs::create_directory(path("elsewhere"));
    fs::create_symlink("elsewhere/baselines", path(name));
    Baselines().save(folder_.path(), target);
    EXPECT_THAT(content("elsewhere/baselines"), HasSubstr("Baselines of host"));

    fs::create_symlink("elsewhere/wisdom", path("wisdom"));
    Wisdom::store(path("wisdom"), Wisdom());
    EXPECT_THAT(content("elsewhere/wisdom"), HasSubstr("# kiln wisdom"));

    fs::create_symlink("elsewhere/journal", path("journal"));
    {
        Journal journal(path("journal"), "work", false);
        journal.begin("candidate");
        EXPECT_THAT(content("elsewhere/journal"), HasSubstr("trying | candidate"));
        journal.finish();
    }
    EXPECT_FALSE(fs::exists(path("elsewhere/journal")));
    for (const char* link : {name.c_str(), "wisdom", "journal"})
        EXPECT_TRUE(fs::is_symlink(path(link))) << link;

    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    EXPECT_THROW(Journal(path("fifo"), "work", false), UsageError);
    EXPECT_THROW(Journal(path("fifo"), "work", true), UsageError);
    EXPECT_TRUE(S_ISFIFO(status("fifo").st_mode));
}

class InputFiles : public OutputFiles {
  protected:
    static std::string error(const fs::path& name, std::uint64_t most_bytes = 1000) {
        try {
            static_cast<void>(read_text_if_exists(name, most_bytes));
        } catch (const FileError& failure) {
            EXPECT_THAT(failure.what(), HasSubstr("can't read " + name.string() + ": "));
            return failure.reason();
        }
        return "no error";
    }
};

TEST_F(InputFiles, WhatNeverEndsIsNotOpened) {
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    fs::create_symlink("fifo", path("link"));
    EXPECT_THAT(error(path("fifo")),
                HasSubstr("it is a FIFO; what is read here is a regular file of at most 1000"));
    EXPECT_THAT(error(path("link")), HasSubstr("it is a FIFO"));
    EXPECT_THAT(error("/dev/zero"), HasSubstr("it is a device"));
    EXPECT_THAT(error(folder_.path()), HasSubstr("it is a directory"));
    EXPECT_EQ(read_text_if_exists("/dev/null"), "") << "as good as an empty file";
}

TEST_F(InputFiles, MoreThanTheLimitIsAnError) {
    write_text(path("file"), std::string(1000, 'x'));
    EXPECT_EQ(read_text_if_exists(path("file"), 1000)->size(), 1000u);
    EXPECT_THAT(error(path("file"), 999), HasSubstr("larger than what is read here, a file of at most 999"));
    // Its size is not known before it is read.
    EXPECT_THAT(error("/proc/self/status", 10), HasSubstr("larger"));
}

TEST_F(InputFiles, APipeThatIsOpenAlreadyIsRead) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const FileDescriptor reader(ends[0]);
    FileDescriptor writer(ends[1]);
    const std::string name = "/dev/fd/" + std::to_string(reader.value());
    ASSERT_TRUE(write_all(writer.value(), std::as_bytes(std::span(std::string_view("first")))));
    writer.reset();
    EXPECT_EQ(read_text_if_exists(name), "first");

    write_text(path("key"), "secret");
    const FileDescriptor file(::open(path("key").c_str(), O_RDONLY));
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(read_text_if_exists("/dev/fd/" + std::to_string(file.value())), "secret");

    ASSERT_EQ(::pipe(ends), 0);
    FileDescriptor endless(ends[0]);
    std::thread source([end = ends[1]] {
        const FileDescriptor closes(end);
        while (write_all(end, std::as_bytes(std::span(std::string_view("and so on "))))) {
        }
    });
    EXPECT_THAT(error("/dev/fd/" + std::to_string(endless.value()), 100'000), HasSubstr("larger"));
    endless.reset();
    source.join();
    const FileDescriptor zero(::open("/dev/zero", O_RDONLY));
    EXPECT_THAT(error("/dev/fd/" + std::to_string(zero.value())), HasSubstr("it is a device"));
}

}  // namespace
}  // namespace kiln::test
