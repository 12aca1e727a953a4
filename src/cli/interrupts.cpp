// SPDX-License-Identifier: Apache-2.0
//
// A separate thread waits for the signals, so that nothing runs in a signal handler.
#include "cli/interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace kiln::cli {
namespace {

sigset_t interrupts() {
    sigset_t set;
    sigemptyset(&set);
    // A signal that is ignored at the start (nohup, a script's background job) stays ignored.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction action;
        if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, number);
    }
    return set;
}

}  // namespace

Interrupts::Interrupts() {
    const sigset_t set = interrupts();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    thread_ = std::thread([this] { wait(); });
}

Interrupts::~Interrupts() {
    over_ = true;
    thread_.join();
    const sigset_t set = interrupts();
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Interrupts::wait() {
    const sigset_t set = interrupts();
    constexpr timespec kNap{0, 20'000'000};
    int number = -1;
    while (number < 0) {
        if (over_) return;
        number = ::sigtimedwait(&set, nullptr, &kNap);
    }
    signal_ = number;
    source_.request_stop();
    // Signals in quick succession are the same Ctrl-C: the terminal sends one, and a parent program may send
    // another.
    const auto start = std::chrono::steady_clock::now();
    while (!over_) {
        const bool is_again = ::sigtimedwait(&set, nullptr, &kNap) > 0;
        const auto waited = std::chrono::steady_clock::now() - start;
        if (waited >= patience_.load() || (is_again && waited >= kPatience)) ::_exit(128 + number);
    }
}

Interrupts::Patience::Patience(const Interrupts& interrupts, std::chrono::milliseconds patience)
    : interrupts_(interrupts) {
    interrupts_.patience_ = patience;
}

Interrupts::Patience::~Patience() { interrupts_.patience_ = kPatience; }

}  // namespace kiln::cli
