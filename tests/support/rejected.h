// SPDX-License-Identifier: Apache-2.0
//
// rejected(call): the message of the error that a call has to throw.
#pragma once

#include <gtest/gtest.h>
#include <kiln/error.h>

#include <exception>
#include <string>

namespace kiln::test {

template <class Error = UsageError, class Call>
std::string rejected(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    } catch (const std::exception& error) {
        ADD_FAILURE() << "another error: " << error.what();
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
}

}  // namespace kiln::test
