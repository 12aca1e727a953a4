// SPDX-License-Identifier: Apache-2.0
//
// The index of a pack: as it comes, with head and checksum made right, and with its rows sorted too.
#include <algorithm>

#include "cache/entry.h"
#include "cache/pack_format.h"
#include "cache/seed_pack.h"
#include "fuzz.h"

namespace {

using namespace kiln;
using pack::Head;
using pack::Row;

void parse(const std::vector<std::byte>& bytes) {
    std::string reason;
    const auto index = PackIndex::parse(bytes, reason);
    KILN_FUZZ_CHECK(index.has_value() == reason.empty());
    if (!index) return;
    const Bytes all{std::vector<std::byte>(bytes)};
    for (std::size_t i = 0; i < index->size(); ++i) {
        const std::string digest = index->digest(i);
        KILN_FUZZ_CHECK(i == 0 || index->digest(i - 1) < digest);
        const auto place = index->place(i);
        const auto found = index->find(digest);
        KILN_FUZZ_CHECK(found && found->offset == place.offset && found->length == place.length);
        KILN_FUZZ_CHECK(place.offset % pack::kAlignment == 0);
        // Throws when it lies outside.
        const Bytes part = all.part(place.offset, place.length);
        if (i < 4) {
            fuzz::touch(part);
            (void)decode_entry_of(digest, part, reason);
        }
    }
    (void)index->find(std::string(64, '0'));
    (void)index->find(std::string(64, 'f'));
    (void)index->find("");
}

std::vector<std::byte> repaired(std::vector<std::byte> bytes, bool sorted) {
    const std::span<std::byte> all(bytes);
    const std::uint64_t most = (bytes.size() - pack::index_bytes(0)) / sizeof(Row);
    const auto count = fuzz::at<Head>(all, 0).count % (most + 1);
    fuzz::put(all, 0, Head{.row_bytes = sizeof(Row), .count = count, .total_bytes = bytes.size()});
    if (sorted) {
        std::vector<Row> rows(count);
        const auto place = all.subspan(sizeof(Head), count * sizeof(Row));
        if (count > 0) std::memcpy(rows.data(), place.data(), place.size());
        std::ranges::sort(rows, {}, &Row::digest);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            rows[i].offset = pack::aligned(rows[i].offset % (2 * bytes.size()));
            rows[i].length %= 2 * bytes.size();
            fuzz::put(place, i * sizeof(Row), rows[i]);
        }
    }
    const std::size_t end = pack::index_bytes(count) - sizeof(Checksum);
    fuzz::put(all, end, checksum(all.first(end)));
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    parse(fuzz::copy_of(data, size));
    if (size >= pack::index_bytes(0)) {
        parse(repaired(fuzz::copy_of(data, size), false));
        parse(repaired(fuzz::copy_of(data, size), true));
    }
    return 0;
}
