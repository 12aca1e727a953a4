// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C and its kin: a signal asks the work to stop, so that compilers in mid-compile are ended and their
// files taken away; work that can't stop is left behind.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace kiln::cli {

/// Takes over SIGINT, SIGTERM and SIGHUP for its lifetime. To be made before any other thread, all of
/// which inherit its mask; one per process.
class Interrupts {
  public:
    Interrupts();
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    ~Interrupts();

    std::stop_token token() const { return source_.get_token(); }
    /// The signal that came; 0: none. A program that it ended has the exit status 128 + signal.
    int signal() const { return signal_; }

  private:
    void wait();

    std::stop_source source_;
    std::atomic<int> signal_{0};
    std::atomic<bool> over_{false};
    std::thread thread_;
};

}  // namespace kiln::cli
