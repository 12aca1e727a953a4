// SPDX-License-Identifier: Apache-2.0
//
// Another order of the threads of each block for a few launches: what a missing barrier hides in the usual order shows.
#pragma once

#include <kiln/service.h>

#include <memory>

namespace kiln {

class Driver;

/// During its lifetime launches on the host run the threads of each block in another order, the same every time, and find all
/// bits of shared memory set; those of other threads, too. On other backends it does nothing.
class OtherThreadOrder {
  public:
    explicit OtherThreadOrder(const Service& service);
    ~OtherThreadOrder();
    OtherThreadOrder(const OtherThreadOrder&) = delete;
    OtherThreadOrder& operator=(const OtherThreadOrder&) = delete;

  private:
    const std::shared_ptr<Driver> driver_;
};

}  // namespace kiln
