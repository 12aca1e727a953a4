// SPDX-License-Identifier: Apache-2.0
//
// Compares one output with its reference.
#pragma once

#include <kiln/run.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "run/guarded_tensor.h"
#include "run/reference.h"

namespace kiln {

/// Elements whose expected values are computed at a time.
constexpr std::int64_t kCheckChunk = std::int64_t{1} << 18;
/// Elements of a sample; fewer if they would take more than ten seconds.
constexpr std::size_t kSampleElements = 65536;

struct CheckRequest {
    std::optional<Check> how;  ///< not set: full, or a sample if that would take too long
    bool exact = false;        ///< must equal the expected value, rounded once to the output's type
    std::uint64_t seed = 0;    ///< of the sample
    std::size_t sample = kSampleElements;  ///< elements of a sample
    double tolerance = 0;  ///< added to the reference's bounds, for what only approximates what it computes
};

/// Host memory that a check needs in addition to the reference's inputs.
std::uint64_t check_bytes();

/// Compares an output with its bound reference. nullptr: none is declared, and only unwritten elements are
/// searched. Sets request.how to the check that was done: full or sample.
OutputCheck check_output(const GuardedTensor& output, const Reference* reference, CheckRequest& request);

/// How many of these elements of that type are wrong, by the same criterion as check_output.
std::uint64_t count_wrong(const std::string& type, std::span<const std::byte> found,
                          std::span<const double> expected, std::span<const double> bound);

}  // namespace kiln
