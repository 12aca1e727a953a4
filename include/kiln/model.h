// SPDX-License-Identifier: Apache-2.0
//
// What a template tells the tuner's model by its `model` lines: what multiplies, how the problem is divided into tiles,
// and which parameters are worth varying. Plain data.
#pragma once

#include <kiln/version.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// What multiplies in a kernel.
enum class Engine {
    fma,
    mma,   ///< matrix instructions of a warp or wave
    wgmma  ///< of a warpgroup
};

/// How operands come into shared memory.
enum class Copies {
    registers,  ///< loaded and stored by threads
    async,      ///< cp.async
    tma,
    direct  ///< none: what is read most goes straight to the registers that it is multiplied from
};

/// The model lines of a template, computed for a variant and the sizes of a problem. What no line gives is 0 or has
/// the value here.
struct ModelFacts {
    /// A product of m x k by k x n elements, `batch` of them; a block computes `rows` x `columns` results at a time.
    struct Tiles {
        std::int64_t m = 0;        ///< rows of the result
        std::int64_t n = 0;        ///< its columns
        std::int64_t k = 0;        ///< what is summed over
        std::int64_t batch = 1;    ///< such problems
        std::int64_t rows = 1;     ///< of the results that a block computes at a time
        std::int64_t columns = 1;  ///< of them
        std::int64_t depth = 0;    ///< steps of k per tile in shared memory
    };

    Engine engine = Engine::fma;        ///< what multiplies
    Copies copies = Copies::registers;  ///< how operands are copied
    std::optional<Tiles> tiles;         ///< not set: no product
    std::int64_t thread_rows = 1;       ///< of the results of a thread
    std::int64_t thread_columns = 1;    ///< of them
    std::int64_t thread_width = 0;      ///< elements that it reads of a tile at once
    std::int64_t warp_rows = 32;        ///< of the results of a warp
    std::int64_t warp_columns = 32;     ///< of them
    std::int64_t stages = 0;            ///< of the pipeline
    std::int64_t cluster_rows = 1;      ///< blocks that share tiles of B
    std::int64_t cluster_columns = 1;   ///< blocks that share tiles of A
    std::int64_t blocks = 0;    ///< on a multiprocessor at once, persistent or overlapping; 0: not known
    bool pingpong = false;      ///< warpgroups multiply for a tile each, alternately
    bool staged_store = false;  ///< results leave through shared memory, by TMA or row by row
    std::int64_t padding = 0;   ///< elements behind each row of the tile of B
    std::int64_t access_elements = 1;  ///< of a memory-bound kernel: elements per access,
    std::int64_t accesses = 1;         ///< and accesses of a thread in flight
    std::int64_t row_capacity =
        0;                     ///< elements of a row that a block keeps, so that it is read once; 0: no rows
    std::int64_t row = 0;      ///< elements of a row
    bool any_rows = false;     ///< accesses are as wide wherever rows begin
    bool staged_rows = false;  ///< a block's rows pass through shared memory as one piece of memory
    std::int64_t side_capacity =
        0;  ///< of a kernel that moves whole short rows of a matrix, which follow each other; 0: it does not
    std::int64_t side = 0;  ///< the matrix's short side
    std::int64_t edge_tile =
        0;  ///< rows, or columns, that a block computes, whether all of them exist or not; 0: not known
    std::int64_t edge = 0;    ///< those that exist
    bool has_strips = false;  ///< these are columns of a matrix, of which each block reads a strip
    std::int64_t step_tile =
        0;  ///< rows of the operand that a block goes through, a tile at a time: of a tile; 0: not known
    std::int64_t step = 0;   ///< rows of it that exist
    std::int64_t parts = 1;  ///< blocks that share those rows, and join their results
};

/// The parameters that a template's model lines name.
struct ModelSearch {
    /// Parameters that the chooser varies, each group together, on GPUs and on the host.
    std::vector<std::vector<std::string>> groups;       ///< on GPUs
    std::vector<std::vector<std::string>> host_groups;  ///< on the host
    std::vector<std::string> parameters;                ///< all that the model lines name
};

}  // namespace KILN_ABI
}  // namespace kiln
