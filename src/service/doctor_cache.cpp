// SPDX-License-Identifier: Apache-2.0
//
// The tiers of the cache: directory, packs, remote.
#include <kiln/error.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/config.h"
#include "base/words.h"
#include "cache/redis_url.h"
#include "format/format.h"
#include "service/cache_setup.h"
#include "service/doctor_parts.h"

namespace kiln {
namespace {

constexpr const char* kOverNetwork =
    "is shared over a network: locks are kept on this machine, so that machines which start together may "
    "compile the same once each, unless they share a remote (KILN_REMOTE)";
constexpr const char* kInMemory = "lies in memory: it counts as memory in use, and a restart empties it";
constexpr const char* kContainer =
    "is a layer of a container: it goes with the container, unless a volume is "
    "mounted there";
constexpr const char* kUserSpace =
    "is served by a program (FUSE), which may be a network's: look-ups are slow "
    "then, and locks are kept on this machine";

struct KnownFileSystem {
    std::uint32_t magic;
    const char* name;
    const char* meaning;
};
constexpr std::array kFileSystems = std::to_array<KnownFileSystem>({
    {0xEF53, "ext4", ""},
    {0x58465342, "xfs", ""},
    {0x9123683E, "btrfs", ""},
    {0x2FC12FC1, "zfs", ""},
    {0xF2F52010, "f2fs", ""},
    {0x01021994, "tmpfs", kInMemory},
    {0x858458F6, "ramfs", kInMemory},
    {0x794C7630, "overlayfs", kContainer},
    {0x6969, "NFS", kOverNetwork},
    {0xFF534D42, "CIFS", kOverNetwork},
    {0xFE534D42, "SMB", kOverNetwork},
    {0x0BD00BD0, "Lustre", kOverNetwork},
    {0x47504653, "GPFS", kOverNetwork},
    {0x00C36400, "Ceph", kOverNetwork},
    {0x19830326, "BeeGFS", kOverNetwork},
    {0x5346414F, "AFS", kOverNetwork},
    {0x01021997, "9p", kOverNetwork},
    {0x65735546, "FUSE", kUserSpace},
});

std::string mode_text(mode_t mode) { return formatted("{:04o}", mode & 07777); }

void examine_directory(const DiskCache& disk, bool was_there, Findings& findings) {
    const std::string path = disk.directory().string();
    const std::string problem = disk.problem();
    struct stat status;
    const bool is_there = ::stat(path.c_str(), &status) == 0;
    if (!problem.empty()) {
        findings.problem("cache", "directory",
                         problem + (disk.readable() ? "; what is there is read, and new kernels are kept in "
                                                      "memory only"
                                                    : "; kernels are kept in memory only"),
                         "Fix its owner or mode, or set KILN_CACHE_DIR to a directory of your own.");
    } else if (is_there) {
        findings.good("cache", "directory",
                      formatted("{}, of user {}, mode {}, writable{}", path, status.st_uid,
                                mode_text(status.st_mode), was_there ? "" : ", just made"));
    }
}

void examine_storage(const DiskCache& disk, Findings& findings) {
    const CacheUsage usage = disk.usage();
    const std::string text =
        formatted("{}{}{} of {}", usage.entries, usage.entries == 1 ? " entry, " : " entries, ",
                  bytes_text(usage.bytes), bytes_text(usage.limit_bytes));
    findings.good("cache", "usage", text);

    const FileSystem system = file_system_of(disk.directory());
    const std::uint64_t growth = usage.limit_bytes - std::min(usage.limit_bytes, usage.bytes);
    std::string storage = system.name + ", " + bytes_text(system.free_bytes) + " free";
    if (!system.meaning.empty()) storage += "; it " + system.meaning;
    if (system.free_bytes < growth)
        findings.note(
            "cache", "file system", storage + "; the cache may grow by " + bytes_text(growth),
            "Make room there, lower the limit (KILN_CACHE_LIMIT), or set KILN_CACHE_DIR elsewhere.");
    else if (!system.meaning.empty())
        findings.note("cache", "file system", storage,
                      "If that is not wanted, set KILN_CACHE_DIR to a directory on a local disk.");
    else
        findings.good("cache", "file system", storage);
}

bool is_loopback(std::string_view host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void examine_secret(const char* subject, const std::filesystem::path& file, Findings& findings) {
    struct stat status;
    if (file.empty() || ::stat(file.c_str(), &status) != 0) return;
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        findings.note("remote", subject,
                      "others may read it: " + file.string() + ", mode " + mode_text(status.st_mode),
                      "chmod 600 it, unless that group is meant.");
}

void examine_security(const RemoteOptions& options, Findings& findings) {
    const RedisUrl url = parse_redis_url(options.url);
    if (url.tls) {
        findings.good("remote", "TLS",
                      options.ca_file.empty() ? "on, trusting the system's certificates"
                                              : "on, trusting those of " + options.ca_file.string());
    } else if (!is_loopback(url.host)) {
        const bool has_password = !url.password.empty() || !options.password_file.empty();
        findings.note("remote", "TLS",
                      has_password ? "off: the password and the entries cross the network in plain text"
                                   : "off: entries cross the network in plain text",
                      "Write rediss:// and have the server speak TLS, unless the network is your own.");
    }
    examine_secret("password file", options.password_file, findings);
    examine_secret("signature key", options.signature_key_file, findings);
    if (options.signature_key_file.empty())
        findings.note("remote", "signatures",
                      "off: anyone who can write to the server can make this machine run their code",
                      "Give every machine the same key: KILN_REMOTE_KEY_FILE names a file with it.");
    else
        findings.good("remote", "signatures", "on, with the key in " + options.signature_key_file.string());
}

}  // namespace

FileSystem file_system_of(const std::filesystem::path& path) {
    struct statfs status;
    if (::statfs(path.c_str(), &status) != 0)
        throw std::system_error(errno, std::generic_category(), path.string());
    FileSystem system;
    system.free_bytes = std::uint64_t{status.f_bavail} * static_cast<std::uint64_t>(status.f_bsize);
    const auto magic = static_cast<std::uint32_t>(status.f_type);
    for (const auto& known : kFileSystems) {
        if (known.magic != magic) continue;
        system.name = known.name;
        system.meaning = known.meaning;
        return system;
    }
    system.name = formatted("file system 0x{:x}", magic);
    return system;
}

void examine_cache(const ServiceOptions& options, Findings& findings) {
    if (!options.cache.enabled)
        return findings.note("cache", "directory", "the cache is switched off: every process compiles again",
                             "Switch it on in the options.");
    const auto directory = options.cache.directory ? options.cache.directory : config::cache_directory();
    std::error_code error;
    const bool was_there = directory && std::filesystem::exists(*directory, error);
    const auto disk = open_disk(options.cache);
    if (!disk)
        return findings.problem(
            "cache", "directory",
            "none: KILN_CACHE_DIR, XDG_CACHE_HOME and HOME are not set; kernels are kept in "
            "memory only",
            "Set KILN_CACHE_DIR to a directory.");
    examine_directory(*disk, was_there, findings);
    if (!disk->readable()) return;
    examine_storage(*disk, findings);
    const std::string lock_problem = disk->locks().problem();
    if (lock_problem.empty())
        findings.good("cache", "locks", disk->locks().directory().string());
    else
        findings.note("cache", "locks", lock_problem + "; processes that start together may compile the same",
                      "Fix it, so that one of them compiles for all.");
}

void examine_seeds(const ServiceOptions& options, Findings& findings) {
    if (!options.cache.enabled) return;
    for (const auto& pack : open_seeds(options.cache)) {
        const std::string subject = pack.file().filename().string();
        if (pack.problem().empty())
            findings.good("seed packs", subject,
                          formatted("{}, {}{}", pack.file().string(), pack.size(),
                                    pack.size() == 1 ? " entry" : " entries"));
        else
            findings.problem("seed packs", subject, pack.problem(),
                             "Replace it by a sound one, or take it out of KILN_SEED_PACKS or the options.");
    }
}

void examine_remote(const ServiceOptions& options, Findings& findings) {
    if (!options.cache.enabled) return;
    std::unique_ptr<RemoteCache> remote;
    try {
        remote = open_remote(options.cache);
    } catch (const UsageError& error) {
        return findings.problem("remote", "set-up", error.what(),
                                "Correct it (KILN_REMOTE and its kin, or the options).");
    }
    if (!remote) {
        if (!options.cache.remote &&
            (config::remote_key_file() || config::remote_password_file() || config::remote_ca_file()))
            findings.problem("remote", "KILN_REMOTE",
                             "it is not set, and the other KILN_REMOTE_ variables are",
                             "Set it to the server's URL, or unset the others.");
        return;
    }
    try {
        const auto first = remote->ping();  // connects
        const auto trip = remote->ping();
        findings.good(
            "remote", "server",
            formatted("{}, Redis {}, answers in {:.2f} ms ({:.1f} ms to connect), {}", remote->place(),
                      remote->server_version(), double(trip.count()) / 1000, double(first.count()) / 1000,
                      remote->read_only() ? "read only" : "read and written"));
    } catch (const CacheError& error) {
        findings.problem("remote", "server", error.what(),
                         "Start the server, correct KILN_REMOTE, or unset it; builds go on without.");
    }
    examine_security(remote_options(options.cache), findings);
}

}  // namespace kiln
