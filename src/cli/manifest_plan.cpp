// SPDX-License-Identifier: Apache-2.0
//
// Creates a service per target; errors name the file and line.
#include "cli/manifest_plan.h"

#include <kiln/error.h>
#include <kiln/files.h>

#include <functional>
#include <utility>

namespace kiln::cli {
namespace {

constexpr std::uint64_t kMostBytesOfAManifest = 64 << 20;

}  // namespace

Manifest read_manifest(const std::string& name) {
    if (name != "-") return Manifest::load(name);
    return Manifest::parse(read_standard_input(kMostBytesOfAManifest), "standard input");
}

void ManifestPlan::add(const Manifest& manifest) {
    for (const ManifestLine& line : manifest.lines) {
        std::vector<std::optional<ManifestTarget>> targets(line.targets.begin(), line.targets.end());
        if (targets.empty()) targets.emplace_back(std::nullopt);
        for (const auto& target : targets) add(manifest, line, target);
    }
}

std::uint64_t ManifestPlan::total() const {
    std::uint64_t total = 0;
    for (const auto& group : groups_) total += group->variants.size();
    return total;
}

void ManifestPlan::add(const Manifest& manifest, const ManifestLine& line,
                       const std::optional<ManifestTarget>& target) {
    const auto at_line = [&](const Error& error) {
        return TemplateError(manifest.file, line.line, 1, error.what());
    };
    const auto checked = [&](const auto& step) {
        try {
            return step();
        } catch (const UsageError& error) {  // an unknown template, a bad architecture
            throw at_line(error);
        } catch (const DeviceError& error) {
            throw at_line(error);
        }
    };
    VariantGroup& group = checked([&]() -> std::reference_wrapper<VariantGroup> { return group_of(target); });
    const Template of = checked([&] { return group.service->find(line.template_name); });
    for (Variant& variant : line.variants(of, manifest.file))
        if (group.known.insert(variant).second) group.variants.push_back(std::move(variant));
}

VariantGroup& ManifestPlan::group_of(const std::optional<ManifestTarget>& target) {
    if (const auto found = by_target_.find(target); found != by_target_.end()) return *found->second;
    ServiceOptions options = options_;
    if (target) {
        options.backend = target->backend;
        options.arch = target->arch;
    }
    auto service = open_service(call_, warnings_, std::move(options), must_store_);
    // "@host" and "@host:x86-64-v3" may be the same target.
    for (const auto& group : groups_)
        if (target_text(group->service->target()) == target_text(service->target()))
            return *(by_target_[target] = group.get());
    groups_.push_back(std::make_unique<VariantGroup>());
    groups_.back()->service = std::move(service);
    return *(by_target_[target] = groups_.back().get());
}

}  // namespace kiln::cli
