// SPDX-License-Identifier: Apache-2.0
//
// Exporting kernels as C: a header and a source for each template, with the binaries in them, for programs that want no
// library at run time (docs/embedding.md). What the source needs of the driver it declares itself and opens at run time.
#pragma once

#include <kiln/build.h>
#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/version.h>
#include <kiln/wisdom.h>

#include <span>
#include <string>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// A variant of a target of CUDA or HIP, and its binary for it.
struct ExportedVariant {
    Variant variant;  ///< for one target
    Binary binary;    ///< what Service::compile() gave for it
};

/// A file to be written.
struct ExportedFile {
    std::string name;  ///< "kiln_gemm_tiled.h"
    std::string text;  ///< its content
    /// That others can link with, "kiln_gemm_tiled_load": no other file of the program may define one of them.
    std::vector<std::string> functions;
};

/// The header and the source for variants of one template, for one or several targets. service: to find references.
/// wisdom: its entries for these variants decide which is launched for which sizes. Throws UsageError for no variants,
/// for those of several templates or of the host, and for a kernel that C can't call.
std::vector<ExportedFile> export_c(const Service& service, std::span<const ExportedVariant> variants,
                                   const Wisdom& wisdom);

}  // namespace KILN_ABI
}  // namespace kiln
