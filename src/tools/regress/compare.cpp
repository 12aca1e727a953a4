// SPDX-License-Identifier: Apache-2.0
//
// Compares results with a baseline, and decides which differences are failures.
#include <kiln/tools/regress.h>

#include <algorithm>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kShownDigits = 12;  // of a digest
constexpr double kSpeedNoise = 0.05;      // of two measurements of one kernel
constexpr std::size_t kBinaryNoise = 64;  // bytes
constexpr std::string_view kCounts[] = {  // instructions that every kernel has and that need not be guarded
    "total", "FFMA", "BAR", "LDL", "STL", "HFMA2"};
// Tensor cores, asynchronous copies, TMA: instructions that a template requires with any compiler. The access
// width may depend on the compiler.
constexpr std::string_view kFeatures[] = {"HMMA", "HGMMA", "LDGSTS", "LDSM", "UTMA", "SYNCS", "v_mfma"};

std::string shown(const std::string& digest) { return digest.substr(0, kShownDigits); }

std::string shown(double value) { return formatted("{:.3g}", value); }

class Comparison {
  public:
    Comparison(const Baseline& was, const Baseline& now)
        : was_(was), now_(now), same_compiler_(was.compiler == now.compiler) {}

    std::vector<Move> moves() {
        if (was_.ingredients != now_.ingredients)
            add("ingredients", shown(was_.ingredients), shown(now_.ingredients), true);
        if (now_.compiler.empty()) return std::move(moves_);
        digests();
        resources();
        instructions();
        speeds();
        return std::move(moves_);
    }

  private:
    void add(std::string what, std::string was, std::string now, bool fails) {
        moves_.push_back({std::move(what), std::move(was), std::move(now), fails});
    }

    void digests() {
        if (!same_compiler_) add("compiler", was_.compiler, now_.compiler, false);
        result("result of integers", was_.integer_result, now_.integer_result, true);
        if (!was_.integer_result.empty() && now_.integer_result.empty() && !now_.random_result.empty())
            add("result of integers", "exact", "with errors", true);
        result("result of random data", was_.random_result, now_.random_result, same_compiler_);
    }

    void result(const char* what, const std::string& was, const std::string& now, bool fails) {
        if (!was.empty() && !now.empty() && was != now) add(what, shown(was), shown(now), fails);
    }

    // The number of registers may differ between compilers: a kernel that fits with one may spill with the next.
    template <class T>
    void number(const char* what, const std::optional<T>& was, const std::optional<T>& now, bool more_fails) {
        if (!now || was == now) return;
        add(what, was ? std::to_string(*was) : "", std::to_string(*now),
            more_fails && same_compiler_ && *now > was.value_or(0));
    }

    void resources() {
        const Resources& was = was_.resources;
        const Resources& now = now_.resources;
        number("registers", was.registers, now.registers, false);
        number("accumulator registers", was.accumulator_registers, now.accumulator_registers, false);
        number("scalar registers", was.scalar_registers, now.scalar_registers, false);
        number("static shared bytes", was.static_shared_bytes, now.static_shared_bytes, false);
        number("stack bytes", was.stack_bytes, now.stack_bytes, true);
        number("spill bytes", was.spill_bytes, now.spill_bytes, true);
        const std::uint64_t larger = std::max(was.binary_bytes, now.binary_bytes);
        const std::uint64_t smaller = std::min(was.binary_bytes, now.binary_bytes);
        if (larger - smaller > kBinaryNoise)
            add("binary bytes", std::to_string(was.binary_bytes), std::to_string(now.binary_bytes), false);
    }

    void instructions() {
        if (now_.resources.instructions.empty() && !was_.resources.instructions.empty())
            return add("instructions", std::to_string(count_of(was_, "total")), "can't be read", true);
        auto names = was_.resources.instructions;
        names.insert(now_.resources.instructions.begin(), now_.resources.instructions.end());
        for (const auto& [name, count] : names) {
            const int was = count_of(was_, name), now = count_of(now_, name);
            if (was == now) continue;
            add(name, was == 0 ? "" : std::to_string(was), now == 0 ? "" : std::to_string(now),
                now == 0 && is_guarded(name));
        }
    }

    bool is_guarded(const std::string& name) const {
        if (same_compiler_) return std::ranges::find(kCounts, name) == std::end(kCounts);
        return std::ranges::any_of(kFeatures,
                                   [&](std::string_view feature) { return name.starts_with(feature); });
    }

    static int count_of(const Baseline& of, const std::string& name) {
        const auto found = of.resources.instructions.find(name);
        return found == of.resources.instructions.end() ? 0 : found->second;
    }

    void speeds() {
        for (const auto& [device, now] : now_.speeds) {
            const auto was = was_.speeds.find(device);
            if (was == was_.speeds.end() || !was->second.times_naive || !now.times_naive) continue;
            const double ratio = *now.times_naive / *was->second.times_naive;
            if (ratio > 1 - kSpeedNoise && ratio < 1 + kSpeedNoise) continue;
            add("times naive on " + device, shown(*was->second.times_naive), shown(*now.times_naive), false);
        }
    }

    const Baseline& was_;
    const Baseline& now_;
    const bool same_compiler_;
    std::vector<Move> moves_;
};

}  // namespace

inline namespace KILN_ABI {

// See regress.h for the rules.
std::vector<Move> compare(const Baseline& was, const Baseline& now) { return Comparison(was, now).moves(); }

std::string_view name(RegressStatus status) {
    switch (status) {
        case RegressStatus::same:
            return "same";
        case RegressStatus::moved:
            return "moved";
        case RegressStatus::fresh:
            return "new";
        case RegressStatus::failed:
            return "failed";
    }
    return "";
}

}  // namespace KILN_ABI
}  // namespace kiln
