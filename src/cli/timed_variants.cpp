// SPDX-License-Identifier: Apache-2.0
#include "cli/timed_variants.h"

#include <kiln/error.h>
#include <kiln/files.h>

#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/text_format.h"
#include "cli/tune_report.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::uint64_t kFirstSeed = 1000;  // the first seeds are those that `kiln bench` judges by
constexpr std::size_t kFields = 7;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

template <class Number>
Number number_of(const std::string& text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        throw UsageError("'" + text + "' is not a number");
    return value;
}

MeasuredTime measured_of(const std::string& line) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
    if (fields.size() != kFields)
        throw UsageError(formatted("a line has {} fields with tabs between them, and this one {}", kFields,
                                   fields.size()));
    MeasuredTime time;
    time.problem = fields[0] + " " + fields[1] + " " + fields[2];
    std::istringstream sizes(fields[2]);
    for (std::string word; sizes >> word;) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos) throw UsageError("'" + word + "' is not NAME=SIZE");
        time.sizes.emplace(word.substr(0, equals), number_of<std::int64_t>(word.substr(equals + 1)));
    }
    time.variant = fields[3];
    time.us = number_of<double>(fields[6]);
    if (!(time.us > 0) || !std::isfinite(time.us))
        throw UsageError("'" + fields[6] + "' is not a time in microseconds");
    return time;
}

/// What ends with a newline of a file's content.
std::string_view finished(std::string_view content) { return content.substr(0, content.rfind('\n') + 1); }

std::string line_of(const BenchTimedVariant& timed) {
    return formatted("{}\t{}\t{}\t{}\t{}\t{:.3f}\t{:.3f}\n", timed.family, timed.fixed,
                     wisdom_sizes_text(timed.sizes), timed.variant, timed.is_chosen ? "chosen" : "other",
                     timed.estimated_us, timed.us);
}

/// file: for messages.
std::vector<MeasuredTime> parsed(std::string_view content, const std::filesystem::path& file) {
    std::vector<MeasuredTime> times;
    std::istringstream lines{std::string(content)};
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        if (line.ends_with('\r')) line.pop_back();
        if (line.empty() || line.front() == '#') continue;
        try {
            times.push_back(measured_of(line));
        } catch (const UsageError& problem) {
            throw UsageError(formatted("{}:{}: {}.", file.string(), number, problem.what()));
        }
    }
    return times;
}

}  // namespace

MeasuredTime measured(const BenchTimedVariant& timed) {
    return {timed.family + " " + timed.fixed + " " + wisdom_sizes_text(timed.sizes), timed.variant,
            timed.sizes, timed.us};
}

std::uint64_t next_seed(std::size_t times, const Calibration& before) {
    return kFirstSeed + times + before.fitted_problems();
}

std::vector<MeasuredTime> load_timed_variants(const std::filesystem::path& file) {
    return parsed(finished(read_input(file, kMostBytes)), file);
}

TimedVariantFile::TimedVariantFile(std::string option, const std::filesystem::path& file)
    : name_(std::move(option) + " " + file.string()) {
    std::error_code none, error;
    if (std::filesystem::is_regular_file(file, none)) {
        const std::string content = read_input(file, kMostBytes);
        const std::size_t kept = finished(content).size();
        earlier_ = parsed(finished(content), file);  // throws: another kind of file stays as it is
        // What was cut off can be recognised as a part of a line only behind other lines.
        if (kept == 0 && !content.empty())
            throw UsageError(name_ + " holds no lines of timed variants; name another file, or remove it.");
        if (kept < content.size()) std::filesystem::resize_file(file, kept, error);
    }
    if (!error) lines_.open(file, std::ios::app);
    if (!lines_.is_open()) throw UsageError(name_ + " can't be written to.");
}

void TimedVariantFile::add(const BenchTimedVariant& timed) { lines_ << line_of(timed) << std::flush; }

void TimedVariantFile::close() {
    lines_.close();
    if (!lines_) throw UsageError(name_ + " can't be written to.");
}

}  // namespace kiln::cli
