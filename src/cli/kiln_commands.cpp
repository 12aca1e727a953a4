// SPDX-License-Identifier: Apache-2.0
//
// The table of kiln's commands: arguments, help, own options. What they do is in kiln_*.cpp.
#include <array>

#include "cli/command_line.h"
#include "cli/kiln_command.h"

namespace kiln::cli {
namespace {

// clang-format off
void build_options(po::options_description& options) {
    options.add_options()("output", text("FILE"), "write the binary to FILE");
}

void warm_options(po::options_description& options) {
    options.add_options()
        ("workers", text("N"), "processes that compile at once (KILN_WORKERS, else one per core)")
        ("fail-fast", po::bool_switch(), "stop at the first variant that fails (go on with the others)");
}

void stats_options(po::options_description& options) {
    options.add_options()("prometheus", po::bool_switch(), "in Prometheus' text format");
}

void list_options(po::options_description& options) {
    options.add_options()
        ("pack", text("FILE"), "what this seed pack holds, instead of the cache directory")
        ("sort", text("HOW"), "used, size, time (compiling) or name (used, the latest first)")
        ("limit", text("N"), "the first N only");
}

void verify_options(po::options_description& options) {
    options.add_options()("remove", po::bool_switch(), "remove what is damaged");
}

void prune_options(po::options_description& options) {
    options.add_options()("limit", text("SIZE"), "bytes to leave, such as 500MiB (the cache's limit)");
}

void clear_options(po::options_description& options) {
    options.add_options()("yes", po::bool_switch(), "don't ask");
}
// clang-format on

constexpr std::string_view kVariantText =
    "A parameter that is not named keeps its default; 'kiln show TEMPLATE' lists them.\n";
constexpr std::string_view kRemoteText =
    "The remote is that of --remote or KILN_REMOTE. What is there already is not sent again. Ctrl-C stops\n"
    "between two entries.\n";

constexpr std::array kCommands = {
    Command{"list", "", 0, 0, kTarget | kTemplates, "list the templates that are found",
            "With --backend or --arch, those that may run there.\n",
            "  kiln list\n  kiln list --template-dir my_kernels --json\n", nullptr, list_templates},
    Command{
        "show", "TEMPLATE", 1, 1, kTarget | kTemplates,
        "show a template's parameters, rules, arguments and resources",
        "Rules are checked against the target: that of --backend and --arch, else the device that is here.\n",
        "  kiln show gemm_tiled\n  kiln show gemm_tiled --arch sm_90a\n", nullptr, show_template},
    Command{"build", "TEMPLATE [NAME=VALUE]...", 1, kAnyNumber, kTarget | kTemplates | kTiers | kNoCache,
            "build a variant, or find it in the cache", kVariantText,
            "  kiln build gemm_tiled BM=64 BN=64 PAD=1\n"
            "  kiln build gemm_tiled --arch sm_90a --output gemm.cubin\n",
            build_options, build_variant},
    Command{
        "warm", "MANIFEST...", 1, kAnyNumber, kTarget | kTemplates | kTiers,
        "build all variants of manifests, in parallel, into the cache",
        "A manifest has lines such as\n"
        "  gemm_tiled BM=32,64 BN=* T=half,float   @cuda:sm_90a @hip:gfx90a @host\n"
        "where several values, or * for all, give every legal combination; a line without @ is for "
        "--backend\n"
        "and --arch. MANIFEST - is standard input. Ctrl-C loses nothing that is built.\n",
        "  kiln warm variants.txt\n  echo 'gemm_tiled BM=* BN=*' | kiln warm - --arch sm_90a --workers 8\n",
        warm_options, warm},
    Command{"explain", "TEMPLATE [NAME=VALUE]...", 1, kAnyNumber, kTarget | kTemplates | kTiers,
            "say whether a variant is in the cache, where, or why not", kVariantText,
            "  kiln explain gemm_tiled BM=64\n  kiln explain gemm_tiled BM=64 --arch sm_90a --json\n",
            nullptr, explain},
    Command{"cache stats", "", 0, 0, kDirectory,
            "entries, bytes, and what happened since the cache was cleared", "",
            "  kiln cache stats\n  kiln cache stats --prometheus\n", stats_options, cache_stats},
    Command{"cache list", "", 0, 0, kDirectory, "list the entries", "",
            "  kiln cache list --sort size --limit 10\n  kiln cache list --pack kernels.kiln\n", list_options,
            cache_list},
    Command{"cache show", "KEY", 1, 1, kDirectory, "show what an entry was made of, and its log",
            "The first digits of a key are enough.\n", "  kiln cache show 3be9368f\n", nullptr, cache_show},
    Command{"cache verify", "", 0, 0, kDirectory, "read every entry and check it", "",
            "  kiln cache verify\n  kiln cache verify --remove\n", verify_options, cache_verify},
    Command{"cache prune", "", 0, 0, kDirectory, "remove the least recently used entries down to a limit",
            "Temporary files of dead writers go too.\n", "  kiln cache prune --limit 500MiB\n", prune_options,
            cache_prune},
    Command{"cache clear", "", 0, 0, kDirectory, "remove all entries and set the counters to zero",
            "Asks first; where nobody can answer, --yes is needed.\n", "  kiln cache clear --yes\n",
            clear_options, cache_clear},
    Command{"cache pack", "FILE [KEY]...", 1, kAnyNumber, kDirectory,
            "write a seed pack of these entries, or of all",
            "Ship it with an application, and name it in KILN_SEED_PACKS or --seed-pack.\n",
            "  kiln cache pack kernels.kiln\n  kiln cache pack two.kiln 3be9368f 81c09da2\n", nullptr,
            cache_pack},
    Command{"cache unpack", "FILE", 1, 1, kDirectory, "store a pack's entries in the cache directory", "",
            "  kiln cache unpack kernels.kiln\n", nullptr, cache_unpack},
    Command{"cache push", "", 0, 0, kDirectory | kRemote, "send all entries to the remote", kRemoteText,
            "  kiln cache push --remote redis://cache.example:6379/0\n", nullptr, cache_push},
    Command{"cache pull", "", 0, 0, kDirectory | kRemote, "fetch all entries of the remote", kRemoteText,
            "  kiln cache pull --remote redis://cache.example:6379/0\n", nullptr, cache_pull},
    Command{"doctor", "", 0, 0, kTarget | kTemplates | kTiers | kNoCache,
            "say what was found here, what is missing, and what to do about it",
            "Looks at drivers, devices, compilers, worker processes, limits, the cache and the remote.\n",
            "  kiln doctor\n  kiln doctor --json\n", nullptr, doctor},
    Command{"completion", "bash", 1, 1, 0, "print a script that completes kiln's command lines in bash", "",
            "  source <(kiln completion bash)\n", nullptr, completion},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace kiln::cli
