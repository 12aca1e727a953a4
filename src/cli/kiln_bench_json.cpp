// SPDX-License-Identifier: Apache-2.0
//
// A benchmark's report as JSON, and back. Values derived from rows (verdicts, geometric means) are written for readers
// and computed again when the report is read.
#include <kiln/error.h>
#include <kiln/files.h>

#include <cmath>
#include <cstdlib>

#include "cli/kiln_bench_report.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

/// With six digits; more would be noise and make the file longer.
Json number(double value) { return std::strtod(formatted("{:.6g}", value).c_str(), nullptr); }

Json number(const std::optional<double>& value) { return value ? number(*value) : Json(); }
Json spread_json(const std::optional<BenchSpread>& spread) {
    if (!spread) return {};
    return {{"min", number(spread->min)},
            {"median", number(spread->median)},
            {"max", number(spread->max)},
            {"count", spread->count}};
}

Json row_json(const BenchRow& row) {
    Json comparisons = Json::array();
    for (const BenchComparison& one : row.comparisons)
        comparisons.push_back({{"with", one.with},
                               {"detail", one.detail},
                               {"is_ceiling", one.is_ceiling},
                               {"time", spread_json(one.time)},
                               {"ratio", number(one.ratio)},
                               {"must", or_null(one.must)},
                               {"aim", or_null(one.aim)},
                               {"verified", or_null(one.verified)}});
    Json json;
    json["problem"] = row.problem;
    json["part"] = row.part;
    json["run"] = row.run;
    json["sizes"] = Json::object();
    for (const auto& [name, size] : row.sizes) json["sizes"][name] = size;
    json["variant"] = text_or_null(row.variant);
    json["origin"] = text_or_null(row.origin);
    json["unit"] = row.unit;
    json["time"] = spread_json(row.kiln);
    json["rate"] = number(row.rate);
    json["rate_unit"] = text_or_null(row.rate_unit);
    json["verified"] = or_null(row.verified);
    json["most_must"] = or_null(row.most_must);
    json["most_aim"] = or_null(row.most_aim);
    json["comparisons"] = comparisons;
    json["meets_must"] = or_null(row.meets_must());
    json["meets_aim"] = or_null(row.meets_aim());
    json["failures"] = row.failures;
    json["notes"] = row.notes;
    json["seconds"] = number(row.seconds);
    return json;
}

Json run_json(const BenchRun& run) {
    const auto known = [](double value) { return value > 0 ? number(value) : Json(); };
    Json json;
    json["id"] = run.id;
    json["date"] = run.date;
    json["machine"] = run.machine;
    json["device"] = run.device;
    json["arch"] = run.arch;
    json["driver"] = run.driver;
    json["quick"] = run.quick;
    json["versions"] = Json::object();
    for (const auto& [of, version] : run.versions) json["versions"][of] = version;
    json["ceilings"] = {{"copy_gbps", known(run.ceilings.copy_gbps)},
                        {"copy_source", run.ceilings.copy_source},
                        {"matrix_tflops", known(run.ceilings.matrix_tflops)},
                        {"matrix_source", run.ceilings.matrix_source},
                        {"fma_tflops", known(run.ceilings.fma_tflops)}};
    return json;
}

Json chip_json(const std::optional<ChipState>& chip) {
    if (!chip) return {};
    return {{"sm_mhz", chip->sm_mhz},
            {"memory_mhz", chip->memory_mhz},
            {"watts", number(chip->watts)},
            {"celsius", chip->celsius}};
}

