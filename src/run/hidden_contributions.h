// SPDX-License-Identifier: Apache-2.0
//
// Whether a reference's bounds show what Data::contributions is for: that a kernel leaves something out.
#pragma once

#include <kiln/run.h>

#include <cstdint>
#include <optional>

#include "run/reference.h"

namespace kiln {

/// Leaves contributions out of what the reference computes, one of a sum at a time, and counts those that change no more than
/// the bound of the element. reference: bound to `inputs`, which hold the problem's patterns and are the same afterwards.
/// nullopt: all bounds are 0, so that nothing is hidden, or there is no input of which one element is one contribution to a sum: one
/// with the pattern factor or term, with an extent, or several next to each other, of the pattern's size.
/// Throws what Reference::evaluate throws.
std::optional<Contributions> hidden_contributions(const Reference& reference, const Problem& problem,
                                                  const Tensor& output, const HostTensors& inputs,
                                                  std::uint64_t seed);

}  // namespace kiln
