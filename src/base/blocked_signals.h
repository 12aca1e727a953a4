// SPDX-License-Identifier: Apache-2.0
//
// BlockedSignals: for starting threads within an application. A thread has the signal mask of the one that starts it.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace kiln {

/// Threads that are started while it lives run none of the application's signal handlers. Faults are left as they are: a
/// fault is that of the thread that makes it, and where its signal is blocked it ends the process before a handler can
/// report it. What the application has blocked stays blocked: it may take a signal by signalfd().
class BlockedSignals {
  public:
    BlockedSignals() {
        sigset_t blocked;
        ::sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
            ::sigdelset(&blocked, fault);
        ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
    }
    ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

  private:
    sigset_t before_;
};

}  // namespace kiln
