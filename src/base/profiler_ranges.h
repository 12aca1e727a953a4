// SPDX-License-Identifier: Apache-2.0
//
// Ranges of time that NVIDIA's profilers show next to a program's own (NVTX): around builds and launches. The library is
// opened at run time, and only where KILN_NVTX asks for it; without it a range is one comparison.
#pragma once

#include <memory>
#include <string>

#include "base/dynamic_library.h"

namespace kiln {

/// An opened library of NVTX. Immutable.
class ProfilerRanges {
  public:
    /// As KILN_NVTX says; nullptr where it asks for none, and where there is none, which `problem` then says.
    static std::shared_ptr<const ProfilerRanges> open(std::string& problem);

  private:
    friend class ProfilerRange;

    DynamicLibrary library_;
    int (*push_)(const char* name) = nullptr;
    int (*pop_)() = nullptr;
};

/// The range of a scope, in the calling thread.
class ProfilerRange {
  public:
    /// ranges: nullptr: none is wanted. name: read during the call.
    ProfilerRange(const ProfilerRanges* ranges, const std::string& name) : ranges_(ranges) {
        if (ranges_ != nullptr) [[unlikely]]
            ranges_->push_(name.c_str());
    }
    ~ProfilerRange() {
        if (ranges_ != nullptr) [[unlikely]]
            ranges_->pop_();
    }
    ProfilerRange(const ProfilerRange&) = delete;
    ProfilerRange& operator=(const ProfilerRange&) = delete;

  private:
    const ProfilerRanges* const ranges_;
};

}  // namespace kiln
