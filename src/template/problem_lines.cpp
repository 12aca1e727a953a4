// SPDX-License-Identifier: Apache-2.0
//
// Sizes come first, since all other lines may use them; then each line in the order of the file.
#include "template/problem_lines.h"

#include <kiln/error.h>

#include <algorithm>
#include <utility>

#include "base/words.h"
#include "format/format.h"
#include "template/element_type.h"
#include "template/tensor_maps.h"

namespace kiln {
namespace {

constexpr std::string_view kTensorMap = "TensorMap";

bool is_const_pointer(std::string_view type) { return type.starts_with("const "); }

bool is_floating(std::string_view normalised) {
    return normalised == "half" || normalised == "bfloat16" || normalised == "float" ||
           normalised == "double";
}

bool has_default_fill(std::string_view normalised) {
    return is_floating(normalised) || normalised == "signed char" || normalised == "unsigned char";
}

std::optional<TensorRole> role_of(std::string_view directive) {
    if (directive == "input") return TensorRole::input;
    if (directive == "output") return TensorRole::output;
    if (directive == "inout") return TensorRole::inout;
    if (directive == "scratch") return TensorRole::scratch;
    return std::nullopt;
}

/// In the order of Pattern, behind none.
std::vector<std::string> pattern_names() {
    return {"factor", "term", "peaks", "key", "query", "shifted_peaks"};
}

/// As an operand of any operator.
std::string in_parentheses(const std::string& expression) {
    return std::ranges::all_of(expression, is_identifier_part) ? expression : "(" + expression + ")";
}

class ProblemParser {
  public:
    ProblemParser(const std::string& kernel, Location kernel_location, const Scope& scope,
                  const std::string& file)
        : kernel_(kernel),
          kernel_location_(kernel_location),
          file_(file),
          arguments_(*scope.arguments),
          declared_(arguments_.size(), nullptr),
          scope_(scope) {
        scope_.arguments = &arguments_;
        for (Scope::Argument& argument : arguments_) argument.is_known = false;
    }

    ProblemLines parse(const std::vector<Directive*>& lines) {
        check_tensor_maps_come_last();
        for (Directive* line : lines)
            if (line->name.text == "size") parse_size(*line);
        for (Directive* line : lines) {
            const std::string_view directive = line->name.text;
            if (const auto role = role_of(directive)) parse_tensor(*line, *role);
            if (directive == "tensormap") parse_tensor_map(*line);
            if (directive == "data") parse_data(*line);
            if (directive == "flops") result_.flops = parse_whole_line(*line, "the operations");
            if (directive == "bytes") result_.bytes = parse_whole_line(*line, "the bytes");
            if (directive == "naive") parse_naive(*line);
        }
        put_in_order();
        return std::move(result_);
    }

  private:
    void check_tensor_maps_come_last() const {
        const auto is_map = [](const Scope::Argument& argument) { return is_tensor_map(argument.type); };
        const auto first = std::ranges::find_if(arguments_, is_map);
        const auto other = std::find_if_not(first, arguments_.end(), is_map);
        if (other != arguments_.end())
            throw TemplateError(file_, kernel_location_.line, kernel_location_.column,
                                "the argument " + first->name + " is a kiln::TensorMap and must come after " +
                                    other->name +
                                    ": tensor maps are made at launch, behind the arguments that are passed");
    }

    /// The argument that the line names. `is_fit`: which ones it may be, for the hint.
    template <class Predicate>
    std::size_t parse_argument(Directive& line, std::string_view what, const Predicate& is_fit) {
        Lexer& lexer = line.lexer;
        const Token name = lexer.expect_identifier(what);
        const std::size_t index = argument_called(lexer, name, is_fit);
        if (declared_[index])
            lexer.fail(name, formatted("a second line for {}; the first is on line {}", name.text,
                                       declared_[index]->line));
        declared_[index] = &line;
        return index;
    }

    template <class Predicate>
    std::size_t argument_called(const Lexer& lexer, const Token& name, const Predicate& is_fit) const {
        const auto found = std::ranges::find(arguments_, name.text, &Scope::Argument::name);
        if (found != arguments_.end()) return static_cast<std::size_t>(found - arguments_.begin());
        std::vector<std::string> names;
        for (const Scope::Argument& argument : arguments_)
            if (is_fit(argument) && !argument.name.empty()) names.push_back(argument.name);
        const std::string hint = did_you_mean(name.text, names);
        lexer.fail(name, kernel_ + " has no argument " + std::string(name.text) +
                             (!hint.empty()   ? hint
                              : names.empty() ? "; it has none that this line could be for"
                                              : "; there are " + join(names)));
    }

