// SPDX-License-Identifier: Apache-2.0
#include "template/kernel_lines.h"

#include <kiln/error.h>

#include <algorithm>
#include <utility>

#include "base/words.h"
#include "format/format.h"
#include "template/problem_lines.h"

namespace kiln {
namespace {

class KernelLinesParser {
  public:
    KernelLinesParser(Directives& directives, std::string_view text, const std::string& file)
        : directives_(directives), text_(text), file_(file) {}

    Kernels parse() {
        if (directives_.of("kernel").empty())
            throw TemplateError(file_, Location{}.line, Location{}.column,
                                "a template needs a line //@ kernel NAME that names its kernel");
        for (Directive& line : directives_.of("kernel")) parse_kernel_line(line);
        merge_arguments();
        for (const auto& [directive, lines] : directives_.all())
            for (const Directive& line : lines) check_place(line);
        return std::move(result_);
    }

  private:
    void parse_kernel_line(Directive& line) {
        Lexer& lexer = line.lexer;
        const Token token = lexer.expect_identifier("the kernel's name");
        KernelName name{std::string(token.text), std::string(token.text), {}};
        if (lexer.peek().text == "<") {
            name.expression += trimmed(lexer.slice(lexer.peek().begin, std::string_view::npos));
            name.arguments = template_arguments(line);
        } else {
            lexer.expect_end("the kernel's name; several kernels have a line each");
        }
        for (const KernelLines& other : result_.kernels)
            if (other.name.name == name.name) lexer.fail(token, "a second kernel line for " + name.name);
        result_.locations.push_back(lexer.location(token.begin));
        const auto signature = find_kernel(text_, name, file_);
        if (!signature)
            lexer.fail(token, "there is no definition " +
                                  std::string(name.is_template() ? "template <...>" : "extern \"C\"") +
                                  " __global__ void " + name.name + "(...) in this file");
        signatures_.push_back(*signature);
        result_.kernels.push_back({std::move(name), {}, {}});
    }

    /// "T" and "BLOCK" of <T, BLOCK>, up to the end of the line.
    std::vector<std::string> template_arguments(Directive& line) {
        Lexer& lexer = line.lexer;
        const Token open = lexer.next();
        std::vector<std::string> arguments;
        std::size_t begin = open.end;
        for (int angles = 1, parentheses = 0; angles > 0;) {
            const Token token = lexer.next();
            if (token.kind == TokenKind::end) lexer.fail(token, "the kernel's arguments need a closing >");
            if (token.text == "(") ++parentheses;
            if (token.text == ")") --parentheses;
            if (parentheses != 0) continue;
            if (token.text == "<") ++angles;
            if (token.text == ">") --angles;
            if ((token.text == "," && angles == 1) || angles == 0) {
                arguments.emplace_back(trimmed(lexer.slice(begin, token.begin)));
                begin = token.end;
            }
        }
        lexer.expect_end("the kernel's arguments; several kernels have a line each");
        return arguments;
    }

    /// The template's arguments are those of its kernels, each name once; tensor maps are the last.
    void merge_arguments() {
        result_.signature = signatures_.front();
        std::vector<Signature::Argument>& all = result_.signature.arguments;
        const std::vector<Signature::Argument> variables = variable_arguments();
        if (signatures_.size() == 1 && variables.empty()) return;
        all.clear();
        for (std::size_t i = 0; i < signatures_.size(); ++i)
            for (const Signature::Argument& argument : signatures_[i].arguments)
                merge_argument(all, argument, i);
        all.insert(all.end(), variables.begin(), variables.end());
        // Of the older algorithms: Clang 14 can't compile what the newer one of libstdc++ returns.
        std::stable_partition(all.begin(), all.end(), [](const auto& argument) {
            return !is_tensor_map(normalised_type(argument.type, {}));
        });
        for (std::size_t i = 0; i < signatures_.size(); ++i)
            for (const Signature::Argument& argument : signatures_[i].arguments)
                result_.kernels[i].arguments.push_back(static_cast<std::size_t>(
                    std::ranges::find(all, argument.name, &Signature::Argument::name) - all.begin()));
        for (const Signature::Argument& variable : variables)
            result_.variables.push_back(
                {static_cast<std::size_t>(std::ranges::find(all, variable.name, &Signature::Argument::name) -
                                          all.begin()),
                 variable.name});
    }

    /// What `input` lines name that is no argument of a kernel but a variable of the module: arguments of the template.
    std::vector<Signature::Argument> variable_arguments() {
        std::vector<Signature::Argument> found;
        for (Directive& line : directives_.of("input")) {
            const Token name = line.lexer.peek();
            const auto is_it = [&](const Signature::Argument& one) { return one.name == name.text; };
            const bool is_argument = std::ranges::any_of(signatures_, [&](const Signature& signature) {
                return std::ranges::any_of(signature.arguments, is_it);
            });
            if (name.kind != TokenKind::identifier || is_argument || std::ranges::any_of(found, is_it))
                continue;
            auto type = find_module_variable(text_, name.text);
            if (!type) continue;
            type->insert(type->begin(), "const");
            type->emplace_back("*");
            found.push_back({std::string(name.text), std::move(*type)});
        }
        return found;
    }

    void merge_argument(std::vector<Signature::Argument>& all, const Signature::Argument& argument,
                        std::size_t kernel) {
        const Location location = signatures_[kernel].location;
        const auto fail = [&](const std::string& message) {
            throw TemplateError(file_, location.line, location.column, message);
        };
        if (argument.name.empty())
            fail(signatures_.size() == 1 ? "an argument needs a name where tensors are copied to variables"
                                         : "an argument needs a name, since several kernels of this template "
                                           "share arguments by name");
        const auto same = std::ranges::find(all, argument.name, &Signature::Argument::name);
        if (same == all.end()) {
            all.push_back(argument);
            return;
        }
        std::string one = normalised_type(same->type, {}), other = normalised_type(argument.type, {});
        if (one == other) return;
        // What one kernel writes, another may only read.
        const bool was_const = one.starts_with("const ");
        if (was_const) one.erase(0, 6);
        if (other.starts_with("const ")) other.erase(0, 6);
        if (one != other)
            fail("the argument " + argument.name + " is " + normalised_type(argument.type, {}) +
                 " here, and " + normalised_type(same->type, {}) + " in another kernel of this template");
        if (was_const) same->type = argument.type;
    }

    /// What is about one kernel stands before it, all else before the last.
    void check_place(const Directive& line) {
        const bool is_of_one = Directives::is_of_launch(line.name.text) || line.name.text == "kernel";
        const int end =
            signatures_[is_of_one ? directives_.kernel_of(line) : signatures_.size() - 1].location.line;
        if (line.line > end)
            line.lexer.fail(line.name,
                            formatted("a //@ line must stand before the kernel, which is on line {}", end));
    }

    Directives& directives_;
    std::string_view text_;
    const std::string& file_;
    std::vector<Signature> signatures_;  ///< of the kernels
    Kernels result_;
};

}  // namespace

Kernels parse_kernel_lines(Directives& directives, std::string_view text, const std::string& file) {
    return KernelLinesParser(directives, text, file).parse();
}

}  // namespace kiln
