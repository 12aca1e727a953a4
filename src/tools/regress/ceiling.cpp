// SPDX-License-Identifier: Apache-2.0
//
// Peak rates are those of the table of chips: dense, at the boost clock, from data sheets.
#include "regress/ceiling.h"

#include <kiln/error.h>
#include <kiln/occupancy.h>

#include <algorithm>

#include "format/format.h"

namespace kiln {
namespace {

constexpr double kFlopsPerMs = 1e9;  // of one TFLOP/s

bool uses_matrix_cores(const Resources& resources) {
    constexpr const char* kNames[] = {"HMMA", "HGMMA", "UTCHMMA", "v_mfma"};
    return std::ranges::any_of(kNames,
                               [&](const char* name) { return resources.instructions.contains(name); });
}

std::string sizes_text(const Sizes& sizes) {
    std::string text;
    for (const auto& [name, size] : sizes) text += formatted(" {}={}", name, size);
    return text;
}

}  // namespace

Ceiling::Ceiling(Service& service, Runner& runner) : service_(service), runner_(runner) {
    RunOptions options;
    options.check = Check::none;
    options.cold_l2 = true;
    const RunResult copied = runner.run(service.find("copy").variant(), options);
    if (copied.time && copied.time->median_ms > 0)
        copy_bytes_per_ms_ = static_cast<double>(copied.problem.bytes) / copied.time->median_ms;
}

std::optional<double> Ceiling::times_naive(const Variant& variant, const RunResult& timed) {
    const std::optional<Variant> naive = runner_.naive(variant);
    if (!naive) return std::nullopt;
    const auto [entry, is_new] = naive_ms_.try_emplace(naive->text() + sizes_text(timed.problem.sizes), 0);
    if (is_new) {
        RunOptions options;
        options.sizes = Runner::shared_sizes(*naive, timed.problem.sizes);
        options.check = Check::none;
        options.cold_l2 = true;
        try {
            const RunResult run = runner_.run(*naive, options);
            if (run.time) entry->second = run.time->median_ms;
        } catch (const VariantError&) {
            // The naive template does not support these sizes, which is no failure.
        }
    }
    if (entry->second <= 0) return std::nullopt;
    return entry->second / timed.time->median_ms;
}

Ceiling::Share Ceiling::share(const RunResult& timed, const Resources& resources) const {
    const std::string& device = service_.device().info().name;
    double least_ms = 0;
    Share result;
    if (copy_bytes_per_ms_ > 0 && timed.problem.bytes > 0) {
        least_ms = static_cast<double>(timed.problem.bytes) / copy_bytes_per_ms_;
        result.limit = "copy";
    }
    const auto chip = std::ranges::find(chips(), device, &Chip::name);
    const bool matrix = uses_matrix_cores(resources);
    const auto tflops =
        chip == chips().end() ? std::nullopt : chip->tflops(matrix ? Unit::matrix_f16 : Unit::fma_f32);
    if (tflops && timed.problem.flops > 0) {
        const double ms = static_cast<double>(timed.problem.flops) / (*tflops * kFlopsPerMs);
        if (ms > least_ms) {
            least_ms = ms;
            result.limit = matrix ? "matrix" : "fma";
        }
    }
    if (least_ms > 0) result.value = least_ms / timed.time->median_ms;
    return result;
}

}  // namespace kiln
