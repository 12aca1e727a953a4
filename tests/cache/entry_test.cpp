// SPDX-License-Identifier: Apache-2.0
//
// The entry format: what goes in comes out; whatever is changed in between is noticed.
#include "cache/entry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/digest.h"
#include "cache/build_key.h"

namespace kiln {
namespace {

BuildKey sample_key() {
    return make_build_key({Backend::cuda, "sm_90a", {}}, "compiler 1.0", {"--std=c++17"},
                          {"scale.cu", "scale", "void f();\n", {{"kiln/device.h", "// prelude\n"}}});
}

Binary sample_binary(std::size_t bytes = 1000) {
    Binary binary;
    binary.kind = BinaryKind::code_object;
    binary.entry = "scale";
    std::vector<std::byte> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i) content[i] = std::byte(i * 7);
    binary.bytes = std::move(content);
    binary.log = "warning: one\nwarning: two\n";
    binary.compiler = "Compiler 1.0 (build 1)";
    binary.compile_ms = 12.345;
    return binary;
}

std::vector<std::byte> sample_bytes(const Binary& binary = sample_binary()) {
    const Bytes bytes = encode_entry(sample_key(), binary);
    return {bytes.begin(), bytes.end()};
}

// With a checksum that is right, so that only what lies behind it can notice anything.
std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
    const auto sum = checksum(std::span(bytes).first(bytes.size() - 16));
    std::copy(sum.begin(), sum.end(), bytes.end() - 16);
    return bytes;
}

void set_u64(std::vector<std::byte>& bytes, std::size_t offset, std::uint64_t value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

std::uint64_t u64_at(const std::vector<std::byte>& bytes, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
}

void expect_damaged(const std::vector<std::byte>& bytes, const std::string& words = {}) {
    std::string reason;
    EXPECT_FALSE(decode_entry(bytes, reason));
    EXPECT_FALSE(reason.empty());
    EXPECT_NE(reason.find(words), std::string::npos) << reason;
}

TEST(Entry, ComesBackAsItWentIn) {
    for (const std::size_t bytes : {1u, 63u, 64u, 65u, 100000u}) {
        const Binary binary = sample_binary(bytes);
        std::string reason;
        const Bytes encoded = encode_entry(sample_key(), binary);
        const auto entry = decode_entry_of(sample_key().digest, encoded, reason);
        ASSERT_TRUE(entry) << reason;
        EXPECT_EQ(entry->key_text, sample_key().text);
        EXPECT_EQ(entry->binary.kind, binary.kind);
        EXPECT_EQ(entry->binary.entry, binary.entry);
        EXPECT_EQ(entry->binary.bytes, binary.bytes);
        EXPECT_EQ(entry->binary.log, binary.log);
        EXPECT_EQ(entry->binary.compiler, binary.compiler);
        EXPECT_DOUBLE_EQ(entry->binary.compile_ms, binary.compile_ms);
        EXPECT_GE(entry->binary.bytes.data(), encoded.data()) << "the binary was copied";
        EXPECT_LT(entry->binary.bytes.data(), encoded.end()) << "the binary was copied";
        EXPECT_EQ(encode_entry(sample_key(), entry->binary), encoded);
    }
}

TEST(Entry, KeepsTheNamesOfAllKernels) {
    Binary binary = sample_binary();
    binary.entry = "first";
    binary.more_entries = {"_Z6reduceIfLi256EEvPKT_", "third"};
    std::string reason;
    const auto entry = decode_entry(encode_entry(sample_key(), binary), reason);
    ASSERT_TRUE(entry) << reason;
    EXPECT_EQ(entry->binary.entry, "first");
    EXPECT_EQ(entry->binary.more_entries, binary.more_entries);
}

TEST(Entry, OddValuesMakeNoOddEntries) {
    Binary binary = sample_binary();
    binary.compiler = "two\nlines";
    for (const double compile_ms : {-1.0, 1e300, std::nan(""), HUGE_VAL}) {
        binary.compile_ms = compile_ms;
        std::string reason;
        const auto entry = decode_entry(encode_entry(sample_key(), binary), reason);
        ASSERT_TRUE(entry) << reason;
        EXPECT_EQ(entry->binary.compiler, "two lines");
        EXPECT_GE(entry->binary.compile_ms, 0);
    }
}

TEST(Entry, IsHeldToADigest) {
    std::string reason;
    EXPECT_FALSE(decode_entry_of(std::string(64, '0'), encode_entry(sample_key(), sample_binary()), reason));
    EXPECT_NE(reason.find("other ingredients"), std::string::npos) << reason;
}

TEST(Entry, EveryFlippedByteIsNoticed) {
    auto bytes = sample_bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        for (const int mask : {0x01, 0x10, 0x80, 0xff}) {
            bytes[i] ^= std::byte(mask);
            std::string reason;
            EXPECT_FALSE(decode_entry(bytes, reason)) << "byte " << i;
            EXPECT_FALSE(reason.empty()) << "byte " << i;
            bytes[i] ^= std::byte(mask);
        }
    }
}

