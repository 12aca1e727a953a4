// SPDX-License-Identifier: Apache-2.0
#include "base/profiler_ranges.h"

#include <optional>
#include <string>
#include <vector>

#include "base/config.h"

namespace kiln {
namespace {

// Of toolkits up to CUDA 12, and of later ones, which have the functions for other languages in a library of another name.
const std::vector<std::string> kUsualNames = {"libnvToolsExt.so.1", "libnvToolsExt.so",
                                              "libnvtx3interop.so.1", "libnvtx3interop.so"};

}  // namespace

std::shared_ptr<const ProfilerRanges> ProfilerRanges::open(std::string& problem) {
    const std::optional<std::string> wanted = config::nvtx();
    if (!wanted) return nullptr;
    std::string error;
    auto ranges = std::make_shared<ProfilerRanges>();
    ranges->library_ =
        DynamicLibrary::open(*wanted == "1" ? kUsualNames : std::vector<std::string>{*wanted}, &error);
    if (ranges->library_ && ranges->library_.resolve(ranges->push_, "nvtxRangePushA") &&
        ranges->library_.resolve(ranges->pop_, "nvtxRangePop")) {
        ranges->library_.keep_forever();  // a profiler's
        return ranges;
    }
    problem = "KILN_NVTX=" + *wanted + " asks for ranges of NVTX, and there are none: " +
              (error.empty() ? "the library lacks nvtxRangePushA or nvtxRangePop" : error) +
              ". The package nvidia-nvtx of pip has a library; KILN_NVTX may be its path";
    return nullptr;
}

}  // namespace kiln
