// SPDX-License-Identifier: Apache-2.0
//
// Why a variant is fast or slow, before it runs on a GPU: the kernel is compiled for the architecture, its
// binary is read, and it runs on the host with its memory accesses recorded. Needs no GPU and no vendor's
// program. check() uses the recording alone, to find races and accesses out of bounds.
#pragma once

#include <kiln/occupancy.h>
#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/tools/accesses.h>
#include <kiln/tools/resources.h>
#include <kiln/tools/roofline.h>
#include <kiln/version.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// What is analysed, and how much of it is run on the host.
struct AnalyzeOptions {
    Sizes sizes;              ///< of the shape asked about; those that are not given have their defaults
    bool test_sizes = false;  ///< sizes that are not given have the small defaults of tests
    /// Not set: the shape itself, where a block has some 2.5 million accesses and the tensors 12 MB at most; else
    /// smaller sizes (Analysis::recorded_sizes) and a second recording at still smaller ones. Counts of a
    /// block are taken to grow linearly with its flops, and those of the grid with its blocks. Without flops, what
    /// a block does at a few small sizes is measured first: sizes that do not change it are lowered, and
    /// another only where its counts grow linearly (else Analysis::not_scaled). Sizes keep their remainders modulo
    /// 128, so that whole tiles and aligned rows stay so. Without flops, counts at sizes that are given here are not scaled.
    std::optional<Sizes> record_sizes;
    bool record = true;             ///< else nothing runs: resources, occupancy and roofline only
    std::uint64_t most_blocks = 8;  ///< RecorderOptions::most_blocks, from 1
    double most_ms = 500;           ///< RecorderOptions::most_ms
    std::string chip;               ///< a name of chips(); empty: the device's, else the architecture's first
};

/// One thing worth doing, or worth knowing.
struct Advice {
    /// How much it matters.
    enum class Weight { good, hint, warning };
    Weight weight = Weight::hint;  ///< how much it matters
    std::string text;              ///< "PAD=2 removes the 3-way conflict of line 41 and costs 64 bytes; ..."
    std::string change;            ///< the values to try: "PAD=2"; empty: none
};

/// What the compiled code holds for one line of the template.
struct CompiledAccess {
    int line = 0;             ///< 0: of none, but of a function in a header that is called
    std::string instruction;  ///< "LDS.128", "STS.U16", "LDSM", "LDG.64"
    int count = 0;            ///< in the code, not how often they run
    int bytes = 0;            ///< per lane; of LDSM and STSM 4 for each matrix
    std::string inner;        ///< where in a header, as in SourcePlace; else empty
};

/// A site of the recording with the width that is believed to be compiled.
struct SharedLine {
    SharedSite site;     ///< as recorded
    WidthCost believed;  ///< one of site.widths or site.spanned, of the blocks recorded
    /// Why: "LDS.128 in the compiled code", "as written".
    std::string belief;
};

/// Bytes of device memory that a launch moves.
struct Traffic {
    double bytes_at_least = 0;  ///< every tensor once
    /// Bytes that the blocks ask of global memory, from the recording: sectors of 32 bytes, scaled. Not set
    /// for templates with tensor maps, whose copies no thread makes.
    std::optional<double> tiled_bytes;
    /// The same of the template's `naive`, from its own recording.
    std::optional<double> naive_bytes;
};

/// What is known of a variant without running it on a GPU. What is not set could not be found out.
struct Analysis {
    std::string variant;  ///< its text
    std::string arch;     ///< that it was compiled for
    Problem problem;      ///< the shape asked about; empty where the template declares no problem
    Dim3 grid;            ///< blocks; {0,0,0}: there is no problem that tells
    Dim3 block;           ///< threads of a block
    Dim3 cluster;         ///< blocks of a cluster; {1,1,1}: none

    const Chip* chip = nullptr;            ///< in chips(); nullptr: none is known
    std::string chip_name;                 ///< as the driver calls it
    std::int64_t multiprocessors = 0;      ///< 0: not known
    Resources resources;                   ///< of the binary
    std::size_t static_shared_bytes = 0;   ///< per block
    std::size_t dynamic_shared_bytes = 0;  ///< per block
    Limits limits;                         ///< of the target
    std::optional<Occupancy> occupancy;    ///< not set where the binary can't be read
    std::optional<Waves> waves;            ///< of the grid; not set without an occupancy
    std::optional<Roofline> roofline;      ///< not set without flops and bytes, or without a chip
    /// flops per byte that one block loads into its tiles, as recorded: 32 for FP16 tiles of 64 x 64.
    std::optional<double> tile_intensity;
    Traffic traffic;  ///< bytes of device memory

    std::optional<Recording> recording;  ///< not set: nothing was run
    Sizes recorded_sizes;                ///< of the recording
    /// Why counts can't be scaled from recorded_sizes to the shape: shared_wavefronts to global_ideal are then of
    /// the whole launch at recorded_sizes, and `traffic` has none. Empty: they are scaled.
    std::string not_scaled;
    std::vector<SharedLine> shared;        ///< by line
    std::vector<CompiledAccess> compiled;  ///< by line
    double shared_wavefronts = 0;  ///< of all shared lines, scaled to the grid of the shape asked about
    double shared_ideal = 0;       ///< the same without bank conflicts
    /// What bank conflicts add: shared_wavefronts / shared_ideal - 1.
    double excess() const { return shared_ideal == 0 ? 0 : shared_wavefronts / shared_ideal - 1; }
    double global_sectors = 0;  ///< of all global accesses, of 32 bytes, scaled likewise
    double global_ideal = 0;    ///< those that the bytes asked for would fill

    std::vector<Advice> advice;  ///< the most important first
    double elapsed_ms = 0;       ///< that the analysis took
};

/// Analyses variants for one target. Not thread-safe.
class Analyzer {
  public:
    /// target: cuda, hip or host, with or without a device; must outlive it. Recordings are made on the host
    /// backend with the same template directories and cache.
    explicit Analyzer(Service& target);
    ~Analyzer();
    Analyzer(const Analyzer&) = delete;
    Analyzer& operator=(const Analyzer&) = delete;

    /// Throws VariantError, BuildError, what Runner::run throws, and UsageError for most_blocks of 0. That it can't be recorded (no C++
    /// compiler, a template that the host does not run) is a warning among the advice. Of a template that declares no
    /// problem, since it takes a texture, say, only what depends on none is analysed, and no sizes may be given.
    Analysis analyze(const Variant& variant, const AnalyzeOptions& options = {});
    /// All blocks of the problem, up to most_blocks, with the test sizes unless others are given. Throws likewise.
    Recording check(const Variant& variant, const AnalyzeOptions& options = {});

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace KILN_ABI
}  // namespace kiln