Json suite_json(const BenchSuite& suite) {
    Json rows = Json::array(), means = Json::array();
    for (const BenchRow& row : suite.rows) rows.push_back(row_json(row));
    for (const BenchMean& mean : suite.means)
        means.push_back({{"with", mean.with},
                         {"ratio", number(mean.ratio)},
                         {"least", number(mean.least)},
                         {"rows", mean.rows},
                         {"must", or_null(mean.must)},
                         {"aim", or_null(mean.aim)},
                         {"part", text_or_null(mean.part)},
                         {"percent", mean.percent},
                         {"low", number(mean.low)},
                         {"low_must", or_null(mean.low_must)},
                         {"low_aim", or_null(mean.low_aim)}});
    return {{"name", suite.name},
            {"title", suite.title},
            {"rows", rows},
            {"means", means},
            {"notes", suite.notes},
            {"failures", suite.failures},
            {"seconds", number(suite.seconds)}};
}

// Reading: nlohmann's exceptions say what is missing.

template <class T>
std::optional<T> optional(const Json& json) {
    return json.is_null() ? std::nullopt : std::optional<T>(json.get<T>());
}

std::string text(const Json& json) { return json.is_null() ? "" : json.get<std::string>(); }

std::optional<BenchSpread> read_spread(const Json& json) {
    if (json.is_null()) return std::nullopt;
    return BenchSpread{json.at("min"), json.at("median"), json.at("max"), json.at("count")};
}

BenchRow read_row(const Json& json) {
    BenchRow row;
    row.problem = json.at("problem");
    row.part = json.at("part");
    row.run = json.at("run");
    for (const auto& [name, size] : json.at("sizes").items()) row.sizes[name] = size;
    row.variant = text(json.at("variant"));
    row.origin = text(json.at("origin"));
    row.unit = json.at("unit");
    row.kiln = read_spread(json.at("time"));
    row.rate = optional<double>(json.at("rate"));
    row.rate_unit = text(json.at("rate_unit"));
    row.verified = optional<bool>(json.at("verified"));
    row.most_must = optional<double>(json.at("most_must"));
    row.most_aim = optional<double>(json.at("most_aim"));
    for (const Json& one : json.at("comparisons")) {
        BenchComparison& comparison = row.comparisons.emplace_back();
        comparison.with = one.at("with");
        comparison.detail = one.at("detail");
        comparison.is_ceiling = one.at("is_ceiling");
        comparison.time = read_spread(one.at("time"));
        comparison.ratio = one.at("ratio");
        comparison.must = optional<double>(one.at("must"));
        comparison.aim = optional<double>(one.at("aim"));
        comparison.verified = optional<bool>(one.at("verified"));
    }
    row.failures = json.at("failures").get<std::vector<std::string>>();
    row.notes = json.at("notes").get<std::vector<std::string>>();
    row.seconds = json.at("seconds");
    return row;
}

BenchRun read_run(const Json& json) {
    BenchRun run;
    run.id = json.at("id");
    run.date = json.at("date");
    run.machine = json.at("machine");
    run.device = json.at("device");
    run.arch = json.at("arch");
    run.driver = json.at("driver");
    run.quick = json.at("quick");
    for (const auto& [of, version] : json.at("versions").items()) run.versions[of] = version;
    const Json& ceilings = json.at("ceilings");
    run.ceilings.copy_gbps = optional<double>(ceilings.at("copy_gbps")).value_or(0);
    run.ceilings.copy_source = ceilings.at("copy_source");
    run.ceilings.matrix_tflops = optional<double>(ceilings.at("matrix_tflops")).value_or(0);
    run.ceilings.matrix_source = ceilings.at("matrix_source");
    run.ceilings.fma_tflops = optional<double>(ceilings.at("fma_tflops")).value_or(0);
    return run;
}

std::optional<ChipState> read_chip(const Json& json) {
    if (json.is_null()) return std::nullopt;
    return ChipState{json.at("sm_mhz"), json.at("memory_mhz"), json.at("watts"), json.at("celsius")};
}

BenchPart read_part(const Json& json) {
    return {.name = json.at("name"),
            .run = json.at("run"),
            .seconds = json.at("seconds"),
            .missing = json.at("missing").get<std::vector<std::string>>(),
            .before = read_chip(json.at("before")),
            .after = read_chip(json.at("after"))};
}

