// SPDX-License-Identifier: Apache-2.0
//
// Parses the command line after the command's name, and creates services and caches from the common options.
#include <kiln/error.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "cli/command_line.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/parameter_options.h"
#include "cli/service_setup.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

// No short options and no guessing from prefixes; -h is rewritten beforehand.
constexpr int kStyle = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                       po::command_line_style::long_allow_next;

po::options_description own_options(const Command& command) {
    po::options_description options("Options", kHelpWidth);
    if (command.add_options != nullptr) command.add_options(options);
    return options;
}

// clang-format off
po::options_description shared_options(const Command& command) {
    const auto takes = [&](unsigned what) { return (command.takes & what) != 0; };
    po::options_description options("Shared options", kHelpWidth);
    if (takes(kTarget)) add_target_options(options, "kiln doctor");
    if (takes(kTemplates)) add_template_directory_option(options);
    if (takes(kIncludes)) add_include_directory_option(options);
    if (takes(kOptions)) add_compile_options(options);
    if (takes(kDirectory)) add_cache_directory_option(options);
    if (takes(kNoCache)) add_no_cache_option(options);
    if (takes(kSeedPacks)) options.add_options()
        ("seed-pack", texts("FILE"), "a pack to look into, before those of KILN_SEED_PACKS; may be repeated");
    if (takes(kRemote)) options.add_options()
        ("remote", text("URL"), "a Redis server to share entries through, redis://HOST:PORT/DB (KILN_REMOTE)");
    if (takes(kTimeLimit)) add_time_limit_option(options);
    options.add_options()
        ("json", po::bool_switch(), "report as one JSON object on standard output")
        ("help", "print this help; also -h");
    return options;
}
// clang-format on

std::string usage(const Command& command) {
    std::string text = "kiln " + std::string(command.name);
    if (!command.arguments.empty()) text += " " + std::string(command.arguments);
    return text;
}

void check_words(const Command& command, const std::vector<std::string>& words) {
    const std::string name(command.name);
    for (const std::string& word : words)
        if (word.size() > 1 && word.starts_with('-'))
            throw UsageError("kiln " + name + " has no option " + word +
                             "; options are written in full, with two dashes. See kiln " + name + " --help.");
    if (words.size() < command.fewest)
        throw UsageError("an argument is missing: " + usage(command) + "; see kiln " + name + " --help.");
    if (words.size() > command.most)
        throw UsageError("'" + words[command.most] + "' is too many: " + usage(command) + "; see kiln " +
                         name + " --help.");
}

/// --remote URL sets KILN_REMOTE=URL, so that the other variables of the remote (password, certificates,
/// signature key, mode) apply to it too.
void use_remote(const std::string& url, const Terminal& terminal) {
    const std::size_t user = url.find("://");
    const std::size_t host = url.rfind('@');
    if (user != std::string::npos && host != std::string::npos && url.find(':', user + 3) < host)
        terminal.note(
            "the password in --remote can be read by everyone in the list of processes; write it into a file "
            "and name that in KILN_REMOTE_PASSWORD_FILE, or the whole URL in KILN_REMOTE.");
    ::setenv("KILN_REMOTE", url.c_str(), 1);
}

KilnOptions kiln_options(const po::variables_map& given, const Terminal& terminal) {
    KilnOptions options;
    static_cast<CommonOptions&>(options) = common_options(given);
    if (given.count("seed-pack") != 0)
        for (const std::string& pack : given["seed-pack"].as<std::vector<std::string>>())
            options.seed_packs.emplace_back(pack);
    options.json = given["json"].as<bool>();
    for (const char* cache : {"seed-pack", "remote"})
        if (!options.use_cache && given.count(cache) != 0)
            throw UsageError(std::string("--no-cache uses no cache, and --") + cache +
                             " names one; leave one out.");

    if (given.count("remote") != 0) use_remote(given["remote"].as<std::string>(), terminal);
    return options;
}

