// SPDX-License-Identifier: Apache-2.0
//
// GEMM on one thread of the host backend, in a child process, since the number of threads is read when the
// backend starts; OpenBLAS, also on one thread, in the same process.
#include <kiln/error.h>

#include <cstdlib>
#include <optional>

#include "base/dynamic_library.h"
#include "bench/child.h"
#include "bench/comparator_run.h"
#include "bench/suites.h"

namespace kiln::bench {
namespace {

constexpr int kSize = 1024, kQuickSize = 128;
constexpr int kHostRounds = 7, kQuickHostRounds = 3;
const std::string kNoCache = "none";  // in place of a directory
constexpr const char* kNoOpenBlas = "libopenblas.so.0 could not be opened, or lacks cblas_sgemm";
const std::string kDefault = "default";  // the origin of a variant that is not chosen
constexpr double kMustOfOpenBlas = 0.25;
constexpr double kMustGflops = 4;  // of the FP16 tile

/// cblas.h: row-major 101, not transposed 111.
constexpr int kRowMajor = 101, kNoTranspose = 111;
using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                   int);
using SetThreads = void(int);

struct OpenBlas {
    DynamicLibrary library;
    Sgemm* sgemm = nullptr;

    OpenBlas() : library(DynamicLibrary::open({"libopenblas.so.0", "libopenblas.so"})) {
        SetThreads* set_threads = nullptr;
        if (!library) return;
        library.keep_forever();  // it may have threads
        if (library.resolve(set_threads, "openblas_set_num_threads") && library.resolve(sgemm, "cblas_sgemm"))
            set_threads(1);
    }
};

/// "float 1024 x 1024 x 1024, the defaults"
std::string row_text(const std::string& type, int size, bool is_default) {
    return type + " " + product_text(size, size, size) + (is_default ? ", the defaults" : "");
}

/// One row, as the parent reads it.
void tell_row(const BenchRow& row, const Problem& problem) {
    const auto spread = [](const BenchSpread& of) {
        return std::vector<std::string>{number_text(of.min), number_text(of.median), number_text(of.max),
                                        std::to_string(of.count)};
    };
    std::vector<std::string> words = {"row", row.problem, row.variant, std::to_string(problem.flops)};
    for (const std::string& word : spread(*row.kiln)) words.push_back(word);
    words.push_back(row.origin);
    words.push_back(std::to_string(problem.sizes.at("m")));
    tell(words);
    for (const BenchComparison& one : row.comparisons) {
        words = {"other", one.with, one.verified == false ? "WRONG" : "RIGHT"};
        for (const std::string& word : spread(*one.time)) words.push_back(word);
        tell(words);
    }
    for (const std::string& failure : row.failures) tell({"failure", failure});
}

BenchSpread read_spread(const std::vector<std::string>& words, std::size_t at) {
    return {std::atof(words.at(at).c_str()), std::atof(words.at(at + 1).c_str()),
            std::atof(words.at(at + 2).c_str()), std::atoi(words.at(at + 3).c_str())};
}

void add_rows(Benchmark& bench, BenchSuite& suite, const ChildLines& lines) {
    std::vector<BenchRow> rows;
    for (const std::vector<std::string>& words : lines) {
        if (words.empty()) continue;
        if (words[0] == "row") {
            BenchRow& row = rows.emplace_back();
            row.problem = words.at(1);
            row.variant = words.at(2);
            row.unit = "us";
            row.kiln = read_spread(words, 4);
            row.origin = words.at(8);
            row.verified = true;
            row.rate = std::atof(words.at(3).c_str()) / row.kiln->median / 1e3;
            row.rate_unit = "GFLOP/s";
            const std::int64_t size = std::atoll(words.at(9).c_str());
            row.sizes = {{"m", size}, {"n", size}, {"k", size}};
        } else if (words[0] == "other" && !rows.empty()) {
            BenchComparison comparison;
            comparison.with = words.at(1);
            comparison.verified = words.at(2) == "RIGHT";
            comparison.time = read_spread(words, 3);
            comparison.ratio = comparison.time->median / rows.back().kiln->median;
            if (!bench.quick() && rows.back().origin != kDefault) comparison.must = kMustOfOpenBlas;
            rows.back().comparisons.push_back(std::move(comparison));
        } else if (words[0] == "failure" && !rows.empty()) {
            rows.back().failures.push_back(words.at(1));
            rows.back().verified = false;
        } else if (words[0] == "missing") {
            bench.missing(suite, "openblas", words.at(1));
        }
    }
    for (BenchRow& row : rows) {
        // The tile of the first row has a required throughput.
        if (!bench.quick() && row.problem.starts_with("half"))
            row.comparisons.push_back(
                share_of(row, "4 GFLOP/s", row.kiln->median * *row.rate / kMustGflops, 1.0));
        bench.add_row(suite, row);
    }
}

}  // namespace

