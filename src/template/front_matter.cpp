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
    {"kernel", false},    {"param", true},  {"let", true},      {"require", true},   {"block", false},
    {"grid", false},      {"shared", true}, {"cluster", false}, {"backend", false},  {"arch", false},
    {"size", true},       {"input", true},  {"output", true},   {"inout", true},     {"scratch", true},
    {"flops", false},     {"bytes", false}, {"naive", false},   {"tensormap", true}, {"dependent", false},
    {"opt_level", false}, {"data", true},   {"model", true},    {"bound", true},     {"include_dir", true},
    {"option", true},
};

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
        parse_block();
        parse_cluster();
        parse_dependent();
        parse_opt_level();
        parse_include_directories();
        result_.options = parse_option_lines(directives_["option"], scope_);
        parse_shared();
        parse_rules();
        parse_grid();
        parse_problem();
        result_.model = parse_model_lines(directives_["model"], scope_);
        result_.implicit_rules = implicit_rules(result_, threads_, shared_bytes_);
        for (std::size_t i = 0; i < result_.constants.values.size(); ++i)
            result_.implicit_rules.push_back(
                constant_rule(result_.constants.constants[i], result_.constants.values[i]));
        for (const OptionLine& line : result_.options)
            if (line.condition)
                result_.implicit_rules.push_back(value_rule(
                    line.condition->text(), "it decides an option of the compiler", line.condition));
        for (Rule& rule : result_.problem.rules) result_.implicit_rules.push_back(std::move(rule));
        return std::move(result_);
    }

  private:
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
        if (!same.empty() && !rule->may_repeat) fail_second(lexer, name, same.front().line);
        same.push_back({name, line_number, lexer});
    }

    [[noreturn]] void fail_second(const Lexer& lexer, const Token& name, int first_line) {
        lexer.fail(name, "a second " + std::string(name.text) + " line; the first is on line " +
                             std::to_string(first_line));
    }

    /// The only line of this directive, or nullptr.
    Directive* single(std::string_view name) {
        const auto found = directives_.find(name);
        return found == directives_.end() ? nullptr : &found->second.front();
    }

    Directive& required(std::string_view name, std::string_view form) {
        if (Directive* found = single(name)) return *found;
        throw TemplateError(file_, kernel_location_.line, kernel_location_.column,
                            "a template needs a line //@ " + std::string(name) + " " + std::string(form));
    }

    void parse_kernel() {
        Lexer& lexer = required("kernel", "NAME that names its kernel").lexer;
        const Token name = lexer.expect_identifier("the kernel's name");
        lexer.expect_end("the kernel's name");
        kernel_location_ = lexer.location(name.begin);
        result_.kernel = name.text;
        const auto signature = find_kernel(text_, name.text, file_);
        if (!signature)
            lexer.fail(name, "there is no definition extern \"C\" __global__ void " + result_.kernel +
                                 "(...) in this file");
        result_.signature = *signature;
        for (const auto& [directive, lines] : directives_)
            for (const Directive& line : lines)
                if (line.line > signature->location.line)
                    line.lexer.fail(line.name, "a //@ line must stand before the kernel, which is on line " +
                                                   std::to_string(signature->location.line));
    }

    void parse_parameters() {
        for (Directive& line : directives_["param"]) {
            const Token name = line.lexer.peek();
            Parameter parameter = parse_parameter_declaration(line.lexer);
            for (const Parameter& other : result_.parameters)
                if (other.name == parameter.name)
                    line.lexer.fail(name, "a second parameter " + parameter.name + "; the first is on line " +
                                              std::to_string(other.line));
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

    void parse_block() {
        Directive& line = required("block", "X[, Y[, Z]] that gives the threads of a block");
        result_.block = parse_extents(line);
        threads_ = Expression::combine(Operator::multiply, result_.block, "threads",
                                       result_.block.front()->location());
        scope_.derived["threads"] = threads_;
    }

    void parse_cluster() {
        if (Directive* line = single("cluster")) result_.cluster = parse_extents(*line);
    }

    void parse_dependent() {
        Directive* const line = single("dependent");
        if (!line) return;
        const Token first = line->lexer.peek();
        result_.dependent = parse_expression(line->lexer, scope_);
        if (result_.dependent->kind() != ExpressionKind::truth)
            line->lexer.fail(first, "whether launches may overlap must be true or false; " +
                                        result_.dependent->text() + " is not");
        line->lexer.expect_end("the condition");
        for (const int used : result_.dependent->parameters())
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

    void parse_shared() {
        std::vector<ExpressionPtr> parts;
        int first_lines[2] = {0, 0};
        for (Directive& line : directives_["shared"]) {
            const bool is_static = line.lexer.accept("static");
            ExpressionPtr& target = is_static ? result_.static_shared : result_.dynamic_shared;
            if (target) fail_second(line.lexer, line.name, first_lines[is_static]);
            first_lines[is_static] = line.line;
            target = parse_number(line.lexer);
            line.lexer.expect_end("the bytes of shared memory");
            parts.push_back(target);
        }
        const Location location = parts.empty() ? kernel_location_ : parts.front()->location();
        shared_bytes_ = Expression::combine(Operator::add, std::move(parts), "shared_bytes", location);
        scope_.derived["shared_bytes"] = shared_bytes_;
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

    void parse_grid() {
        scope_.may_use_arguments = true;
        result_.grid = parse_extents(required("grid", "X[, Y[, Z]] that gives the blocks of a launch"));
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
    Location kernel_location_;
    std::vector<Location> parameter_locations_;
    std::vector<Scope::Argument> arguments_;
    Scope scope_;
    ExpressionPtr threads_, shared_bytes_;
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
