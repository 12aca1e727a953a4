// SPDX-License-Identifier: Apache-2.0
//
// Two passes: the first sorts the //@ lines by directive, the second parses each kind in the order of their
// dependencies, so that authors may write them in any order.
#include "template/front_matter.h"

#include <kiln/error.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/words.h"
#include "format/format.h"
#include "template/defaults.h"
#include "template/directives.h"
#include "template/expression_parser.h"
#include "template/implicit_rules.h"
#include "template/lexer.h"
#include "template/parameter.h"
#include "template/parameter_line.h"

namespace kiln {
namespace {

/// Those that parse_problem_lines reads.
constexpr std::string_view kProblemDirectives[] = {"size",  "input", "output", "inout",     "scratch",
                                                   "flops", "bytes", "naive",  "tensormap", "data"};

/// What a reference's arguments begin with.
constexpr std::pair<std::string_view, std::string_view> kReferenceArguments[] = {
    {"long long", "count"}, {"const long long*", "which"}, {"double*", "expected"}, {"double*", "bound"}};

class FrontMatterParser {
  public:
    FrontMatterParser(std::string_view text, const std::string& file)
        : text_(text), file_(file), directives_(text, file) {}

    FrontMatter parse() {
        parse_kernels();
        collect_arguments();
        parse_parameters();
        parse_backends();
        parse_archs();
        check_argument_names();
        // The last first, so that `threads` and `shared_bytes` are those of the first kernel in all other lines.
        for (std::size_t i = result_.kernels.size(); i-- > 0;) parse_launch(i);
        parse_opt_level();
        parse_include_directories();
        result_.options = parse_option_lines(directives_.of("option"), scope_);
        parse_rules();
        scope_.may_use_arguments = true;
        parse_problem();
        result_.model = parse_model_lines(directives_.of("model"), scope_);
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
    void parse_kernels() {
        Kernels found = parse_kernel_lines(directives_, text_, file_);
        result_.kernels = std::move(found.kernels);
        result_.kernel = result_.kernels.front().name.name;
        result_.signature = std::move(found.signature);
        result_.variables = std::move(found.variables);
        kernel_locations_ = std::move(found.locations);
    }

    /// A condition without a value would else mean that the argument is not there.
    template <class Argument, class Line>
    void add_condition_rules(const std::vector<Argument>& arguments, const std::vector<Line>& lines) {
        for (std::size_t i = 0; i < lines.size(); ++i)
            if (lines[i].condition)
                result_.implicit_rules.push_back(
                    value_rule(lines[i].condition->text(),
                               "it decides whether " + arguments[i].name + " is there", lines[i].condition));
    }

    void parse_parameters() {
        for (Directive& line : directives_.of("param")) {
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
        result_.constants = parse_constant_lines(directives_.of("let"), scope_, result_.kernel, text_);
        parse_defaults();
    }

    /// After all declarations, since a default may name any parameter.
    void parse_defaults() {
        std::vector<Directive>& lines = directives_.of("param");
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
        Directive* line = directives_.single("backend");
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
        Directive* line = directives_.single("arch");
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

    void parse_launch(std::size_t number) {
        const bool is_one_of_several = result_.kernels.size() > 1;
        LaunchLines launch =
            parse_launch_lines(directives_,
                               {number, is_one_of_several ? result_.kernels[number].name.name : "a template",
                                kernel_locations_[number]},
                               scope_, text_, file_);
        if (launch.dependent)
            for (const int used : launch.dependent->parameters())
                result_.dependent_uses.push_back(result_.parameters[static_cast<std::size_t>(used)].name);
        (number == 0 ? static_cast<LaunchLines&>(result_) : result_.kernels[number].launch) =
            std::move(launch);
    }

    void parse_opt_level() {
        Directive* const line = directives_.single("opt_level");
        if (!line) return;
        const Token first = line->lexer.peek();
        result_.opt_level = parse_number(line->lexer, scope_);
        if (result_.opt_level->kind() == ExpressionKind::truth)
            line->lexer.fail(
                first, "the level must be a number; " + result_.opt_level->text() + " is true or false");
        line->lexer.expect_end("the level");
    }

    void parse_include_directories() {
        for (Directive& line : directives_.of("include_dir")) {
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

    void parse_rules() {
        for (Directive& line : directives_.of("require")) {
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
            for (Directive& line : directives_.of(directive)) lines.push_back(&line);
        std::ranges::sort(lines, {}, &Directive::line);
        result_.problem =
            parse_problem_lines(lines, result_.kernel, result_.signature.location, scope_, file_);
        result_.is_reference =
            arguments_.size() >= std::size(kReferenceArguments) &&
            std::ranges::equal(kReferenceArguments, std::span(arguments_).first<4>(),
                               [](const auto& expected, const Scope::Argument& argument) {
                                   return expected.first == argument.type && expected.second == argument.name;
                               });
        if (Directive* const data = directives_.single("data"); data && !result_.is_reference)
            fail_outside_reference(*data, "whose bound must fit what it says");
        parse_bound();
    }

    void parse_bound() {
        for (Directive& line : directives_.of("bound")) {
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
    Directives directives_;
    std::vector<Location> kernel_locations_;  ///< of their names in `kernel` lines
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
        if (line.starts_with(kDirectiveMark)) continue;
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