/// The name and the value of NAME=VALUE. Throws UsageError.
std::pair<const Parameter*, std::string_view> assignment(const Template& of, const std::string& word) {
    std::vector<std::string> names;
    for (const Parameter& parameter : of.parameters()) names.push_back(parameter.name);
    const std::string known = names.empty() ? "no parameters" : enumerate(names, " and ");
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
        throw UsageError("'" + word + "' is not of the form NAME=VALUE; " + of.name() + " has " + known +
                         ".");
    const std::string name = word.substr(0, equals);
    const Parameter* const parameter = of.parameter(name);
    if (parameter == nullptr) {
        const std::string near = nearest(name, names);
        std::string hint = near.empty() ? "" : " Did you mean " + near + "?";
        if (std::ranges::find(of.sizes(), name, &SizeArgument::name) != of.sizes().end())
            hint = " " + name + " is a size: where a kernel runs, write --size " + word + ".";
        throw UsageError(of.name() + " has no parameter " + name + "; it has " + known + "." + hint);
    }
    return {parameter, std::string_view(word).substr(equals + 1)};
}

/// Values of parameters that some of these templates have; those that lack one are removed. Throws UsageError where none
/// is left, VariantError for a value that none allows.
Values values_of_some(std::vector<Template>& templates, const std::vector<std::string>& words) {
    Values values;
    std::vector<std::string> before;
    for (const std::string& word : words) {
        const std::string name = word.substr(0, word.find('='));
        std::set<std::string> known;
        std::vector<std::string> asked;
        for (const Template& one : templates) {
            asked.push_back(one.name());
            for (const Parameter& parameter : one.parameters()) known.insert(parameter.name);
        }
        std::erase_if(templates, [&](const Template& one) { return one.parameter(name) == nullptr; });
        if (templates.empty()) {
            const std::vector<std::string> names(known.begin(), known.end());
            const std::string near = nearest(name, names);
            const bool one = asked.size() == 1;
            throw UsageError((one ? asked[0] : "none of " + enumerate(asked, " and ")) +
                             (before.empty() ? std::string()
                                             : (one ? ", which has " : ", which have ") +
                                                   enumerate(before, " and ") + ",") +
                             (one ? " has no parameter " : " has a parameter ") + name + "; " +
                             (one ? "it has " : "they have ") + enumerate(names, " and ") + "." +
                             (near.empty() ? "" : " Did you mean " + near + "?"));
        }
        std::optional<VariantError> refused;
        bool is_read = false;
        for (const Template& one : templates) {
            try {
                for (const auto& [parameter, value] : given_values(one, std::span(&word, 1))) {
                    if (!is_read && !values.emplace(parameter, value).second)
                        throw UsageError(parameter +
                                         " is given twice; a variant has one value of each parameter.");
                    is_read = true;
                }
            } catch (const VariantError& error) {
                if (!refused) refused = error;
            }
        }
        if (!is_read) throw *refused;
        before.push_back(name);
    }
    return values;
}

/// The templates that a command line names. Throws nothing.
std::vector<Template> named_templates(const std::vector<std::string>& arguments) {
    std::vector<Template> named;
    try {
        std::vector<std::filesystem::path> directories;
        for (std::size_t i = 0; i + 1 < arguments.size(); ++i)
            if (arguments[i] == "--template-dir") directories.emplace_back(arguments[i + 1]);
        for (const Template& one : TemplateSet(directories).all())
            if (std::ranges::find(arguments, one.name()) != arguments.end()) named.push_back(one);
    } catch (const Error&) {
        // Errors of templates are not reported here, since the option is wrong in any case.
    }
    return named;
}

/// For an unknown option: how this command takes sizes, or how to write the size or the parameter of that name. " rows is a size
/// of softmax: ..."
std::string meant_by(const std::string& option, const po::options_description& known,
                     const std::vector<std::string>& arguments) {
    for (const auto& [other, own] : {std::pair{"size", "shapes"}, {"shapes", "size"}})
        if (option == other && known.find_nothrow(own, false) != nullptr)
            return " Sizes are given by --" + std::string(own) + ".";
    if (known.find_nothrow("size", false) == nullptr) return {};
    std::string value = "N";
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].starts_with("--" + option + "=")) value = arguments[i].substr(option.size() + 3);
        if (arguments[i] == "--" + option && i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"))
            value = arguments[i + 1];
    }
    for (const Template& of : named_templates(arguments)) {
        for (const SizeArgument& size : of.sizes())
            if (size.name == option)
                return " " + option + " is a size of " + of.name() + ": write --size " + option + "=" +
                       value + ".";
        for (const Parameter& parameter : of.parameters())
            if (option_name(parameter.name) == option || parameter.name == option)
                return " " + parameter.name + " is a parameter of " + of.name() + ": write " +
                       parameter.name + "=" + value + ".";
    }
    return {};
}

