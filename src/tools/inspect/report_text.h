// SPDX-License-Identifier: Apache-2.0
//
// Numbers and names as reports write them; those within sentences are in text_format.h.
#pragma once

#include <kiln/tools/report.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::inspect {

/// An integer with a thin space between groups of three digits.
std::string grouped(double whole);
/// "812", "48 128", "12.6 million"
std::string count_text(double count);
/// "48 bytes", "12.5 MiB"
std::string amount_text(double bytes);
/// "812 GFLOP/s", "1.2 TFLOP/s"
std::string rate_text(double tflops);
/// "128 x 4": without trailing extents of 1
std::string extents_text(const Dim3& extents);
/// "m = 4096, n = 4096"
std::string sizes_text(const Sizes& sizes);

/// With a capital letter and a full stop; a first word that may be a name is not changed.
std::string sentence(std::string text);

/// The label of a variant in a report.
struct Label {
    std::string letter;         ///< "A"
    std::string template_name;  ///< "gemm_tiled"
    /// The values that differ from the report's other variants of the same template: "PAD=2"; empty: none.
    std::string difference;
    std::string common;  ///< the values that they share: "T=half BM=64"

    /// "gemm_tiled PAD=2"
    std::string name() const;
};
std::vector<Label> labels_of(std::span<const ReportItem> items);

/// "multiprocessor", on AMD "compute unit".
std::string multiprocessor_text(const std::string& arch);

}  // namespace kiln::inspect
