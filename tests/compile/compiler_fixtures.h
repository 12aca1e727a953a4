// SPDX-License-Identifier: Apache-2.0
//
// What the tests of all compilers share: the message of a BuildError.
#pragma once

#include <gtest/gtest.h>
#include <kiln/error.h>

#include <string>

#include "scoped_variable.h"

namespace kiln::test {

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
