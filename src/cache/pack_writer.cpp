// SPDX-License-Identifier: Apache-2.0
//
// Writes packs: the entries one after the other, after space for the index, which is written last.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "base/file_name.h"
#include "base/output_file.h"
#include "cache/pack_format.h"
#include "cache/seed_pack.h"

namespace kiln {
namespace {

using pack::Head;
using pack::Row;

/// Counts what is written.
class PackFile {
  public:
    explicit PackFile(const std::filesystem::path& place) : file_(place, kMode) {}

    void append(std::span<const std::byte> bytes) {
        file_.write(bytes);
        end_ += bytes.size();
    }
    void fill_to(std::uint64_t offset) {
        append(std::vector<std::byte>(static_cast<std::size_t>(offset - end_)));
    }
    void go_to_start() { file_.go_to_start(); }
    std::uint64_t end() const { return end_; }
    void publish() { file_.publish(); }

  private:
    /// One that others may write would not be trusted, whatever the umask.
    static constexpr mode_t kMode = 0644;

    OutputFile file_;
    std::uint64_t end_ = 0;
};

}  // namespace

PackWritten write_pack(const std::filesystem::path& file, std::vector<std::string> digests,
                       const std::function<Bytes(const std::string& digest)>& entry) {
    std::unordered_set<std::string> known;
    std::erase_if(digests, [&](const std::string& digest) { return !known.insert(digest).second; });

    PackFile out(file);
    out.fill_to(pack::index_bytes(digests.size()));
    std::vector<Row> rows;
    for (const std::string& digest : digests) {
        const auto binary_digest = pack::parse_digest(digest);
        if (!binary_digest) throw FileError(EINVAL, "can't write", file, "\"" + digest + "\" is no digest");
        const Bytes bytes = entry(digest);
        if (bytes.empty()) continue;
        out.fill_to(pack::aligned(out.end()));
        rows.push_back({*binary_digest, out.end(), bytes.size()});
        out.append({bytes.data(), bytes.size()});
    }
    std::ranges::sort(rows, {}, &Row::digest);
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
