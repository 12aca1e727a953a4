// SPDX-License-Identifier: Apache-2.0
//
// What tests of Cache, explain and doctor share: keys of a real template, each ingredient of which can be
// changed, and a directory with entries.
#pragma once

#include <gtest/gtest.h>
#include <kiln/cache.h>
#include <kiln/error.h>
#include <kiln/template.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "cache/build_key.h"
#include "cache/disk_cache.h"
#include "cache/entry.h"

namespace kiln::test::admin {

inline constexpr const char* kAxpy = R"(// axpy: y = A * x
//@ kernel axpy
//@ param  A int in 1..20000 = 1 "the factor"
//@ param  T type in float, double = float "the elements"
//@ block  32
//@ grid   ceil_div(n, 32)
#include "kiln/device.h"
extern "C" __global__ void axpy(int n, const T* x, T* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = A * x[i];
}
)";

/// Everything that a key is made of.
struct Recipe {
    int a = 1;
    std::string t = "float";
    std::string body = kAxpy;
    Target target{Backend::cuda, "sm_90a", {}};
    std::string compiler = "nvrtc build 1";
    std::vector<std::string> options = {"--std=c++17", "-lineinfo"};
    std::vector<Header> headers = {{"mine.h", "int f();\n"}, {"yours.h", "int g();\n"}};
};

inline BuildKey key_of(const Recipe& recipe) {
    static std::map<std::string, Template> parsed;  // by body; parsing it 20,000 times would take long
    auto place = parsed.find(recipe.body);
    if (place == parsed.end())
        place = parsed.emplace(recipe.body, Template::parse(recipe.body, "axpy.cu")).first;
    Source source = place->second.variant({{"A", recipe.a}, {"T", recipe.t}}).source(recipe.target.backend);
    source.headers = recipe.headers;
    return make_build_key(recipe.target, recipe.compiler, recipe.options, source);
}

inline Bytes entry_of(const BuildKey& key, int number = 1) {
    Binary binary;
    binary.kind = BinaryKind::cubin;
    binary.entry = "axpy";
    binary.bytes = std::vector<std::byte>(300, static_cast<std::byte>(number));
    binary.log = "log of " + std::to_string(number);
    binary.compiler = "NVRTC 13.0";
    binary.compile_ms = number;
    return encode_entry(key, binary);
}

inline void change_byte(const std::filesystem::path& file, std::streamoff offset) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(offset);
    const int old = stream.get();
    stream.seekp(offset);
    stream.put(static_cast<char>(old ^ 1));
    ASSERT_TRUE(stream.good()) << file;
}

/// The time of last use, in seconds before now.
inline void set_age(const std::filesystem::path& file, int seconds_ago) {
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(seconds_ago));
}

inline int count_files(const std::filesystem::path& directory) {
    int count = 0;
    for (const auto& item : std::filesystem::recursive_directory_iterator(directory))
        count += item.is_regular_file();
    return count;
}

struct AdminFixture : testing::Test {
    TemporaryDirectory home;

    CacheOptions options(const std::string& name = "cache") {
        CacheOptions options;
        options.directory = home.path() / name;
        options.remote = RemoteOptions{};
        options.share_with_group = false;
        return options;
    }
    DiskCache disk(const std::string& name = "cache") {
        DiskOptions disk;
        disk.directory = home.path() / name;
        return DiskCache(disk);
    }
    /// axpy with A = first..last; the first was used last. Written without the syncs of a store, which would
    /// take longer than all else. Returns their keys.
    std::vector<BuildKey> fill(int first, int last, const std::string& name = "cache") {
        const DiskCache cache(DiskOptions{home.path() / name});
        std::vector<BuildKey> keys;
        for (int a = first; a <= last; ++a) {
            Recipe recipe;
            recipe.a = a;
            keys.push_back(key_of(recipe));
            const auto path = cache.entry_path(keys.back().digest);
            const Bytes entry = entry_of(keys.back(), a);
            std::filesystem::create_directories(path.parent_path());
            write_text(path, {reinterpret_cast<const char*>(entry.data()), entry.size()});
            set_age(path, a * 10);
        }
        return keys;
    }
};

}  // namespace kiln::test::admin
