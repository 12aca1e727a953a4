// SPDX-License-Identifier: Apache-2.0
//
// Two passes: the first sorts the //@ lines by directive, the second parses each kind in the order of their
// dependencies, so that authors may write them in any order.
#include "template/front_matter.h"

#include <kiln/error.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "base/words.h"
#include "format/format.h"
#include "template/defaults.h"
#include "template/expression_parser.h"
#include "template/implicit_rules.h"
#include "template/lexer.h"
#include "template/parameter.h"
#include "template/parameter_line.h"

namespace kiln {
namespace {

constexpr std::string_view kMark = "//@";
constexpr std::string_view kBlanks = " \t\r\v\f";
constexpr std::size_t kMostExtents = 3;

struct DirectiveRule {
    std::string_view name;
    bool may_repeat;
};

constexpr DirectiveRule kDirectives[] = {
    {"kernel", true},      {"param", true},  {"let", true},          {"require", true},
    {"block", false},      {"grid", false},  {"shared", true},       {"cluster", false},
    {"backend", false},    {"arch", false},  {"size", true},         {"input", true},
    {"output", true},      {"inout", true},  {"scratch", true},      {"flops", false},
    {"bytes", false},      {"naive", false}, {"tensormap", true},    {"dependent", false},
    {"opt_level", false},  {"data", true},   {"model", true},        {"bound", true},
    {"include_dir", true}, {"option", true}, {"cooperative", false},
};

/// Those that belong to the `kernel` line above them, so that each kernel may have its own.
constexpr std::string_view kLaunchDirectives[] = {"block",  "grid",      "cluster",
                                                  "shared", "dependent", "cooperative"};

/// The call that a kernel with programmatic dependent launch must make.
constexpr std::string_view kWaitForPrevious = "wait_for_previous_grid(";

/// Those that parse_problem_lines reads.
constexpr std::string_view kProblemDirectives[] = {"size",  "input", "output", "inout",     "scratch",
                                                   "flops", "bytes", "naive",  "tensormap", "data"};

/// What a reference's arguments begin with.
constexpr std::pair<std::string_view, std::string_view> kReferenceArguments[] = {
    {"long long", "count"}, {"const long long*", "which"}, {"double*", "expected"}, {"double*", "bound"}};

std::vector<std::string> directive_names() {
    std::vector<std::string> names;
    for (const DirectiveRule& rule : kDirectives) names.emplace_back(rule.name);
    return names;
}

class FrontMatterParser {
  public:
    FrontMatterParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    FrontMatter parse() {
        collect_directives();
        parse_kernel();
        collect_arguments();
        parse_parameters();
        parse_backends();
        parse_archs();
        check_argument_names();
        // The last first, so that `threads` and `shared_bytes` are those of the first kernel in all other lines.
        for (std::size_t i = result_.kernels.size(); i-- > 0;)
            parse_launch(i, i == 0 ? result_ : result_.kernels[i].launch);
        parse_opt_level();
        parse_include_directories();
        result_.options = parse_option_lines(directives_["option"], scope_);
        parse_rules();
        scope_.may_use_arguments = true;
        parse_problem();
        result_.model = parse_model_lines(directives_["model"], scope_);
        result_.implicit_rules = implicit_rules(result_);
        for (std::size_t i = 0; i < result_.constants.values.size(); ++i)
            result_.implicit_rules.push_back(
                constant_rule(result_.constants.constants[i], result_.constants.values[i]));
        for (const OptionLine& line : result_.options)
            if (line.condition)
                result_.implicit_rules.push_back(value_rule(
                    line.condition->text(), "it decides an option of the compiler", line.condition));
        add_condition_rules(result_.problem.tensors, result_.problem.tensor_lines);
        add_condition_rules(result_.problem.tensor_maps, result_.problem.tensor_map_lines);
        for (Rule& rule : result_.problem.rules) result_.implicit_rules.push_back(std::move(rule));
        return std::move(result_);
    }

  private:
    /// A condition without a value would else mean that the argument is not there.
    template <class Argument, class Line>
    void add_condition_rules(const std::vector<Argument>& arguments, const std::vector<Line>& lines) {
        for (std::size_t i = 0; i < lines.size(); ++i)
            if (lines[i].condition)
                result_.implicit_rules.push_back(
                    value_rule(lines[i].condition->text(),
                               "it decides whether " + arguments[i].name + " is there", lines[i].condition));
    }