TEST(Entry, EveryTruncationAndAnAppendedByteAreNoticed) {
    auto bytes = sample_bytes();
    std::string reason;
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(length);
        EXPECT_FALSE(decode_entry(std::vector(bytes.begin(), end), reason)) << "length " << length;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode_entry(bytes, reason));
}

TEST(Entry, AWrongTableWithARightChecksumIsNoticed) {
    const auto bytes = sample_bytes();
    ASSERT_EQ(sealed(bytes), bytes);
    constexpr std::size_t kTable = 24;
    for (std::size_t row = 0; row < 4; ++row) {
        for (const std::size_t field : {kTable + row * 16, kTable + row * 16 + 8}) {
            const std::uint64_t right = u64_at(bytes, field);
            for (const std::uint64_t wrong :
                 {right + 1, right - 1, right + 64, right - 64, std::uint64_t{0}, std::uint64_t{1} << 63,
                  ~std::uint64_t{0}, ~std::uint64_t{0} - 62, ~right + 1, std::uint64_t{bytes.size()}}) {
                if (wrong == right) continue;
                auto changed = bytes;
                set_u64(changed, field, wrong);
                changed = sealed(changed);
                // A key or log with an additional zero at its end is valid, and is read as such.
                std::string reason;
                const auto entry = decode_entry(changed, reason);
                if (entry && wrong == right + 1) {
                    EXPECT_EQ(encode_entry({"", entry->key_text}, entry->binary), Bytes(changed));
                    EXPECT_FALSE(decode_entry_of(sample_key().digest, changed, reason) &&
                                 entry->binary.log == sample_binary().log);
                } else {
                    expect_damaged(changed);
                }
            }
        }
    }
    // Two sections in one place.
    auto overlapping = bytes;
    std::copy_n(bytes.begin() + kTable, 16, overlapping.begin() + kTable + 16);
    expect_damaged(sealed(overlapping), "section");
}

TEST(Entry, BytesThatBelongToNoSectionAreNoticed) {
    const auto bytes = sample_bytes();
    const std::size_t key_end = 128 + u64_at(bytes, 32);
    ASSERT_NE(key_end % 64, 0u) << "the sample should have a gap behind its key";
    auto changed = bytes;
    changed[key_end] = std::byte{1};
    expect_damaged(sealed(changed), "gap");
    changed = bytes;
    changed[100] = std::byte{1};
    expect_damaged(sealed(changed), "gap");

    changed = bytes;
    changed.insert(changed.end() - 16, 64, std::byte{0});
    set_u64(changed, 16, changed.size());
    expect_damaged(sealed(changed), "no section");
}

