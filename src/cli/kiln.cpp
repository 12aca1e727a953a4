// SPDX-License-Identifier: Apache-2.0
//
// Finds the command in the arguments; the help of the program.
#include "cli/kiln.h"

#include <kiln/error.h>
#include <kiln/service.h>

#include <algorithm>
#include <set>

#include "cli/kiln_command.h"
#include "cli/kiln_completion.h"
#include "cli/option_values.h"
#include "cli/text_format.h"

namespace kiln::cli {
namespace {

/// Commands of two words, by the first.
struct Group {
    std::string_view name;
    std::string_view summary;  ///< a paragraph
    std::string_view example;  ///< one of them
};
constexpr Group kGroups[] = {
    {"cache", "Manages the cache. This is safe while programs use it.\n\n", "stats"},
    {"wisdom", "Manages wisdom, the results of 'kiln tune'.\n\n", "show"},
};

const Group* find_group(std::string_view name) {
    for (const Group& group : kGroups)
        if (group.name == name) return &group;
    return nullptr;
}

bool is_help(const std::string& word) { return word == "--help" || word == "-h"; }

std::string overview(std::string_view group) {
    std::vector<std::vector<std::string>> rows;
    for (const Command& command : commands())
        if (group.empty() || command.name.starts_with(group))
            rows.push_back({std::string(command.name) + " " + std::string(command.arguments),
                            std::string(command.summary)});
    if (group.empty()) rows.push_back({"help COMMAND", "print the help of a command"});
    std::string text = "Usage: kiln ";
    if (!group.empty()) text += std::string(group) + " ";
    text += "COMMAND [ARGUMENT]... [OPTION]...\n";
    const Group* const found = find_group(group);
    text +=
        found == nullptr
            ? "Compiles GPU kernels from templates, runs, checks and tunes them, and manages their cache.\n\n"
            : found->summary;
    return text + table(rows) +
           "\nEvery command takes --json (one object on standard output) and --help (options and examples).\n"
           "Exit status: 0 done; 1 the answer is no (damage, a problem, variants that failed); 2 usage or "
           "an\n"
           "illegal variant; 3 compile error; 4 device error.\n";
}

const Command* find_command(std::string_view name) {
    for (const Command& command : commands())
        if (command.name == name) return &command;
    return nullptr;
}

/// The words that may follow `group`, or be first.
std::vector<std::string> command_words(std::string_view group) {
    std::set<std::string> words;
    for (const Command& command : commands()) {
        std::string_view rest = command.name;
        if (!group.empty()) {
            if (!rest.starts_with(group)) continue;
            rest.remove_prefix(group.size() + 1);
        }
        words.emplace(rest.substr(0, rest.find(' ')));
    }
    if (group.empty()) words.insert("help");
    return {words.begin(), words.end()};
}

[[noreturn]] void refuse_command(std::string_view group, const std::string& word) {
    const std::vector<std::string> words = command_words(group);
    const std::string before = "kiln" + (group.empty() ? "" : " " + std::string(group));
    if (word.starts_with('-'))
        throw UsageError("options come after the command, as in '" + before + " " +
                         (group.empty() ? "list" : std::string(find_group(group)->example)) + " " + word +
                         "'; the commands are " + enumerate(words, " and ") + ".");
    std::string message =
        "there is no '" + before + " " + word + "'; the commands are " + enumerate(words, " and ") + ".";
    if (const std::string near = nearest(word, words); !near.empty())
        message += " Did you mean " + near + "?";
    throw UsageError(message);
}

/// The command at the start of the arguments, whose words are removed. nullptr: they name the group, or
/// nothing.
const Command* take_command(std::vector<std::string>& arguments, std::string_view& group) {
    const auto take = [&] { arguments.erase(arguments.begin()); };
    if (arguments.empty()) return nullptr;
    if (const Group* const found = find_group(arguments.front()); found != nullptr) {
        group = found->name;
        take();
        if (arguments.empty() || is_help(arguments.front()) || arguments.front() == "--json") return nullptr;
    }
    const std::string& word = arguments.front();
    const Command* const command = find_command(group.empty() ? word : std::string(group) + " " + word);
    if (command == nullptr) refuse_command(group, word);
    take();
    // `kiln bench merge` as well as `kiln bench`.
    if (!arguments.empty())
        if (const Command* const longer =
                find_command(std::string(command->name) + " " + arguments.front())) {
            take();
            return longer;
        }
    return command;
}

int print_help(const ProgramContext& context, const std::string& text) {
    context.terminal.print(context.json ? text_json("help", text) : text);
    return kPassed;
}

int run(const ProgramContext& context) {
    std::vector<std::string> arguments = context.arguments;
    if (arguments.size() == 2 && arguments[0] == kComplete) {
        for (const std::string& candidate : completions(arguments[1]))
            context.terminal.print(candidate + "\n");
        return kPassed;
    }
    // Only these and --json are allowed before the command.
    std::vector<std::string> plain = arguments;
    std::erase(plain, "--json");
    if (plain.size() == 1 && plain[0] == "--version") {
        const std::string text(version());
        context.terminal.print(context.json ? text_json("version", text) : "kiln " + text + "\n");
        return kPassed;
    }
    if (plain.size() == 1 && is_help(plain[0])) return print_help(context, overview({}));
    std::string_view group;
    if (!plain.empty() && plain[0] == "help") {
        plain.erase(plain.begin());
        std::erase_if(plain, is_help);
        const Command* const command = take_command(plain, group);
        if (!plain.empty())
            throw UsageError("--help describes one command at a time; '" + plain[0] + "' is too many.");
        return print_help(context, command == nullptr ? overview(group) : help_text(*command));
    }
    const Command* const command = take_command(arguments, group);
    if (command == nullptr) {
        if (!arguments.empty() && is_help(arguments[0])) return print_help(context, overview(group));
        throw UsageError("say what to do: " + enumerate(command_words(group)) + "; 'kiln " +
                         (group.empty() ? "" : std::string(group) + " ") + "--help' describes them.");
    }
    bool help = false;
    const Call call = parse_call(*command, arguments, context.terminal, context.interrupts, help);
    context.json = call.options.json;
    return help ? print_help(context, help_text(*command)) : command->run(call);
}

}  // namespace

int kiln(const std::vector<std::string>& arguments) { return run_program("kiln", arguments, run); }

}  // namespace kiln::cli