    void collect_directives() {
        int line_number = 1;
        for (std::size_t begin = 0; begin < text_.size(); ++line_number) {
            const std::size_t end = std::min(text_.find('\n', begin), text_.size());
            const std::string_view line = text_.substr(begin, end - begin);
            begin = end + 1;
            const std::size_t mark = std::min(line.find_first_not_of(kBlanks), line.size());
            if (line.substr(mark).starts_with(kMark)) add_directive(line, mark + kMark.size(), line_number);
        }
    }

    void add_directive(std::string_view line, std::size_t begin, int line_number) {
        const std::size_t last = line.find_last_not_of(kBlanks);
        if (line[last] == '\\')
            throw TemplateError(
                file_, line_number, static_cast<int>(last) + 1,
                "a //@ line can't be continued on the next one with a backslash; write it in one line");
        Lexer lexer(line, begin, file_, line_number);
        if (lexer.peek().kind == TokenKind::end) return;
        if (lexer.peek().kind != TokenKind::identifier)
            lexer.expect_identifier("a directive (" + join(directive_names()) + ")");
        const Token name = lexer.next();
        const auto rule = std::ranges::find(kDirectives, name.text, &DirectiveRule::name);
        if (rule == std::end(kDirectives)) {
            const std::vector<std::string> names = directive_names();
            const std::string hint = did_you_mean(name.text, names);
            lexer.fail(name, "unknown directive " + std::string(name.text) +
                                 (hint.empty() ? "; there are " + join(names) : hint));
        }
        std::vector<Directive>& same = directives_[std::string(name.text)];
        if (!same.empty() && !rule->may_repeat &&
            (!is_launch_directive(name.text) ||
             kernel_of(same.back()) == std::max<std::size_t>(directives_["kernel"].size(), 1)))
            fail_second(lexer, name, same.back().line);
        same.push_back({name, line_number, lexer});
    }

    [[noreturn]] void fail_second(const Lexer& lexer, const Token& name, int first_line) {
        lexer.fail(name, formatted("a second {} line; the first is on line {}", name.text, first_line));
    }

    static bool is_launch_directive(std::string_view name) {
        return std::ranges::find(kLaunchDirectives, name) != std::end(kLaunchDirectives);
    }

    /// The number of the kernel that a line is about, from 1: how many `kernel` lines there are up to it. Lines above the
    /// first are about that one, too.
    std::size_t kernel_of(const Directive& line) {
        const auto above = std::ranges::count_if(
            directives_["kernel"], [&](const Directive& kernel) { return kernel.line <= line.line; });
        return std::max<std::size_t>(static_cast<std::size_t>(above), 1);
    }

    /// The only line of this directive, or nullptr. Of those that each kernel has: that of kernel_.
    Directive* single(std::string_view name) {
        const auto found = directives_.find(name);
        if (found == directives_.end()) return nullptr;
        if (!is_launch_directive(name)) return &found->second.front();
        for (Directive& line : found->second)
            if (kernel_of(line) == kernel_ + 1) return &line;
        return nullptr;
    }

    Directive& required(std::string_view name, std::string_view form) {
        if (Directive* found = single(name)) return *found;
        const Location location = kernel_locations_.empty() ? Location{} : kernel_locations_[kernel_];
        const bool is_one_of_several = result_.kernels.size() > 1;
        throw TemplateError(file_, location.line, location.column,
                            (is_one_of_several ? result_.kernels[kernel_].name.name : "a template") +
                                " needs a line //@ " + std::string(name) + " " + std::string(form));
    }

    void parse_kernel() {
        static_cast<void>(required("kernel", "NAME that names its kernel"));
        for (Directive& line : directives_["kernel"]) parse_kernel_line(line);
        result_.kernel = result_.kernels.front().name.name;
        merge_arguments();
        for (const auto& [directive, lines] : directives_)
            for (const Directive& line : lines) check_place(line);
    }

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
        kernel_locations_.push_back(lexer.location(token.begin));
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
        for (Directive& line : directives_["input"]) {
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
        const bool is_of_one = is_launch_directive(line.name.text) || line.name.text == "kernel";
        const int end = signatures_[is_of_one ? kernel_of(line) - 1 : signatures_.size() - 1].location.line;
        if (line.line > end)
            line.lexer.fail(line.name,
                            formatted("a //@ line must stand before the kernel, which is on line {}", end));
    }

