// SPDX-License-Identifier: Apache-2.0
//
// The index of a pack: whatever is changed in it is noticed, and damage to an entry stays with that entry.
#include "cache/pack_format.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/digest.h"
#include "base/file.h"
#include "base/output_file.h"
#include "pack_support.h"

namespace kiln {
namespace {

using test::pack_binary;
using test::pack_entries;
using test::pack_key;
using test::write_entries;

class PackFormat : public testing::Test {
  protected:
    std::vector<std::byte> pack_of(int count) {
        write_entries(file_, pack_entries(count));
        return *read_bytes_if_exists(file_);
    }
    SeedPack open(const std::vector<std::byte>& bytes) {
        write_output_file(file_, bytes);
        return SeedPack(file_, {});
    }
    /// Changes the index and makes its checksum right again.
    template <class Change>
    static std::vector<std::byte> forged(std::vector<std::byte> bytes, Change change) {
        pack::Head head;
        std::memcpy(&head, bytes.data(), sizeof(head));
        std::vector<pack::Row> rows(head.count);
        const std::size_t rows_bytes = rows.size() * sizeof(pack::Row);
        std::memcpy(rows.data(), bytes.data() + sizeof(head), rows_bytes);
        change(head, rows);
        std::memcpy(bytes.data(), &head, sizeof(head));
        std::memcpy(bytes.data() + sizeof(head), rows.data(), rows_bytes);
        const std::size_t end = sizeof(head) + rows_bytes;
        const Checksum sum = checksum(std::span(bytes).first(end));
        std::memcpy(bytes.data() + end, sum.data(), sum.size());
        return bytes;
    }
    static bool parses(std::span<const std::byte> bytes) {
        std::string reason;
        const bool sound = PackIndex::parse(bytes, reason).has_value();
        EXPECT_EQ(sound, reason.empty()) << reason;
        return sound;
    }

    TemporaryDirectory directory_;
    std::filesystem::path file_ = directory_.path() / "seed.pack";
};

TEST_F(PackFormat, EveryFlippedByteOfHeadAndIndexIsNoticed) {
    auto bytes = pack_of(3);
    ASSERT_TRUE(parses(bytes));
    for (std::size_t i = 0; i < pack::index_bytes(3); ++i) {
        for (const int flip : {0x01, 0x10, 0x80, 0xff}) {
            bytes[i] ^= std::byte(flip);
            EXPECT_FALSE(parses(bytes)) << "byte " << i;
            bytes[i] ^= std::byte(flip);
        }
    }
}

TEST_F(PackFormat, EveryTruncationAndAnAppendedByteAreNoticed) {
    auto bytes = pack_of(3);
    for (std::size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(parses(std::span(bytes).first(length))) << "length " << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(parses(bytes));
}

TEST_F(PackFormat, AFlippedByteOfAnEntryIsAMissOfThatEntryOnly) {
    const auto bytes = pack_of(3);
    std::string reason;
    const auto index = PackIndex::parse(bytes, reason);
    ASSERT_TRUE(index) << reason;
    const auto place = *index->find(pack_key(1).digest);
    for (std::uint64_t i = 0; i < place.length; i += 17) {
        auto damaged = bytes;
        damaged[place.offset + i] ^= std::byte{0x10};
        const SeedPack pack = open(damaged);
        EXPECT_EQ(pack.problem(), "");
        const Lookup lookup = pack.find(pack_key(1));
        EXPECT_FALSE(lookup.binary) << "byte " << i;
        EXPECT_NE(lookup.rejected, "") << "byte " << i;
        for (const int other : {0, 2}) EXPECT_TRUE(pack.find(pack_key(other)).binary) << "byte " << i;
    }
}

TEST_F(PackFormat, AnInconsistentIndexIsRejected) {
    const auto bytes = pack_of(3);
    using Rows = std::vector<pack::Row>;
    EXPECT_TRUE(parses(forged(bytes, [](pack::Head&, Rows&) {})));
    EXPECT_FALSE(parses(forged(bytes, [](pack::Head& head, Rows&) { head.version = 2; })));
    EXPECT_FALSE(parses(forged(bytes, [](pack::Head& head, Rows&) { head.row_bytes = 56; })));
    EXPECT_FALSE(parses(forged(bytes, [](pack::Head&, Rows& rows) { std::swap(rows[0], rows[1]); })));
    EXPECT_FALSE(parses(forged(bytes, [](pack::Head&, Rows& rows) { rows[1].digest = rows[0].digest; })));
    const std::uint64_t size = bytes.size();
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{128}, size, size + 64 - size % 64,
                                       std::uint64_t{1} << 63, ~std::uint64_t{0} - 63})
        EXPECT_FALSE(parses(forged(bytes, [&](pack::Head&, Rows& rows) { rows[1].offset = offset; })))
            << offset;
    EXPECT_FALSE(parses(forged(bytes, [](pack::Head&, Rows& rows) { rows[1].offset += 1; })));
    for (const std::uint64_t length : {size, ~std::uint64_t{0}, std::uint64_t{1} << 63})
        EXPECT_FALSE(parses(forged(bytes, [&](pack::Head&, Rows& rows) { rows[1].length = length; })))
            << length;
    // A count beyond the file, whose rows would be anywhere.
    for (const std::uint64_t count : {size, ~std::uint64_t{0}, std::uint64_t{1} << 60}) {
        auto more = bytes;
        std::memcpy(more.data() + offsetof(pack::Head, count), &count, sizeof(count));
        EXPECT_FALSE(parses(more)) << count;
    }
}

TEST_F(PackFormat, AnEntryUnderTheWrongDigestIsAMiss) {
    const SeedPack pack = open(forged(pack_of(2), [](pack::Head&, std::vector<pack::Row>& rows) {
        std::swap(rows[0].offset, rows[1].offset);
        std::swap(rows[0].length, rows[1].length);
    }));
    ASSERT_EQ(pack.problem(), "");
    for (const int i : {0, 1}) {
        const Lookup lookup = pack.find(pack_key(i));
        EXPECT_FALSE(lookup.binary);
        EXPECT_NE(lookup.rejected.find("other ingredients"), std::string::npos) << lookup.rejected;
    }
}

TEST_F(PackFormat, DigestsHaveOneSpelling) {
    const std::string hex = pack_key(0).digest;
    const auto digest = pack::parse_digest(hex);
    ASSERT_TRUE(digest);
    EXPECT_EQ(pack::digest_text(*digest), hex);
    EXPECT_FALSE(pack::parse_digest(hex.substr(1)));
    EXPECT_FALSE(pack::parse_digest(hex + "0"));
    EXPECT_FALSE(pack::parse_digest("G" + hex.substr(1)));
    EXPECT_FALSE(pack::parse_digest("A" + hex.substr(1)));
    EXPECT_FALSE(pack::parse_digest(""));
}

}  // namespace
}  // namespace kiln
