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
    tma
};

/// The model lines of a template, computed for a variant and the sizes of a problem. What no line gives is 0 or has
/// the value here.
struct ModelFacts {
    /// A product of m x k by k x n elements, `batch` of them; a block computes `rows` x `columns` results at a time.
    struct Tiles {
        std::int64_t m = 0, n = 0, k = 0, batch = 1;
        std::int64_t rows = 1, columns = 1;
        std::int64_t depth = 0;  ///< steps of k per tile in shared memory
    };

    Engine engine = Engine::fma;
    Copies copies = Copies::registers;
    std::optional<Tiles> tiles;
    std::int64_t thread_rows = 1, thread_columns = 1;    ///< of the results of a thread
    std::int64_t thread_width = 0;                       ///< elements that it reads of a tile at once
    std::int64_t warp_rows = 32, warp_columns = 32;      ///< of the results of a warp
    std::int64_t stages = 0;                             ///< of the pipeline
    std::int64_t cluster_rows = 1, cluster_columns = 1;  ///< blocks that share tiles of B, and of A
    std::int64_t blocks = 1;                             ///< persistent blocks per multiprocessor
    bool pingpong = false;                               ///< warpgroups multiply for a tile each, alternately
    std::int64_t padding = 0;                            ///< elements behind each row of the tile of B
    std::int64_t access_elements = 1;                    ///< of a memory-bound kernel: elements per access,
    std::int64_t accesses = 1;                           ///< and accesses of a thread in flight
};

/// Of a template.
struct ModelSearch {
    /// Parameters that the chooser varies, each group together, on GPUs and on the host.
    std::vector<std::vector<std::string>> groups, host_groups;
    std::vector<std::string> parameters;  ///< all that the model lines name
};

}  // namespace KILN_ABI
}  // namespace kiln