    void parse_parameters() {
        for (Directive& line : directives_["param"]) {
            const Token name = line.lexer.peek();
            Parameter parameter = parse_parameter_declaration(line.lexer);
            for (const Parameter& other : result_.parameters)
                if (other.name == parameter.name)
                    line.lexer.fail(name, formatted("a second parameter {}; the first is on line {}",
                                                    parameter.name, other.line));
            parameter.line = line.line;
            result_.parameters.push_back(std::move(parameter));
            parameter_locations_.push_back(line.lexer.location(name.begin));
        }
        scope_.parameters = &result_.parameters;
        result_.constants = parse_constant_lines(directives_["let"], scope_, result_.kernel, text_);
        parse_defaults();
    }

    /// After all declarations, since a default may name any parameter.
    void parse_defaults() {
        std::vector<Directive>& lines = directives_["param"];
        std::vector<Token> firsts;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            firsts.push_back(lines[i].lexer.peek());
            result_.defaults.push_back(
                parse_parameter_default(lines[i].lexer, result_.parameters[i], scope_));
        }
        const DefaultOrder order = default_order(result_);
        if (!order.cycle.empty())
            lines[order.cycle.front()].lexer.fail(firsts[order.cycle.front()], cycle_text(order.cycle));
        result_.default_order = order.order;
        FixedCodes none(lines.size());
        for (const std::size_t i : result_.default_order) {
            Parameter& parameter = result_.parameters[i];
            std::string why;
            const auto code = default_code(result_, i, none, why);
            if (!code) lines[i].lexer.fail(firsts[i], why);
            parameter.default_value = decode(parameter, *code);
        }
    }

    std::string cycle_text(const std::vector<std::size_t>& cycle) const {
        std::string text = "the default of " + result_.parameters[cycle.front()].name + " depends on itself";
        for (std::size_t i = 1; i < cycle.size(); ++i)
            text += (i == 1 ? ", through " : " and ") + result_.parameters[cycle[i]].name;
        return text;
    }

    void parse_backends() {
        result_.backends = {Backend::cuda, Backend::hip, Backend::host};
        Directive* line = single("backend");
        if (!line) return;
        const std::vector<Backend> all = std::move(result_.backends);
        result_.backends.clear();
        std::vector<std::string> names;
        for (Backend backend : all) names.emplace_back(name(backend));
        do {
            const Token token = line->lexer.expect_identifier("a backend (" + join(names) + ")");
            const auto known = std::ranges::find(names, token.text);
            if (known == names.end())
                line->lexer.fail(token,
                                 "unknown backend " + std::string(token.text) + "; there are " + join(names));
            const Backend backend = all[static_cast<std::size_t>(known - names.begin())];
            if (std::ranges::find(result_.backends, backend) != result_.backends.end())
                line->lexer.fail(token, "the backend " + *known + " is named twice");
            result_.backends.push_back(backend);
        } while (line->lexer.accept(","));
        line->lexer.expect_end("the backends");
    }

    void parse_archs() {
        Directive* line = single("arch");
        if (!line) return;
        constexpr std::string_view kFamilies[] = {"sm_", "gfx", "x86-64", "aarch64"};
        do {
            const Token token = line->lexer.next_word();
            if (std::ranges::none_of(kFamilies, [&](auto family) { return token.text.starts_with(family); }))
                line->lexer.fail(
                    token, "expected an architecture like sm_90a or gfx90a, found " + Lexer::describe(token));
            if (token.text.ends_with('+') &&
                !is_compute_capability(token.text.substr(0, token.text.size() - 1)))
                line->lexer.fail(token,
                                 "a plus, for an architecture and all later ones, goes behind sm_NUMBER: " +
                                     Lexer::describe(token) + " is none");
            if (std::ranges::find(result_.archs, token.text) != result_.archs.end())
                line->lexer.fail(token, "the architecture " + std::string(token.text) + " is named twice");
            result_.archs.emplace_back(token.text);
        } while (line->lexer.accept(","));
        line->lexer.expect_end("the architectures");
    }

    static bool is_compute_capability(std::string_view text) {
        return text.size() > 3 && text.starts_with("sm_") &&
               text.find_first_not_of("0123456789", 3) == std::string_view::npos;
    }

    void collect_arguments() {
        for (const Signature::Argument& argument : result_.signature.arguments) {
            const std::string type = normalised_type(argument.type, {});
            arguments_.push_back({argument.name, type, argument_format(type)});
        }
        scope_.arguments = &arguments_;
    }

