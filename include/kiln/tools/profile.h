// SPDX-License-Identifier: Apache-2.0
//
// Hardware counters of a launch, read by the vendor's profiler (Nsight Compute; rocprofv3 or rocprof), and an
// Analysis next to them. The profiler is a program of its own that runs a command line and prints a page; which
// counters are asked for, and why those, is in docs/counters.md. `kiln profile` joins it all.
#pragma once

#include <kiln/tools/analyze.h>
#include <kiln/types.h>
#include <kiln/version.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// The profilers that can be read.
enum class ProfileTool {
    ncu,        ///< Nsight Compute
    rocprofv3,  ///< of ROCm 6.2 and later
    rocprof     ///< its predecessor
};
/// "ncu", "rocprofv3", "rocprof".
std::string_view name(ProfileTool tool);

/// A profiler of this machine.
struct Profiler {
    ProfileTool tool = ProfileTool::ncu;  ///< which it is
    std::filesystem::path program;        ///< where it is
};

/// The profiler of a backend, or this one. Sought in PATH, then where installers put it: CUDA_HOME/bin,
/// /usr/local/cuda*/bin, /opt/nvidia/nsight-compute/*, /opt/rocm*/bin; of several versions the latest. nullopt:
/// there is none. Throws UsageError for the host, and for a tool that is not the backend's.
std::optional<Profiler> find_profiler(Backend backend, std::optional<ProfileTool> tool = {});
/// Two lines: where it was sought, and the packages that have it.
std::string why_no_profiler(Backend backend);

/// What a profiler reported of one launch. Not set: not reported.
struct Measured {
    std::string kernel;                         ///< the entry's name
    std::uint64_t process = 0;                  ///< that launched it
    std::optional<int> registers;               ///< per thread
    std::optional<std::uint64_t> shared_bytes;  ///< per block, static and dynamic; not what the system adds
    std::optional<double> elapsed_ms;    ///< under the profiler, with cold caches: not a time to compare
    std::optional<double> warps_active;  ///< share of the most warps, 0 to 1, averaged over the run

    // NVIDIA; sums over the launch.
    std::optional<double> shared_wavefronts;  ///< of loads and stores
    std::optional<double> shared_ideal;       ///< those that would do without conflicts
    std::optional<double> load_wavefronts;    ///< as the pipe counted: waits too
    std::optional<double> store_wavefronts;   ///< likewise
    std::optional<double> shared_loads;       ///< instructions of warps
    std::optional<double> shared_stores;      ///< likewise
    std::optional<double> global_sectors;     ///< of 32 bytes
    std::optional<double> global_ideal;       ///< those that the bytes asked for would fill
    std::optional<int> blocks_by_threads;     ///< blocks per multiprocessor by this limit alone
    std::optional<int> blocks_by_registers;   ///< likewise
    std::optional<int> blocks_by_shared;      ///< likewise
    std::optional<int> blocks_by_blocks;      ///< likewise

    // AMD; sums over the launch.
    std::optional<double> lds_cycles;           ///< in which the LDS worked
    std::optional<double> lds_conflict_cycles;  ///< those among them that conflicts added
    std::optional<double> waves;                ///< wavefronts (waves of threads) that were launched

    /// What conflicts cost, as a share of what would do without; nullopt: not told, or no such accesses.
    std::optional<double> excess() const;
    /// Per multiprocessor: the smallest of the limits.
    std::optional<int> blocks() const;
};

/// The page of a profiler: what `ncu --csv --page raw` prints, with other lines before and behind it; the table
/// of rocprofv3 (a row per counter) or rocprof (a row per launch). In their order. `notes` receives a
/// sentence on what could not be read. Throws nothing; empty: this is no such page.
std::vector<Measured> read_profile_page(std::string_view text, std::vector<std::string>* notes = nullptr);

/// What is run under the profiler.
struct ProfileRequest {
    std::vector<std::string> command;           ///< [0]: the program's path. It is run once or more
    std::string kernel;                         ///< launches of other kernels are passed over
    std::chrono::milliseconds timeout{300000};  ///< of one run under the profiler
    std::stop_token stop;                       ///< ends the profiler
};

/// What the profiler reported.
struct ProfileResult {
    std::string version;             ///< of the profiler: "2025.3.1.0"; may be empty
    std::vector<Measured> launches;  ///< one at least
    std::vector<std::string> notes;  ///< what the profiler rejected or did not report; sentences
    std::string page;                ///< read_profile_page reads it
};

/// Runs the command under the profiler; counters that this version lacks are left out. Throws DeviceError: it
/// may not read the counters (with what to do about that), crashed, took too long, or saw no launch of the
/// kernel; UsageError without a command.
ProfileResult run_profiler(const Profiler& profiler, const ProfileRequest& request);

/// A figure of which both sides may be known.
struct ComparedFigure {
    std::string name;                 ///< "shared wavefronts"
    std::optional<double> predicted;  ///< by Analysis
    std::optional<double> measured;   ///< by the profiler
    bool is_share = false;            ///< to be shown in percent
    /// The prediction is the most that can be.
    bool is_bound = false;
};
/// median_ms: of the variant, timed without a profiler; next to the roofline lower bound.
std::vector<ComparedFigure> compare_with_measured(const Analysis& analysis, const Measured& measured,
                                                  std::optional<double> median_ms = {});

/// What check_thresholds() holds a kernel to.
struct Thresholds {
    double most_excess = 0.01;         ///< of wavefronts, as a share of the ideal
    double fewest_warps_active = 0.5;  ///< where the problem fills the chip: one wave or more
    double least_times_naive = 1.5;    ///< how many times as long the template's `naive` takes
};

/// One threshold, and what was found.
struct ThresholdCheck {
    std::string name;         ///< "excess wavefronts"
    std::string wanted;       ///< "at most 1%"
    std::string found;        ///< "5.0%"; where it was not checked, why
    std::optional<bool> met;  ///< not set: it does not apply, or is not known
};
/// times_naive: how many times as long the naive one takes; not set: none is declared, or it was not timed.
std::vector<ThresholdCheck> check_thresholds(const Analysis& analysis, const Measured& measured,
                                             std::optional<double> times_naive,
                                             const Thresholds& thresholds = {});

}  // namespace KILN_ABI
}  // namespace kiln
