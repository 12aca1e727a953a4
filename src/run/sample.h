// SPDX-License-Identifier: Apache-2.0
//
// Chooses the elements of a large output that are compared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

/// `wanted` elements or a few more, or all if there are not more, each once. The most important first: both
/// ends, the corners, both sides of powers of two in the element's number, then places at the ends of
/// extents, at both sides of tile edges, and anywhere. Equal arguments give equal samples.
std::vector<std::int64_t> sample_elements(std::span<const std::int64_t> extents, std::size_t wanted,
                                          std::uint64_t seed);

}  // namespace kiln
