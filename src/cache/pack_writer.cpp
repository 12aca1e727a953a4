// SPDX-License-Identifier: Apache-2.0
//
// Writing packs: the entries one after the other behind room for the index, which is written last.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/file.h"
#include "cache/pack_format.h"
#include "cache/seed_pack.h"

namespace kiln {
namespace {

using pack::Head;
using pack::Row;

[[noreturn]] void fail(int error, const std::string& what, const std::filesystem::path& path) {
    throw std::system_error(error, std::generic_category(), what + " " + path.string());
}

/// A new file beside its final place; it goes with its owner unless it was published.
class NewFile {
  public:
    explicit NewFile(const std::filesystem::path& place) : place_(place) {
        // Not mkstemp: the mode is left to the umask, which only the kernel can read without changing it.
        for (int attempt = 0; !file_ && attempt < 1000; ++attempt) {
            path_ = place.parent_path() /
                    (".tmp-pack-" + std::to_string(::getpid()) + "-" + std::to_string(attempt));
            file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
            if (!file_ && errno != EEXIST) break;
        }
        if (!file_) fail(errno, "can't create a file in", directory());
    }
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    ~NewFile() {
        if (!published_) ::unlink(path_.c_str());
    }

    void append(std::span<const std::byte> bytes) {
        if (!write_all(file_.value(), bytes)) fail(errno, "can't write", place_);
        end_ += bytes.size();
    }
    void fill_to(std::uint64_t offset) {
        append(std::vector<std::byte>(static_cast<std::size_t>(offset - end_)));
    }
    void go_to_start() {
        if (::lseek(file_.value(), 0, SEEK_SET) != 0) fail(errno, "can't write", place_);
    }
    std::uint64_t end() const { return end_; }

    void publish() {
        if (::fsync(file_.value()) != 0) fail(errno, "can't write", place_);
        if (::rename(path_.c_str(), place_.c_str()) != 0) fail(errno, "can't rename to", place_);
        published_ = true;
        const FileDescriptor parent(::open(directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        // Whole and visible already; without this only a power failure could take it back.
        if (parent) (void)::fsync(parent.value());
    }

  private:
    std::filesystem::path directory() const {
        return place_.has_parent_path() ? place_.parent_path() : std::filesystem::path(".");
    }

    std::filesystem::path place_, path_;
    FileDescriptor file_;
    std::uint64_t end_ = 0;
    bool published_ = false;
};

}  // namespace

PackWritten write_pack(const std::filesystem::path& file, std::vector<std::string> digests,
                       const std::function<Bytes(const std::string& digest)>& entry) {
    std::ranges::sort(digests);
    digests.erase(std::unique(digests.begin(), digests.end()), digests.end());

    NewFile out(file);
    out.fill_to(pack::index_bytes(digests.size()));
    std::vector<Row> rows;
    for (const std::string& digest : digests) {
        const auto binary_digest = pack::parse_digest(digest);
        if (!binary_digest) fail(EINVAL, "\"" + digest + "\" is no digest for", file);
        const Bytes bytes = entry(digest);
        if (bytes.empty()) continue;
        out.fill_to(pack::aligned(out.end()));
        rows.push_back({*binary_digest, out.end(), bytes.size()});
        out.append({bytes.data(), bytes.size()});
    }
    const std::uint64_t total_bytes = out.end();

    const Head head{.row_bytes = sizeof(Row), .count = rows.size(), .total_bytes = total_bytes};
    std::vector<std::byte> index(sizeof(head) + rows.size() * sizeof(Row));
    std::memcpy(index.data(), &head, sizeof(head));
    if (!rows.empty()) std::memcpy(index.data() + sizeof(head), rows.data(), rows.size() * sizeof(Row));
    out.go_to_start();
    out.append(index);
    out.append(checksum(index));
    out.publish();
    return {rows.size(), total_bytes};
}

}  // namespace kiln
