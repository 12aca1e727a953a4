// SPDX-License-Identifier: Apache-2.0
//
// Counters measured on a GPU, a row per variant and sizes, and what the model says of the same: the file in
// tests/model/data, the table of docs/counters.md, and predicting without a GPU.
#pragma once

#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/tools/profile.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kiln::model {

struct Row {
    std::string variant;                      ///< all values, as Variant::text gives them
    std::string sizes;                        ///< "m=256 n=256 k=128"; empty: none
    std::uint64_t wavefronts = 0, ideal = 0;  ///< of shared memory
    std::uint64_t load_wavefronts = 0, store_wavefronts = 0;
    std::uint64_t global_sectors = 0, global_ideal = 0;
    /// Not set where the kernel has changed since, so that its binary has others.
    std::optional<std::uint64_t> registers;
    /// What the model says, where that is something else; why is in the explanation.
    std::optional<std::uint64_t> predicted_wavefronts, predicted_ideal;
    std::string explanation;

    std::uint64_t expected_wavefronts() const { return predicted_wavefronts.value_or(wavefronts); }
    std::uint64_t expected_ideal() const { return predicted_ideal.value_or(ideal); }

    std::string template_name() const { return variant.substr(0, variant.find(' ')); }
    /// The legal variant of the service's target. Throws VariantError, UsageError.
    Variant variant_of(const Service& service) const;
    Sizes sizes_of() const;
    /// The arguments of 'kiln run' behind the command: "gemm_tiled T=half ... --size m=256,n=256".
    std::string arguments() const;
};

struct Data {
    std::vector<std::string> about;  ///< "machine: NVIDIA H200", in the order of the file
    std::vector<Row> rows;
    std::filesystem::path templates;  ///< of kernels as they were measured, if they have changed since
};

/// Throws UsageError that names the line.
Data load(const std::filesystem::path& file);
/// The file's content.
std::string text(const Data& data);
/// In Markdown, below a heading.
std::string table(const Data& data);

/// The row with what was measured of it.
Row measured_row(const Row& row, const Measured& measured);

/// Of a row that nobody has explained; tests reject it.
constexpr const char* kUnexplained = "unexplained";

struct Prediction {
    std::uint64_t wavefronts = 0, ideal = 0;
    std::uint64_t global_sectors = 0, global_ideal = 0;
    std::optional<int> registers;
    std::vector<std::string> lines;  ///< of the template, with what each costs: for finding a difference
    std::string problem;             ///< why there is none; empty: there is one
};

/// The row with this prediction, where it is not what was measured; its explanation stays if there is one.
Row predicted_row(const Row& row, const Prediction& prediction);

/// Predicts the rows for an architecture, all blocks recorded, in threads, with a cache in this directory. What was
/// measured is predicted: kernels that have changed since are kept in `templates` next to the data.
std::vector<Prediction> predict(const Data& data, const std::string& arch, const std::filesystem::path& cache,
                                unsigned threads);

}  // namespace kiln::model
