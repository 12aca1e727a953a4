// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the model share: the launch of a variant for a problem, and constants of the chips.
#pragma once

#include <cstdint>

#include "tune/model.h"

namespace kiln {

/// Of the matrix peak, that mma.sync reaches on architectures that have wgmma.
constexpr double kMmaOfWgmma = 0.68;

/// To be increased with every change of the estimates or of the features that there were: calibrations of before do not fit
/// them. A feature that is added behind the others is none that they use. What a template says of itself in its model lines
/// is not counted: its estimates change with the kernel.
constexpr int kModelVersion = 3;

struct Model::Launch {
    double blocks = 0;
    double threads = 0;
    double element_bytes = 0;  ///< of the first input
    double shared_bytes = 0;   ///< of a block
    double tiles = 1;          ///< of the results, with those outside that fill the last clusters
    double parts = 1;          ///< split-K: parts of k of a tile, one block each
    ModelFacts facts;
};

/// Whether mma.sync of this architecture reaches kMmaOfWgmma of the peak only, since others have wider instructions.
bool is_half_speed_mma(const std::string& arch);

/// How much more is computed of so many rows, or columns, than there is, since tiles are whole; 1 where a tile is not known.
double whole_tiles(std::int64_t tile, std::int64_t rows);

/// The greatest power of two that the rows of all input matrices are multiples of, in bytes, at most 16.
double row_alignment(const Problem& problem);

}  // namespace kiln