    void check_argument_names() {
        for (const Signature::Argument& argument : result_.signature.arguments)
            for (std::size_t i = 0; i < result_.parameters.size(); ++i)
                if (result_.parameters[i].name == argument.name)
                    throw TemplateError(file_, parameter_locations_[i].line, parameter_locations_[i].column,
                                        "the parameter " + argument.name +
                                            " has the name of an argument of the kernel; rename one of them");
    }

    ExpressionPtr parse_number(Lexer& lexer) {
        const Token first = lexer.peek();
        ExpressionPtr expression = parse_expression(lexer, scope_);
        if (expression->kind() == ExpressionKind::type)
            lexer.fail(first, "expected a number, found the type " + expression->text());
        return expression;
    }

    std::vector<ExpressionPtr> parse_extents(Directive& line) {
        std::vector<ExpressionPtr> extents;
        do {
            if (extents.size() == kMostExtents)
                line.lexer.fail(line.lexer.peek(), "a " + std::string(line.name.text) +
                                                       " has at most three extents: x, y and z");
            extents.push_back(parse_number(line.lexer));
        } while (line.lexer.accept(","));
        line.lexer.expect_end("the " + std::string(line.name.text) + "'s extents");
        return extents;
    }

    void parse_launch(std::size_t kernel, LaunchLines& launch) {
        kernel_ = kernel;
        parse_block(launch);
        if (Directive* line = single("cluster")) launch.cluster = parse_extents(*line);
        parse_dependent(launch);
        if (Directive* line = single("cooperative")) {
            line->lexer.expect_end("a cooperative line, which has nothing behind it");
            launch.cooperative = true;
        }
        parse_shared(launch);
        scope_.may_use_arguments = true;
        launch.grid = parse_extents(required("grid", "X[, Y[, Z]] that gives the blocks of a launch"));
        scope_.may_use_arguments = false;
    }

    void parse_block(LaunchLines& launch) {
        Directive& line = required("block", "X[, Y[, Z]] that gives the threads of a block");
        launch.block = parse_extents(line);
        launch.threads = Expression::combine(Operator::multiply, launch.block, "threads",
                                             launch.block.front()->location());
        scope_.derived["threads"] = launch.threads;
    }

    void parse_dependent(LaunchLines& launch) {
        Directive* const line = single("dependent");
        if (!line) return;
        const Token first = line->lexer.peek();
        launch.dependent = parse_expression(line->lexer, scope_);
        if (launch.dependent->kind() != ExpressionKind::truth)
            line->lexer.fail(first, "whether launches may overlap must be true or false; " +
                                        launch.dependent->text() + " is not");
        line->lexer.expect_end("the condition");
        for (const int used : launch.dependent->parameters())
            result_.dependent_uses.push_back(result_.parameters[static_cast<std::size_t>(used)].name);
        if (text_.find(kWaitForPrevious) == std::string_view::npos)
            line->lexer.fail(line->name,
                             "a kernel that may begin while the one before it still runs must call "
                             "kiln::wait_for_previous_grid() (kiln/launch.h), and there is no such call in "
                             "this file");
    }

    void parse_opt_level() {
        Directive* const line = single("opt_level");
        if (!line) return;
        const Token first = line->lexer.peek();
        result_.opt_level = parse_number(line->lexer);
        if (result_.opt_level->kind() == ExpressionKind::truth)
            line->lexer.fail(
                first, "the level must be a number; " + result_.opt_level->text() + " is true or false");
        line->lexer.expect_end("the level");
    }

    void parse_include_directories() {
        for (Directive& line : directives_["include_dir"]) {
            const Token path = line.lexer.peek();
            const std::filesystem::path directory(line.lexer.accept_string());
            if (directory.empty())
                line.lexer.fail(path,
                                "an include directory is written in quotes: //@ include_dir \"../include\"");
            line.lexer.expect_end("the include directory");
            if (directory.is_relative() && !std::filesystem::path(file_).has_parent_path())
                line.lexer.fail(
                    path,
                    "a relative include directory starts from the directory of the template's file, "
                    "and this template has none; write an absolute one");
            result_.include_directories.push_back(directory);
        }
    }

