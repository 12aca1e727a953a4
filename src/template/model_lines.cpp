// SPDX-License-Identifier: Apache-2.0
//
// One table of keys; each has the number of expressions that it takes, and where they go.
#include "template/model_lines.h"

#include <kiln/error.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/words.h"
#include "format/format.h"
#include "template/parameter.h"
#include "template/rule_set.h"

namespace kiln {
namespace {

constexpr std::pair<std::string_view, Engine> kEngines[] = {
    {"fma", Engine::fma}, {"mma", Engine::mma}, {"wgmma", Engine::wgmma}};
constexpr std::pair<std::string_view, Copies> kCopies[] = {{"registers", Copies::registers},
                                                           {"async", Copies::async},
                                                           {"tma", Copies::tma},
                                                           {"direct", Copies::direct}};
constexpr std::string_view kKeys[] = {
    "engine", "copies",   "tile",         "thread",  "warp",     "stages",      "cluster",
    "blocks", "pingpong", "staged_store", "padding", "access",   "row",         "side",
    "edge",   "strip",    "step",         "parts",   "any_rows", "staged_rows", "search"};

std::vector<std::string> texts(std::span<const std::string_view> names) {
    return {names.begin(), names.end()};
}

class ModelParser {
  public:
    explicit ModelParser(const Scope& scope) : constants_(scope), sizes_(scope) {
        constants_.may_use_arguments = false;
        sizes_.may_use_arguments = true;
    }

    ModelLines parse(std::span<Directive> lines) {
        for (Directive& line : lines) parse_line(line);
        if (!seen_.contains("copies") && result_.engine == Engine::wgmma) result_.copies = Copies::tma;
        return std::move(result_);
    }

  private:
    void parse_line(Directive& line) {
        Lexer& lexer = line.lexer;
        const Token token = lexer.expect_identifier("a key of a model line (" + join(texts(kKeys)) + ")");
        const std::string key(token.text);
        if (std::ranges::find(kKeys, key) == std::end(kKeys)) {
            const std::vector<std::string> names = texts(kKeys);
            const std::string hint = did_you_mean(key, names);
            lexer.fail(token,
                       "the model knows no " + key + (hint.empty() ? "; it knows " + join(names) : hint));
        }
        const bool for_host = key == "search" && lexer.accept("host");
        const auto [first, is_new] = seen_.emplace(key + (for_host ? " host" : ""), line.line);
        if (!is_new)
            lexer.fail(token, formatted("a second line //@ model {}; the first is on line {}", first->first,
                                        first->second));
        if (key == "engine") result_.engine = one_of(lexer, "an engine", kEngines);
        if (key == "copies") result_.copies = one_of(lexer, "the way of copies", kCopies);
        if (key == "tile") parse_tile(lexer);
        if (key == "thread") result_.thread = numbers(lexer, constants_, key, 2, 3);
        if (key == "warp") result_.warp = numbers(lexer, constants_, key, 2, 2);
        if (key == "cluster") result_.cluster = numbers(lexer, constants_, key, 2, 2);
        if (key == "access") result_.access = numbers(lexer, constants_, key, 1, 2);
        if (key == "row")
            parse_capacity(lexer, result_.row_capacity, result_.row,
                           "and the elements of a row, such as of cols");
        if (key == "side")
            parse_capacity(lexer, result_.side_capacity, result_.side,
                           "and the short side of the matrix, such as of min(rows, cols)");
        if (seen_.contains("edge") && seen_.contains("strip"))
            lexer.fail(token, "a template has a line //@ model edge or //@ model strip, not both");
        if (key == "edge")
            parse_capacity(lexer, result_.edge_tile, result_.edge,
                           "and the rows or columns that exist, such as of queries");
        if (key == "strip") {
            result_.has_strips = true;
            parse_capacity(lexer, result_.edge_tile, result_.edge,
                           "and the columns of the matrix, such as of cols");
        }
        if (key == "step")
            parse_capacity(lexer, result_.step_tile, result_.step,
                           "and the rows that exist, such as of keys");
        if (key == "parts") result_.parts = number(lexer, constants_);
        if (key == "stages") result_.stages = number(lexer, constants_);
        if (key == "blocks") result_.blocks = number(lexer, constants_);
        if (key == "padding") result_.padding = number(lexer, constants_);
        if (key == "any_rows") result_.any_rows = number(lexer, constants_);
        if (key == "staged_rows") result_.staged_rows = number(lexer, constants_);
        if (key == "pingpong") result_.pingpong = number(lexer, constants_);
        if (key == "staged_store") result_.staged_store = number(lexer, constants_);
        if (key == "search")
            parse_search(lexer, for_host ? result_.search.host_groups : result_.search.groups);
        lexer.expect_end("the model line");
    }

    template <class Choice, std::size_t count>
    static Choice one_of(Lexer& lexer, const std::string& what,
                         const std::pair<std::string_view, Choice> (&choices)[count]) {
        std::vector<std::string> names;
        for (const auto& [name, choice] : choices) names.emplace_back(name);
        const Token token = lexer.expect_identifier(what + " (" + join(names) + ")");
        for (const auto& [name, choice] : choices)
            if (name == token.text) return choice;
        lexer.fail(token, "expected " + what + " (" + join(names) + "), found " + Lexer::describe(token));
    }

    /// "BM, BN, BK of m, n, k, batch"
    void parse_tile(Lexer& lexer) {
        result_.tile = numbers(lexer, constants_, "tile", 2, 3);
        lexer.expect("of", "and the sizes of the product, such as of m, n, k");
        result_.product = numbers(lexer, sizes_, "tile", 3, 4);
    }

