// SPDX-License-Identifier: Apache-2.0
//
// WithoutGil: a section in which other threads run Python. WithGil: one that runs Python, in any thread.
//
// When the interpreter ends while daemon threads run, CPython before 3.14 ends those that take the GIL
// (pthread_exit). That unwinds them through destructors that may not throw, and that would release objects of
// Python without the GIL. As with CPython 3.14, such a thread waits here until the process ends.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace kiln::python {

/// take: takes the GIL.
template <class Take>
auto or_wait_for_the_end(const Take& take) {
    try {
        return take();
    } catch (const abi::__forced_unwind&) {
        for (;;) pause();
    }
}

class WithoutGil {
  public:
    WithoutGil() : state_(PyEval_SaveThread()) {}
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;
    ~WithoutGil() {
        or_wait_for_the_end([&] { PyEval_RestoreThread(state_); });
    }

  private:
    PyThreadState* state_;
};

class WithGil {
  public:
    WithGil() : state_(or_wait_for_the_end([] { return PyGILState_Ensure(); })) {}
    WithGil(const WithGil&) = delete;
    WithGil& operator=(const WithGil&) = delete;
    ~WithGil() { PyGILState_Release(state_); }

  private:
    PyGILState_STATE state_;
};

}  // namespace kiln::python
