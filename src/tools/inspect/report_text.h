// SPDX-License-Identifier: Apache-2.0
//
// Figures and names as reports write them; those of sentences are in wording.h.
#pragma once

#include <kiln/tools/report.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::inspect {

/// A whole number with a thin space between groups of three digits.
std::string grouped(double whole);
/// "812", "48 128", "12.6 million"
std::string count_text(double count);
/// "48 bytes", "12.5 MiB"
std::string amount_text(double bytes);
/// "812 GFLOP/s", "1.2 TFLOP/s"
std::string rate_text(double tflops);
/// "128 x 1 x 1" without what is 1 at the end
std::string extents_text(const Dim3& extents);
/// "m = 4096, n = 4096"
std::string sizes_text(const Sizes& sizes);

/// With a capital letter and a full stop; a first word that may be a name stays as it is.
std::string sentence(std::string text);

/// What a variant is called among the others of a report.
struct Label {
    std::string letter;         ///< "A"
    std::string template_name;  ///< "gemm_tiled"
    /// In what it differs from the report's other variants of the same template: "PAD=2"; empty: in nothing.
    std::string difference;
    std::string common;  ///< the values that they share: "T=half BM=64"

    /// "gemm_tiled PAD=2"
    std::string name() const;
};
std::vector<Label> labels_of(std::span<const ReportItem> items);

/// cuda for "sm_90a", hip for "gfx90a", else host.
Backend backend_of(const std::string& arch);
/// "multiprocessor", on AMD "compute unit".
std::string multiprocessor_text(const std::string& arch);

}  // namespace kiln::inspect
