// SPDX-License-Identifier: Apache-2.0
//
// Links are followed by hand, one at a time, since a rename would replace the link itself. Each step keeps the
// directory open, so that the file that was checked is the one that is written. The kernel's rule for links and
// files that others planted in a directory like /tmp (fs.protected_symlinks, protected_regular) is therefore
// enforced here as well.
#include "base/output_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/file_name.h"
#include "format/format.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhat = "can't write";
constexpr const char* kDirectory = "it is a directory; name a file in it";
constexpr int kMostLinks = 40;  // as the kernel has it
constexpr int kMostAttempts = 1000;
constexpr decltype(statfs::f_type) kProcFileSystem = 0x9fa0;
constexpr std::chrono::seconds kReaderPatience{10};
constexpr std::chrono::milliseconds kReaderNap{10};

/// The path of an open directory, links resolved; empty where /proc is not there.
fs::path path_of(int descriptor) {
    std::error_code error;
    return fs::read_symlink(formatted("/proc/self/fd/{}", descriptor), error);
}

bool is_in_proc(int directory) {
    struct statfs status;
    return ::fstatfs(directory, &status) == 0 && status.f_type == kProcFileSystem;
}

/// In a directory that all users may write to: whether a user other than this one and the directory's owner
/// created it.
bool is_planted(int directory, const struct stat& status) {
    struct stat parent;
    if (::fstat(directory, &parent) != 0) return true;
    const bool is_open_to_all = (parent.st_mode & S_ISVTX) != 0 && (parent.st_mode & S_IWOTH) != 0;
    return is_open_to_all && status.st_uid != ::geteuid() && status.st_uid != parent.st_uid;
}

std::string link_target(int directory, const std::string& name) {
    std::string target(256, '\0');
    for (;;) {
        const ssize_t length = ::readlinkat(directory, name.c_str(), target.data(), target.size());
        if (length < 0) return {};
        if (static_cast<std::size_t>(length) < target.size()) {
            target.resize(static_cast<std::size_t>(length));
            return target;
        }
        target.resize(target.size() * 2);
    }
}

}  // namespace

OutputPlace::OutputPlace(fs::path name) : name_(std::move(name)) {
    if (name_.empty()) fail(ENOENT, "its name is empty");
    follow();
}

void OutputPlace::fail(int error) const { throw FileError(error, kWhat, name_); }
void OutputPlace::fail(int error, const std::string& reason) const {
    throw FileError(error, kWhat, name_, reason);
}

void OutputPlace::follow() {
    fs::path rest = name_;
    path_ = fs::path();
    bool ended = false;
    for (int links = 0; !ended; ++links) {
        if (links > kMostLinks) fail(ELOOP);
        follow_once(rest, ended);
    }
}