    ExpressionPtr parse_whole_line(Directive& line, const std::string& what) const {
        ExpressionPtr expression = parse_number(line.lexer, scope_);
        line.lexer.expect_end(what);
        return expression;
    }

    std::vector<ExpressionPtr> parse_extents(Lexer& lexer, std::string_view where) const {
        lexer.expect("[", where);
        std::vector<ExpressionPtr> extents;
        do extents.push_back(parse_number(lexer, scope_));
        while (lexer.accept(","));
        lexer.expect("]", "that closes the [");
        return extents;
    }

    static std::string text_of(const std::vector<ExpressionPtr>& expressions) {
        std::vector<std::string> texts;
        for (const ExpressionPtr& expression : expressions) texts.push_back(expression->text());
        return join(texts);
    }

    static bool is_size(const Scope::Argument& argument) {
        return argument.format && *argument.format != ArgumentFormat::boolean;
    }

    void parse_size(Directive& line) {
        Lexer& lexer = line.lexer;
        const Token name = lexer.peek();
        const std::size_t index = parse_argument(line, "an integer argument of the kernel", is_size);
        Scope::Argument& argument = arguments_[index];
        if (!is_size(argument))
            lexer.fail(name, "a size is an integer argument of the kernel; " + argument.name + " is " +
                                 argument.type);
        lexer.expect("=", "and the default of " + argument.name);
        SizeLine parsed{index, *argument.format, parse_number(lexer, scope_), nullptr, nullptr, nullptr};
        SizeArgument size{argument.name, parsed.normal->text(), {}, {}, {}, {}, line.line};
        if (lexer.accept("test")) {
            parsed.test = parse_number(lexer, scope_);
            size.test_text = parsed.test->text();
        }
        if (lexer.accept("multiple")) {
            parsed.multiple = parse_number(lexer, scope_);
            size.multiple_text = parsed.multiple->text();
        }
        if (lexer.accept("at_most")) {
            parsed.most = parse_number(lexer, scope_);
            size.most_text = parsed.most->text();
        }
        size.text = lexer.accept_string();
        lexer.expect_end("the size");
        argument.is_known = true;  // for the lines below
        result_.size_lines.push_back(std::move(parsed));
        result_.sizes.push_back(std::move(size));
    }

    /// What the elements of a pointer argument may be, normalised: one type, or those of a type parameter.
    std::vector<std::string_view> element_types_of(const Lexer& lexer, const Token& name,
                                                   const Scope::Argument& argument) const {
        const auto element = pointee(argument.type);
        if (!element)
            lexer.fail(name, "the argument " + argument.name + " is " + argument.type +
                                 "; this line is for a pointer to elements");
        std::vector<std::string_view> types;
        const auto parameter = std::ranges::find(*scope_.parameters, *element, &Parameter::name);
        if (parameter != scope_.parameters->end() && parameter->kind == ParameterKind::type) {
            for (const Value& value : parameter->allowed)
                types.push_back(element_types()[static_cast<std::size_t>(*find_element_type(value.as_type()))]
                                    .normalised);
            return types;
        }
        if (const ElementType* known = find_normalised_type(*element)) return {known->normalised};
        std::vector<std::string> names;
        for (const ElementType& type : element_types())
            if (std::ranges::find(names, type.normalised) == names.end()) names.emplace_back(type.normalised);
        lexer.fail(name,
                   "the elements of " + argument.name + " are " + std::string(*element) +
                       ", whose size is not known; a type parameter will do, or one of " + join(names) +
                       ". Aliases are not followed. Of vectors declare the elements and cast the pointer: " +
                       "reinterpret_cast<const float4*>(x) of a float* x with 'align 16'");
    }

    static bool is_pointer(const Scope::Argument& argument) { return pointee(argument.type).has_value(); }

