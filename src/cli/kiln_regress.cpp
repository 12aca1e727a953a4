// SPDX-License-Identifier: Apache-2.0
//
// kiln regress: the variants of manifests against their baselines, and a table of the differences.
#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/tools/regress.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/progress_bar.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::uint64_t kMostBytesOfADocument = 64 << 20;
constexpr const char* kManifest = "cache/variants.txt";
constexpr const char* kBaselines = "cache/baselines";

std::string manifest_target_text(const ManifestTarget& target) {
    return std::string(kiln::name(target.backend)) + ":" + target.arch;
}

Json speed_json(const Speed& speed) {
    return {{"median_ms", speed.median_ms},
            {"times_naive", or_null(speed.times_naive)},
            {"share", or_null(speed.share)},
            {"ceiling", speed.ceiling.empty() ? Json() : Json(speed.ceiling)}};
}

bool is_built(const RegressResult& result) { return !result.found.compiler.empty(); }

/// With --update: it did not fail.
bool is_recorded(const RegressResult& result) { return result.failures.empty(); }

Json result_json(const RegressResult& result, bool updates) {
    Json moves = Json::array(), speeds = Json::object();
    for (const Move& move : result.moves)
        moves.push_back({{"what", move.what}, {"was", move.was}, {"now", move.now}, {"fails", move.fails}});
    for (const auto& [device, speed] : result.found.speeds) speeds[device] = speed_json(speed);
    Json json;
    json["variant"] = result.variant;
    json["backend"] = kiln::name(result.target.backend);
    json["arch"] = result.target.arch;
    json["status"] = kiln::name(result.status);
    json["moves"] = moves;
    json["failures"] = result.failures;
    json["recorded"] = updates && is_recorded(result);
    json["built"] = is_built(result);
    json["run"] = result.run;
    json["worst"] = or_null(result.found.worst);
    json["speeds"] = speeds.empty() ? Json() : speeds;
    json["elapsed_ms"] = result.elapsed_ms;
    return json;
}

Json report_json(const RegressReport& report, bool updates) {
    Json results = Json::array();
    for (const RegressResult& result : report.results) results.push_back(result_json(result, updates));
    Json json;
    json["pass"] = report.pass();
    json["updated"] = updates && (!report.gone.empty() || std::ranges::any_of(report.results, is_recorded));
    json["results"] = results;
    json["skipped"] = report.skipped;
    json["compiled_only"] = report.compiled_only;
    json["gone"] = report.gone;
    return json;
}

std::string counted(const RegressReport& report, RegressStatus status) {
    const auto count = std::ranges::count(report.results, status, &RegressResult::status);
    return count == 0 ? "" : formatted("{} {}", count, kiln::name(status));
}

/// What differs, one row per difference; the same difference of many variants of a template is reported once.
std::string moves_text(const RegressReport& report) {
    std::map<std::vector<std::string>, std::vector<const RegressResult*>> alike;
    std::vector<std::vector<std::string>> order;
    for (const RegressResult& result : report.results) {
        for (const Move& move : result.moves) {
            const std::string kernel = result.variant.substr(0, result.variant.find(' '));
            // Digests are shown once.
            const bool digest = move.what == "ingredients" || move.what.starts_with("result");
            const std::vector<std::string> key = {manifest_target_text(result.target),
                                                  kernel,
                                                  move.what,
                                                  digest ? "" : move.was,
                                                  digest ? "" : move.now,
                                                  move.fails ? "FAILS" : ""};
            auto& group = alike[key];
            if (group.empty()) order.push_back(key);
            group.push_back(&result);
        }
    }
    if (order.empty()) return {};
    std::vector<std::vector<std::string>> rows = {{"target", "variant", "what", "was", "now", ""}};
    for (const std::vector<std::string>& key : order) {
        const auto& group = alike[key];
        const std::string who =
            group.size() == 1 ? group.front()->variant : formatted("{} ({} variants)", key[1], group.size());
        const bool digest = key[3].empty() && key[4].empty();
        rows.push_back({key[0], who, key[2], digest ? "" : (key[3].empty() ? "none" : key[3]),
                        digest ? "" : (key[4].empty() ? "none" : key[4]), key[5]});
    }
    return "\nDifferences:\n" + table(rows);
}

std::string updated_text(const RegressReport& report) {
    const auto recorded = std::ranges::count_if(report.results, is_recorded);
    const auto failed = std::ssize(report.results) - recorded;
    if (recorded == 0) return "nothing was recorded: every variant failed";
    return (failed == 0
                ? std::string("updated")
                : formatted("updated for {} of {} variants; the {} that failed keep what was recorded",
                            recorded, report.results.size(), failed)) +
           "; review the difference before you commit it";
}

