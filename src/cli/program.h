// SPDX-License-Identifier: Apache-2.0
//
// The frame of every program: signals, the terminal, and the conversion of errors to messages and exit
// statuses.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "cli/interrupts.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// Exit statuses. kNegative: the program worked, and the answer is no (a wrong result, damage found).
enum Status { kPassed = 0, kNegative = 1, kUsage = 2, kCompileError = 3, kDeviceError = 4 };

/// An error's exit status, and its kind in JSON.
struct Failure {
    Status status;
    const char* kind;
};
Failure classify(const std::exception& error);

struct ProgramContext {
    const std::vector<std::string>& arguments;  ///< without the program's name
    const Terminal& terminal;
    const Interrupts& interrupts;
    /// Whether errors are also printed on standard output as JSON. It is determined before the command line
    /// is parsed, so that errors of parsing are printed too; the body may correct it.
    bool& json;
};

/// Runs the body and returns the exit status: the body's, or that of what it threw, or 128 + N when signal N
/// ended it. Throws nothing.
int run_program(const std::string& name, const std::vector<std::string>& arguments,
                const std::function<int(const ProgramContext&)>& body);

/// {"error": {"kind": ..., "message": ...}}
std::string error_json(const std::string& kind, const std::string& message);
/// {NAME: TEXT}
std::string text_json(const std::string& name, const std::string& text);

}  // namespace kiln::cli
