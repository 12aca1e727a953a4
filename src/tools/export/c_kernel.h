// SPDX-License-Identifier: Apache-2.0
//
// One variant in exported code: its binary, its kernels and their arguments, its plan (what computes grids, bytes of
// tensors and tensor maps from the arguments of a call), its tensor maps.
#pragma once

#include <kiln/tools/export.h>

#include <map>
#include <set>
#include <string>

namespace kiln {

/// Collects the definitions that variants share: equal binaries, kernels, plans and tensor maps are written once.
class CKernels {
  public:
    /// Adds a variant: its row in kiln_kernels. Throws UsageError for an element type that TMA does not move.
    void add(const ExportedVariant& exported);

    std::size_t count() const { return count_; }
    std::size_t most_maps() const { return most_maps_; }
    std::size_t most_entries() const { return most_entries_; }  ///< kernels of a variant
    /// Of all that was added, in the order in which C wants it.
    std::string arithmetic() const;
    const std::string& plans() const { return plans_; }
    const std::string& maps() const { return maps_; }
    const std::string& entries() const { return entries_; }
    const std::string& binaries() const { return binaries_; }
    std::string rows() const { return rows_; }
    bool has(Backend backend) const { return backends_.contains(backend); }

  private:
    std::string plan(const Variant& variant);
    std::string entry_rows(const ExportedVariant& exported);
    std::string map_rows(const Variant& variant) const;
    /// The name of a definition with this text.
    std::string named(const std::string& prefix, const std::string& text, std::string& definitions,
                      const std::string& head, const std::string& tail);

    std::size_t count_ = 0, most_maps_ = 0, most_entries_ = 1;
    std::set<std::string> used_;
    std::set<Backend> backends_;
    std::map<std::string, std::string> names_;
    std::string plans_, maps_, entries_, binaries_, rows_;
};

/// "\"a \\\"word\\\"\"", for a C string.
std::string c_string(const std::string& text);

}  // namespace kiln