    void parse_tensor(Directive& line, TensorRole role) {
        Lexer& lexer = line.lexer;
        const Token name = lexer.peek();
        const std::size_t index = parse_argument(line, "a pointer argument of the kernel", is_pointer);
        const Scope::Argument& argument = arguments_[index];
        const std::vector<std::string_view> types = element_types_of(lexer, name, argument);
        const std::string directive(line.name.text);
        if (role == TensorRole::input && !is_const_pointer(argument.type))
            lexer.fail(name, "an input is a pointer to const; " + argument.name + " is " + argument.type +
                                 ", through which the kernel may write: declare it const, or write inout");
        if (role != TensorRole::input && is_const_pointer(argument.type))
            lexer.fail(name, "what is behind " + argument.name + ", which is " + argument.type +
                                 ", can't be written; this should be an input line");

        TensorLine parsed{index,   parse_extents(lexer, "and the extents of " + argument.name),
                          nullptr, nullptr,
                          nullptr, nullptr};
        TensorArgument tensor;
        tensor.name = argument.name;
        tensor.role = role;
        tensor.extents_text = text_of(parsed.extents);
        tensor.line = line.line;
        parse_alignment(lexer, tensor, parsed);
        parse_fill(lexer, types, tensor, parsed);
        if (role == TensorRole::output || role == TensorRole::inout) parse_reference(lexer, tensor);
        if ((parsed.condition = parse_condition(lexer, tensor.name)))
            tensor.condition_text = parsed.condition->text();
        tensor.text = lexer.accept_string();
        lexer.expect_end("the " + directive);
        result_.tensors.push_back(std::move(tensor));
        result_.tensor_lines.push_back(std::move(parsed));
    }

    /// Known before any launch, so that a launch only compares: no arguments of the kernel.
    void parse_alignment(Lexer& lexer, TensorArgument& tensor, TensorLine& parsed) {
        if (!lexer.accept("align")) return;
        const bool may_use_arguments = std::exchange(scope_.may_use_arguments, false);
        parsed.align = parse_number(lexer, scope_);
        tensor.align_text = parsed.align->text();
        add_rule("is_pow2(" + tensor.align_text + ")",
                 "the alignment of " + tensor.name + " is a power of two, in bytes",
                 parsed.align->location());
        scope_.may_use_arguments = may_use_arguments;
    }

    /// Which variants have the argument: known before any launch, so that its callers are.
    ExpressionPtr parse_condition(Lexer& lexer, const std::string& argument) {
        if (!lexer.accept("if")) return nullptr;
        const bool may_use_arguments = std::exchange(scope_.may_use_arguments, false);
        const Token first = lexer.peek();
        ExpressionPtr condition = parse_expression(lexer, scope_);
        if (condition->kind() != ExpressionKind::truth)
            lexer.fail(first, "whether " + argument + " is there must be true or false; " +
                                  condition->text() + " is not");
        scope_.may_use_arguments = may_use_arguments;
        return condition;
    }

    static void expect_integers(Lexer& lexer, const Token& at, std::string_view what,
                                const std::vector<std::string_view>& types, const TensorArgument& tensor) {
        for (std::string_view type : types)
            if (is_floating(type) || type == "bool")
                lexer.fail(at, formatted("{} integers; {} can be {}", what, tensor.name, type));
    }

    void parse_fill(Lexer& lexer, const std::vector<std::string_view>& types, TensorArgument& tensor,
                    TensorLine& parsed) const {
        const bool is_read = tensor.role == TensorRole::input || tensor.role == TensorRole::inout;
        const Token first = lexer.peek();
        if (tensor.role != TensorRole::input && tensor.role != TensorRole::output && lexer.accept("=")) {
            lexer.expect("0", "which is all that memory can be set to");
            tensor.fill = Fill::zero;
            tensor.fill_text = "= 0";
        } else if (is_read && lexer.accept("permutation")) {
            tensor.fill = Fill::permutation;
            tensor.fill_text = "permutation";
            expect_integers(lexer, first, "a permutation is one of", types, tensor);
        } else if (is_read && lexer.accept("offsets")) {
            lexer.expect("to", "and the last one: how many rows the packed sequences have");
            tensor.fill = Fill::offsets;
            parsed.high = parse_number(lexer, scope_);
            tensor.fill_text = "offsets to " + parsed.high->text();
            expect_integers(lexer, first, "offsets are", types, tensor);
        } else if (is_read && lexer.accept("in")) {
            tensor.fill = Fill::range;
            parsed.low = parse_number(lexer, scope_);
            lexer.expect("..", "and the largest value of " + tensor.name);
            parsed.high = parse_number(lexer, scope_);
            tensor.fill_text = "in " + parsed.low->text() + ".." + parsed.high->text();
        } else if (is_read) {
            for (std::string_view type : types)
                if (!has_default_fill(type))
                    lexer.fail(first, "expected in LO..HI, permutation or offsets to N, found " +
                                          Lexer::describe(first) + ": " + tensor.name + " can be " +
                                          std::string(type) +
                                          ", and only floating-point numbers and 8-bit integers have values "
                                          "that are always fine");
        }
    }

    void parse_reference(Lexer& lexer, TensorArgument& tensor) const {
        if (!lexer.accept("by")) return;
        const Token name = lexer.expect_identifier("the template that computes what is expected");
        if (name.text == kernel_) lexer.fail(name, "a template can't be its own reference");
        tensor.reference = name.text;
        tensor.exact = lexer.accept("exact");
        tensor.any_order = lexer.accept("any_order");
    }

