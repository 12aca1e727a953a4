// SPDX-License-Identifier: Apache-2.0
//
// The //@ lines of a template, sorted by directive. What they say is parsed elsewhere.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "template/expression.h"
#include "template/lexer.h"

namespace kiln {

inline constexpr std::string_view kDirectiveMark = "//@";

/// One //@ line; the lexer is after the directive's name.
struct Directive {
    Token name;
    int line;
    Lexer lexer;
};

/// The name in the first `kernel` line of a text that may be wrong in every other way; empty where there is none.
std::string first_kernel(std::string_view text);

/// All //@ lines of a template.
class Directives {
  public:
    /// Text and file must outlive this. Throws TemplateError for a directive that does not exist, and for a second one where there
    /// may be one.
    Directives(std::string_view text, const std::string& file);

    /// Those of one name, in their order; an empty list where there are none, which all() then has too.
    std::vector<Directive>& of(std::string_view name) { return by_name_[std::string(name)]; }
    /// The only line of this directive, or nullptr. Of those that each kernel has: that of the kernel, from 0.
    Directive* single(std::string_view name, std::size_t kernel = 0);
    const std::map<std::string, std::vector<Directive>, std::less<>>& all() const { return by_name_; }

    /// `block`, `grid` and so on, which belong to the `kernel` line above them.
    static bool is_of_launch(std::string_view name);
    /// The kernel that a line is about, from 0. Lines above the first `kernel` line are about that one, too.
    std::size_t kernel_of(const Directive& line) const;
    /// "a second block line; the first is on line 3"
    [[noreturn]] static void fail_second(const Lexer& lexer, const Token& name, int first_line);

  private:
    void add(std::string_view line, std::size_t begin, int line_number);

    const std::string& file_;
    std::map<std::string, std::vector<Directive>, std::less<>> by_name_;
};

}  // namespace kiln
