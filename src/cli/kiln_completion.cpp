// SPDX-License-Identifier: Apache-2.0
//
// kiln completion, and the completions of command lines of kiln and jit-gemm.
#include "cli/kiln_completion.h"

#include <kiln/device.h>
#include <kiln/error.h>
#include <kiln/occupancy.h>
#include <kiln/tools/bench.h>

#include <algorithm>
#include <set>

#include "cli/kiln_cache.h"
#include "cli/kiln_command.h"
#include "cli/options.h"
#include "cli/parameter_options.h"

namespace kiln::cli {
namespace {

/// Split like a shell does, without quotes. The last word is the one being typed and may be empty.
std::vector<std::string> split(const std::string& line) {
    std::vector<std::string> words(1);
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote != 0 && c == quote)
            quote = 0;
        else if (quote == 0 && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'' && i + 1 < line.size())
            words.back() += line[++i];
        else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
            if (!words.back().empty()) words.emplace_back();
        } else
            words.back() += c;
    }
    return words;
}

/// A command line that is not complete yet.
struct Unfinished {
    const Command* command = nullptr;
    std::vector<std::string> words;  ///< of the command, options left out
    std::string option;              ///< the option whose value is being typed; empty: none
    KilnOptions options;             ///< those that determine where to search
    std::string current;
};

std::vector<std::string> keys(const KilnOptions& options) {
    std::vector<std::string> found;
    for (const CacheEntry& entry : open_cache(options).entries()) found.push_back(entry.key);
    return found;
}

/// The architectures of devices, of cache entries, and of templates.
std::vector<std::string> archs(const KilnOptions& options) {
    std::set<std::string> found;
    for (const Backend backend : {Backend::cuda, Backend::hip, Backend::host})
        for (const DeviceInfo& device : Device::list(backend)) found.insert(device.arch);
    for (const Template& one : TemplateSet(options.template_directories).all())
        found.insert(one.archs().begin(), one.archs().end());
    try {
        for (const CacheEntry& entry : open_cache(options).entries()) found.insert(entry.arch);
    } catch (const std::exception&) {
        // Without a cache, those of the devices are enough.
    }
    return {found.begin(), found.end()};
}

std::vector<std::string> templates(const KilnOptions& options) {
    std::vector<std::string> names;
    for (const Template& found : TemplateSet(options.template_directories).all())
        names.push_back(found.name());
    return names;
}

/// NAME= for each parameter without a value; after the '=', its values.
std::vector<std::string> assignments(const Unfinished& line) {
    const Template of = TemplateSet(line.options.template_directories).find(line.words[0]);
    std::vector<std::string> found;
    const std::size_t equals = line.current.find('=');
    for (const Parameter& parameter : of.parameters()) {
        const std::string start = parameter.name + "=";
        if (equals != std::string::npos) {
            if (line.current.starts_with(start))
                for (const Value& value : parameter.allowed) found.push_back(start + value.text());
        } else if (std::none_of(line.words.begin(), line.words.end(),
                                [&](const std::string& word) { return word.starts_with(start); })) {
            found.push_back(start);
        }
    }
    return found;
}

std::vector<std::string> chip_names() {
    std::vector<std::string> names;
    for (const Chip& chip : chips()) names.push_back(chip.name);
    return names;
}

std::vector<std::string> suites() {
    std::vector<std::string> names = {"all", "merge", "page"};
    for (const BenchSuiteName& suite : bench_suites()) {
        names.emplace_back(suite.name);
        for (const std::string_view part : suite.parts)
            names.push_back(std::string(suite.name) + "." + std::string(part));
    }
    return names;
}

std::vector<std::string> option_values(const Unfinished& line) {
    if (line.option == "backend") return {"auto", "cuda", "hip", "host"};
    if (line.option == "arch") return archs(line.options);
    if (line.option == "chip") return chip_names();
    if (line.option == "devices") return {"all"};
    if (line.option == "template") return templates(line.options);
    if (line.option == "sort") return {"used", "size", "time", "name"};
    return {};  // files, numbers
}

std::vector<std::string> candidates(const Unfinished& line) {
    if (!line.option.empty()) return option_values(line);
    if (line.current.starts_with('-')) {
        std::vector<std::string> options;
        for (const auto& [option, has_value] : option_names(*line.command)) options.push_back("--" + option);
        return options;
    }
    const std::string_view name = line.command->name;
    const bool takes_variant = name == "build" || name == "run" || name == "explain" || name == "analyze" ||
                               name == "check" || name == "profile";
    if (name == "show" || name == "report" || takes_variant) {
        if (line.words.empty()) return templates(line.options);
        return takes_variant ? assignments(line) : std::vector<std::string>();
    }
    if (name == "tune") {
        std::vector<std::string> found = templates(line.options);  // another one, or a value
        if (!line.words.empty())
            for (std::string& one : assignments(line)) found.push_back(std::move(one));
        return found;
    }
    if (name == "bench") return suites();
    if (name == "cache show" && line.words.empty()) return keys(line.options);
    if (name == "cache pack" && !line.words.empty()) return keys(line.options);
    if (name == "completion" && line.words.empty()) {
        std::vector<std::string> shells;
        for (const CompletionScript& script : completion_scripts()) shells.emplace_back(script.shell);
        return shells;
    }
    return {};
}

