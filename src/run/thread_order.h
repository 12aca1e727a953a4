// SPDX-License-Identifier: Apache-2.0
//
// Another order of the threads of each block for a few launches: what a missing barrier hides in the usual order shows.
#pragma once

#include <kiln/service.h>

#include <memory>

namespace kiln {

class Driver;

/// During its lifetime launches on the host run the threads of each block in another order, one for each number, the same every
/// time, and find shared memory poisoned; those of other threads, too. On other backends it does nothing.
class OtherThreadOrder {
  public:
    /// number: from 1 on.
    explicit OtherThreadOrder(const Service& service, int number = 1);
    ~OtherThreadOrder();
    OtherThreadOrder(const OtherThreadOrder&) = delete;
    OtherThreadOrder& operator=(const OtherThreadOrder&) = delete;

  private:
    const std::shared_ptr<Driver> driver_;
    const int number_;
};

}  // namespace kiln