int child_openblas() {
    if (OpenBlas().sgemm == nullptr) tell({"missing", kNoOpenBlas});
    return 0;
}

std::string openblas_problem(const BenchOptions& options) {
    if (options.child.empty()) return "no program to start was named";
    const ChildLines lines = start_child(options, {"openblas"});
    return lines.empty() ? "" : kNoOpenBlas;
}

int child_host(ServiceOptions service, int size, int rounds, const std::string& cache_directory,
               bool with_openblas) {
    BenchOptions options;
    options.service.template_directories = std::move(service.template_directories);
    if (service.backend == Backend::host) options.service.arch = std::move(service.arch);
    options.service.backend = Backend::host;
    options.quick = true;  // a small sample is checked
    options.rounds = rounds;
    if (cache_directory == kNoCache)
        options.service.cache.enabled = false;
    else
        options.service.cache.directory = cache_directory;
    Benchmark bench(options);
    const Sizes sizes = {{"m", size}, {"n", size}, {"k", size}};
    std::optional<OpenBlas> opened;
    if (with_openblas) opened.emplace();
    Sgemm* const sgemm = opened ? opened->sgemm : nullptr;
    if (opened && sgemm == nullptr) tell({"missing", kNoOpenBlas});
    // A GPU's tile, which shows the speed of fibers; the choice for the host; and the template's defaults.
    const Template tiled = bench.service().find("gemm_tiled");
    const Chosen contestants[] = {{tiled.variant({{"T", "half"}, {"PAD", 1}}), kDefault},
                                  bench.choose({"gemm_tiled"}, {{"T", "float"}}, sizes),
                                  {tiled.variant({{"T", "float"}}), kDefault}};
    for (const Chosen& chosen : contestants) {
        const std::string type = chosen.variant.value("T").text();
        BenchRow row;
        row.problem = row_text(type, size, chosen.origin == kDefault);
        ComparatorRun run(bench, row, chosen, sizes);
        VerifiedLaunch& kernel = run.kernel();
        if (sgemm != nullptr && type == "float") {
            const auto* const a = static_cast<const float*>(kernel.tensor("a").data());
            const auto* const b = static_cast<const float*>(kernel.tensor("b").data());
            const GuardedTensor& result = run.result_like("c");
            auto* const c = static_cast<float*>(result.data());
            run.add("OpenBLAS", "one thread",
                    [=] {
                        sgemm(kRowMajor, kNoTranspose, kNoTranspose, size, size, size, 1, a, size, b, size, 0,
                              c, size);
                    },
                    result, {});
        }
        run.time();
        tell_row(row, kernel.problem());
    }
    return 0;
}

void run_host(Benchmark& bench, BenchSuite& suite) {
    if (bench.options().child.empty()) {
        suite.notes.emplace_back(
            "not measured: it needs a process of its own, and no program to start was named");
        return;
    }
    const bool small = bench.quick();
    const int size = small ? kQuickSize : kSize;
    std::vector<std::string> problems = {row_text("half", size, true), row_text("float", size, false),
                                         row_text("float", size, true)};
    std::erase_if(problems, [&](const std::string& one) { return !bench.measures(suite, "gemm", one); });
    if (problems.empty()) return;
    bench.begin(suite, "one thread of the host");
    const std::filesystem::path directory = bench.service().cache_directory();
    add_rows(bench, suite,
             start_service_child(
                 bench,
                 {"host", std::to_string(size),
                  std::to_string(bench.options().rounds.value_or(small ? kQuickHostRounds : kHostRounds)),
                  directory.empty() ? kNoCache : directory.string(), bench.wants("openblas") ? "1" : "0"},
                 {{"KILN_HOST_THREADS", "1"}}));
    add_mean(suite, "OpenBLAS");
}

}  // namespace kiln::bench
