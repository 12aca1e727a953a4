// SPDX-License-Identifier: Apache-2.0
//
// What the command lines of all programs share: declarations of options, checks of values, and the options
// for the target, the cache and the template directories.
#pragma once

#include <kiln/template.h>

#include <boost/program_options.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/common_options.h"

namespace kiln::cli {

namespace po = boost::program_options;

constexpr unsigned kHelpWidth = 110;

po::typed_value<std::string>* text(const char* value_name);
/// An option that may be repeated.
po::typed_value<std::vector<std::string>>* texts(const char* value_name);

/// Rejects an option whose value is missing, so that the next option was taken as its value, and empty
/// values. Throws UsageError.
void check_value(const po::option& option);

/// The values of --size: "m=1000,n=3", "batch=2". Throws UsageError.
Sizes parse_sizes(const std::vector<std::string>& values);

/// The name without dashes.
std::string plain(std::string option);
std::vector<std::string> names_of(const po::options_description& options);
std::string optional_text(const po::variables_map& given, const char* option, const std::string& otherwise);
std::vector<std::filesystem::path> template_directories(const po::variables_map& given);

/// --backend, --device and --arch. see_devices: how this program lists the devices.
void add_target_options(po::options_description& options, const std::string& see_devices);
void add_cache_directory_option(po::options_description& options);
void add_no_cache_option(po::options_description& options);
void add_include_directory_option(boost::program_options::options_description& options);
/// --option, --define and --debug
void add_compile_options(po::options_description& options);
void add_template_directory_option(po::options_description& options);
/// --time-limit
void add_time_limit_option(po::options_description& options);
/// The common options of those that were given. Throws UsageError.
CommonOptions common_options(const po::variables_map& given);

}  // namespace kiln::cli
