// SPDX-License-Identifier: Apache-2.0
//
// Tensors that several kernels of one problem use, one after the other: inputs are made once.
#pragma once

#include <kiln/run.h>
#include <kiln/service.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "run/guarded_tensor.h"

namespace kiln {

using GuardedTensors = std::vector<std::shared_ptr<GuardedTensor>>;

/// Not thread-safe.
class SharedTensors {
  public:
    /// The service must outlive it. seed: of random data.
    SharedTensors(const Service& service, std::uint64_t seed) : service_(service), seed_(seed) {}

    /// The problem's tensors: those that are there and alike, else new ones. Scratch is as large as a kernel wants it:
    /// that of other kernels is kept only while it is small.
    GuardedTensors of(const Problem& problem, Data data = Data::random);
    /// What a launch with this data still needs for inputs, guards included.
    std::uint64_t missing_bytes(const Problem& problem, Data data) const;
    /// What scratch memory holds may no longer be what a launch expects: the next gets it filled again.
    void drop_scratch();
    /// Gives all memory back, once nobody uses it.
    void clear();
    std::uint64_t held_bytes() const;

  private:
    const Service& service_;
    const std::uint64_t seed_;
    std::map<std::string, std::shared_ptr<GuardedTensor>> tensors_;  ///< by all that makes them alike
};

/// What makes two tensors alike: name, type, extents, role, and what they are filled with.
std::string identity_of(const Tensor& tensor, Data data);

}  // namespace kiln