std::string report_text(const RegressReport& report, bool is_sample, bool updates, const Terminal& terminal) {
    std::vector<std::string> counts;
    for (const RegressStatus status :
         {RegressStatus::same, RegressStatus::moved, RegressStatus::fresh, RegressStatus::failed})
        if (const std::string text = counted(report, status); !text.empty()) counts.push_back(text);
    std::string text;
    for (const RegressResult& result : report.results) {
        if (result.failures.empty()) continue;
        text += result.variant + " (" + manifest_target_text(result.target) + ")\n";
        for (const std::string& failure : result.failures)
            text += "    " + failure + (failure.ends_with('\n') ? "" : "\n");
    }
    text += moves_text(report);
    text += text.empty() ? "" : "\n";
    text += line("variants", formatted("{}{}", report.results.size(),
                                       counts.empty() ? "" : ": " + enumerate(counts, ", ")));
    if (const auto built = std::ranges::count_if(report.results, is_built);
        is_sample && built < std::ssize(report.results))
        text += line("built", formatted("{}; of the others the ingredients are compared", built));
    if (!report.compiled_only.empty())
        text += line("no device", "compiled only: " + enumerate(report.compiled_only, ", "));
    for (const std::string& reason : report.skipped) text += line("skipped", reason);
    for (const std::string& variant : report.gone)
        text += line(updates ? "removed" : "stale", variant + (updates ? "" : " is in no manifest any more"));
    if (updates && !report.results.empty()) return text + line("baselines", updated_text(report));
    const std::string verdict = report.results.empty() ? "NOTHING TESTED"
                                : report.pass()        ? "PASSED"
                                                       : "FAILED";
    text += "  " + terminal.painted(report.pass() ? Colour::green : Colour::red, verdict) + "\n";
    const bool all_new = std::ranges::any_of(
        report.results, [](const RegressResult& result) { return result.status == RegressStatus::fresh; });
    if (all_new) text += "Variants without a baseline: 'kiln regress --update' records them.\n";
    return text;
}

RegressOptions regress_options(const Call& call, Warnings& warnings) {
    RegressOptions options;
    options.service = service_options(call.options, warnings, call.interrupts.token());
    options.service.backend.reset();
    options.service.arch.clear();
    options.backend = call.options.backend;
    options.arch = call.options.arch;
    if (!call.options.arch.empty()) {
        const auto wanted = [&](const ManifestTarget& target) {
            return target.arch == call.options.arch &&
                   (!call.options.backend || target.backend == *call.options.backend);
        };
        std::erase_if(options.targets, std::not_fn(wanted));
        if (options.targets.empty()) {
            if (!call.options.backend)
                throw UsageError("--arch " + call.options.arch +
                                 " is not one of the usual targets; add --backend.");
            options.targets = {{*call.options.backend, call.options.arch}};
        }
    }
    if (call.has("only")) options.templates = call.given["only"].as<std::vector<std::string>>();
    options.baselines = call.has("baselines") ? call.value("baselines") : kBaselines;
    std::tie(options.shard, options.shards) = parse_shard(call.has("shard") ? call.value("shard") : "0/1");
    options.sample = call.flag("sample");
    options.update = call.flag("update");
    options.time = call.flag("time");
    return options;
}

std::vector<Manifest> manifests(const Call& call) {
    std::vector<Manifest> result;
    for (const std::string& name : call.words) result.push_back(Manifest::load(name));
    if (!result.empty()) return result;
    if (!std::filesystem::exists(kManifest))
        throw UsageError(std::string("there is no ") + kManifest +
                         " here; run this in the root of Kiln's source tree, or name a manifest.");
    result.push_back(Manifest::load(kManifest));
    return result;
}

/// The file's text with this table in place of the one with the same header.
std::string with_table(const std::string& file, const std::string& table) {
    std::string text = read_input(file, kMostBytesOfADocument);
    const std::size_t begin = text.find(table.substr(0, table.find('\n') + 1));
    if (begin == std::string::npos)
        throw UsageError(file + " has no table that begins with '" + table.substr(0, table.find('\n')) + "'");
    std::size_t end = begin;
    while (end < text.size() && text[end] == '|') {
        const std::size_t newline = text.find('\n', end);
        end = newline == std::string::npos ? text.size() : newline + 1;
    }
    return text.replace(begin, end - begin, table);
}

int print_table(const Call& call, Warnings& warnings) {
    check_unused(call, "--table tests nothing",
                 {"table", "page", "baselines", "template-dir", "include-dir", "json"});
    if (!call.words.empty())
        throw UsageError("--table tests nothing, and the manifest " + call.words[0] +
                         " would not be used; leave it out.");
    ServiceOptions options = compile_options(call, warnings);
    options.backend = Backend::host;
    const Service service(options);
    const std::string baselines = call.has("baselines") ? call.value("baselines") : kBaselines;
    if (!std::filesystem::is_directory(status_of(baselines)))
        throw UsageError("there is no directory of baselines " + baselines +
                         "; run this in the root of Kiln's source tree, or name one by --baselines.");
    const std::string table = kernels_page(service, baselines);
    const bool has_page = call.has("page");
    if (has_page) Output("--page", call.value("page")).write(with_table(call.value("page"), table));
    call.print({{"table", table}, {"page", has_page ? Json(call.value("page")) : Json()}},
               has_page ? std::string() : table);
    return kPassed;
}

}  // namespace

int regress(const Call& call) {
    Warnings warnings(call.terminal);
    if (call.flag("table")) return print_table(call, warnings);
    if (call.has("page"))
        throw UsageError(
            "--page is the file that --table puts the table into; add --table, or leave it out.");
    RegressOptions options = regress_options(call, warnings);
    RegressReport report;
    {
        ProgressBar bar(call.terminal, "regress");
        std::uint64_t failed = 0;
        options.on_result = [&](const RegressResult& result, std::size_t done, std::size_t total) {
            failed += result.status == RegressStatus::failed;
            bar.update(done, total, failed);
        };
        warnings.release();
        report = kiln::regress(manifests(call), options);
    }
    const bool updates = options.update;
    call.print(report_json(report, updates), report_text(report, options.sample, updates, call.terminal));
    const bool wrong = !std::ranges::all_of(report.results, is_recorded);
    return report.results.empty() || wrong || (!updates && !report.pass()) ? kNegative : kPassed;
}

}  // namespace kiln::cli
