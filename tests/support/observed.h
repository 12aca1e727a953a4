// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are observed (kiln/observe.h), and what they told, as lines of text.
#pragma once

#include <gtest/gtest.h>
#include <kiln/observe.h>
#include <kiln/service.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace kiln::test {

/// "load", "async_copy".
inline std::string word(AccessKind kind) {
    constexpr const char* kWords[] = {"load",          "store",        "atomic",       "matrix_load",
                                      "matrix_store",  "async_copy",   "bulk_load",    "bulk_store",
                                      "async_arrival", "bulk_arrival", "barrier_init", "barrier_use",
                                      "idle_lane",     "bulk_begin"};
    return kWords[static_cast<int>(kind)];
}

/// Keeps everything as lines: "3 load 4 tile+12" by thread 3, "meet block 0 1 2", "bad 0 k.cu:9 float [4] 4".
/// An access of a type without alignment ends in " unaligned". Addresses count from the shared variable,
/// dynamic shared memory or named buffer that they lie in or up to 16 KB behind.
class EventLog : public AccessObserver {
  public:
    std::vector<std::string> lines;
    std::vector<ObservedAccess> all;
    ObservedLaunch launch;
    std::set<unsigned> skipped;  ///< blocks, by their x

    void name(const void* start, std::string text) { places_[reinterpret_cast<std::uint64_t>(start)] = text; }
    /// Those that start so.
    std::vector<std::string> starting(const std::string& words) const {
        std::vector<std::string> found;
        std::ranges::copy_if(lines, std::back_inserter(found),
                             [&](const std::string& line) { return line.starts_with(words); });
        return found;
    }
    /// Those with these words in them.
    std::vector<std::string> with(const std::string& words) const {
        std::vector<std::string> found;
        std::ranges::copy_if(lines, std::back_inserter(found),
                             [&](const std::string& line) { return line.find(words) != std::string::npos; });
        return found;
    }

    void begin_launch(const ObservedLaunch& begun) override {
        launch = begun;
        for (const SharedVariable& variable : begun.shared) places_[variable.address] = variable.name;
        if (begun.dynamic_shared_bytes != 0) places_[begun.dynamic_shared_address] = "dynamic";
        lines.push_back("launch");
    }
    bool begin_block(Dim3 index) override {
        const bool runs = !skipped.contains(index.x);
        lines.push_back((runs ? "block " : "skip ") + std::to_string(index.x));
        return runs;
    }
    void accesses(unsigned thread, std::span<const ObservedAccess> accesses) override {
        for (const ObservedAccess& access : accesses) {
            all.push_back(access);
            lines.push_back(std::to_string(thread) + " " + word(access.kind) + " " +
                            std::to_string(access.bytes) + " " + place(access.address) +
                            (access.unaligned_type ? " unaligned" : ""));
        }
    }
    void bad_index(unsigned thread, const ObservedBadIndex& what) override {
        lines.push_back("bad " + std::to_string(thread) + " " + what.file + ":" + std::to_string(what.line) +
                        " " + what.array_type + " " + std::to_string(what.index));
    }
    void meeting(std::span<const unsigned> threads, bool whole_block) override {
        std::string line = whole_block ? "meet block" : "meet warp";
        for (const unsigned thread : threads) line += " " + std::to_string(thread);
        lines.push_back(line);
    }
    void exchange(std::span<const unsigned> threads) override {
        std::string line = "exchange";
        for (const unsigned thread : threads) line += " " + std::to_string(thread);
        lines.push_back(line);
    }
    void release(unsigned thread, std::uint64_t object) override {
        lines.push_back("release " + std::to_string(thread) + " " + object_name(object));
    }
    void acquire(unsigned thread, std::uint64_t object) override {
        lines.push_back("acquire " + std::to_string(thread) + " " + object_name(object));
    }
    void end_block() override { lines.push_back("end block"); }
    void end_launch() override { lines.push_back("end launch"); }

  private:
    std::string place(std::uint64_t address) const {
        auto found = places_.upper_bound(address);
        if (found == places_.begin()) return "?";
        --found;
        const std::uint64_t offset = address - found->first;
        return offset < 16384 ? found->second + "+" + std::to_string(offset) : "?";
    }
    // In the order in which they were first seen: "A", "B", ...
    std::string object_name(std::uint64_t object) {
        const auto [found, is_new] = objects_.try_emplace(object, char('A' + objects_.size()));
        return {found->second};
    }

    std::map<std::uint64_t, std::string> places_;
    std::map<std::uint64_t, char> objects_;
};

/// A service whose kernels are observed by `log`. Without a directory it caches nothing on disk.
class ObservedService {
  public:
    explicit ObservedService(std::shared_ptr<AccessObserver> observer,
                             const std::filesystem::path& cache = {})
        : service_(options(std::move(observer), cache)) {}

    /// Runs the kernel `k` of the text, which begins with its `//@` lines and is k.cu, on a buffer of 4096
    /// floats that hold their number. Returns the buffer.
    std::vector<float> run(const std::string& text, EventLog& log) {
        const auto kernel =
            service_.build<void(float*)>(service_.parse("//@ kernel k\n" + text, "k.cu").variant());
        Buffer buffer = service_.device().allocate(kFloats * sizeof(float));
        std::vector<float> values(kFloats);
        for (std::size_t i = 0; i < kFloats; ++i) values[i] = static_cast<float>(i);
        buffer.copy_from(std::as_bytes(std::span(values)));
        log.name(buffer.data(), "a");
        kernel(service_.stream(), buffer.as<float>());
        buffer.copy_to(std::as_writable_bytes(std::span(values)));
        return values;
    }
    Service& service() { return service_; }

  private:
    static constexpr std::size_t kFloats = 4096;

    static ServiceOptions options(std::shared_ptr<AccessObserver> observer,
                                  const std::filesystem::path& cache) {
        ServiceOptions options;
        options.observer = std::move(observer);
        options.cache.enabled = !cache.empty();
        if (options.cache.enabled) options.cache.directory = cache;
        return options;
    }

    Service service_;
};

}  // namespace kiln::test