constexpr std::size_t kMostCombinations = 1000;

/// "1,2" or "*". Throws VariantError; UsageError for * when the parameter has no list of values.
std::vector<Value> listed_values(const Parameter& parameter, std::string_view text) {
    std::vector<Value> values;
    if (text == "*" && parameter.allowed.empty()) {
        if (parameter.kind != ParameterKind::integer || parameter.max - parameter.min >= 1000)
            throw UsageError(parameter.name + "=*: it has too many values; list the values you mean.");
        for (std::int64_t value = parameter.min; value <= parameter.max; ++value)
            values.emplace_back(static_cast<long long>(value));
        return values;
    }
    if (text == "*") return parameter.allowed;
    if (parameter.kind == ParameterKind::code) return {value_of(parameter, text)};
    for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        values.push_back(parameter.parse(text.substr(begin, end - begin)));
    }
    return values;
}

}  // namespace

Call parse_call(const Command& command, std::vector<std::string> arguments, const Terminal& terminal,
                const Interrupts& interrupts, bool& help) {
    std::replace(arguments.begin(), std::find(arguments.begin(), arguments.end(), "--"), std::string("-h"),
                 std::string("--help"));
    po::options_description known;
    known.add(own_options(command)).add(shared_options(command));
    const std::string name(command.name);
    po::variables_map given;
    std::vector<std::string> words;
    try {
        po::parsed_options parsed = po::command_line_parser(arguments).options(known).style(kStyle).run();
        for (const auto& option : parsed.options) {
            if (option.position_key != -1)
                words.insert(words.end(), option.value.begin(), option.value.end());
            else
                check_value(option);
        }
        std::erase_if(parsed.options, [](const auto& option) { return option.position_key != -1; });
        po::store(parsed, given);
    } catch (const po::unknown_option& error) {
        std::string option = plain(error.get_option_name());
        option.erase(std::min(option.find('='), option.size()));
        const std::string meant = meant_by(option, known, arguments);
        const std::string near = meant.empty() ? nearest(option, names_of(known)) : std::string();
        throw UsageError("kiln " + name + " has no option --" + option + "." + meant +
                         (near.empty() ? "" : " Did you mean --" + near + "?") + " See kiln " + name +
                         " --help.");
    } catch (const po::error& error) {
        throw UsageError(std::string(error.what()) + "; see kiln " + name + " --help.");
    }
    help = given.count("help") != 0;
    if (!help) check_words(command, words);
    return {kiln_options(given, terminal), given, std::move(words), terminal, interrupts};
}

std::string help_text(const Command& command) {
    std::ostringstream text;
    std::string summary(command.summary);
    summary[0] = static_cast<char>(summary[0] - 'a' + 'A');
    text << "Usage: " << usage(command) << " [OPTION]...\n" << summary << ".\n" << command.text << "\n";
    if (command.add_options != nullptr) text << own_options(command) << "\n";
    text << shared_options(command) << "\nExamples:\n" << command.examples;
    return text.str();
}

std::vector<std::pair<std::string, bool>> option_names(const Command& command) {
    std::vector<std::pair<std::string, bool>> names;
    const auto add = [&](const po::options_description& options) {
        for (const auto& option : options.options())
            names.emplace_back(option->long_name(), option->semantic()->max_tokens() > 0);
    };
    add(own_options(command));
    add(shared_options(command));
    return names;
}

void check_unused(const Call& call, const std::string& why, const std::vector<std::string_view>& used) {
    for (const auto& [option, value] : call.given)
        if (!value.defaulted() &&
            std::ranges::find(used, option) == used.end())  // a switch always has a value
            throw UsageError(why + ", and --" + option + " would not be used; leave it out.");
}

CacheOptions cache_options(const KilnOptions& options) {
    CacheOptions result;
    result.directory = options.cache_directory;
    result.enabled = options.use_cache;
    result.seed_packs = options.seed_packs;
    return result;
}

ServiceOptions compile_options(const Call& call, Warnings& warnings) {
    ServiceOptions result = service_options(call.options, warnings, call.interrupts.token());
    result.cache = cache_options(call.options);
    result.compile_only = true;
    return result;
}

