// SPDX-License-Identifier: Apache-2.0
//
// Entries and packs for tests.
#pragma once

#include <kiln/build.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cache/build_key.h"
#include "cache/entry.h"
#include "cache/seed_pack.h"

namespace kiln::test {

inline BuildKey pack_key(int number) {
    const std::string text = "constexpr int N = " + std::to_string(number) + ";\n";
    return make_build_key({Backend::cuda, "sm_90a", {}}, "compiler 1.0", {"-O3"}, {"k.cu", "k", text, {}});
}

inline Binary pack_binary(int number, std::size_t bytes = 200) {
    std::vector<std::byte> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i) content[i] = std::byte(i * 7 + static_cast<std::size_t>(number));
    Binary binary;
    binary.entry = "k";
    binary.bytes = std::move(content);
    binary.log = "log " + std::to_string(number);
    binary.compiler = "Compiler 1.0";
    return binary;
}

/// digest -> encoded entry
using Entries = std::map<std::string, Bytes>;

inline Entries pack_entries(int count, std::size_t bytes = 200) {
    Entries entries;
    for (int i = 0; i < count; ++i)
        entries.emplace(pack_key(i).digest, encode_entry(pack_key(i), pack_binary(i, bytes)));
    return entries;
}

inline PackWritten write_entries(const std::filesystem::path& file, const Entries& entries) {
    std::vector<std::string> digests;
    for (const auto& [digest, entry] : entries) digests.push_back(digest);
    std::ranges::reverse(digests);  // they need not come sorted
    return write_pack(file, digests, [&](const std::string& digest) { return entries.at(digest); });
}

}  // namespace kiln::test
