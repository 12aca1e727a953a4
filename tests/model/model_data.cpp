// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing the measured rows, and predicting them.
#include "model_data.h"

#include <kiln/error.h>
#include <kiln/tools/analyze.h>
#include <kiln/tools/banks.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <thread>

#include "analysis/code_lines.h"
#include "base/file.h"
#include "inspect/host_recorder.h"
#include "inspect/profile_page.h"
#include "inspect/recorded_variant.h"

namespace kiln::model {
namespace {

constexpr std::string_view kHeader =
    "variant,sizes,wavefronts,ideal,load_wavefronts,store_wavefronts,global_sectors,global_ideal,registers,"
    "predicted_wavefronts,predicted_ideal,explanation";
constexpr std::size_t kColumns = 12;

std::vector<std::string> words(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> result;
    for (std::string word; stream >> word;) result.push_back(word);
    return result;
}

std::optional<std::uint64_t> whole(const std::string& text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string optional_text(const std::optional<std::uint64_t>& value) {
    return value ? std::to_string(*value) : std::string();
}

std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"") == std::string::npos) return text;
    std::string result = "\"";
    for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
}

Row parse_row(const std::vector<std::string>& fields, const std::string& where) {
    if (fields.size() != kColumns)
        throw UsageError(where + ": " + std::to_string(fields.size()) + " columns, not " +
                         std::to_string(kColumns) + ".");
    const auto number = [&](std::size_t column) {
        const auto value = whole(fields[column]);
        if (!value)
            throw UsageError(where + ": column " + std::to_string(column + 1) + " is '" + fields[column] +
                             "', which is not an integer.");
        return *value;
    };
    const std::optional<std::uint64_t> registers =
        fields[8].empty() ? std::nullopt : std::optional(number(8));
    Row row{fields[0], fields[1], number(2), number(3),        number(4),         number(5),
            number(6), number(7), registers, whole(fields[9]), whole(fields[10]), fields[11]};
    if ((row.predicted_wavefronts || row.predicted_ideal) && row.explanation.empty())
        throw UsageError(where + ": another prediction than what was measured needs an explanation.");
    return row;
}

std::string line_text(const SharedLine& line) {
    const SharedSite& site = line.site;
    return site.place.text() + " " + std::string(name(site.kind)) + " " + site.variable + ": " +
           std::to_string(line.believed.bytes) + " bytes, " + std::to_string(line.believed.requests) +
           " requests, " + std::to_string(line.believed.wavefronts) + " wavefronts, ideal " +
           std::to_string(line.believed.ideal) + " (" + line.belief + ")";
}

/// What Analyzer does for its counts, and nothing of the rest: no naive variant, no search for a better layout.
Prediction prediction_of(HostRecorder& host, Service& service, const Row& row) {
    Prediction result;
    const Variant variant = row.variant_of(service);
    const Sizes sizes = row.sizes_of();
    RecorderOptions options;
    options.banks = bank_model(service.target().arch);
    options.warp_size = options.banks.lanes;
    options.most_blocks = std::numeric_limits<std::uint64_t>::max();
    options.most_ms = std::numeric_limits<double>::infinity();
    options.problems = false;

    const Binary binary = service.compile(variant).binary;
    result.registers = resources_of(binary).registers;
    const std::vector<CompiledAccess> compiled = compiled_accesses(binary);
    const Variant on_host = host.on_host(variant);
    const RecordedVariant recorded =
        record_variant(host, host.build(on_host), {launch_work(on_host, sizes), {}}, options);
    const Recording recording = added_up(recorded.at);
    if (recording.blocks_recorded != recording.blocks) result.problem = "not all blocks were recorded";
    // All blocks at these very sizes: nothing is scaled, whatever grid the host makes of it.
    const ScaledCounts counts = scaled_counts(recorded, recorded.sizes.at, compiled);
    const auto rounded = [](double value) { return static_cast<std::uint64_t>(std::llround(value)); };
    result.wavefronts = rounded(counts.shared_wavefronts);
    result.ideal = rounded(counts.shared_ideal);
    result.global_sectors = rounded(counts.global_sectors);
    result.global_ideal = rounded(counts.global_ideal);
    for (const SharedLine& line : believed_lines(recording, compiled))
        result.lines.push_back(line_text(line));
    return result;
}

}  // namespace

Variant Row::variant_of(const Service& service) const {
    const std::vector<std::string> all = words(variant);
    const Template of = service.find(all.at(0));
    Values values;
    for (std::size_t i = 1; i < all.size(); ++i) {
        const std::size_t equals = all[i].find('=');
        const Parameter* const parameter = of.parameter(all[i].substr(0, equals));
        if (equals == std::string::npos || parameter == nullptr)
            throw UsageError(variant + ": " + of.name() + " has no parameter " + all[i] + " any more.");
        values.insert_or_assign(parameter->name, parameter->parse(all[i].substr(equals + 1)));
    }
    return of.variant(values);
}

Sizes Row::sizes_of() const {
    Sizes result;
    for (const std::string& word : words(sizes)) {
        const std::size_t equals = word.find('=');
        const auto value = equals == std::string::npos ? std::nullopt : whole(word.substr(equals + 1));
        if (!value) throw UsageError(variant + ": '" + word + "' is not of the form NAME=N.");
        result[word.substr(0, equals)] = static_cast<std::int64_t>(*value);
    }
    return result;
}