    /// "THREADS * VEC * ITEMS of cols"
    void parse_capacity(Lexer& lexer, ExpressionPtr& capacity, ExpressionPtr& length, const char* expected) {
        capacity = number(lexer, constants_);
        lexer.expect("of", expected);
        length = number(lexer, sizes_);
    }

    /// "[BM, BN], [STAGES]"
    void parse_search(Lexer& lexer, std::vector<std::vector<std::string>>& groups) {
        do {
            lexer.expect("[", "and parameters to vary together, such as search [BM, BN], [STAGES]");
            std::vector<std::string>& group = groups.emplace_back();
            do {
                const Token token = lexer.expect_identifier("a parameter");
                const auto& parameters = *constants_.parameters;
                const auto found = std::ranges::find(parameters, token.text, &Parameter::name);
                if (found == parameters.end()) {
                    const std::vector<std::string> names = parameter_names(parameters);
                    lexer.fail(token, std::string(token.text) + " is no parameter of this template" +
                                          did_you_mean(token.text, names));
                }
                group.push_back(found->name);
                use(static_cast<int>(found - parameters.begin()));
            } while (lexer.accept(","));
            lexer.expect("]", "behind the parameters that vary together");
        } while (lexer.accept(","));
    }

    std::vector<ExpressionPtr> numbers(Lexer& lexer, const Scope& scope, const std::string& key,
                                       std::size_t least, std::size_t most) {
        std::vector<ExpressionPtr> found;
        do {
            if (found.size() == most)
                lexer.fail(lexer.peek(), formatted("{} takes at most {} numbers here", key, most));
            found.push_back(number(lexer, scope));
        } while (lexer.accept(","));
        if (found.size() < least)
            lexer.fail(lexer.peek(), formatted("{} takes at least {} numbers here, and finds {}", key, least,
                                               found.size()));
        return found;
    }

    ExpressionPtr number(Lexer& lexer, const Scope& scope) {
        ExpressionPtr expression = parse_number(lexer, scope);
        for (const int used : expression->parameters()) use(used);
        return expression;
    }

    void use(int parameter) {
        const std::string& name = (*constants_.parameters)[static_cast<std::size_t>(parameter)].name;
        std::vector<std::string>& names = result_.search.parameters;
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }

    Scope constants_, sizes_;
    std::map<std::string, int> seen_;
    ModelLines result_;
};

}  // namespace

ModelLines parse_model_lines(std::span<Directive> lines, const Scope& scope) {
    if (lines.empty()) return {};
    return ModelParser(scope).parse(lines);
}

ModelFacts model_facts(const ModelLines& lines, const Environment& environment,
                       const std::vector<Parameter>& parameters, const std::string& kernel) {
    const auto number = [&](const ExpressionPtr& expression) {
        Failure failure;
        const std::int64_t value = expression->evaluate(environment, failure);
        if (!failure) return value;
        const std::string values = describe_values(*expression, parameters, environment);
        throw VariantError(kernel + ": its model lines can't be evaluated, since " + failure.text() +
                           (values.empty() ? "" : ": " + values));
    };
    const auto take = [&](const std::vector<ExpressionPtr>& expressions,
                          std::initializer_list<std::int64_t*> into) {
        auto to = into.begin();
        for (const ExpressionPtr& expression : expressions) **to++ = number(expression);
    };
    const auto take_one = [&](const ExpressionPtr& expression, std::int64_t& into) {
        if (expression) into = number(expression);
    };
    ModelFacts facts;
    facts.engine = lines.engine;
    facts.copies = lines.copies;
    if (!lines.tile.empty()) {
        ModelFacts::Tiles& tiles = *(facts.tiles = ModelFacts::Tiles{});
        take(lines.tile, {&tiles.rows, &tiles.columns, &tiles.depth});
        take(lines.product, {&tiles.m, &tiles.n, &tiles.k, &tiles.batch});
        tiles.rows = std::max<std::int64_t>(tiles.rows, 1);
        tiles.columns = std::max<std::int64_t>(tiles.columns, 1);
    }
    take(lines.thread, {&facts.thread_rows, &facts.thread_columns, &facts.thread_width});
    take(lines.warp, {&facts.warp_rows, &facts.warp_columns});
    take(lines.cluster, {&facts.cluster_rows, &facts.cluster_columns});
    take(lines.access, {&facts.access_elements, &facts.accesses});
    take_one(lines.row_capacity, facts.row_capacity);
    take_one(lines.row, facts.row);
    take_one(lines.side_capacity, facts.side_capacity);
    take_one(lines.side, facts.side);
    take_one(lines.edge_tile, facts.edge_tile);
    take_one(lines.edge, facts.edge);
    facts.has_strips = lines.has_strips;
    take_one(lines.step_tile, facts.step_tile);
    take_one(lines.step, facts.step);
    take_one(lines.parts, facts.parts);
    take_one(lines.stages, facts.stages);
    take_one(lines.blocks, facts.blocks);
    take_one(lines.padding, facts.padding);
    if (lines.staged_rows) facts.staged_rows = number(lines.staged_rows) != 0;
    if (lines.any_rows) facts.any_rows = number(lines.any_rows) != 0;
    if (lines.pingpong) facts.pingpong = number(lines.pingpong) != 0;
    if (lines.staged_store) facts.staged_store = number(lines.staged_store) != 0;
    return facts;
}

}  // namespace kiln
