// SPDX-License-Identifier: Apache-2.0
//
// Regression tests over cached variants: each variant of a manifest is built through a cache, loaded again
// with compiling forbidden, run, and held to what was recorded of it (a baseline): its ingredients, registers,
// shared memory, spills, instructions, results, and on a GPU its speed.
#pragma once

#include <kiln/manifest.h>
#include <kiln/service.h>
#include <kiln/tools/resources.h>
#include <kiln/version.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// How fast a variant was on one kind of device, at its template's default sizes, with cold L2.
struct Speed {
    double median_ms = 0;               ///< per launch
    std::optional<double> times_naive;  ///< median of the template's `naive`, divided by this one's
    /// The least time that the device needs, divided by this one's: see ceiling.
    std::optional<double> share;
    /// Which limit sets that least time: "copy" (bytes at the speed of a copy measured in the same run),
    /// "matrix" or "fma" (operations at the data sheet's rate).
    std::string ceiling;
    std::string ingredients;  ///< what was measured; another digest than the baseline's: an older source
};

/// What is recorded of a variant on a target.
struct Baseline {
    /// BLAKE2b-256 of the key's text without the compiler, in hexadecimal.
    std::string ingredients;
    std::string compiler;  ///< for people; a change explains changes of the code. Empty: it was not built
    Resources resources;   ///< of the binary
    /// Digests of the bits of the outputs that have a reference without `any_order`, for random and for small-integer
    /// inputs, at the test sizes. Empty: never run, or there are none; of integers, also where the results had rounding errors.
    std::string random_result;
    std::string integer_result;           ///< likewise
    std::optional<double> worst;          ///< the largest error over its bound in the run with random inputs
    std::map<std::string, Speed> speeds;  ///< by the device's name
};

/// The baselines of one target, by Variant::text(). One file: TARGET.ini, a section per variant.
class Baselines {
  public:
    /// "cuda-sm_90a"
    static std::string file_name(const ManifestTarget& target);
    /// Throws UsageError with file:line for a file that is not right. No file: no baselines.
    static Baselines load(const std::filesystem::path& directory, const ManifestTarget& target);
    /// Replaces the file as a whole. Throws UsageError when it can't be written.
    void save(const std::filesystem::path& directory, const ManifestTarget& target) const;

    /// By Variant::text().
    std::map<std::string, Baseline> variants;
};

/// A difference between a baseline and what is found.
struct Move {
    std::string what;    ///< "registers", "HMMA", "result", ...
    std::string was;     ///< empty: it was not there
    std::string now;     ///< empty: it is not there
    bool fails = false;  ///< the test fails by it
};

/// was -> now. Fails: ingredients that differ, another or an inexact result of integer inputs, matrix instructions
/// and asynchronous copies lost; by the compiler that the baseline names also more spills or stack, another result
/// of random inputs and any other kind of instruction lost. All else that differs is only told. What `now` could not
/// measure is not compared: without a compiler it is not built, and has only ingredients.
std::vector<Move> compare(const Baseline& was, const Baseline& now);

/// How a variant stands next to its baseline.
enum class RegressStatus {
    same,
    moved,  ///< differences, none of which fails
    fresh,  ///< no baseline
    failed
};
/// "same", "moved", "fresh" or "failed".
std::string_view name(RegressStatus status);

/// One variant on one target.
struct RegressResult {
    std::string variant;                         ///< Variant::text()
    ManifestTarget target;                       ///< that it was built for
    RegressStatus status = RegressStatus::same;  ///< how it stands
    std::vector<Move> moves;                     ///< differences from the baseline
    std::vector<std::string> failures;  ///< wrong results, errors of a compiler or a driver; sentences
    bool run = false;                   ///< else at most compiled
    Baseline found;                     ///< what is recorded with RegressOptions::update
    double elapsed_ms = 0;              ///< building, running and timing
};

/// What regress() found.
struct RegressReport {
    std::vector<RegressResult> results;  ///< of all variants on all targets
    std::vector<std::string> skipped;    ///< targets that have no compiler here, and why
    std::vector<std::string> gone;  ///< baselines of named templates whose variant no manifest names any more
    std::vector<std::string> compiled_only;  ///< targets without a device here

    /// Something was tested, all of it has a baseline, and nothing failed.
    bool pass() const;
};

/// Which variants are tested, on which targets, and against what.
struct RegressOptions {
    /// Template directories, warnings, the stop token, workers. Backend and architecture come from the targets,
    /// and its cache is replaced by one of its own.
    ServiceOptions service;
    /// For lines of a manifest without a target: these, as far as the template may run there.
    std::vector<ManifestTarget> targets = default_targets();
    std::optional<Backend> backend;      ///< only targets of this one
    std::string arch;                    ///< only targets of this one; empty: all
    std::vector<std::string> templates;  ///< only these; empty: all
    std::uint64_t shard = 0;             ///< only each shards-th variant of a target, from this one on
    std::uint64_t shards = 1;            ///< how many such parts there are
    /// Builds and runs the first variant of each template on each target; of the others only the ingredients are
    /// compared, which tells that a baseline is out of date. Not with update.
    bool sample = false;
    std::filesystem::path baselines;  ///< the directory
    /// Rewrite the baselines with what is found. Those of variants that the run is not about stay, also where another run
    /// has recorded them meanwhile. Removed are those of other variants of the templates that the manifests name; with
    /// `templates` or `shards` none.
    bool update = false;
    bool time = false;       ///< measure speed where there is a GPU
    std::uint64_t seed = 1;  ///< of the inputs; results are only compared with 1
    /// Called after each variant, from the calling thread.
    std::function<void(const RegressResult&, std::size_t done, std::size_t total)> on_result;

    /// host:x86-64-v3, cuda:sm_80, cuda:sm_90a, hip:gfx90a
    static std::vector<ManifestTarget> default_targets();
};

/// Throws TemplateError for a manifest that is not right, UsageError, and DeviceError when the host can't be
/// opened. What goes wrong with one variant is in its result.
RegressReport regress(const std::vector<Manifest>& manifests, const RegressOptions& options);

/// The page of kernels in Markdown: a row per template, from the templates and the baselines of a directory;
/// runs nothing.
std::string kernels_page(const Service& service, const std::filesystem::path& baselines);

}  // namespace KILN_ABI
}  // namespace kiln
