// SPDX-License-Identifier: Apache-2.0
//
// A command of kiln: its description (Command), its parsed command line (Call), and what several commands
// need: a service, the cache, a variant.
#pragma once

#include <kiln/cache.h>
#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/wisdom.h>

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common_options.h"
#include "cli/interrupts.h"
#include "cli/json.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/service_setup.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// Options that several commands share.
struct KilnOptions : CommonOptions {
    std::vector<std::filesystem::path> seed_packs;
    bool json = false;
};

struct Call {
    KilnOptions options;
    boost::program_options::variables_map given;  ///< all options, the command's own too
    std::vector<std::string> words;               ///< the other arguments
    const Terminal& terminal;
    const Interrupts& interrupts;

    bool has(const char* option) const { return given.count(option) != 0; }
    bool flag(const char* option) const { return given[option].as<bool>(); }
    const std::string& value(const char* option) const { return given[option].as<std::string>(); }
    /// The object with --json, else the text.
    void print(const Json& json, const std::string& text) const {
        terminal.print(options.json ? dumped(json) : text);
    }
};

/// Which of them a command accepts. Options without effect on a command are rejected, such as `kiln cache
/// clear --arch sm_80`.
enum Takes : unsigned {
    kTarget = 1,      ///< --backend, --device, --arch
    kTemplates = 2,   ///< --template-dir
    kDirectory = 4,   ///< --cache-dir
    kNoCache = 8,     ///< --no-cache
    kSeedPacks = 16,  ///< --seed-pack
    kRemote = 32,     ///< --remote
    kTimeLimit = 64,  ///< --time-limit
    kIncludes = 128,  ///< --include-dir
    kOptions = 256,   ///< --option, --define, --debug
    kSources = kTemplates | kIncludes,
    kTiers = kDirectory | kSeedPacks | kRemote
};

struct Command {
    std::string_view name;       ///< "build", "cache stats"
    std::string_view arguments;  ///< "TEMPLATE [NAME=VALUE]..."
    std::size_t fewest = 0;      ///< how many words it accepts
    std::size_t most = 0;
    unsigned takes = 0;         ///< Takes
    std::string_view summary;   ///< a line, without a full stop
    std::string_view text;      ///< further details; complete lines
    std::string_view examples;  ///< whole lines
    void (*add_options)(boost::program_options::options_description&) = nullptr;
    int (*run)(const Call&) = nullptr;
};

constexpr std::size_t kAnyNumber = 1'000'000;

/// All commands, in the order of the help.
std::span<const Command> commands();

/// Reads what follows the command's name; --remote goes into this process's environment. Sets `help` when
/// only the help is requested. Throws UsageError.
Call parse_call(const Command& command, std::vector<std::string> arguments, const Terminal& terminal,
                const Interrupts& interrupts, bool& help);
std::string help_text(const Command& command);
/// The names of the options that it accepts, and whether each has a value.
std::vector<std::pair<std::string, bool>> option_names(const Command& command);

/// Throws UsageError for an option that was given and is none of `used`. why: what the command does instead of using it,
/// "--table runs nothing".
void check_unused(const Call& call, const std::string& why, const std::vector<std::string_view>& used);

/// For a service that compiles and launches nothing. warnings must outlive the service.
ServiceOptions compile_options(const Call& call, Warnings& warnings);
/// Prints the held warnings, and a note if the host is used without being requested. Throws CacheError when
/// --cache-dir can't be used; with must_store, when any cache directory can't be used.
std::unique_ptr<Service> open_service(const Call& call, Warnings& warnings, ServiceOptions options,
                                      bool must_store = false);
CacheOptions cache_options(const KilnOptions& options);

/// The variant of the NAME=VALUE words, from the second word on. Throws UsageError, VariantError.
Variant chosen_variant(const Template& of, std::span<const std::string> words);

/// The values of such words. Throws UsageError, VariantError.
Values given_values(const Template& of, std::span<const std::string> words);
/// With --best: the first word is a template or a family, the others are values of problem parameters. Chooses,
/// by wisdom or the model, the best variant for the sizes of --size, of all templates that compute this. Throws
/// the same.
Choice best_choice(const Service& service, const Call& call, bool test_sizes);

/// The same for words with several values, or * for all: NAME=1,2. Returns all legal combinations, in the
/// order written; throws VariantError when none is legal.
std::vector<Variant> chosen_variants(const Template& of, std::span<const std::string> words);

/// The sizes of --size NAME=N. Throws UsageError.
Sizes given_sizes(const Call& call);

/// Where "wisdom" or "the calibration" goes: the file that --output names, else the user's own. Makes its directory.
/// Throws UsageError.
Output settings_output(const Call& call, const std::string& what, const std::filesystem::path& usual);

/// "host x86-64-v3"
std::string target_text(const Target& target);

int list_templates(const Call& call);
int show_template(const Call& call);
int build_variant(const Call& call);
int run_template(const Call& call);
int warm(const Call& call);
int export_sources(const Call& call);
int explain(const Call& call);
int regress(const Call& call);
int analyze(const Call& call);
int check(const Call& call);
int report(const Call& call);
int profile(const Call& call);
int lab(const Call& call);
int bench(const Call& call);
int bench_merge(const Call& call);
int bench_page(const Call& call);
int tune_templates(const Call& call);
int calibrate(const Call& call);
int wisdom_show(const Call& call);
int wisdom_merge(const Call& call);
int wisdom_export(const Call& call);
int cache_stats(const Call& call);
int cache_list(const Call& call);
int cache_show(const Call& call);
int cache_verify(const Call& call);
int cache_prune(const Call& call);
int cache_clear(const Call& call);
int cache_pack(const Call& call);
int cache_unpack(const Call& call);
int cache_push(const Call& call);
int cache_pull(const Call& call);
int doctor(const Call& call);
int completion(const Call& call);

}  // namespace kiln::cli
