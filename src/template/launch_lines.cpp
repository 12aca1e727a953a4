// SPDX-License-Identifier: Apache-2.0
#include "template/launch_lines.h"

#include <kiln/error.h>

#include <utility>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kMostExtents = 3;

/// The call that a kernel with programmatic dependent launch must make.
constexpr std::string_view kWaitForPrevious = "wait_for_previous_grid(";

class LaunchLinesParser {
  public:
    LaunchLinesParser(Directives& directives, const LaunchedKernel& kernel, Scope& scope,
                      std::string_view text, const std::string& file)
        : directives_(directives), kernel_(kernel), scope_(scope), text_(text), file_(file) {}

    LaunchLines parse() {
        parse_block();
        if (Directive* line = directives_.single("cluster", kernel_.number))
            launch_.cluster = parse_extents(*line);
        parse_dependent();
        if (Directive* line = directives_.single("cooperative", kernel_.number)) {
            line->lexer.expect_end("a cooperative line, which has nothing behind it");
            launch_.cooperative = true;
        }
        parse_shared();
        scope_.may_use_arguments = true;
        launch_.grid = parse_extents(required("grid", "X[, Y[, Z]] that gives the blocks of a launch"));
        scope_.may_use_arguments = false;
        return std::move(launch_);
    }

  private:
    Directive& required(std::string_view name, std::string_view form) {
        if (Directive* found = directives_.single(name, kernel_.number)) return *found;
        throw TemplateError(file_, kernel_.location.line, kernel_.location.column,
                            formatted("{} needs a line //@ {} {}", kernel_.subject, name, form));
    }

    std::vector<ExpressionPtr> parse_extents(Directive& line) {
        std::vector<ExpressionPtr> extents;
        do {
            if (extents.size() == kMostExtents)
                line.lexer.fail(line.lexer.peek(), "a " + std::string(line.name.text) +
                                                       " has at most three extents: x, y and z");
            extents.push_back(parse_number(line.lexer, scope_));
        } while (line.lexer.accept(","));
        line.lexer.expect_end("the " + std::string(line.name.text) + "'s extents");
        return extents;
    }

    void parse_block() {
        Directive& line = required("block", "X[, Y[, Z]] that gives the threads of a block");
        launch_.block = parse_extents(line);
        launch_.threads = Expression::combine(Operator::multiply, launch_.block, "threads",
                                              launch_.block.front()->location());
        scope_.derived["threads"] = launch_.threads;
    }

    void parse_dependent() {
        Directive* const line = directives_.single("dependent", kernel_.number);
        if (!line) return;
        const Token first = line->lexer.peek();
        launch_.dependent = parse_expression(line->lexer, scope_);
        if (launch_.dependent->kind() != ExpressionKind::truth)
            line->lexer.fail(first, "whether launches may overlap must be true or false; " +
                                        launch_.dependent->text() + " is not");
        line->lexer.expect_end("the condition");
        if (text_.find(kWaitForPrevious) == std::string_view::npos)
            line->lexer.fail(line->name,
                             "a kernel that may begin while the one before it still runs must call "
                             "kiln::wait_for_previous_grid() (kiln/launch.h), and there is no such call in "
                             "this file");
    }

    void parse_shared() {
        std::vector<ExpressionPtr> parts;
        int first_lines[2] = {0, 0};
        for (Directive& line : directives_.of("shared")) {
            if (directives_.kernel_of(line) != kernel_.number) continue;
            const bool is_static = line.lexer.accept("static");
            ExpressionPtr& target = is_static ? launch_.static_shared : launch_.dynamic_shared;
            if (target) Directives::fail_second(line.lexer, line.name, first_lines[is_static]);
            first_lines[is_static] = line.line;
            target = parse_number(line.lexer, scope_);
            line.lexer.expect_end("the bytes of shared memory");
            parts.push_back(target);
        }
        const Location location = parts.empty() ? kernel_.location : parts.front()->location();
        launch_.shared_bytes = Expression::combine(Operator::add, std::move(parts), "shared_bytes", location);
        scope_.derived["shared_bytes"] = launch_.shared_bytes;
    }

    Directives& directives_;
    const LaunchedKernel& kernel_;
    Scope& scope_;
    std::string_view text_;
    const std::string& file_;
    LaunchLines launch_;
};

}  // namespace

LaunchLines parse_launch_lines(Directives& directives, const LaunchedKernel& kernel, Scope& scope,
                               std::string_view text, const std::string& file) {
    return LaunchLinesParser(directives, kernel, scope, text, file).parse();
}

}  // namespace kiln
