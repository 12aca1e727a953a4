// SPDX-License-Identifier: Apache-2.0
//
// One output against its reference.
#pragma once

#include <kiln/run.h>

#include <cstdint>
#include <optional>

#include "run/guarded_tensor.h"
#include "run/reference.h"

namespace kiln {

struct CheckRequest {
    std::optional<Check> how;  ///< not set: full, or a sample where that would take too long
    bool exact = false;        ///< equal to what is expected, rounded once to the output's type
    std::uint64_t seed = 0;    ///< of the sample
};

/// Elements whose expected values are computed at a time.
constexpr std::int64_t kCheckChunk = std::int64_t{1} << 18;
/// Elements of a sample; fewer where they would take more than ten seconds.
constexpr std::size_t kSampleElements = 65536;

/// Host memory that checking takes besides the reference's inputs.
std::uint64_t check_bytes();

/// Compares an output with its reference, which is bound; nullptr: none is declared, and only elements that
/// were never written are looked for. request.how becomes what was done: full or sample.
OutputCheck check_output(const GuardedTensor& output, const Reference* reference, CheckRequest& request);

}  // namespace kiln
