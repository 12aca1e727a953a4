// SPDX-License-Identifier: Apache-2.0
//
// What to ask of a version of NVRTC for an architecture: a cubin for it, or PTX where the library is older than the device.
#pragma once

#include <kiln/types.h>

#include <string>
#include <vector>

namespace kiln {

/// What the library reports about itself.
struct NvrtcFacts {
    std::string product;  ///< "NVRTC 13.0"
    std::vector<std::string> archs;
};

struct NvrtcPlan {
    std::string arch;
    std::string note;  ///< for the log
    bool to_ptx = false;
};

/// Throws BuildError for a target that it does not compile for.
NvrtcPlan nvrtc_plan(const Target& target, const NvrtcFacts& facts);

}  // namespace kiln
