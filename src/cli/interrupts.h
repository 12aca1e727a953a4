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

    /// Work that can't stop at once, and loses something when it is left behind, gets this long while such an object
    /// lives. A second signal, half a second after the first or later, ends the program all the same.
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
    // How long the work has to notice. Ending a compiler takes a tenth of a second at most.
    static constexpr std::chrono::milliseconds kPatience{500};

    void wait();

    std::stop_source source_;
    std::atomic<int> signal_{0};
    std::atomic<bool> over_{false};
    mutable std::atomic<std::chrono::milliseconds> patience_{kPatience};
    std::thread thread_;
};

}  // namespace kiln::cli
