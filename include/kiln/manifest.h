// SPDX-License-Identifier: Apache-2.0
//
// Manifest: a text file that names variants, to be built ahead of time (`kiln warm`) or checked again and
// again. One line, one template with values and targets:
//
//     # comment
//     gemm_tiled BM=64 BN=64 PAD=1
//     gemm_tiled BM=32,64 BN=* T=half,float   @cuda:sm_90a @hip:gfx90a @host
//
// A parameter that is not named keeps its default; several values, or * for all, give every legal
// combination. Without a target (`@BACKEND` or `@BACKEND:ARCH`) it is the one that the reader has in mind.
#pragma once

#include <kiln/template.h>
#include <kiln/types.h>
#include <kiln/version.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// What a line of a manifest is for.
struct ManifestTarget {
    Backend backend = Backend::host;  ///< as in `@cuda`
    std::string arch;                 ///< empty: the device's own

    bool operator==(const ManifestTarget&) const = default;
    auto operator<=>(const ManifestTarget&) const = default;
};

/// One template with values and targets.
struct ManifestLine {
    std::string template_name;  ///< its first word
    /// As written; {"*"} for all.
    std::map<std::string, std::vector<std::string>, std::less<>> values;
    std::vector<ManifestTarget> targets;  ///< in their order; empty: none is named
    int line = 0;                         ///< from 1

    /// The legal variants of this line, in the order of the parameters' lists. Throws TemplateError (with the
    /// manifest's file and line) when a parameter or a value is unknown, or no combination is legal.
    std::vector<Variant> variants(const Template& of, const std::string& file) const;
};

/// The lines of a file.
struct Manifest {
    std::string file;                 ///< its name in messages
    std::vector<ManifestLine> lines;  ///< without comments and empty ones

    /// Throws TemplateError with file:line:column.
    static Manifest parse(std::string_view text, std::string file);
    /// Throws TemplateError, also when the file can't be read.
    static Manifest load(const std::filesystem::path& path);
};

}  // namespace KILN_ABI
}  // namespace kiln