    /// The scope in which integer arguments are known: what launches pass.
    Scope launch_scope(std::vector<Scope::Argument>& all) const {
        all = arguments_;
        for (Scope::Argument& argument : all) argument.is_known = true;
        Scope launch = scope_;
        launch.arguments = &all;
        return launch;
    }

    void parse_data(Directive& line) {
        Lexer& lexer = line.lexer;
        const Token name = lexer.peek();
        const std::size_t index = parse_argument(line, "a pointer argument of the kernel", is_pointer);
        const Scope::Argument& argument = arguments_[index];
        for (const std::string_view type : element_types_of(lexer, name, argument))
            if (!is_floating(type))
                lexer.fail(name, "patterns are of floating-point elements; " + argument.name + " can be " +
                                     std::string(type));
        const Token word = lexer.expect_identifier("a pattern (" + join(pattern_names()) + ")");
        const std::vector<std::string> names = pattern_names();
        const auto found = std::ranges::find(names, word.text);
        if (found == names.end())
            lexer.fail(word, "unknown pattern " + std::string(word.text) +
                                 (did_you_mean(word.text, names).empty() ? "; there are " + join(names)
                                                                         : did_you_mean(word.text, names)));
        std::vector<Scope::Argument> all;
        Scope launch = launch_scope(all);
        std::swap(scope_, launch);
        result_.data_lines.push_back(
            {index, static_cast<Pattern>(found - names.begin() + 1), parse_number(lexer, scope_)});
        std::swap(scope_, launch);
        lexer.expect_end("the pattern's size");
    }

    void parse_naive(Directive& line) {
        const Token name =
            line.lexer.expect_identifier("the template whose speed this one's is compared with");
        if (name.text == kernel_) line.lexer.fail(name, "a template can't be compared with itself");
        line.lexer.expect_end("the template's name");
        result_.naive = name.text;
    }

    void parse_tensor_map(Directive& line) {
        Lexer& lexer = line.lexer;
        const auto is_map = [](const Scope::Argument& argument) { return is_tensor_map(argument.type); };
        const Token name = lexer.peek();
        const std::size_t index = parse_argument(line, "a kiln::TensorMap argument of the kernel", is_map);
        if (!is_map(arguments_[index]))
            lexer.fail(name, "the argument " + arguments_[index].name + " is " + arguments_[index].type +
                                 "; a tensor map is a kiln::TensorMap");
        lexer.expect("=", "and the pointer argument that it maps");
        const Token tensor = lexer.expect_identifier("a pointer argument of the kernel");
        TensorMapLine parsed{index, argument_called(lexer, tensor, is_pointer), {}, {}, nullptr, nullptr};
        const std::vector<std::string_view> types =
            element_types_of(lexer, tensor, arguments_[parsed.pointer_argument]);

        // A map is made at launch from the arguments themselves, so that any of them will do.
        std::vector<Scope::Argument> all;
        Scope launch = launch_scope(all);
        std::swap(scope_, launch);
        const Token extents = lexer.peek();
        parsed.extents = parse_extents(lexer, "and the extents of " + std::string(tensor.text));
        if (parsed.extents.size() > kMostTensorMapExtents)
            lexer.fail(extents, "a tensor map has at most five extents");
        scope_.may_use_arguments = false;
        lexer.expect("box", "and the box that is moved at a time");
        const Token box = lexer.peek();
        parsed.box = parse_extents(lexer, "and the extents of the box");
        if (parsed.box.size() != parsed.extents.size())
            lexer.fail(box, formatted("the box must have as many extents as {}, {}, and has {}", tensor.text,
                                      parsed.extents.size(), parsed.box.size()));
        if (lexer.accept("swizzle")) parsed.swizzle = parse_number(lexer, scope_);
        parsed.condition = parse_condition(lexer, std::string(name.text));
        lexer.expect_end("the tensor map");
        add_tensor_map_rules(parsed, types, line.line);
        std::swap(scope_, launch);
        result_.tensor_maps.push_back({std::string(name.text), std::string(tensor.text),
                                       parsed.condition ? parsed.condition->text() : "", line.line});
        result_.tensor_map_lines.push_back(std::move(parsed));
    }