BenchSuite read_suite(const Json& json) {
    BenchSuite suite;
    suite.name = json.at("name");
    suite.title = json.at("title");
    for (const Json& row : json.at("rows")) suite.rows.push_back(read_row(row));
    for (const Json& one : json.at("means")) {
        BenchMean& mean = suite.means.emplace_back();
        mean.with = one.at("with");
        mean.ratio = one.at("ratio");
        mean.least = one.at("least");
        mean.rows = one.at("rows");
        mean.must = optional<double>(one.at("must"));
        mean.aim = optional<double>(one.at("aim"));
        // Reports of earlier versions do not have these.
        mean.part = text(one.value("part", Json()));
        mean.percent = one.value("percent", 0);
        mean.low = one.value("low", 0.0);
        mean.low_must = optional<double>(one.value("low_must", Json()));
        mean.low_aim = optional<double>(one.value("low_aim", Json()));
    }
    suite.notes = json.at("notes").get<std::vector<std::string>>();
    suite.failures = json.at("failures").get<std::vector<std::string>>();
    suite.seconds = json.at("seconds");
    return suite;
}

/// Objects and arrays down to `levels` have a line per element; deeper levels are on the same line.
void write_lines(std::string& out, const Json& json, int levels, const std::string& indent) {
    if (levels == 0 || !json.is_structured() || json.empty()) {
        out += json.dump(-1, ' ', false, Json::error_handler_t::replace);
        return;
    }
    out += json.is_array() ? "[\n" : "{\n";
    for (auto element = json.begin(); element != json.end(); ++element) {
        if (element != json.begin()) out += ",\n";
        out += indent + " ";
        if (json.is_object()) out += Json(element.key()).dump() + ": ";
        write_lines(out, *element, levels - 1, indent + " ");
    }
    out += "\n" + indent + (json.is_array() ? "]" : "}");
}

constexpr int kLevels = 4;  // report, list of suites, suite, list of rows

}  // namespace

Json to_json(const BenchReport& report) {
    Json json;
    json["backend"] = kiln::name(report.backend);
    json["device"] = report.device;
    json["arch"] = report.arch;
    json["runs"] = Json::array();
    for (const BenchRun& run : report.runs) json["runs"].push_back(run_json(run));
    json["parts"] = Json::array();
    for (const BenchPart& part : report.parts)
        json["parts"].push_back({{"name", part.name},
                                 {"run", part.run},
                                 {"seconds", number(part.seconds)},
                                 {"missing", part.missing},
                                 {"before", chip_json(part.before)},
                                 {"after", chip_json(part.after)}});
    json["suites"] = Json::array();
    for (const BenchSuite& suite : report.suites) json["suites"].push_back(suite_json(suite));
    json["interrupted"] = report.interrupted;
    json["missing"] = report.missing();
    json["missed"] = report.missed();
    json["pass"] = report.pass();
    return json;
}

BenchReport bench_report(const Json& json) {
    BenchReport report;
    report.backend = parse_backend(json.at("backend").get<std::string>());
    report.device = json.at("device");
    report.arch = json.at("arch");
    for (const Json& run : json.at("runs")) report.runs.push_back(read_run(run));
    for (const Json& part : json.at("parts")) report.parts.push_back(read_part(part));
    for (const Json& suite : json.at("suites")) report.suites.push_back(read_suite(suite));
    report.interrupted = json.at("interrupted");
    return report;
}

std::string file_content(const std::filesystem::path& file) {
    constexpr std::uint64_t kMostBytes = 256 << 20;
    return read_input(file, kMostBytes);
}

BenchReport load_bench_report(const std::filesystem::path& file) {
    const std::string content = file_content(file);
    try {
        return bench_report(Json::parse(content));
    } catch (const std::exception& error) {
        throw UsageError(file.string() + " is not a report of 'kiln bench --json': " + error.what());
    }
}

std::string bench_record(const BenchReport& report) {
    std::string text;
    write_lines(text, to_json(report), kLevels, "");
    return text + "\n";
}

}  // namespace kiln::cli
