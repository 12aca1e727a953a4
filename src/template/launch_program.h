// SPDX-License-Identifier: Apache-2.0
//
// A folded expression over launch arguments in postfix form, which computes an extent of a grid in a few
// nanoseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "template/expression.h"

namespace kiln {

class LaunchProgram {
  public:
    /// What the expression depends on other than launch arguments is taken from the environment.
    LaunchProgram(const Expression& expression, const Environment& environment);

    /// The value for these arguments; undefined when `failed` is set.
    std::int64_t run(const Environment& environment, bool& failed) const;

  private:
    struct Instruction {
        Operator operation;
        ArgumentFormat format = ArgumentFormat::i32;
        bool takes_constant = false;  ///< the right operand is `value`, not on the stack
        std::int64_t value = 0;       ///< a constant or the number of an argument
    };

    void compile(const Node& node);

    Expression folded_;
    std::vector<Instruction> instructions_;  ///< empty: evaluate the tree
};

}  // namespace kiln