    /// What cuTensorMapEncodeTiled asks of a box (CUDA driver API, tensor map object management), where the map is there.
    void add_tensor_map_rules(const TensorMapLine& map, const std::vector<std::string_view>& types,
                              int line) {
        const auto add = [&](const std::string& text, const std::string& words, Location location) {
            add_rule(map.condition ? "!(" + map.condition->text() + ") || (" + text + ")" : text, words,
                     location);
        };
        for (const ExpressionPtr& extent : map.box) {
            const std::string text = in_parentheses(extent->text());
            add(text + " >= 1 && " + text + " <= 256", "a box has 1 to 256 elements in each direction",
                extent->location());
        }
        const Scope::Argument& tensor = arguments_[map.pointer_argument];
        const std::string size = types.size() == 1
                                     ? std::to_string(find_normalised_type(types.front())->bytes)
                                     : "sizeof(" + std::string(*pointee(tensor.type)) + ")";
        const std::string bytes = in_parentheses(map.box.back()->text()) + " * " + size;
        const Location location = map.box.back()->location();
        add(bytes + " % 16 == 0", "the innermost side of a box is a multiple of 16 bytes", location);
        if (!map.swizzle) return;
        const std::string swizzle = in_parentheses(map.swizzle->text());
        add(swizzle + " == 0 || " + swizzle + " == 32 || " + swizzle + " == 64 || " + swizzle + " == 128",
            "a swizzle is one of 0, 32, 64 or 128 bytes", {line, map.swizzle->location().column});
        add(swizzle + " == 0 || " + bytes + " <= " + swizzle,
            "the innermost side of a box is no longer than its swizzle", location);
    }

    void add_rule(const std::string& text, const std::string& words, Location location) {
        Lexer lexer(text, 0, file_, location.line);
        ExpressionPtr expression = parse_expression(lexer, scope_);
        result_.rules.push_back({{text, words, location.line, location.column}, std::move(expression)});
    }

    /// So that the other arguments have the same places in all variants.
    void check_conditional_come_last() const {
        const TensorArgument* conditional = nullptr;
        for (std::size_t i = 0; i < arguments_.size() && !is_tensor_map(arguments_[i].type); ++i) {
            const auto tensor = std::ranges::find(result_.tensors, arguments_[i].name, &TensorArgument::name);
            if (tensor != result_.tensors.end() && !tensor->condition_text.empty())
                conditional = &*tensor;
            else if (conditional != nullptr)
                throw TemplateError(
                    file_, kernel_location_.line, kernel_location_.column,
                    formatted("the argument {} must come before {}, which only some variants have (line {})",
                              arguments_[i].name, conditional->name, conditional->line));
        }
    }

    /// Descriptions follow the kernel's arguments, however the lines are ordered.
    void put_in_order() {
        const auto position = [&](const auto& described) {
            return std::ranges::find(arguments_, described.name, &Scope::Argument::name);
        };
        std::ranges::sort(result_.sizes, {}, position);
        std::ranges::sort(result_.tensors, {}, position);
        std::ranges::sort(result_.tensor_lines, {}, &TensorLine::argument);
        std::ranges::sort(result_.tensor_maps, {}, position);
        std::ranges::sort(result_.tensor_map_lines, {}, &TensorMapLine::argument);
        check_conditional_come_last();
        for (std::size_t i = 0; i < arguments_.size(); ++i) {
            if (declared_[i]) continue;
            const Scope::Argument& argument = arguments_[i];
            if (is_tensor_map(argument.type))
                throw TemplateError(file_, kernel_location_.line, kernel_location_.column,
                                    "the argument " + argument.name +
                                        " is a kiln::TensorMap; a line //@ tensormap " + argument.name +
                                        " = TENSOR [EXTENTS] box [EXTENTS] must say of what");
            result_.undeclared.push_back(argument.name.empty() ? argument.type
                                                               : argument.type + " " + argument.name);
        }
    }

    const std::string& kernel_;
    Location kernel_location_;
    const std::string& file_;
    std::vector<Scope::Argument> arguments_;
    std::vector<const Directive*> declared_;  ///< by argument: the line that describes it
    Scope scope_;
    ProblemLines result_;
};

}  // namespace

ProblemLines parse_problem_lines(const std::vector<Directive*>& lines, const std::string& kernel,
                                 Location kernel_location, const Scope& scope, const std::string& file) {
    return ProblemParser(kernel, kernel_location, scope, file).parse(lines);
}

std::optional<std::string_view> pointee(std::string_view normalised_type) {
    if (!normalised_type.ends_with('*')) return std::nullopt;
    normalised_type.remove_suffix(1);
    if (normalised_type.starts_with("const ")) normalised_type.remove_prefix(6);
    if (normalised_type.find('*') != std::string_view::npos) return std::nullopt;
    return normalised_type;
}

bool is_tensor_map(std::string_view normalised_type) { return normalised_type == kTensorMap; }

}  // namespace kiln
