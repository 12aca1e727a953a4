// SPDX-License-Identifier: Apache-2.0
//
// The entry format: what goes in comes out; whatever is changed in between is noticed.
#include "cache/entry.h"

#include <gtest/gtest.h>

#include <algorithm>

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
    binary.bytes.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) binary.bytes[i] = std::byte(i * 7);
    binary.log = "warning: one\nwarning: two\n";
    binary.compiler = "Compiler 1.0 (build 1)";
    binary.compile_ms = 12.345;
    return binary;
}

TEST(Entry, ComesBackAsItWentIn) {
    for (const std::size_t bytes : {1, 63, 64, 65, 100000}) {
        const Binary binary = sample_binary(bytes);
        std::string reason;
        const auto entry = decode_entry(encode_entry(sample_key(), binary), reason);
        ASSERT_TRUE(entry) << reason;
        EXPECT_EQ(entry->key_text, sample_key().text);
        EXPECT_EQ(entry->binary.kind, binary.kind);
        EXPECT_EQ(entry->binary.entry, binary.entry);
        EXPECT_EQ(entry->binary.bytes, binary.bytes);
        EXPECT_EQ(entry->binary.log, binary.log);
        EXPECT_EQ(entry->binary.compiler, binary.compiler);
        EXPECT_DOUBLE_EQ(entry->binary.compile_ms, binary.compile_ms);
    }
}

TEST(Entry, EveryFlippedByteIsNoticed) {
    auto bytes = encode_entry(sample_key(), sample_binary());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] ^= std::byte{0x10};
        std::string reason;
        EXPECT_FALSE(decode_entry(bytes, reason)) << "byte " << i;
        EXPECT_FALSE(reason.empty()) << "byte " << i;
        bytes[i] ^= std::byte{0x10};
    }
}

TEST(Entry, EveryTruncationAndAnAppendedByteAreNoticed) {
    auto bytes = encode_entry(sample_key(), sample_binary());
    std::string reason;
    for (std::size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(decode_entry(std::span(bytes).first(length), reason)) << "length " << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode_entry(bytes, reason));
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
