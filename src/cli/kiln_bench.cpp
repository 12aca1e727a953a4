// SPDX-License-Identifier: Apache-2.0
//
// kiln bench: suites of measurements against other libraries.
#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/tools/bench.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <tuple>

#include "cli/command_line.h"
#include "cli/kiln_bench_report.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/text_format.h"
#include "cli/timed_variants.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

/// The arguments with which bench() starts this program as a child process.
constexpr const char* kChild = "measure-here";

constexpr int kMostRounds = 100'000, kMostSeconds = 1'000'000, kMostDraws = 100'000, kMostOthers = 10'000;

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
    check_unused(
        call,
        call.flag("list-suites") ? "--list-suites runs nothing" : "without a SUITE kiln bench runs nothing",
        {"list-suites", "json"});
    std::vector<std::vector<std::string>> rows;
    Json suites = Json::array();
    for (const BenchSuiteName& suite : bench_suites()) {
        std::string parts;
        Json part_names = Json::array();
        for (const std::string_view part : suite.parts) {
            parts += (parts.empty() ? "." : " .") + std::string(part);
            part_names.push_back(std::string(suite.name) + "." + std::string(part));
        }
        rows.push_back({std::string(suite.name), std::string(suite.title)});
        rows.push_back({"", parts});
        suites.push_back({{"name", suite.name}, {"title", suite.title}, {"parts", part_names}});
    }
    call.print(
        {{"suites", suites}},
        table(rows) +
            "\nkiln bench SUITE... runs some, kiln bench SUITE.PART a part, kiln bench all runs all.\n");
    return kPassed;
}

std::vector<std::string> chosen_suites(const std::vector<std::string>& words) {
    if (words != std::vector<std::string>{"all"}) return words;
    std::vector<std::string> all;
    for (const BenchSuiteName& suite : bench_suites())
        if (!suite.is_drawn) all.emplace_back(suite.name);
    return all;
}

/// The file of --resume until the run ends, since it is written with all that the run knows. Throws UsageError.
std::shared_ptr<void> locked(const std::string& file) {
    if (auto lock = lock_output(file)) return lock;
    throw UsageError("--resume " + file +
                     " is being written by another run of kiln bench; wait for it, or name another file.");
}

/// The content of the file; nullopt: it does not exist yet.
std::optional<BenchReport> resumed(const std::filesystem::path& file) {
    std::error_code error;
    if (!std::filesystem::exists(file, error)) return std::nullopt;
    return load_bench_report(file);
}

/// The picture of a suite.
Output picture_output(const Call& call, const std::string& suite) {
    return {"--svg", (std::filesystem::path(call.value("svg")) / (suite + ".svg")).string()};
}

/// Prints the report and draws its charts once: at the end or, after a signal, what was measured until then. In the
/// latter case the signal thread prints, since the current row may take longer than the program has left.
class Results {
  public:
    explicit Results(const Call& call) : call_(call) {}

    void keep(const BenchReport& so_far) {
        const std::lock_guard lock(mutex_);
        kept_ = so_far;
        if (call_.has("resume")) Output("--resume", call_.value("resume")).write(bench_record(so_far));
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
        if (call_.has("resume")) Output("--resume", call_.value("resume")).write(bench_record(report));
        if (!printed_) print(report);
    }

  private:
    void print(const BenchReport& report) {
        printed_ = true;
        call_.print(to_json(report),
                    call_.flag("markdown") ? to_markdown(report) : to_text(report, call_.terminal));
        if (!call_.has("svg")) return;
        for (const BenchSuite& suite : report.suites)
            picture_output(call_, suite.name).write(bench_picture(report, suite));
    }

    const Call& call_;
    std::mutex mutex_;
    BenchReport kept_;
    bool printed_ = false;
};

/// Options of problems that are drawn.
void read_drawing(const Call& call, BenchOptions& options) {
    if (call.has("seed"))
        options.seed =
            parse_whole("--seed", call.value("seed"), 0, std::numeric_limits<std::uint64_t>::max());
    if (call.has("draws"))
        options.draws = static_cast<int>(parse_whole("--draws", call.value("draws"), 1, kMostDraws));
    if (call.has("shard")) std::tie(options.shard, options.shards) = parse_shard(call.value("shard"));
    if (call.has("others"))
        options.others = static_cast<int>(parse_whole("--others", call.value("others"), 0, kMostOthers));
    if (call.has("tune")) options.tune_seconds = parse_seconds("--tune", call.value("tune"));
    options.no_wisdom = call.flag("no-wisdom");
}

/// As a manifest for kiln warm; needs no device.
int list_variants(const Call& call, Warnings& warnings, const BenchOptions& options) {
    check_unused(
        call, "--list-variants measures nothing",
        {"list-variants", "for-device", "seed", "draws", "shard", "others", "no-wisdom", "json", "backend",
         "device", "arch", "template-dir", "cache-dir", "no-cache", "seed-pack", "remote"});
    ServiceOptions setup = options.service;
    setup.compile_only = !call.options.arch.empty();
    const std::unique_ptr<Service> service = open_service(call, warnings, std::move(setup), false);
    const std::string target = formatted(" @{}:{}", name(service->backend()), service->target().arch);
    std::string text;
    Json list = Json::array();
    const std::string device = call.has("for-device") ? call.value("for-device") : std::string();
    for (const Variant& variant : bench_variants(*service, options, device)) {
        text += variant.text() + target + "\n";
        list.push_back(variant.text());
    }
    if (list.empty())
        throw UsageError(formatted("no template computes any of the problems that are drawn, on {}.",
                                   service->target().arch));
    call.print({{"backend", name(service->backend())}, {"arch", service->target().arch}, {"variants", list}},
               text);
    return kPassed;
}

