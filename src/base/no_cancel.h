// SPDX-License-Identifier: Apache-2.0
//
// NoCancel: for work that pthread_cancel() must not end. The C library cancels a thread by an exception that no
// `catch (...)` may keep, and no function that is noexcept, such as a destructor, may let through: it ends the process there.
#pragma once

#include <pthread.h>

namespace kiln {

/// While it lives, this thread is not cancelled; a request waits, and is met at the thread's next cancellation point after
/// that.
class NoCancel {
  public:
    NoCancel() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancel() {
        int disabled = 0;
        ::pthread_setcancelstate(before_, &disabled);
    }
    NoCancel(const NoCancel&) = delete;
    NoCancel& operator=(const NoCancel&) = delete;

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace kiln
