// SPDX-License-Identifier: Apache-2.0
//
// What the tests of all compilers share: a variable of the environment that is set for a scope, and the
// message of a BuildError.
#pragma once

#include <gtest/gtest.h>
#include <kiln/error.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace kiln::test {

class ScopedVariable {
  public:
    ScopedVariable(const char* name, const std::string& value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old;
        ::setenv(name, value.c_str(), 1);
    }
    ~ScopedVariable() {
        if (old_)
            ::setenv(name_, old_->c_str(), 1);
        else
            ::unsetenv(name_);
    }
    ScopedVariable(const ScopedVariable&) = delete;
    ScopedVariable& operator=(const ScopedVariable&) = delete;

  private:
    const char* name_;
    std::optional<std::string> old_;
};

template <class Function>
std::string build_error(Function function) {
    try {
        function();
    } catch (const BuildError& error) {
        return error.what();
    }
    ADD_FAILURE() << "no BuildError";
    return {};
}

}  // namespace kiln::test
