// SPDX-License-Identifier: Apache-2.0
//
// Manifests as groups of variants, one for each target, each variant once: for kiln warm and kiln export.
#pragma once

#include <kiln/manifest.h>
#include <kiln/service.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "cli/kiln_command.h"

namespace kiln::cli {

/// The variants of one target, each once.
struct VariantGroup {
    struct Hash {
        std::size_t operator()(const Variant& variant) const { return variant.hash(); }
    };
    std::unique_ptr<Service> service;
    std::vector<Variant> variants;
    std::unordered_set<Variant, Hash> known;
};

/// Reads a file, or standard input if the name is "-".
Manifest read_manifest(const std::string& name);

class ManifestPlan {
  public:
    /// must_store: a cache directory that can't be used is an error.
    ManifestPlan(const Call& call, Warnings& warnings, const ServiceOptions& options, bool must_store)
        : call_(call), warnings_(warnings), options_(options), must_store_(must_store) {}

    /// Throws TemplateError with the manifest's file and line.
    void add(const Manifest& manifest);
    std::vector<std::unique_ptr<VariantGroup>>& groups() { return groups_; }
    std::uint64_t total() const;

  private:
    void add(const Manifest& manifest, const ManifestLine& line, const std::optional<ManifestTarget>& target);
    VariantGroup& group_of(const std::optional<ManifestTarget>& target);

    const Call& call_;
    Warnings& warnings_;
    const ServiceOptions& options_;
    const bool must_store_;
    std::vector<std::unique_ptr<VariantGroup>> groups_;
    std::map<std::optional<ManifestTarget>, VariantGroup*> by_target_;
};

}  // namespace kiln::cli
