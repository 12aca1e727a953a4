// SPDX-License-Identifier: Apache-2.0
//
// kiln bench: suites of measurements beside other libraries.
#include <kiln/bench.h>
#include <kiln/error.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <stop_token>

#include "cli/command_line.h"
#include "cli/figures.h"
#include "cli/kiln_bench_report.h"
#include "cli/kiln_command.h"
#include "cli/output_file.h"
#include "cli/words.h"

namespace kiln::cli {
namespace {

/// The words by which bench() has this program measure in a process of its own.
constexpr const char* kChild = "measure-here";

constexpr int kMostRounds = 100'000;

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> words;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        if (end > begin) words.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

int list_suites(const Call& call) {
    std::vector<std::vector<std::string>> rows;
    Json suites = Json::array();
    for (const BenchSuiteName& suite : bench_suites()) {
        rows.push_back({std::string(suite.name), std::string(suite.title)});
        suites.push_back({{"name", suite.name}, {"title", suite.title}});
    }
    call.print({{"suites", suites}},
               table(rows) + "\nkiln bench SUITE... runs some, kiln bench all runs all.\n");
    return kPassed;
}

std::vector<std::string> chosen_suites(const std::vector<std::string>& words) {
    if (words != std::vector<std::string>{"all"}) return words;
    std::vector<std::string> all;
    for (const BenchSuiteName& suite : bench_suites()) all.emplace_back(suite.name);
    return all;
}

/// Prints the report and draws its pictures, once: at the end; or, when a signal comes, what was measured until then,
/// from the thread that hears of it, for the row that is being measured may take longer than the program has to end.
class Results {
  public:
    explicit Results(const Call& call) : call_(call) {}

    void keep(const BenchReport& so_far) {
        const std::lock_guard lock(mutex_);
        kept_ = so_far;
    }
    /// Throws nothing.
    void interrupted() {
        const std::lock_guard lock(mutex_);
        if (printed_ || kept_.suites.empty()) return;
        kept_.interrupted = true;
        call_.terminal.status({});
        try {
            print(kept_);
        } catch (const std::exception& error) {
            call_.terminal.complain(error.what());
        }
    }
    void ended(const BenchReport& report) {
        const std::lock_guard lock(mutex_);
        if (!printed_) print(report);
    }

  private:
    void print(const BenchReport& report) {
        printed_ = true;
        call_.print(to_json(report),
                    call_.flag("markdown") ? to_markdown(report) : to_text(report, call_.terminal));
        if (!call_.has("svg")) return;
        for (const BenchSuite& suite : report.suites)
            write_output(std::filesystem::path(call_.value("svg")) / (suite.name + ".svg"),
                         bench_picture(report, suite));
    }

    const Call& call_;
    std::mutex mutex_;
    BenchReport kept_;
    bool printed_ = false;
};

/// Before anything is measured, so that a folder that can't be had costs nothing.
void make_directory(const std::filesystem::path& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) throw UsageError("--svg " + directory.string() + ": " + error.message() + ".");
}

}  // namespace

int bench(const Call& call) {
    if (!call.words.empty() && call.words[0] == kChild)
        return run_bench_child(std::span(call.words).subspan(1));
    if (call.words.empty()) return list_suites(call);
    if (call.options.json && call.flag("markdown"))
        throw UsageError("--json and --markdown are two ways of printing; leave one out.");
    Warnings warnings(call.terminal);
    BenchOptions options;
    options.service = service_options(call.options, warnings, call.interrupts.token());
    options.service.cache = cache_options(call.options);
    options.suites = chosen_suites(call.words);
    if (call.has("compare")) options.compare = split(call.value("compare"));
    if (call.has("rounds"))
        options.rounds = static_cast<int>(parse_whole("--rounds", call.value("rounds"), 1, kMostRounds));
    options.quick = call.flag("quick");
    options.stop = call.interrupts.token();
    options.child = {"/proc/self/exe", "bench", kChild};
    std::optional<Progress> progress;
    options.on_phase = [&](std::string_view suite, std::string_view what) {
        progress.emplace(call.terminal, std::string(suite) + ": " + std::string(what));
    };
    if (call.has("svg")) make_directory(call.value("svg"));
    warnings.release();
    Results results(call);
    options.on_row = [&](const BenchReport& so_far) { results.keep(so_far); };
    const std::stop_callback on_signal(options.stop, [&] { results.interrupted(); });
    const BenchReport report = run_bench(options);
    progress.reset();
    results.ended(report);
    if (call.interrupts.signal() != 0) return 128 + call.interrupts.signal();
    return !report.pass() || (call.flag("check") && !report.missed().empty()) ? kNegative : kPassed;
}

}  // namespace kiln::cli
