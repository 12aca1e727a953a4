// SPDX-License-Identifier: Apache-2.0
//
// Tensors that several kernels of one problem use one after the other, so that inputs are filled once.
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

    /// The problem's tensors: existing ones if they match, else new ones. Each kernel has its own size of scratch;
    /// scratch of other kernels is kept only while it is small.
    GuardedTensors of(const Problem& problem, Data data = Data::random);
    /// The bytes of inputs, guards included, that a launch with this data would still have to allocate.
    std::uint64_t missing_bytes(const Problem& problem, Data data) const;
    /// Scratch memory may no longer have the content that a launch expects: it is refilled before the next
    /// one.
    void drop_scratch();
    /// Frees all memory. Nothing may use it.
    void clear();
    std::uint64_t held_bytes() const;

  private:
    const Service& service_;
    const std::uint64_t seed_;
    std::map<std::string, std::shared_ptr<GuardedTensor>> tensors_;  ///< by identity_of()
};

/// Two tensors match if this is equal: name, type, extents, role and fill.
std::string identity_of(const Tensor& tensor, Data data);

}  // namespace kiln
