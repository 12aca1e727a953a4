// SPDX-License-Identifier: Apache-2.0
//
// Tells AccessRecorder and the plain recording the same events, and compares what they found.
#pragma once

#include <gtest/gtest.h>
#include <kiln/tools/accesses.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "plain_recording.h"

namespace kiln::test {

/// Tells two observers the same.
class Both final : public AccessObserver {
  public:
    Both(AccessObserver& first, AccessObserver& second) : all_{&first, &second} {}
    void begin_launch(const ObservedLaunch& launch) override {
        for (auto* one : all_) one->begin_launch(launch);
    }
    bool begin_block(Dim3 index) override {
        bool run = true;
        for (auto* one : all_) run = one->begin_block(index) && run;
        return run;
    }
    void accesses(unsigned thread, std::span<const ObservedAccess> list) override {
        for (auto* one : all_) one->accesses(thread, list);
    }
    void bad_index(unsigned thread, const ObservedBadIndex& what) override {
        for (auto* one : all_) one->bad_index(thread, what);
    }
    void meeting(std::span<const unsigned> threads, bool whole_block) override {
        for (auto* one : all_) one->meeting(threads, whole_block);
    }
    void exchange(std::span<const unsigned> threads) override {
        for (auto* one : all_) one->exchange(threads);
    }
    void release(unsigned thread, std::uint64_t object) override {
        for (auto* one : all_) one->release(thread, object);
    }
    void acquire(unsigned thread, std::uint64_t object) override {
        for (auto* one : all_) one->acquire(thread, object);
    }
    void end_block() override {
        for (auto* one : all_) one->end_block();
    }
    void end_launch() override {
        for (auto* one : all_) one->end_launch();
    }

  private:
    std::array<AccessObserver*, 2> all_;
};

inline void expect_races(const Recording& recording, const PlainRecording& plain) {
    std::set<std::string> found;
    for (const AccessProblem& problem : recording.problems) {
        if (problem.kind != ProblemKind::race) continue;
        found.insert(problem.variable);
        EXPECT_TRUE(plain.has_race(problem.variable, static_cast<std::uint64_t>(problem.offset),
                                   problem.thread, problem.access, problem.other_thread,
                                   problem.other_access))
            << problem.text();
    }
    EXPECT_EQ(found, plain.racy);
}

inline void expect_uninitialised(const Recording& recording, const PlainRecording& plain) {
    std::set<std::string> found;
    for (const AccessProblem& problem : recording.problems) {
        if (problem.kind != ProblemKind::uninitialised) continue;
        found.insert(problem.variable);
        EXPECT_EQ(plain.may_be_empty.count(problem.variable), 1u) << problem.text();
    }
    for (const std::string& variable : plain.must_be_empty) EXPECT_EQ(found.count(variable), 1u) << variable;
}

}  // namespace kiln::test