/// The word after `before` (complete words) in a command's name.
std::vector<std::string> command_words(const std::string& before) {
    std::set<std::string> words;
    for (const Command& command : commands()) {
        if (!command.name.starts_with(before)) continue;
        const std::string_view rest = command.name.substr(before.size());
        words.emplace(rest.substr(0, rest.find(' ')));
    }
    if (before.empty()) words.insert("help");
    return {words.begin(), words.end()};
}

std::vector<std::string> candidates_of(const std::vector<std::string>& all) {
    // all[0] is the program; `help COMMAND` is completed like COMMAND.
    std::size_t first = 1;
    const bool helping = all.size() > 2 && all[1] == "help";
    if (helping) first = 2;
    const std::size_t last = all.size() - 1;
    if (last == first) {
        if (!helping && all[last].starts_with('-')) return {"--help", "--version"};
        return command_words({});
    }
    const bool is_group = all[first] == "cache" || all[first] == "wisdom";
    if (last == first + 1 && is_group) return command_words(all[first] + " ");
    if (helping) return {};

    Unfinished line;
    std::string name = all[first++];
    if (is_group) name += " " + all[first++];
    for (const Command& command : commands())
        if (command.name == name) line.command = &command;
    if (line.command == nullptr) return {};
    const auto options = option_names(*line.command);
    for (std::size_t i = first; i < last; ++i) {
        const std::string& word = all[i];
        const auto option = std::find_if(options.begin(), options.end(), [&](const auto& one) {
            return one.second && word == "--" + one.first;
        });
        if (option == options.end()) {
            if (!word.starts_with("--")) line.words.push_back(word);
            continue;
        }
        if (i + 1 == last)
            line.option = option->first;
        else if (option->first == "cache-dir")
            line.options.cache_directory = all[i + 1];
        else if (option->first == "template-dir")
            line.options.template_directories.emplace_back(all[i + 1]);
        ++i;
    }
    line.current = all[last];
    return candidates(line);
}

/// Of jit-gemm: options, and values of those that have a list of them. all[0] is the program.
std::vector<std::string> jit_gemm_candidates(const std::vector<std::string>& all) {
    Unfinished line;
    std::string kernel = "gemm_tiled";
    const std::size_t last = all.size() - 1;
    for (std::size_t i = 1; i + 1 < last; ++i) {
        if (all[i] == "--kernel") kernel = all[i + 1];
        if (all[i] == "--template-dir") line.options.template_directories.emplace_back(all[i + 1]);
        if (all[i] == "--cache-dir") line.options.cache_directory = all[i + 1];
    }
    const Template chosen = TemplateSet(line.options.template_directories).find(kernel);
    const std::vector<JitGemmOption> options = jit_gemm_options(chosen);
    for (const JitGemmOption& option : options) {
        if (!option.has_value || last < 2 || all[last - 1] != "--" + option.name) continue;
        line.option = option.name == "kernel" ? "template" : option.name;
        return option.values.empty() ? option_values(line) : option.values;
    }
    std::vector<std::string> names;
    for (const JitGemmOption& option : options) names.push_back("--" + option.name);
    return names;
}

}  // namespace

std::vector<std::string> completions(const std::string& line) {
    try {
        const std::vector<std::string> words = split(line);
        if (words.size() < 2) return {};
        const bool is_jit_gemm = words[0] == "jit-gemm" || words[0].ends_with("/jit-gemm");
        std::vector<std::string> found = is_jit_gemm ? jit_gemm_candidates(words) : candidates_of(words);
        std::erase_if(found, [&](const std::string& one) { return !one.starts_with(words.back()); });
        return found;
    } catch (const std::exception&) {
        return {};  // an invalid template or no cache: there are no completions, and messages would disturb the command line
    }
}

int completion(const Call& call) {
    for (const CompletionScript& script : completion_scripts()) {
        if (script.shell != call.words[0]) continue;
        call.print({{"completion", std::string(script.text)}}, std::string(script.text));
        return kPassed;
    }
    throw UsageError("there are completion scripts for bash, zsh and fish, and none for '" + call.words[0] +
                     "'.");
}

}  // namespace kiln::cli
