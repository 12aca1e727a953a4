// SPDX-License-Identifier: Apache-2.0
//
// Options that all programs have, and the checks that Boost.Program_options does not make.
#include "cli/command_line.h"

#include <kiln/error.h>

#include <algorithm>
#include <limits>

#include "cli/option_values.h"

namespace kiln::cli {

po::typed_value<std::string>* text(const char* value_name) {
    return po::value<std::string>()->value_name(value_name);
}

po::typed_value<std::vector<std::string>>* texts(const char* value_name) {
    return po::value<std::vector<std::string>>()->composing()->value_name(value_name);
}

void check_value(const po::option& option) {
    if (option.value.empty()) return;
    const std::string& value = option.value.front();
    const std::string written = "--" + option.string_key;
    if (value.starts_with("--") && option.original_tokens.size() > 1)
        throw UsageError(written + " needs a value, and " + value + " is where it should be. Write " +
                         written + " VALUE, or " + written + "=" + value + " if that is what you mean.");
    if (value.empty()) throw UsageError(written + " has an empty value; give it one, or leave it out.");
}

Sizes parse_sizes(const std::vector<std::string>& values) {
    Sizes sizes;
    for (const std::string& value : values)
        for (std::size_t begin = 0, end = 0; begin <= value.size(); begin = end + 1) {
            end = std::min(value.find(',', begin), value.size());
            const std::string word = value.substr(begin, end - begin);
            const std::size_t equals = word.find('=');
            if (equals == std::string::npos || equals == 0)
                throw UsageError("--size " + value + ": '" + word +
                                 "' is not of the form NAME=N, as in --size m=1000.");
            const std::string name = word.substr(0, equals);
            const std::uint64_t number =
                parse_whole("--size " + name, std::string_view(word).substr(equals + 1), 0,
                            std::numeric_limits<std::int64_t>::max());
            if (!sizes.emplace(name, static_cast<std::int64_t>(number)).second)
                throw UsageError("--size " + name + " is given twice; a problem has one of each size.");
        }
    return sizes;
}

std::string plain(std::string option) {
    option.erase(0, option.find_first_not_of('-'));
    return option;
}

std::vector<std::string> names_of(const po::options_description& options) {
    std::vector<std::string> names;
    for (const auto& option : options.options()) names.push_back(option->long_name());
    return names;
}

std::string optional_text(const po::variables_map& given, const char* option, const std::string& otherwise) {
    return given.count(option) != 0 ? given[option].as<std::string>() : otherwise;
}

std::vector<std::filesystem::path> directories_of(const po::variables_map& given, const char* option) {
    std::vector<std::filesystem::path> directories;
    if (given.count(option) != 0)
        for (const std::string& directory : given[option].as<std::vector<std::string>>())
            directories.emplace_back(directory);
    return directories;
}

std::vector<std::filesystem::path> template_directories(const po::variables_map& given) {
    return directories_of(given, "template-dir");
}

// clang-format off
void add_target_options(po::options_description& options, const std::string& see_devices) {
    const std::string device = "which device, from 0 (0); see " + see_devices;
    options.add_options()
        ("backend", text("NAME"), "auto, cuda, hip or host (auto: the first that has a device)")
        ("device", text("N"), device.c_str())
        ("arch", text("NAME"), "architecture to compile for, such as sm_90a (the device's own)");
}

void add_cache_directory_option(po::options_description& options) {
    options.add_options()
        ("cache-dir", text("DIR"), "directory of the cache (KILN_CACHE_DIR, else kiln in the user's cache directory)");
}

void add_no_cache_option(po::options_description& options) {
    options.add_options()("no-cache", po::bool_switch(), "neither read nor write the cache on disk");
}

void add_template_directory_option(po::options_description& options) {
    options.add_options()
        ("template-dir", texts("DIR"), "search DIR/*.cu before the built-in templates; may be repeated");
}

void add_include_directory_option(po::options_description& options) {
    options.add_options()
        ("include-dir", texts("DIR"), "search DIR for headers that templates include; may be repeated");
}

void add_compile_options(po::options_description& options) {
    options.add_options()
        ("option", texts("OPTION"), "an option of the compiler, as --option=--use_fast_math or "
            "'--option=cuda: --maxrregcount=64'; may be repeated")
        ("define", texts("NAME[=VALUE]"), "define a macro; may be repeated")
        ("debug", po::bool_switch(), "debuggers and profilers see the real paths of templates");
}

void add_time_limit_option(po::options_description& options) {
    options.add_options()
        ("time-limit", text("SECONDS"), "time limit of a variant on the host (600)");
}
// clang-format on

CommonOptions common_options(const po::variables_map& given) {
    CommonOptions options;
    if (given.count("backend") != 0) {
        const auto backend =
            parse_choice("--backend", given["backend"].as<std::string>(), {"auto", "cuda", "hip", "host"});
        if (backend != 0) options.backend = static_cast<Backend>(backend - 1);
    }
    if (given.count("device") != 0)
        options.device =
            static_cast<int>(parse_whole("--device", given["device"].as<std::string>(), 0, 1023));
    options.arch = optional_text(given, "arch", "");
    if (given.count("cache-dir") != 0) options.cache_directory = given["cache-dir"].as<std::string>();
    options.use_cache = given.count("no-cache") == 0 || !given["no-cache"].as<bool>();
    if (!options.use_cache && options.cache_directory)
        throw UsageError("--no-cache uses no cache, and --cache-dir names one; leave one out.");
    options.template_directories = template_directories(given);
    options.include_directories = directories_of(given, "include-dir");
    for (const std::filesystem::path& directory : options.include_directories) {
        std::error_code error;
        if (!std::filesystem::is_directory(directory, error))
            throw UsageError("--include-dir " + directory.string() + ": there is no such directory");
    }
    if (given.count("option") != 0) options.compile_options = given["option"].as<std::vector<std::string>>();
    if (given.count("define") != 0)
        for (const std::string& macro : given["define"].as<std::vector<std::string>>())
            options.compile_options.push_back("-D" + macro);
    options.debug = given.count("debug") != 0 && given["debug"].as<bool>();
    constexpr std::uint64_t kLongestLimit = 31'536'000;  // a year
    if (given.count("time-limit") != 0)
        options.time_limit_seconds = static_cast<int>(
            parse_whole("--time-limit", given["time-limit"].as<std::string>(), 1, kLongestLimit));
    return options;
}

}  // namespace kiln::cli