/// Before anything is measured, so that pictures that can't be written waste no time.
void prepare_pictures(const Call& call, const BenchOptions& options) {
    const std::filesystem::path directory = call.value("svg");
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) throw UsageError("--svg " + directory.string() + ": " + error.message() + ".");
    const auto check = [&](const std::string& suite) {
        picture_output(call, suite).check_replaces("picture", {kPictureMark});
    };
    for (const std::string& part : options.suites) check(part.substr(0, part.find('.')));
    if (!options.before) return;
    for (const BenchSuite& suite : options.before->suites) check(suite.name);
}

/// Whether it is a report, however it is indented.
bool is_report(const Output& file) {
    if (file.is_stream()) return false;
    try {
        static_cast<void>(load_bench_report(file.path()));
        return true;
    } catch (const UsageError&) {
        return false;
    }
}

}  // namespace

int bench(const Call& call) {
    if (!call.words.empty() && call.words[0] == kChild)
        return run_bench_child(std::span(call.words).subspan(1));
    if (call.has("for-device") && !call.flag("list-variants"))
        throw UsageError(
            "--for-device is about --list-variants; what is measured is the device that is here.");
    if (call.flag("list-suites")) return list_suites(call);
    if (call.words.empty() && call.flag("list-variants"))
        throw UsageError(
            "--list-variants is of parts of the suite unseen; name one, such as unseen.attention.");
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
    if (call.has("part-limit"))
        options.part_limit =
            std::chrono::seconds(parse_whole("--part-limit", call.value("part-limit"), 1, kMostSeconds));
    if (call.has("limit"))
        options.limit = std::chrono::seconds(parse_whole("--limit", call.value("limit"), 1, kMostSeconds));
    if (call.has("resume") && Output("--resume", call.value("resume")).is_stream())
        throw UsageError("--resume " + call.value("resume") +
                         " is not a file that can be read again; name one.");
    read_drawing(call, options);
    options.quick = call.flag("quick");
    options.stop = call.interrupts.token();
    if (call.flag("list-variants")) return list_variants(call, warnings, options);
    std::shared_ptr<void> lock;
    if (call.has("resume")) {
        lock = locked(call.value("resume"));
        options.before = resumed(call.value("resume"));
    }
    options.child = {"/proc/self/exe", "bench", kChild};
    std::optional<Progress> progress;
    options.on_phase = [&](std::string_view suite, std::string_view what) {
        progress.emplace(call.terminal, std::string(suite) + ": " + std::string(what));
    };
    if (call.has("svg")) prepare_pictures(call, options);
    std::optional<TimedVariantFile> timed;
    if (call.has("timed-variants")) {
        timed.emplace("--timed-variants", call.value("timed-variants"));
        options.on_variant = [&](const BenchTimedVariant& one) { timed->add(one); };
    }
    warnings.release();
    Results results(call);
    options.on_row = [&](const BenchReport& so_far) { results.keep(so_far); };
    const std::stop_callback on_signal(options.stop, [&] { results.interrupted(); });
    const BenchReport report = run_bench(options);
    progress.reset();
    results.ended(report);
    if (timed) timed->close();
    if (call.interrupts.signal() != 0) return 128 + call.interrupts.signal();
    return !report.pass() || (call.flag("check") && !report.missed().empty()) ? kNegative : kPassed;
}

int bench_merge(const Call& call) {
    if (call.options.json && call.flag("markdown"))
        throw UsageError("--json and --markdown are two ways of printing; leave one out.");
    std::vector<BenchReport> reports;
    for (const std::string& file : call.words) reports.push_back(load_bench_report(file));
    const BenchReport all = merged_bench(reports);
    if (call.has("output")) {
        const Output output("--output", call.value("output"));
        output.check_json(call.options.json);
        if (!is_report(output)) output.check_replaces("report", {"{\n \"backend\": \""});
        output.write(bench_record(all));
        if (output.is_standard_output()) return kPassed;
    }
    std::string text = call.flag("markdown") ? to_markdown(all) : to_text(all, call.terminal);
    for (const std::string& one : all.missing()) text += line("missing", one);
    call.print(to_json(all), text);
    return all.pass() && (!call.flag("check") || (all.missed().empty() && all.missing().empty())) ? kPassed
                                                                                                  : kNegative;
}

int bench_page(const Call& call) {
    std::string text;
    Json pages = Json::array();
    bool same = true;
    for (const std::string& page : call.words) {
        const std::string old = file_content(page);
        const std::string anew = written_anew(old, page);
        const bool differs = anew != old;
        same = same && !differs;
        if (differs && !call.flag("check")) Output("the page", page).write(anew);
        text += page + (!differs             ? ": as its records say\n"
                        : call.flag("check") ? ": DIFFERS\n"
                                             : ": written\n");
        pages.push_back({{"page", page}, {"differed", differs}});
    }
    call.print({{"pages", pages}}, text);
    return same || !call.flag("check") ? kPassed : kNegative;
}

}  // namespace kiln::cli