std::string Row::arguments() const {
    std::string result = variant;
    for (const std::string& word : words(sizes)) result += " --size " + word;
    return result;
}

Data load(const std::filesystem::path& file) {
    const auto content = read_text_if_exists(file);
    if (!content) throw UsageError("there is no file " + file.string() + ".");
    Data data;
    data.templates = file.parent_path() / "templates";
    bool has_header = false;
    std::istringstream lines(*content);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
        const std::string where = file.string() + ":" + std::to_string(number);
        if (line.starts_with("# ")) {
            data.about.push_back(line.substr(2));
        } else if (!has_header) {
            if (line != kHeader)
                throw UsageError(where + ": the columns are '" + std::string(kHeader) + "'.");
            has_header = true;
        } else if (const auto fields = parse_csv(line); !fields.empty()) {
            data.rows.push_back(parse_row(fields.front(), where));
        }
    }
    return data;
}

std::string text(const Data& data) {
    std::string result;
    for (const std::string& one : data.about) result += "# " + one + "\n";
    result += std::string(kHeader) + "\n";
    for (const Row& row : data.rows) {
        result += row.variant + "," + row.sizes;
        for (const std::uint64_t value : {row.wavefronts, row.ideal, row.load_wavefronts,
                                          row.store_wavefronts, row.global_sectors, row.global_ideal})
            result += "," + std::to_string(value);
        result += "," + optional_text(row.registers) + "," + optional_text(row.predicted_wavefronts) + "," +
                  optional_text(row.predicted_ideal) + "," + quoted(row.explanation) + "\n";
    }
    return result;
}

std::string table(const Data& data) {
    std::string about;
    for (const std::string& one : data.about) about += (about.empty() ? "" : "; ") + one;
    std::size_t equal = 0;
    for (const Row& row : data.rows)
        equal += row.expected_wavefronts() == row.wavefronts && row.expected_ideal() == row.ideal;
    std::string result = std::to_string(data.rows.size()) + " variants, " + std::to_string(equal) +
                         " predicted to the last wavefront. " + about +
                         ".\n\n| variant | sizes | predicted | measured | ideal | why they differ |\n"
                         "| --- | --- | ---: | ---: | ---: | --- |\n";
    for (const Row& row : data.rows) {
        std::string ideal = std::to_string(row.ideal);
        if (row.expected_ideal() != row.ideal)
            ideal += " (predicted " + std::to_string(row.expected_ideal()) + ")";
        result += "| `" + row.variant + "` | " + row.sizes + " | " +
                  std::to_string(row.expected_wavefronts()) + " | " + std::to_string(row.wavefronts) + " | " +
                  ideal + " | " + row.explanation + " |\n";
    }
    return result;
}

Row measured_row(const Row& row, const Measured& measured) {
    const auto count = [](const std::optional<double>& value) {
        return static_cast<std::uint64_t>(std::llround(value.value_or(0)));
    };
    Row result = row;
    result.wavefronts = count(measured.shared_wavefronts);
    result.ideal = count(measured.shared_ideal);
    result.load_wavefronts = count(measured.load_wavefronts);
    result.store_wavefronts = count(measured.store_wavefronts);
    result.global_sectors = count(measured.global_sectors);
    result.global_ideal = count(measured.global_ideal);
    result.registers = static_cast<std::uint64_t>(measured.registers.value_or(0));
    return result;
}

Row predicted_row(const Row& row, const Prediction& prediction) {
    Row result = row;
    result.predicted_wavefronts.reset();
    result.predicted_ideal.reset();
    if (prediction.wavefronts != row.wavefronts) result.predicted_wavefronts = prediction.wavefronts;
    if (prediction.ideal != row.ideal) result.predicted_ideal = prediction.ideal;
    if (!result.predicted_wavefronts && !result.predicted_ideal)
        result.explanation.clear();
    else if (result.explanation.empty())
        result.explanation = kUnexplained;
    return result;
}

std::vector<Prediction> predict(const Data& data, const std::string& arch, const std::filesystem::path& cache,
                                unsigned threads) {
    const std::vector<Row>& rows = data.rows;
    std::vector<Prediction> result(rows.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        try {
            ServiceOptions options;
            options.backend = Backend::cuda;
            options.arch = arch;
            options.compile_only = true;
            options.cache.directory = cache;
            if (std::filesystem::is_directory(data.templates))
                options.template_directories = {data.templates};
            Service service(options);
            HostRecorder host(service);
            for (std::size_t i; (i = next++) < rows.size();) {
                try {
                    result[i] = prediction_of(host, service, rows[i]);
                } catch (const std::exception& error) {
                    result[i].problem = error.what();
                }
            }
        } catch (const std::exception& error) {
            for (std::size_t i; (i = next++) < rows.size();) result[i].problem = error.what();
        }
    };
    {
        std::vector<std::jthread> workers;
        for (unsigned i = 0; i < std::max(threads, 1u); ++i) workers.emplace_back(work);
    }
    return result;
}

}  // namespace kiln::model
