// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C and other signals: a signal requests the work to stop, so that running compilers are ended and their
// files removed; work that can't stop is abandoned.
#pragma once

#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>

namespace kiln::cli {

/// Handles SIGINT, SIGTERM and SIGHUP during its lifetime. Create it before any other thread, since all
/// inherit its mask; one per process.
class Interrupts {
  public:
    Interrupts();
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    ~Interrupts();

    std::stop_token token() const { return source_.get_token(); }
    /// The received signal; 0: none. A program that was ended by it has the exit status 128 + signal.
    int signal() const { return signal_; }

    /// During the lifetime of such an object, work gets this much time to stop, for work that would otherwise lose
    /// results. A second signal, half a second after the first or later, ends the program nevertheless.
    class Patience {
      public:
        Patience(const Interrupts& interrupts, std::chrono::milliseconds patience);
        Patience(const Patience&) = delete;
        Patience& operator=(const Patience&) = delete;
        ~Patience();

      private:
        const Interrupts& interrupts_;
    };

  private:
    // The time that work has to stop. Ending a compiler takes at most a tenth of a second.
    static constexpr std::chrono::milliseconds kPatience{500};

    void wait();

    std::stop_source source_;
    std::atomic<int> signal_{0};
    std::atomic<bool> over_{false};
    mutable std::atomic<std::chrono::milliseconds> patience_{kPatience};
    std::thread thread_;
};

}  // namespace kiln::cli
