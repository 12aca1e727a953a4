// SPDX-License-Identifier: Apache-2.0
//
// Names are "<process id>-<machine>-<random letters>". The machine is a digest of the boot and of the process
// id namespace: a process id is meaningful only within both.
#include "cache/disk_temporary.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <optional>
#include <system_error>

#include "base/digest.h"
#include "cache/disk_files.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::int64_t kDay_s = 24 * 60 * 60;
constexpr std::size_t kLetters = 12;

[[noreturn]] void fail(int error, const char* what) {
    throw std::system_error(error, std::generic_category(), what);
}

// Empty when /proc is not readable. Read each time, since a fork may have entered another namespace.
std::string machine_name() {
    std::array<char, 128> name_space;
    const ssize_t length = ::readlink("/proc/self/ns/pid", name_space.data(), name_space.size());
    std::optional<std::string> boot;
    try {
        boot = read_text_if_exists("/proc/sys/kernel/random/boot_id");
    } catch (const std::system_error&) {
    }
    if (length <= 0 || !boot || boot->empty()) return {};
    return digest_hex(*boot + std::string(name_space.data(), static_cast<std::size_t>(length))).substr(0, 16);
}

std::string random_letters() {
    std::array<unsigned char, kLetters> bytes;
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        fail(errno, "there are no random numbers");
    std::string letters;
    for (const unsigned char byte : bytes) letters += static_cast<char>('a' + byte % 26);
    return letters;
}

/// Whether a DiskTemporary has such a name. What else is in the directory is not the cache's.
bool is_temporary_name(std::string_view name) {
    const auto has = [&](std::size_t least, std::size_t most, std::string_view allowed, char end) {
        const std::size_t length = std::min(name.find_first_not_of(allowed), name.size());
        if (length < least || length > most) return false;
        name.remove_prefix(length);
        if (end == 0) return name.empty();
        if (!name.starts_with(end)) return false;
        name.remove_prefix(1);
        return true;
    };
    return has(1, 10, "0123456789", '-') && has(0, 16, "0123456789abcdef", '-') &&
           has(kLetters, kLetters, "abcdefghijklmnopqrstuvwxyz", 0);
}

bool is_process_gone(pid_t process) { return ::kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

DiskTemporary::DiskTemporary(int version, Trust trust) {
    Opened opened = make_directory(version, kTemporaryDirectory, trust);
    if (!opened && opened.refusal.empty()) fail(ENOENT, kTemporaryDirectory);
    if (!opened) throw std::runtime_error(std::string(kTemporaryDirectory) + ": " + opened.refusal);
    directory_ = std::move(opened.descriptor);
    name_ = formatted("{}-{}-{}", ::getpid(), machine_name(), random_letters());
    file_ = FileDescriptor(::openat(directory_.value(), name_.c_str(),
                                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_) fail(errno, "a file can't be created");
    (void)::fchmod(file_.value(), trust.group ? 0660 : 0600);  // the umask may have taken bits away
}

DiskTemporary::~DiskTemporary() {
    if (!name_.empty()) (void)::unlinkat(directory_.value(), name_.c_str(), 0);
}

void DiskTemporary::write(std::span<const std::byte> bytes) {
    if (!write_all(file_.value(), bytes)) fail(errno, "a file can't be written");
}

void DiskTemporary::sync() {
    if (::fsync(file_.value()) != 0) fail(errno, "a file can't be written");
}

void DiskTemporary::publish(int directory, const std::string& name) {
    (void)::futimens(file_.value(), nullptr);
    if (::renameat(directory_.value(), name_.c_str(), directory, name.c_str()) != 0) {
        const int error = errno;
        // A file server may have repeated the request after its reply was lost.
        struct stat own;
        struct stat there;
        if (::fstat(file_.value(), &own) != 0 ||
            ::fstatat(directory, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 ||
            own.st_ino != there.st_ino || own.st_dev != there.st_dev)
            fail(error, "a file can't be put in its place");
    }
    name_.clear();
}

bool is_left_behind(int temporaries, const std::string& name) {
    if (!is_temporary_name(name)) return false;
    pid_t process = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data(), end, process);
    if (error == std::errc() && process > 0) {
        const std::string machine = machine_name();
        if (!machine.empty() && std::string_view(rest, end).starts_with("-" + machine + "-") &&
            is_process_gone(process))
            return true;
    }
    // Otherwise the process belongs to another machine or container, or its id has been reused: containers
    // all use the same few numbers.
    struct stat status;
    if (::fstatat(temporaries, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
    // A time in the future is as wrong as a very old one: a clock has jumped.
    const std::int64_t age_s = std::int64_t{::time(nullptr)} - std::int64_t{status.st_mtim.tv_sec};
    return age_s > kDay_s || age_s < -kDay_s;
}

void sweep_temporaries(int version, Trust trust, bool everything) {
    try {
        const Opened temporaries = open_directory(version, kTemporaryDirectory, trust);
        if (!temporaries) return;
        for (const auto& name : names_in(temporaries.fd())) {
            if ((everything && is_temporary_name(name)) || is_left_behind(temporaries.fd(), name))
                (void)::unlinkat(temporaries.fd(), name.c_str(), 0);
        }
    } catch (const std::exception&) {
        // The next call searches them again.
    }
}

}  // namespace kiln