/// Looks at what `rest` names, seen from the directory that is open; a link's target is the next `rest`.
void OutputPlace::follow_once(fs::path& rest, bool& ended) {
    const fs::path parent = rest.has_parent_path() ? rest.parent_path() : fs::path(".");
    const fs::path shown = rest.is_absolute() || path_.empty() ? parent
                           : parent == "."                     ? path_
                                                               : path_ / parent;
    ended = true;
    if (const auto descriptor = named_descriptor(shown / rest.filename())) {
        descriptor_ = *descriptor;
        path_ = rest;
        return;
    }
    leaf_ = rest.filename().string();
    FileDescriptor next(::openat(directory_ ? directory_.value() : AT_FDCWD, parent.c_str(),
                                 O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!next) {
        const int error = errno;
        if (error == ENOENT) fail(error, "there is no directory " + shown.string());
        fail(error, "the directory " + shown.string() + ": " + std::generic_category().message(error));
    }
    directory_ = std::move(next);
    if (leaf_.empty() || leaf_ == "." || leaf_ == "..") fail(EISDIR, kDirectory);
    path_ = shown == "." ? fs::path(leaf_) : shown / leaf_;

    struct stat status;
    if (::fstatat(directory_.value(), leaf_.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) fail(errno);
        exists_ = false;
        return;
    }
    if (is_in_proc(directory_.value())) {
        // Its links lead to what is open and not to names.
        if (const auto descriptor = named_descriptor(path_of(directory_.value()) / leaf_))
            descriptor_ = *descriptor;
        else
            is_special_ = true;
        return;
    }
    if (is_planted(directory_.value(), status))
        fail(EACCES,
             formatted("{} is {} that another user ({}) put into a directory that all users may write to",
                       path_.string(), kind_text(status), status.st_uid));
    if (S_ISLNK(status.st_mode)) {
        rest = link_target(directory_.value(), leaf_);
        if (rest.empty()) fail(errno);
        path_ = shown;
        ended = false;
        return;
    }
    exists_ = true;
    const std::string it = path_ == name_ ? "it" : path_.string();
    if (S_ISDIR(status.st_mode))
        fail(EISDIR, path_ == name_ ? kDirectory : path_.string() + " is a directory; name a file in it");
    if (S_ISSOCK(status.st_mode) || S_ISBLK(status.st_mode))
        fail(EINVAL, it + " is " + kind_text(status) + "; name a file, a FIFO or a character device");
    is_special_ = !S_ISREG(status.st_mode);
    if (::faccessat(directory_.value(), leaf_.c_str(), W_OK, AT_EACCESS) != 0)
        fail(errno, it + " may not be written: " + std::generic_category().message(errno));
}

OutputFile::OutputFile(const fs::path& name, mode_t new_mode) : place_(name) {
    if (place_.is_stream()) {
        // Complete before any of it is written: a reader of a pipe can't undo a part.
        file_ = FileDescriptor(::memfd_create("kiln-output", MFD_CLOEXEC));
        if (!file_) place_.fail(errno);
        return;
    }
    // A replacement gets the old file's mode at the end; a new file has the mode of the umask.
    const mode_t mode = place_.exists_ ? 0600 : new_mode;
    const std::string stem = formatted(".tmp-{}-{}-", place_.leaf_.substr(0, 200), ::getpid());
    for (int attempt = 0; !file_ && attempt < kMostAttempts; ++attempt) {
        temporary_ = formatted("{}{}", stem, attempt);
        file_ = FileDescriptor(::openat(place_.directory_.value(), temporary_.c_str(),
                                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
        if (!file_ && errno != EEXIST) break;
    }
    if (file_) return;
    const int error = errno;
    temporary_.clear();
    const fs::path parent = place_.path_.has_parent_path() ? place_.path_.parent_path() : fs::path(".");
    place_.fail(error,
                "no file can be made in " + parent.string() + ": " + std::generic_category().message(error));
}

OutputFile::~OutputFile() {
    if (!temporary_.empty()) ::unlinkat(place_.directory_.value(), temporary_.c_str(), 0);
}

void OutputFile::write(std::span<const std::byte> bytes) {
    if (!write_all(file_.value(), bytes)) place_.fail(errno);
}

void OutputFile::go_to_start() {
    if (::lseek(file_.value(), 0, SEEK_SET) != 0) place_.fail(errno);
}

void OutputFile::publish() {
    if (place_.is_stream()) return copy_to_stream();
    const int directory = place_.directory_.value();
    take_over_owner();
    if (::fsync(file_.value()) != 0) place_.fail(errno);
    if (::renameat(directory, temporary_.c_str(), directory, place_.leaf_.c_str()) != 0) place_.fail(errno);
    temporary_.clear();
    file_.reset();
    const FileDescriptor readable(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // The file is already complete and visible; this protects it against a power failure.
    if (readable) (void)::fsync(readable.value());
}

/// The mode and owner of the existing file. Only root can change an owner: otherwise the writer owns the new file,
/// and the group, if it may, stays.
void OutputFile::take_over_owner() {
    struct stat old, mine;
    if (::fstatat(place_.directory_.value(), place_.leaf_.c_str(), &old, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return;
        place_.fail(errno);
    }
    if (!S_ISREG(old.st_mode))
        place_.fail(EINVAL, "meanwhile " + kind_text(old) + " was put where it was to be written");
    if (::fstat(file_.value(), &mine) != 0) place_.fail(errno);
    const bool same_owner = old.st_uid == mine.st_uid && old.st_gid == mine.st_gid;
    if (!same_owner && ::fchown(file_.value(), old.st_uid, old.st_gid) != 0)
        (void)!::fchown(file_.value(), static_cast<uid_t>(-1), old.st_gid);
    if (::fchmod(file_.value(), old.st_mode & 0777u) != 0) place_.fail(errno);
}

FileDescriptor OutputFile::open_stream() const {
    const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    const int links = is_in_proc(place_.directory_.value()) ? O_TRUNC : O_NOFOLLOW;
    struct stat status;
    const bool is_fifo = ::fstatat(place_.directory_.value(), place_.leaf_.c_str(), &status, 0) == 0 &&
                         S_ISFIFO(status.st_mode);
    const auto until = std::chrono::steady_clock::now() + kReaderPatience;
    for (;;) {
        FileDescriptor stream(::openat(place_.directory_.value(), place_.leaf_.c_str(), flags | links));
        if (stream) {
            // Opened so as not to wait for ever; from here on it may wait for its reader.
            ::fcntl(stream.value(), F_SETFL, ::fcntl(stream.value(), F_GETFL) & ~O_NONBLOCK);
            return stream;
        }
        if (errno != ENXIO || !is_fifo) place_.fail(errno);
        if (std::chrono::steady_clock::now() > until)
            place_.fail(ENXIO, formatted("no process has opened it for reading within {} s",
                                         kReaderPatience.count()));
        std::this_thread::sleep_for(kReaderNap);
    }
}

void OutputFile::copy_to_stream() {
    FileDescriptor opened;
    if (place_.descriptor_ < 0) opened = open_stream();
    const int stream = opened ? opened.value() : place_.descriptor_;
    // Output of this process through stdio comes first.
    if (stream == STDOUT_FILENO) std::fflush(stdout);
    if (stream == STDERR_FILENO) std::fflush(stderr);
    go_to_start();
    std::array<std::byte, 65536> buffer;
    for (;;) {
        const ssize_t count = ::read(file_.value(), buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) place_.fail(errno);
        if (count == 0) break;
        std::span<const std::byte> part(buffer.data(), static_cast<std::size_t>(count));
        if (!write_all(stream, part)) place_.fail(errno);
    }
    file_.reset();
}

void write_output_file(const fs::path& name, std::span<const std::byte> bytes) {
    OutputFile file(name);
    file.write(bytes);
    file.publish();
}

void write_output_file(const fs::path& name, std::string_view text) {
    write_output_file(name, std::as_bytes(std::span(text)));
}

}  // namespace kiln
