// SPDX-License-Identifier: Apache-2.0
//
// Hand-made events for AccessRecorder: a block of threads that access shared memory at 0x100000 ("tile"), dynamic
// shared memory at 0x200000 and a tensor "a" at 0x10000000. Without a binary: each access is at a line that is not
// known, and sites are told apart by kind, bytes and variable.
#pragma once

#include <gtest/gtest.h>
#include <kiln/tools/accesses.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace kiln::test {

constexpr std::uint64_t kTile = 0x100000, kDynamic = 0x200000, kBuffer = 0x10000000, kBufferBytes = 1 << 20;
constexpr std::uint64_t kOwn = 0x7ff000000000;
constexpr std::uint64_t kGap = 16384;
constexpr auto kLoad = AccessKind::load, kStore = AccessKind::store, kAtomic = AccessKind::atomic;

struct AccessEvents {
    AccessRecorder recorder;
    unsigned threads;

    static RecorderOptions options(const std::string& arch) {
        RecorderOptions options;
        options.banks = bank_model(arch);
        options.warp_size = options.banks.lanes;
        return options;
    }

    explicit AccessEvents(unsigned block = 32, const std::string& arch = "sm_90a",
                          std::uint64_t tile_bytes = 16384)
        : AccessEvents(block, options(arch), {1, 1, 1}, tile_bytes) {}
    AccessEvents(unsigned block, const RecorderOptions& chosen, Dim3 grid, std::uint64_t tile_bytes = 16384)
        : recorder(chosen), threads(block) {
        ObservedLaunch launch;
        launch.grid = grid;
        launch.block = {block, 1, 1};
        launch.shared = {{"tile", kTile, tile_bytes}};
        launch.dynamic_shared_address = kDynamic;
        launch.dynamic_shared_bytes = 4096;
        launch.shared_gap_bytes = kGap;
        launch.global = {{kBuffer, kBufferBytes, "a"}};
        launch.own = {{kOwn, 4096, ""}, {kOwn + 64, 16, "table", true}};
        recorder.begin_launch(launch);
        recorder.begin_block({0, 0, 0});
    }

    static ObservedAccess access(AccessKind kind, std::uint64_t address, unsigned bytes,
                                 std::uint32_t code = 100) {
        ObservedAccess result;
        result.address = address;
        result.code = code;
        result.bytes = static_cast<std::uint16_t>(bytes);
        result.kind = kind;
        return result;
    }
    void one(unsigned thread, AccessKind kind, std::uint64_t address, unsigned bytes = 4,
             std::uint32_t code = 100) {
        const ObservedAccess told = access(kind, address, bytes, code);
        recorder.accesses(thread, {&told, 1});
    }
    /// Every thread once.
    void all(AccessKind kind, unsigned bytes, const std::function<std::uint64_t(unsigned)>& address,
             std::uint32_t code = 100) {
        for (unsigned thread = 0; thread < threads; ++thread) one(thread, kind, address(thread), bytes, code);
    }
    /// Writes all of the tile, and lets all meet.
    void fill(std::uint64_t bytes = 16384) {
        for (std::uint64_t at = 0; at < bytes; at += 16) one(0, AccessKind::store, kTile + at, 16, 1);
        sync();
    }
    void sync() { recorder.meeting(everybody(), true); }
    void sync_warp(unsigned first, unsigned count) {
        std::vector<unsigned> who(count);
        std::iota(who.begin(), who.end(), first);
        recorder.meeting(who, false);
    }
    void shuffle() { recorder.exchange(everybody()); }
    std::vector<unsigned> everybody() const {
        std::vector<unsigned> who(threads);
        std::iota(who.begin(), who.end(), 0u);
        return who;
    }

    Recording finish() {
        recorder.end_block();
        recorder.end_launch();
        return recorder.recording();
    }
};

/// The site of that kind and width; fails the test when there is none.
inline SharedSite shared_site(const Recording& recording, AccessKind kind, int bytes) {
    for (const SharedSite& site : recording.shared) {
        if (site.kind == kind && site.as_written.bytes == bytes) return site;
    }
    ADD_FAILURE() << "no " << name(kind) << " of " << bytes << " bytes in shared memory";
    return {};
}
inline GlobalSite global_site(const Recording& recording, AccessKind kind, int bytes) {
    for (const GlobalSite& site : recording.global) {
        if (site.kind == kind && site.bytes == bytes) return site;
    }
    ADD_FAILURE() << "no " << name(kind) << " of " << bytes << " bytes in global memory";
    return {};
}
inline std::vector<AccessProblem> problems(const Recording& recording, ProblemKind kind) {
    std::vector<AccessProblem> found;
    for (const AccessProblem& problem : recording.problems) {
        if (problem.kind == kind) found.push_back(problem);
    }
    return found;
}

}  // namespace kiln::test