std::unique_ptr<Service> open_service(const Call& call, Warnings& warnings, ServiceOptions options,
                                      bool must_store) {
    const bool by_default = !options.backend && options.arch.empty();
    const bool caching = options.cache.enabled;
    auto service = std::make_unique<Service>(std::move(options));
    if (caching) check_cache_directory(*service, call.options);
    if (must_store && !service->cache_problem().empty())
        throw CacheError("there is no cache to fill: " + service->cache_problem());
    warnings.release();
    if (by_default && service->backend() == Backend::host)
        warnings.add("no GPU was found ('kiln doctor' says why); compiling for the host");
    return service;
}

Choice best_choice(const Service& service, const Call& call, bool test_sizes) {
    const Template of = find_family(service, call.words[0]).for_target(service.target());
    // A parameter that `of` lacks is one of some of the templates that compute the same.
    std::vector<std::string> own, others;
    for (const std::string& word : std::span(call.words).subspan(1)) {
        const std::size_t equals = word.find('=');
        const bool is_other =
            equals != std::string::npos && equals > 0 && of.parameter(word.substr(0, equals)) == nullptr;
        (is_other ? others : own).push_back(word);
    }
    Values fixed = given_values(of, own);
    std::string problem;
    const Chooser chooser(service, Wisdom::usual(&problem));
    call.terminal.note(problem);
    std::vector<Template> candidates = chooser.candidates(of, fixed);
    if (candidates.empty())
        throw VariantError(of.name() + ": no template computes this on " + service.target().arch);
    Sizes sizes = given_sizes(call);
    if (of.is_runnable()) {
        const Variant usual = of.variant(fixed);
        try {
            sizes = usual.problem(sizes, test_sizes).sizes;
        } catch (const VariantError&) {
            // Other variants may take them.
            sizes.merge(usual.problem({}, test_sizes).sizes);
        }
    }
    fixed.merge(values_of_some(candidates, others));
    Choice choice = chooser.choose(candidates, fixed, sizes);
    call.terminal.note(chooser.calibration_problem());
    return choice;
}

Variant chosen_variant(const Template& of, std::span<const std::string> words) {
    return of.variant(given_values(of, words));
}

Values given_values(const Template& of, std::span<const std::string> words) {
    Values values;
    for (const std::string& word : words) {
        const auto [parameter, text] = assignment(of, word);
        const bool is_code = parameter->kind == ParameterKind::code;
        if (!is_code && (text == "*" || text.find(',') != std::string_view::npos))
            throw UsageError(
                word +
                " means several variants, and this command takes one; 'kiln analyze', 'kiln check' and "
                "'kiln report' take lists, and 'kiln warm' builds them.");
        if (!values.emplace(parameter->name, value_of(*parameter, text)).second)
            throw UsageError(parameter->name + " is given twice; a variant has one value of each parameter.");
    }
    return values;
}

std::vector<Variant> chosen_variants(const Template& of, std::span<const std::string> words) {
    std::vector<Values> combinations(1);
    for (const std::string& word : words) {
        const auto [parameter, text] = assignment(of, word);
        if (combinations.front().contains(parameter->name))
            throw UsageError(parameter->name + " is given twice; list its values, as in " + parameter->name +
                             "=1,2.");
        std::vector<Values> more;
        const std::vector<Value> listed = listed_values(*parameter, text);
        for (const Values& before : combinations)
            for (const Value& value : listed) {
                more.push_back(before);
                more.back().emplace(parameter->name, value);
            }
        combinations = std::move(more);
        if (combinations.size() > kMostCombinations)
            throw UsageError(
                formatted("these are more than {} variants; name fewer values.", kMostCombinations));
    }
    if (combinations.size() == 1) return {of.variant(combinations.front())};
    std::vector<Variant> found;
    std::optional<VariantError> refused;
    for (const Values& values : combinations) {
        try {
            found.push_back(of.variant(values));
        } catch (const VariantError& error) {
            refused = error;
        }
    }
    if (found.empty()) throw *refused;
    return found;
}

Sizes given_sizes(const Call& call) {
    return call.has("size") ? parse_sizes(call.given["size"].as<std::vector<std::string>>()) : Sizes();
}

std::string target_text(const Target& target) {
    return std::string(name(target.backend)) + " " + target.arch;
}

}  // namespace kiln::cli