    void parse_shared(LaunchLines& launch) {
        std::vector<ExpressionPtr> parts;
        int first_lines[2] = {0, 0};
        for (Directive& line : directives_["shared"]) {
            if (kernel_of(line) != kernel_ + 1) continue;
            const bool is_static = line.lexer.accept("static");
            ExpressionPtr& target = is_static ? launch.static_shared : launch.dynamic_shared;
            if (target) fail_second(line.lexer, line.name, first_lines[is_static]);
            first_lines[is_static] = line.line;
            target = parse_number(line.lexer);
            line.lexer.expect_end("the bytes of shared memory");
            parts.push_back(target);
        }
        const Location location = parts.empty() ? kernel_locations_[kernel_] : parts.front()->location();
        launch.shared_bytes = Expression::combine(Operator::add, std::move(parts), "shared_bytes", location);
        scope_.derived["shared_bytes"] = launch.shared_bytes;
    }

    void parse_rules() {
        for (Directive& line : directives_["require"]) {
            const Token first = line.lexer.peek();
            ExpressionPtr expression = parse_expression(line.lexer, scope_);
            if (expression->kind() != ExpressionKind::truth)
                line.lexer.fail(first, "a rule must be true or false, such as a comparison; " +
                                           expression->text() + " is not");
            const Location location = expression->location();
            Constraint constraint{expression->text(), line.lexer.accept_string(), location.line,
                                  location.column};
            line.lexer.expect_end("the rule");
            result_.rules.push_back({std::move(constraint), std::move(expression)});
        }
    }

    void parse_problem() {
        std::vector<Directive*> lines;
        for (std::string_view directive : kProblemDirectives)
            if (const auto found = directives_.find(directive); found != directives_.end())
                for (Directive& line : found->second) lines.push_back(&line);
        std::ranges::sort(lines, {}, &Directive::line);
        result_.problem =
            parse_problem_lines(lines, result_.kernel, result_.signature.location, scope_, file_);
        result_.is_reference =
            arguments_.size() >= std::size(kReferenceArguments) &&
            std::ranges::equal(kReferenceArguments, std::span(arguments_).first<4>(),
                               [](const auto& expected, const Scope::Argument& argument) {
                                   return expected.first == argument.type && expected.second == argument.name;
                               });
        if (Directive* const data = single("data"); data && !result_.is_reference)
            fail_outside_reference(*data, "whose bound must fit what it says");
        parse_bound();
    }

    void parse_bound() {
        const auto found = directives_.find("bound");
        if (found == directives_.end()) return;
        for (Directive& line : found->second) {
            if (!result_.is_reference) fail_outside_reference(line, "which computes the bound");
            const Token name = line.lexer.expect_identifier("a parameter that only the bound depends on");
            if (std::ranges::find(result_.parameters, name.text, &Parameter::name) ==
                result_.parameters.end())
                line.lexer.fail(name, std::string(name.text) + " is no parameter of this template");
            line.lexer.expect_end("the parameter's name");
            result_.bound_parameters.emplace_back(name.text);
        }
    }

    [[noreturn]] void fail_outside_reference(Directive& line, const std::string& why) {
        line.lexer.fail(line.name, "a " + std::string(line.name.text) + " line belongs in the reference, " +
                                       why +
                                       "; the arguments of a reference begin with (long long count, "
                                       "const long long* which, double* expected, double* bound)");
    }

    std::string_view text_;
    const std::string& file_;
    std::map<std::string, std::vector<Directive>, std::less<>> directives_;
    std::vector<Signature> signatures_;       ///< of the kernels
    std::vector<Location> kernel_locations_;  ///< of their names in `kernel` lines
    std::size_t kernel_ = 0;                  ///< whose launch is parsed
    std::vector<Location> parameter_locations_;
    std::vector<Scope::Argument> arguments_;
    Scope scope_;
    FrontMatter result_;
};

/// The first line of the comment at the head of the file, licence lines aside, without "kernel:".
std::string summary_of(std::string_view text, const std::string& kernel) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty()) continue;
        if (!line.starts_with("//")) return {};
        if (line.starts_with(kMark)) continue;
        line = trimmed(line.substr(2));
        if (line.empty() || line.starts_with("SPDX-")) continue;
        if (line.starts_with(kernel + ":")) line = trimmed(line.substr(kernel.size() + 1));
        return std::string(line);
    }
    return {};
}

}  // namespace

FrontMatter parse_front_matter(std::string_view text, const std::string& file) {
    FrontMatter result = FrontMatterParser(text, file).parse();
    result.summary = summary_of(text, result.kernel);
    return result;
}

}  // namespace kiln
