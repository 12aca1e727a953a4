// SPDX-License-Identifier: Apache-2.0
//
// What a kernel's memory accesses cost and whether they are sound, from a run on the host (kiln/observe.h):
// wavefronts of shared memory per source line, sectors of global memory, races, accesses out of bounds.
// AccessRecorder is the observer; recording() is what it found. How accurate it is: docs/analysis.md.
#pragma once

#include <kiln/observe.h>
#include <kiln/tools/banks.h>
#include <kiln/version.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// How a warp's executions of one access come out if the compiler uses this width.
struct WidthCost {
    int bytes = 0;                 ///< per lane: 1, 2, 4, 8 or 16
    std::uint64_t requests = 0;    ///< executions by warps
    std::uint64_t wavefronts = 0;  ///< that shared memory needs to serve them
    std::uint64_t ideal = 0;       ///< without a bank conflict
    int degree = 0;  ///< the largest of any request: words that one bank had to serve in one phase
};

/// All executions of one access to shared memory in the source. An atomic operation counts as a store;
/// an asynchronous copy as NVIDIA's profiler counts it: the lines of global memory that it reads are in its
/// wavefronts. What the matrix units and bulk copies (wgmma, TMA) do to shared memory by themselves is not reported.
struct SharedSite {
    SourcePlace place;                   ///< of the access
    AccessKind kind = AccessKind::load;  ///< what it does
    std::string variable;                ///< "tile"; "dynamic shared memory"
    WidthCost as_written;                ///< if the compiler merges nothing
    /// As the GPU's compiler may merge it: neighbouring accesses of every lane, one after the other with no
    /// store to shared memory or barrier between, that together are aligned, up to four of them and 16 bytes.
    /// The widest to which at least half of the accesses merge; the rest stays as narrow as need be. Equal to
    /// as_written where nothing can be merged. Widths between the two are in `widths`.
    WidthCost merged;
    std::vector<WidthCost> widths;  ///< from as_written to merged, both included, ascending
    std::uint64_t misaligned = 0;   ///< requests with a lane whose address is no multiple of its width
    /// The lanes' byte addresses in the request of the highest degree, relative to the variable; for a picture.
    std::vector<std::optional<std::uint32_t>> worst;
    /// Wider than as_written, ascending: if the compiler accesses whole pieces of this width, of which a lane asks
    /// for two parts or more, such as three of the four numbers of a float4. Only widths at which that leaves no
    /// access over.
    std::vector<WidthCost> spanned;
};

/// How a warp's executions of one access to global memory come out if the compiler uses this width.
struct WidthSectors {
    int bytes = 0;              ///< per lane
    std::uint64_t sectors = 0;  ///< of 32 bytes that they touch
    std::uint64_t ideal = 0;    ///< that the bytes of all lanes would fill, side by side
};

/// All executions of one access to global memory in the source.
struct GlobalSite {
    SourcePlace place;                   ///< of the access
    AccessKind kind = AccessKind::load;  ///< what it does
    int bytes = 0;                       ///< per lane, as written
    std::uint64_t requests = 0;          ///< of warps
    std::uint64_t sectors = 0;           ///< of 32 bytes that they touch
    std::uint64_t ideal = 0;       ///< that the bytes asked for would fill, side by side; at most `sectors`
    std::uint64_t lane_bytes = 0;  ///< all bytes asked for
    std::uint64_t misaligned = 0;  ///< requests with a lane whose address is no multiple of its width
    /// The same after merging neighbouring accesses of each lane up to 16 bytes, as for shared memory.
    std::uint64_t merged_requests = 0;
    std::uint64_t merged_sectors = 0;   ///< as merged_requests
    std::uint64_t merged_ideal = 0;     ///< as merged_requests
    std::vector<WidthSectors> spanned;  ///< as for shared memory
};

/// What is wrong with an access.
enum class ProblemKind {
    race,  ///< two threads, one address, one writes, and nothing orders them
    /// Shared memory that no variable has, global memory that no tensor has, or an index beyond its array's extent.
    /// Of global memory only where the launch names its tensors (ObservedLaunch::global).
    out_of_bounds,
    misaligned,  ///< an address that is no multiple of the access's width: a GPU ends the kernel
    /// Shared memory that nobody wrote to is read, or a lane by a shuffle in which it does not take part (AccessKind::idle_lane).
    uninitialised,
    read_only,  ///< an input or a __constant__ variable is written (MemoryRange::read_only)
};

