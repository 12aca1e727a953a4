// SPDX-License-Identifier: Apache-2.0
//
// The table of kiln's commands: arguments, help, own options. The commands are implemented in kiln_*.cpp.
#include <array>

#include "cli/command_line.h"
#include "cli/kiln_command.h"

namespace kiln::cli {
namespace {

// clang-format off
void templates_options(po::options_description& options) {
    options.add_options()("all", po::bool_switch(), "also list references, the templates that others are checked against");
}

void show_options(po::options_description& options) {
    options.add_options()
        ("editor", text("DIR"), "write compile_commands.json to DIR instead, with the headers that it names, for clangd and the like");
}

void build_options(po::options_description& options) {
    options.add_options()
        ("output", text("FILE"), "write the binary to FILE")
        ("time", po::bool_switch(), "compile it again without the cache, and report how long each phase took (cuda)")
        ("best", po::bool_switch(), "the variant that is best for the sizes, of all templates that compute the same; values say what is computed")
        ("size", texts("NAME=N"), "with --best: a size of the problem, or several: m=1000,n=3; may be repeated (the template's own)");
}

void run_options(po::options_description& options) {
    options.add_options()
        ("size", texts("NAME=N"), "a size of the problem, or several: m=1000,n=3; may be repeated (the template's own)")
        ("test-sizes", po::bool_switch(), "the small, odd sizes of tests where none is given (so on the host)")
        ("data", text("WHAT"), "random, integers from -2 to 2 for results without rounding, or contributions: what the reference's data lines say (random)")
        ("seed", text("N"), "of the inputs and of the sample (1)")
        ("check", text("HOW"), "full, sample, freivalds (of a GEMM, in FP64 without a reference) or none (full, or sample where that would take over five seconds)")
        ("no-time", po::bool_switch(), "check, without timed launches")
        ("iterations", text("N"), "timed launches (20; on the host 3 to 20, in about two seconds)")
        ("warm-up", text("N"), "untimed launches before those, in addition to the checked one (5; on the host 0)")
        ("cold-l2", po::bool_switch(), "read twice the L2 cache's size of other data before each timed launch")
        ("graph", po::bool_switch(), "also time launches replayed from a captured graph, with a warm L2 cache")
        ("best", po::bool_switch(), "the variant that is best for the sizes, of all templates that compute the same; values say what is computed")
        ("compare", po::bool_switch(), "also time the template that this one is measured against");
}

void warm_options(po::options_description& options) {
    options.add_options()
        ("workers", text("N"), "processes that compile at once (KILN_WORKERS, else one per core)")
        ("fail-fast", po::bool_switch(), "stop at the first variant that fails (go on with the others)");
}

void lab_options(po::options_description& options) {
    options.add_options()
        ("pattern", text("NAME"), "this pattern only, or this family: ldmatrix, column (all)")
        ("stride", text("LIST"), "strides in words, such as 1..64 (1,2,3,4,5,7,8,16,17,31,32,33,64)")
        ("map", po::bool_switch(), "print the bank of each element of [ROWS][COLUMNS], instead of the table")
        ("pad", text("LIST"), "with --map: padding elements after each row; several, such as 0,1,2, give maps side by side (0)")
        ("element", text("TYPE"), "with --map: half or float (float)")
        ("swizzle", po::bool_switch(), "with --map: XOR swizzle of a row's 16-byte chunks by its number; with several --pad a separate map")
        ("svg", text("FILE"), "with --map: also draw it into FILE");
}

void analyze_options(po::options_description& options) {
    options.add_options()
        ("chip", text("NAME"), "product whose bandwidth, peak throughput and size are used, such as 'NVIDIA H100 PCIe' (the device's, else the architecture's first)")
        ("size", texts("NAME=N"), "a size of the problem, or several: m=1000,n=3; may be repeated (the template's own)")
        ("test-sizes", po::bool_switch(), "the small, odd sizes of tests where none is given")
        ("no-record", po::bool_switch(), "run nothing: resources, occupancy and roofline only");
}

void check_options(po::options_description& options) {
    options.add_options()
        ("size", texts("NAME=N"), "a size of the problem, or several: m=1000,n=3; may be repeated (those of tests)")
        ("blocks", text("N"), "blocks to record, spread over the grid (64)")
        ("strict", po::bool_switch(), "a read of shared memory that was never written is a problem, not a warning");
}

void report_options(po::options_description& options) {
    options.add_options()
        ("output", text("FILE"), "where to write the page; - is standard output")
        ("manifest", texts("FILE"), "also the variants of this manifest; may be repeated")
        ("chip", text("NAME"), "product whose bandwidth, peak throughput and size are used, such as 'NVIDIA H100 PCIe' (the device's, else the architecture's first)")
        ("size", texts("NAME=N"), "a size of the problem, or several: m=1000,n=3; may be repeated (the template's own)")
        ("test-sizes", po::bool_switch(), "the small, odd sizes of tests where none is given")
        ("no-record", po::bool_switch(), "run nothing: resources, occupancy and roofline only")
        ("time", po::bool_switch(), "also time each variant, on the device that it is analysed for")
        ("title", text("TEXT"), "the page's heading (the templates' names)");
}

void profile_options(po::options_description& options) {
    options.add_options()
        ("size", texts("NAME=N"), "a size of the problem, or several: m=1000,n=3; may be repeated (the template's own)")
        ("test-sizes", po::bool_switch(), "the small, odd sizes of tests where none is given")
        ("tool", text("NAME"), "ncu, rocprofv3, rocprof or auto (auto: the one for the backend that is found)")
        ("keep", text("FILE"), "write the profiler's output to FILE")
        ("read", text("FILE"), "run no profiler: compare with output written by --keep, for --arch");
}

void regress_options(po::options_description& options) {
    options.add_options()
        ("baselines", text("DIR"), "directory of the recorded baselines (cache/baselines)")
        ("update", po::bool_switch(), "record the results, instead of failing where they differ")
        ("time", po::bool_switch(), "also measure times, where there is a GPU")
        ("only", texts("TEMPLATE"), "variants of this template only; may be repeated (all)")
        ("shard", text("I/N"), "only each N-th variant of a target, from the I-th: 0/4 to 3/4 are all of them (0/1)")
        ("sample", po::bool_switch(), "build and run only the first variant of each template; hold the other ones' sources against their baselines")
        ("table", po::bool_switch(), "print the table of docs/kernels.md from the baselines, and run nothing")
        ("page", text("FILE"), "with --table: put it into FILE, in place of the table there");
}

void tune_options(po::options_description& options) {
    options.add_options()
        ("shapes", texts("NAME=N"), "sizes of a problem: m=4096,n=4096,k=512; more of them may follow (the template's own)")
        ("test-sizes", po::bool_switch(), "the small, odd sizes of tests where none is given (so on the host)")
        ("budget", text("SECONDS"), "for all shapes together (60)")
        ("shard", text("I/N"), "only the I-th of N parts of the candidates, from 0/N (0/1)")
        ("devices", text("LIST"), "all, or numbers such as 0,1: the candidates are distributed over them (that of --device)")
        ("workers", text("N"), "processes that compile at once (KILN_WORKERS, else one per core)")
        ("resume", po::bool_switch(), "continue an earlier run from the journal next to the output")
        ("output", text("FILE"), "the wisdom file that the best variants are merged into (KILN_WISDOM, else the user's own)");
}

void calibrate_options(po::options_description& options) {
    options.add_options()
        ("seconds", text("N"), "measure for about so long (60); 0: fit to the times of --times only")
        ("times", text("FILE"), "begin with the times in FILE, which need not exist yet, and add those that are measured")
        ("for-device", text("NAME"), "the device that the times are of (the one that is used)")
        ("correct", po::bool_switch(), "correct the calibration that the device has (that in the FILE of --output, else the one in use), or that of the nearest one, instead of replacing it")
        ("output", text("FILE"), "keep the calibration in FILE (calibration.txt next to the user's wisdom)");
}

void wisdom_entries_options(po::options_description& options) {
    options.add_options()
        ("template", text("NAME"), "entries of this template only")
        ("for-device", text("NAME"), "entries of this device only, such as 'NVIDIA H200'")
        ("for-arch", text("NAME"), "entries of this architecture only, such as sm_90a");
}

void wisdom_export_options(po::options_description& options) {
    wisdom_entries_options(options);
    options.add_options()
        ("manifest", po::bool_switch(), "as a manifest: each variant once, with its target, for kiln regress and kiln warm")
        ("output", text("FILE"), "where to write them (standard output)");
}

void wisdom_merge_options(po::options_description& options) {
    options.add_options()("output", text("FILE"), "the wisdom file to merge into (KILN_WISDOM, else the user's own)");
}

void bench_options(po::options_description& options) {
    options.add_options()
        ("compare", text("LIST"), "only these of cublas, cub, torch and openblas, which must be installed (all that are installed)")
        ("quick", po::bool_switch(), "fewer and smaller problems, fewer launches: a trial, not a measurement")
        ("rounds", text("N"), "timed launches of each implementation (11 to 51, as many as take 0.4 seconds)")
        ("check", po::bool_switch(), "exit status 1 also when a requirement is missed")
        ("list-suites", po::bool_switch(), "list the suites and their parts, and run none")
        ("list-variants", po::bool_switch(), "print the variants that unseen would build, as a manifest for kiln warm, and run nothing; with --arch, no device is needed")
        ("for-device", text("NAME"), "of --list-variants: the device that they will run on, such as 'NVIDIA H200' (the one that is used)")
        ("part-limit", text("SECONDS"), "begin no further row of a part after this time (480)")
        ("limit", text("SECONDS"), "begin no further row of any part after this time")
        ("resume", text("FILE"), "measure only what FILE does not have or what failed in it, and add it to FILE, row by row; FILE need not exist yet")
        ("seed", text("N"), "draw the problems of unseen from this seed (1; 1, 2 and 3 are those of docs/performance.md)")
        ("draws", text("N"), "how many problems of each family of unseen (32)")
        ("shard", text("I/N"), "of each family of unseen only each N-th problem, from the I-th: 0/4 to 3/4 are all of them; the files merge (0/1)")
        ("others", text("N"), "how many other variants are timed next to the chosen one of each problem of unseen (60)")
        ("tune", text("SECONDS"), "tune each problem of unseen for so long, and compare what that finds, too")
        ("no-wisdom", po::bool_switch(), "choose by the model alone")
        ("timed-variants", text("FILE"), "add to FILE a line for each variant that is timed for a problem of unseen")
        ("svg", text("DIR"), "also draw a plot of each suite into DIR")
        ("markdown", po::bool_switch(), "print tables in Markdown");
}

void bench_merge_options(po::options_description& options) {
    options.add_options()
        ("output", text("FILE"), "also keep the merged report in FILE")
        ("check", po::bool_switch(), "exit status 1 also when a requirement is missed, or a part was not measured")
        ("markdown", po::bool_switch(), "print tables in Markdown");
}

void bench_page_options(po::options_description& options) {
    options.add_options()("check", po::bool_switch(), "write nothing; exit status 1 when a page differs from its records");
}

void export_options(po::options_description& options) {
    options.add_options()
        ("output", text("DIR"), "the directory for the files; it is made where it is missing")
        ("wisdom", texts("FILE"), "choose by the wisdom of this file (the user's own and the shipped); may be repeated");
}

void stats_options(po::options_description& options) {
    options.add_options()("prometheus", po::bool_switch(), "in Prometheus' text format");
}

void list_options(po::options_description& options) {
    options.add_options()
        ("pack", text("FILE"), "list the entries of this seed pack, instead of the cache directory")
        ("sort", text("HOW"), "used, size, time (compiling) or name (used, the latest first)")
        ("limit", text("N"), "the first N only");
}

void verify_options(po::options_description& options) {
    options.add_options()("remove", po::bool_switch(), "remove damaged entries");
}

void prune_options(po::options_description& options) {
    options.add_options()("limit", text("SIZE"), "bytes to leave, such as 500MiB (the cache's limit)");
}

void pack_options(po::options_description& options) {
    options.add_options()
        ("for", text("RECORD"), "build and pack all that an application asked for (ServiceOptions::record)")
        ("arch", text("ARCH[,ARCH]..."), "with --for: for these architectures (those of the record)")
        ("no-ptx", po::bool_switch(), "with --for: no PTX of the newest CUDA architecture, which newer GPUs run");
}

void clear_options(po::options_description& options) {
    options.add_options()("yes", po::bool_switch(), "don't ask");
}
// clang-format on

constexpr std::string_view kVariantText =
    "A parameter that is not given has its default; 'kiln show TEMPLATE' lists them.\n";
constexpr std::string_view kRemoteText =
    "The remote is that of --remote or KILN_REMOTE. Entries that are already at the destination are "
    "not\n"
    "transferred again. Ctrl-C stops between two entries.\n";

constexpr std::array kCommands = {
    Command{"list", "", 0, 0, kTarget | kTemplates, "list the templates that are found",
            "With --backend or --arch, only those that can run there.\n",
            "  kiln list\n  kiln list --template-dir my_kernels --json\n", templates_options, list_templates},
    Command{"show", "TEMPLATE", 1, 1, kTarget | kSources | kOptions,
            "show a template's parameters, rules, arguments and resources",
            "Rules are checked against the target of --backend and --arch, else this machine's device.\n",
            "  kiln show gemm_tiled\n  kiln show gemm_tiled --arch sm_90a\n"
            "  kiln show my_kernel --template-dir my_kernels --editor my_kernels/build\n",
            show_options, show_template},
    Command{"build", "TEMPLATE [NAME=VALUE]...", 1, kAnyNumber,
            kTarget | kSources | kOptions | kTiers | kNoCache, "build a variant, or find it in the cache",
            kVariantText,
            "  kiln build gemm_tiled BM=64 BN=64 PAD=1\n"
            "  kiln build gemm_tiled --arch sm_90a --output gemm.cubin\n",
            build_options, build_variant},
    Command{"run", "TEMPLATE [NAME=VALUE]...", 1, kAnyNumber,
            kTarget | kSources | kOptions | kTiers | kNoCache | kTimeLimit,
            "run a variant on the problem that its template declares, check the result, time it",
            "Inputs are random, outputs are poisoned, guard bytes surround every buffer; the result is "
            "compared\n"
            "with the template's FP64 reference, element by element. Exit status 1: it is wrong.\n",
            "  kiln run gemm_tiled BM=64 PAD=1 --size m=4096,n=4096,k=4096\n"
            "  kiln run gemm_tiled --backend host --data integers --no-time\n",
            run_options, run_template},
    Command{
        "warm", "MANIFEST...", 1, kAnyNumber, kTarget | kSources | kOptions | kTiers,
        "build all variants of manifests, in parallel, into the cache",
        "A manifest has lines such as\n"
        "  gemm_tiled BM=32,64 BN=* T=half,float   @cuda:sm_90a @hip:gfx90a @host\n"
        "where several values, or * for all, give every legal combination; a line without @ is for "
        "--backend\n"
        "and --arch. MANIFEST - is standard input. Ctrl-C keeps all that is built.\n",
        "  kiln warm variants.txt\n  echo 'gemm_tiled BM=* BN=*' | kiln warm - --arch sm_90a --workers 8\n",
        warm_options, warm},
    Command{"export", "MANIFEST...", 1, kAnyNumber, kTarget | kSources | kOptions | kTiers | kNoCache,
            "write variants as C sources that need the driver only",
            "A header and a source for each template of the manifests, with the binaries of all its variants "
            "and\n"
            "targets (CUDA and HIP) in them. A call chooses by the wisdom for its sizes. See "
            "docs/embedding.md.\n",
            "  kiln export variants.txt --output exported\n"
            "  echo 'softmax T=half @cuda:sm_80 @cuda:compute_80' | kiln export - --output exported\n",
            export_options, export_sources},
    Command{"explain", "TEMPLATE [NAME=VALUE]...", 1, kAnyNumber, kTarget | kSources | kOptions | kTiers,
            "say whether a variant is in the cache, where, or why not", kVariantText,
            "  kiln explain gemm_tiled BM=64\n  kiln explain gemm_tiled BM=64 --arch sm_90a --json\n",
            nullptr, explain},
    Command{
        "regress", "[MANIFEST]...", 0, kAnyNumber, kTarget | kSources | kTimeLimit,
        "compare variants with their baselines: results, resources, instructions, speed",
        "Builds each variant of the manifests (cache/variants.txt) for each of its targets, loads it "
        "again from a\n"
        "cache with compiling forbidden, runs both where there is such a device, compares results with the "
        "reference\n"
        "and, but for outputs of any order, bits with each other, and everything with the baselines. Exit "
        "status 1: a\n"
        "variant failed, or has no baseline.\n",
        "  kiln regress\n  kiln regress --backend cuda --only gemm_tiled\n  kiln regress --update\n",
        regress_options, regress},
    Command{
        "analyze", "TEMPLATE [NAME=VALUE[,VALUE]...]...", 1, kAnyNumber,
        kTarget | kSources | kOptions | kTiers | kNoCache | kTimeLimit,
        "say why a variant is fast or slow, without running it on a GPU",
        "Compiles for the device, or for --arch without such a device; reads registers, spills and "
        "access widths\n"
        "from the binary; runs some blocks on the host to count wavefronts of shared memory and sectors of "
        "global\n"
        "memory line by line. Several values, or * for all, analyse one variant after the other. "
        "docs/analysis.md\n"
        "says what each figure means.\n",
        "  kiln analyze gemm_tiled BM=64 BN=64 PAD=1 --arch sm_90a\n"
        "  kiln analyze transpose_tiled SWIZZLE=false PAD=0,1,2 --arch gfx90a\n"
        "  kiln analyze gemm_tiled --size m=1000,n=1000,k=1000 --json\n",
        analyze_options, analyze},
    Command{"check", "TEMPLATE [NAME=VALUE[,VALUE]...]...", 1, kAnyNumber,
            kSources | kOptions | kTiers | kNoCache | kTimeLimit,
            "find races, accesses out of bounds and misaligned vectors, by running on the host",
            "Each problem is reported with the source lines of its accesses. Exit status 1: there is one.\n",
            "  kiln check gemm_tiled BM=32 VEC=2\n"
            "  kiln check my_kernel --template-dir my_kernels --size n=1000 --strict\n",
            check_options, check},
    Command{"report", "[TEMPLATE [NAME=VALUE[,VALUE]...]...]...", 0, kAnyNumber,
            kTarget | kSources | kOptions | kTiers | kNoCache | kTimeLimit,
            "write a page that puts variants side by side: tables, source lines, banks, occupancy, roofline",
            "The results of 'kiln analyze', as one self-contained HTML file. A word without '=' begins "
            "another\n"
            "variant; several values, or * for all, give every legal combination.\n",
            "  kiln report gemm_tiled PAD=0,1,2 --arch sm_90a --output report.html\n"
            "  kiln report gemm_tiled VEC=4 PAD=4 gemm_mma --size m=8192,n=8192,k=8192 --output gemm.html\n"
            "  kiln report --manifest tiles.txt --time --output - > tiles.html\n",
            report_options, report},
    Command{
        "profile", "TEMPLATE [NAME=VALUE]...", 1, kAnyNumber,
        kTarget | kSources | kOptions | kTiers | kNoCache | kTimeLimit,
        "measure a variant's counters on a GPU, and compare them with the prediction",
        "Runs Nsight Compute (ncu) or rocprof, where installed, on a child that launches the variant once; "
        "then times\n"
        "it, and its naive template. docs/counters.md says which counters and why. Exit status 1: excess "
        "wavefronts,\n"
        "active warps or the speed-up over the naive one miss their threshold; 4: no GPU, no profiler, or "
        "no permission.\n",
        "  kiln profile gemm_tiled PAD=2 --size m=4096,n=4096,k=4096\n"
        "  kiln profile gemm_tiled PAD=2 --keep page.csv\n"
        "  kiln profile gemm_tiled PAD=2 --arch sm_90a --read page.csv\n",
        profile_options, profile},
    Command{"tune", "TEMPLATE... [NAME=VALUE]...", 1, kAnyNumber, kTarget | kSources | kTiers | kTimeLimit,
            "find the fastest variants for given shapes by timing them, and keep them as wisdom",
            "Variants are compiled in worker processes while others are timed; each is checked against the "
            "template's\n"
            "reference before it may win. Several templates compete. docs/tuning.md explains the search, and "
            "how to "
            "distribute it over\n"
            "a cluster. Ctrl-C keeps what was found; a second one ends at once. Exit status 1: for a "
            "shape\nno variant was found.\n",
            "  kiln tune gemm_wgmma gemm_mma T=half --shapes m=4096,n=4096,k=4096 m=128,n=7168,k=2048\n"
            "  kiln tune softmax --budget 20 --output found.txt\n"
            "  kiln tune gemm_buffered --shard 3/8 --output part3.txt && kiln wisdom merge part*.txt\n",
            tune_options, tune_templates},
    Command{
        "calibrate", "", 0, 0, kTarget | kTemplates | kTiers,
        "measure a GPU for the model that chooses variants where there is no wisdom",
        "Times variants of random problems, and fits a correction of the model's estimates for this kind of "
        "device.\n"
        "Reports on held-out problems how much slower than the best the chosen variants are, with and "
        "without "
        "the\n"
        "correction. Calibrations of some devices are shipped.\n",
        "  kiln calibrate\n"
        "  kiln calibrate --seconds 600 --times times.tsv      # again and again: more times each\n"
        "  kiln calibrate --seconds 0 --times times.tsv --for-device 'NVIDIA H200' --backend cuda --arch "
        "sm_90a\n",
        calibrate_options, calibrate},
    Command{"wisdom show", "[FILE]...", 0, kAnyNumber, 0,
            "list the entries of these wisdom files, or of the user's own and the shipped", "",
            "  kiln wisdom show\n  kiln wisdom show --template gemm_wgmma --json\n", wisdom_entries_options,
            wisdom_show},
    Command{"wisdom merge", "FILE...", 1, kAnyNumber, 0, "merge wisdom files into one",
            "Of entries for the same problem on the same device, those of the newest source of the template "
            "are kept, "
            "and of\nthese the fastest.\n",
            "  kiln wisdom merge part*.txt\n  kiln wisdom merge part*.txt --output all.txt\n",
            wisdom_merge_options, wisdom_merge},
    Command{"wisdom export", "[FILE]...", 0, kAnyNumber, 0,
            "write the entries of these wisdom files, or of the user's own and the shipped, as one file", "",
            "  kiln wisdom export --for-device 'NVIDIA H200' --output h200.txt\n"
            "  kiln wisdom export --manifest | kiln warm -\n",
            wisdom_export_options, wisdom_export},
    Command{
        "bench", "[SUITE[.PART]]...", 0, kAnyNumber, kTarget | kTemplates | kTiers | kNoCache,
        "measure suites of problems against other libraries, interleaved and verified",
        "Without SUITE it lists them and their parts; 'all' runs all but unseen, whose problems are drawn. "
        "cuBLAS, CUB (by nvcc), PyTorch (by "
        "python3) and "
        "OpenBLAS are\n"
        "compared with where they are installed. Ratios are the other's time over Kiln's; 'of copy' and the "
        "like are\n"
        "fractions of a ceiling measured in the same run. Exit status 1: a result is wrong, or a problem "
        "failed.\n",
        "  kiln bench\n  kiln bench gemm-f16 skinny --svg plots\n"
        "  kiln bench memory --compare cub --json\n"
        "  kiln bench all --resume results.json --limit 540   # again and again, until nothing is left out\n"
        "  kiln bench unseen.decode --list-variants --arch sm_90a | kiln warm -   # where there is no GPU\n",
        bench_options, bench},
    Command{"bench merge", "FILE...", 1, kAnyNumber, 0, "merge reports of the same device into one",
            "Of several rows of one problem, the latest is kept that measured something, right or wrong. "
            "Says which parts are missing.\n",
            "  kiln bench merge monday.json tuesday.json --output docs/data/performance-h200.json\n",
            bench_merge_options, bench_merge},
    Command{"bench page", "FILE...", 1, kAnyNumber, 0,
            "write the tables of documents from recorded measurements",
            "A table is written between '<!-- kiln bench: RECORD VIEW [SUITE]... -->' and '<!-- end -->', "
            "where RECORD is "
            "a\nfile of 'kiln bench --resume' or 'kiln bench merge --output', relative to the document, and "
            "VIEW is "
            "asked,\ndrawn, tables or runs.\n",
            "  kiln bench page docs/performance.md\n  kiln bench page --check docs/performance.md\n",
            bench_page_options, bench_page},
    Command{"lab", "banks [--map ROWS COLUMNS]", 1, 3, kTarget | kDirectory | kNoCache,
            "show what shared-memory accesses cost: bank conflicts, predicted and measured",
            "Without a GPU, or with --arch, the table is a prediction; docs/banks.md explains it. Exit "
            "status 1:\n"
            "data read from shared memory was wrong.\n",
            "  kiln lab banks\n  kiln lab banks --arch gfx942 --pattern ldmatrix\n"
            "  kiln lab banks --map 32 32 --pad 1 --svg banks.svg\n"
            "  kiln lab banks --map 8 32 --pad 0,1,2 --swizzle\n",
            lab_options, lab},
    Command{"cache stats", "", 0, 0, kDirectory,
            "print entries, bytes, and counters since the cache was cleared", "",
            "  kiln cache stats\n  kiln cache stats --prometheus\n", stats_options, cache_stats},
    Command{"cache list", "", 0, 0, kDirectory, "list the entries", "",
            "  kiln cache list --sort size --limit 10\n  kiln cache list --pack kernels.kiln\n", list_options,
            cache_list},
    Command{"cache show", "KEY", 1, 1, kDirectory, "show an entry's ingredients and its log",
            "The first digits of a key are enough.\n", "  kiln cache show 3be9368f\n", nullptr, cache_show},
    Command{"cache verify", "", 0, 0, kDirectory, "read every entry and check it", "",
            "  kiln cache verify\n  kiln cache verify --remove\n", verify_options, cache_verify},
    Command{"cache prune", "", 0, 0, kDirectory, "remove the least recently used entries down to a limit",
            "Temporary files of dead writers are removed too.\n", "  kiln cache prune --limit 500MiB\n",
            prune_options, cache_prune},
    Command{"cache clear", "", 0, 0, kDirectory, "remove all entries and set the counters to zero",
            "Asks first; without a terminal, --yes is required.\n", "  kiln cache clear --yes\n",
            clear_options, cache_clear},
    Command{"cache pack", "FILE [KEY]...", 1, kAnyNumber, kDirectory | kSources | kOptions,
            "write a seed pack of these entries, of what an application asked for, or of all",
            "Ship it with an application, and name it in KILN_SEED_PACKS or --seed-pack.\n",
            "  kiln cache pack kernels.kiln\n  kiln cache pack two.kiln 3be9368f 81c09da2\n"
            "  kiln cache pack app.kiln --for app.json --arch sm_80,sm_90a,gfx90a\n",
            pack_options, cache_pack},
    Command{"cache unpack", "FILE", 1, 1, kDirectory, "store a pack's entries in the cache directory", "",
            "  kiln cache unpack kernels.kiln\n", nullptr, cache_unpack},
    Command{"cache push", "", 0, 0, kDirectory | kRemote, "send all entries to the remote", kRemoteText,
            "  kiln cache push --remote redis://cache.example:6379/0\n", nullptr, cache_push},
    Command{"cache pull", "", 0, 0, kDirectory | kRemote, "fetch all entries of the remote", kRemoteText,
            "  kiln cache pull --remote redis://cache.example:6379/0\n", nullptr, cache_pull},
    Command{"doctor", "", 0, 0, kTarget | kTemplates | kTiers | kNoCache,
            "report what this machine has, what is missing, and what to do about it",
            "Checks drivers, devices, compilers, worker processes, limits, the cache and the remote, and "
            "whether the\n"
            "files of templates, wisdom and calibrations can be read.\n",
            "  kiln doctor\n  kiln doctor --json\n", nullptr, doctor},
    Command{"completion", "SHELL", 1, 1, 0,
            "print a script that completes command lines of kiln and jit-gemm in bash, zsh or fish", "",
            "  source <(kiln completion bash)\n  kiln completion fish | source\n", nullptr, completion},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace kiln::cli
