// SPDX-License-Identifier: Apache-2.0
#include "compile/nvrtc_plan.h"

#include <kiln/error.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/arch_facts.h"
#include "base/words.h"
#include "format/format.h"

namespace kiln {
namespace {

// "sm_90a" is the number 90 with the suffix "a".
struct SmArch {
    int number = 0;
    std::string suffix;
};

std::optional<SmArch> parse_sm_arch(std::string_view text) {
    const auto number = is_ptx_arch(text) ? std::nullopt : cuda_arch_number(text);
    if (!number) return std::nullopt;
    const bool has_suffix = text.ends_with('a') || text.ends_with('f');
    return SmArch{*number, std::string(text.substr(text.size() - (has_suffix ? 1 : 0)))};
}

}  // namespace

NvrtcPlan nvrtc_plan(const Target& target, const NvrtcFacts& facts) {
    const bool is_ptx = is_ptx_arch(target.arch);
    const auto arch =
        parse_sm_arch(is_ptx ? "sm_" + target.arch.substr(target.arch.find('_') + 1) : target.arch);
    const std::string known = facts.product + " compiles for " + enumerate(facts.archs) + ".";
    if (!arch)
        throw BuildError("\"" + target.arch +
                         "\" is not the name of an NVIDIA architecture, which looks like sm_80 or sm_90a; "
                         "compute_80 is PTX. " +
                         known);
    std::vector<int> numbers;  // in rising order
    for (const auto& name : facts.archs) {
        if (const auto parsed = parse_sm_arch(name); parsed && parsed->suffix.empty())
            numbers.push_back(parsed->number);
    }
    if (numbers.empty() || std::binary_search(numbers.begin(), numbers.end(), arch->number))
        return {target.arch, "", is_ptx};
    const auto newer = std::upper_bound(numbers.begin(), numbers.end(), arch->number);
    if (newer == numbers.begin())
        throw BuildError(facts.product + " no longer compiles for " + target.arch + "; it compiles for " +
                         enumerate(facts.archs) +
                         ". An older CUDA toolkit is needed: set KILN_NVRTC to its library.");
    // PTX is for a device that is newer than this library; without one, an unknown name is a mistake.
    if (target.limits.multiprocessors == 0)
        throw BuildError(facts.product + " does not know " + target.arch + "; it compiles for " +
                         enumerate(facts.archs) + ".");
    const std::string virtual_arch = formatted("compute_{}", *(newer - 1));
    return {virtual_arch,
            facts.product + " does not know " + target.arch + ": made PTX for " + virtual_arch +
                ", which the driver compiles when it loads it.\n",
            true};
}

}  // namespace kiln