/// Something wrong; each pair of places is reported once, with its first occurrence.
struct AccessProblem {
    ProblemKind kind = ProblemKind::race;  ///< what is wrong
    SourcePlace place;                     ///< of the access
    AccessKind access = AccessKind::load;  ///< what it does
    unsigned thread = 0;                   ///< of the block, x fastest
    /// The other access of a race.
    SourcePlace other;
    AccessKind other_access = AccessKind::load;  ///< what that one does
    unsigned other_thread = 0;                   ///< of the same block

    std::string variable;   ///< the nearest, for out_of_bounds; empty: global memory
    int variable_line = 0;  ///< where it is declared; 0: not known, or dynamic
    /// Of global memory: the tensor, for out_of_bounds the nearest; empty where all are far away, and the offset is an
    /// address, or where the launch names none.
    std::string tensor;
    std::int64_t offset = 0;           ///< in bytes from its start, may be negative; of a shuffle: the lane
    std::uint64_t variable_bytes = 0;  ///< or of the tensor
    /// 0 and no place, of an access out of bounds: the guard bytes show it, not the recording. Likewise of a written input:
    /// its content shows it.
    int bytes = 0;
    std::optional<std::int64_t> index;  ///< of a bad index
    std::string array_type;             ///< of a bad index
    Dim3 block;                         ///< the first in which it was seen
    std::uint64_t count = 0;            ///< how often

    std::string text() const;  ///< one sentence with both places
};

/// What an AccessRecorder has seen.
struct Recording {
    std::vector<SharedSite> shared;       ///< by place
    std::vector<GlobalSite> global;       ///< by place
    std::vector<AccessProblem> problems;  ///< of distinct places; the first 100
    std::uint64_t blocks = 0;             ///< of the grid
    std::uint64_t blocks_recorded = 0;    ///< of them
    bool first_blocks =
        false;              ///< the first ones, since blocks wait for those before them; else spread evenly
    double elapsed_ms = 0;  ///< spent running them
    /// Whether the grid's last block, which is often nearly empty, was recorded, and there was one launch only.
    bool has_last_block = false;
    std::vector<SharedSite> last_shared;   ///< what that block has of `shared`
    std::vector<GlobalSite> last_global;   ///< likewise
    std::vector<SharedSite> first_shared;  ///< what the first block has of it, where the last was recorded
    std::vector<GlobalSite> first_global;  ///< likewise
    /// That the threads of each recorded block access, in the order of the blocks.
    std::vector<std::uint64_t> block_bytes;

    /// blocks / blocks_recorded: what the sums are to be multiplied with for the whole grid.
    double scale() const;
};

/// For which hardware accesses are counted, and how many blocks are run.
struct RecorderOptions {
    int warp_size = 32;  ///< lanes that access together: 64 for CDNA
    BankModel banks;     ///< of the architecture asked about
    /// The first block, the last, and others spread evenly between them, until either is spent.
    std::uint64_t most_blocks = 8;
    double most_ms = 500;  ///< no new block after this
    /// The first blocks of the grid instead, as for kernels whose blocks wait for those before them.
    bool first_blocks = false;
    bool problems = true;  ///< look for races and accesses out of bounds too
};

/// Not thread-safe; for one launch after the other. Several launches add up.
class AccessRecorder final : public AccessObserver {
  public:
    /// Has seen nothing yet.
    explicit AccessRecorder(RecorderOptions options);
    ~AccessRecorder() override;

    /// Of all launches so far.
    Recording recording() const;
    /// From now on `report` receives the first problem of a kind at its places as soon as it is found, on the thread of the
    /// observed launch, which may not end. It must not throw. An empty one ends that.
    void report_problems(std::function<void(const AccessProblem&)> report);

    void begin_launch(const ObservedLaunch& launch) override;
    bool begin_block(Dim3 index) override;
    void accesses(unsigned thread, std::span<const ObservedAccess> accesses) override;
    void bad_index(unsigned thread, const ObservedBadIndex& what) override;
    void meeting(std::span<const unsigned> threads, bool whole_block) override;
    void exchange(std::span<const unsigned> threads) override;
    void release(unsigned thread, std::uint64_t object) override;
    void acquire(unsigned thread, std::uint64_t object) override;
    void end_block() override;
    void end_launch() override;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// "load", "store", "atomic", "matrix load", "matrix store", "asynchronous copy", "bulk load", "bulk store", "arrival of an
/// asynchronous copy", "arrival of a bulk load", "mbarrier init", "mbarrier operation", "shuffle".
std::string_view name(AccessKind kind);
/// "race", "out of bounds", "misaligned", "uninitialised", "read only".
std::string_view name(ProblemKind kind);

}  // namespace KILN_ABI
}  // namespace kiln