TEST(Entry, AnInformationSectionIsReadStrictly) {
    const auto bytes = sample_bytes();
    const std::size_t offset = u64_at(bytes, 40);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + offset, u64_at(bytes, 48));
    const auto with = [&](std::string_view from, std::string_view to) {
        auto changed = bytes;
        const auto at = text.find(from);
        EXPECT_NE(at, std::string_view::npos);
        EXPECT_EQ(from.size(), to.size());
        std::memcpy(changed.data() + offset + at, to.data(), to.size());
        return sealed(changed);
    };
    for (const auto& changed :
         {with("code_object", "code_0bject"), with("kind ", "kin d"), with("compile_us", "compile_ms"),
          with("12345", "-2345"), with("12345", "1234x"), with("12345", " 2345"), with("12345\n", "123450"),
          with("entry scale", "entry \nompi"), with("compiler ", "entry x e")})
        expect_damaged(changed, "information");
}

TEST(Entry, AnEmptyBinaryIsNone) {
    expect_damaged(sample_bytes(sample_binary(0)), "empty");
    Binary binary = sample_binary();
    binary.entry.clear();
    expect_damaged(sample_bytes(binary), "information");
}

TEST(Entry, SameInputSameBytes) {
    EXPECT_EQ(encode_entry(sample_key(), sample_binary()), encode_entry(sample_key(), sample_binary()));
}

TEST(BuildKey, EachIngredientChangesTheDigest) {
    const Target target{Backend::cuda, "sm_90a", {}};
    const Source source{"f.cu", "f", "text", {{"a.h", "A"}, {"b.h", "B"}}};
    const auto digest = [&](const Target& t, const std::string& c, const std::vector<std::string>& o,
                            const Source& s) { return make_build_key(t, c, o, s).digest; };
    const std::string base = digest(target, "c", {"-x", "-y"}, source);
    EXPECT_EQ(base, digest(target, "c", {"-x", "-y"}, source));
    EXPECT_EQ(base.size(), 64u);

    const auto with_second = [&](const std::string& entry) {
        Source changed = source;
        changed.more_entries = {entry};
        return changed;
    };
    std::vector<std::string> others = {
        digest({Backend::hip, "sm_90a", {}}, "c", {"-x", "-y"}, source),
        digest({Backend::cuda, "sm_90", {}}, "c", {"-x", "-y"}, source),
        digest(target, "c2", {"-x", "-y"}, source),
        digest(target, "c", {"-x"}, source),
        digest(target, "c", {"-y", "-x"}, source),
        digest(target, "c", {"-x -y"}, source),
        digest(target, "c", {"-x", "-y"}, {"g.cu", "f", "text", source.headers}),
        digest(target, "c", {"-x", "-y"}, {"f.cu", "g", "text", source.headers}),
        digest(target, "c", {"-x", "-y"}, {"f.cu", "f", "text ", source.headers}),
        digest(target, "c", {"-x", "-y"}, with_second("g")),
        digest(target, "c", {"-x", "-y"}, with_second("h")),
        digest(target, "c", {"-x", "-y"}, {"f.cu", "f", "text", {{"a.h", "A"}, {"b.h", "B "}}}),
        digest(target, "c", {"-x", "-y"}, {"f.cu", "f", "text", {{"a.h", "A"}, {"c.h", "B"}}}),
        digest(target, "c", {"-x", "-y"}, {"f.cu", "f", "text", {{"a.h", "A"}}})};
    others.push_back(base);
    std::sort(others.begin(), others.end());
    EXPECT_EQ(std::adjacent_find(others.begin(), others.end()), others.end());
}

TEST(BuildKey, AValueCannotPassForAField) {
    const Target target{Backend::cuda, "sm_90a", {}};
    const Source source{"f.cu", "f", "text", {}};
    const auto one = make_build_key(target, "c", {"-x\noption 2\n-y"}, source);
    const auto two = make_build_key(target, "c", {"-x", "-y"}, source);
    EXPECT_NE(one.text, two.text);
}

TEST(BuildKey, LimitsOfTheTargetAreNoIngredient) {
    Target small{Backend::cuda, "sm_90a", {}};
    Target large = small;
    large.limits.multiprocessors = 132;
    const Source source{"f.cu", "f", "text", {}};
    EXPECT_EQ(make_build_key(small, "c", {}, source).digest, make_build_key(large, "c", {}, source).digest);
}

}  // namespace
}  // namespace kiln
