// SPDX-License-Identifier: Apache-2.0
//
// kiln lab banks: patterns of shared-memory accesses, predicted and, on a GPU, measured.
#include "cli/kiln_lab.h"

#include <kiln/device.h>
#include <kiln/error.h>

#include <algorithm>
#include <cmath>

#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr const char* kStrides = "1,2,3,4,5,7,8,16,17,31,32,33,64";
constexpr const char* kModelWithoutGpu = "sm_90a";
constexpr double kTolerance = 0.15;  // of measured against predicted
constexpr int kMostRows = 1024, kMostColumns = 512, kMostPad = 1024;
constexpr std::size_t kMostPads = 16;

struct Row {
    LabPattern pattern;
    Wavefronts predicted;
    std::optional<LabTime> time;
    std::optional<double> ratio;  ///< of cycles, to the conflict-free pattern
    /// ratio divided by the ratio of wavefronts; 1 means agreement
    std::optional<double> agreement;

    bool agrees() const { return !agreement || std::abs(*agreement - 1) <= kTolerance; }
};

/// --pad: a number, or a list.
std::vector<int> chosen_pads(const Call& call) {
    std::vector<int> pads;
    const std::string text = call.has("pad") ? call.value("pad") : "0";
    for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        pads.push_back(static_cast<int>(parse_whole("--pad", text.substr(begin, end - begin), 0, kMostPad)));
    }
    if (pads.size() > kMostPads)
        throw UsageError(
            formatted("--pad takes {} numbers at most, and these are {}.", kMostPads, pads.size()));
    return pads;
}

/// --map and its options. With one pad, --swizzle swizzles that layout; with several pads it adds an unpadded,
/// swizzled layout after theirs.
std::vector<LabLayout> chosen_layouts(const Call& call) {
    if (call.words.size() != 3)
        throw UsageError(
            "--map needs two numbers after it: kiln lab banks --map ROWS COLUMNS, as in --map 32 32.");
    LabLayout layout;
    layout.rows = static_cast<int>(parse_whole("ROWS", call.words[1], 1, kMostRows));
    layout.columns = static_cast<int>(parse_whole("COLUMNS", call.words[2], 1, kMostColumns));
    if (call.has("element"))
        layout.element_bytes =
            parse_choice("--element", call.value("element"), {"half", "float"}) == 0 ? 2 : 4;
    std::vector<LabLayout> layouts;
    for (const int pad : chosen_pads(call)) {
        layout.pad = pad;
        layouts.push_back(layout);
    }
    if (!call.flag("swizzle")) return layouts;
    if (layouts.size() > 1) {
        layout.pad = 0;
        layouts.push_back(layout);
    }
    LabLayout& swizzled = layouts.back();
    swizzled.swizzle = true;
    constexpr int kChunk = 16;
    if ((swizzled.columns + swizzled.pad) * swizzled.element_bytes % kChunk != 0)
        throw UsageError(
            formatted("--swizzle moves chunks of 16 bytes, which a row of {} bytes is not a multiple of; "
                      "choose COLUMNS + pad so that it is.",
                      (swizzled.columns + swizzled.pad) * swizzled.element_bytes));
    return layouts;
}

Json wavefronts_json(const Wavefronts& taken) {
    return {{"wavefronts", taken.actual},
            {"ideal", taken.ideal},
            {"degree", taken.degree},
            {"aligned", taken.aligned},
            {"merged", taken.merged}};
}

Json layout_json(const LabLayout& layout, const BankModel& model) {
    Json banks = Json::array();
    for (int row = 0; row < layout.rows; ++row) {
        Json line = Json::array();
        for (int column = 0; column < layout.columns; ++column)
            line.push_back(bank_of(layout.address(row, column), model));
        banks.push_back(std::move(line));
    }
    return {{"rows", layout.rows},
            {"columns", layout.columns},
            {"pad", layout.pad},
            {"element_bytes", layout.element_bytes},
            {"swizzle", layout.swizzle},
            {"bank", banks},
            {"read_column", wavefronts_json(layout.read_column(model))},
            {"read_row", wavefronts_json(layout.read_row(model))}};
}

int show_map(const Call& call, const std::string& arch) {
    const std::vector<LabLayout> layouts = chosen_layouts(call);
    const BankModel model = bank_model(arch);
    if (call.has("svg")) {
        const Output output("--svg", call.value("svg"));
        output.check_json(call.options.json);
        output.check_replaces("picture", {kPictureMark});
        output.write(bank_map_svg(layouts, model));
        if (output.is_standard_output()) return kPassed;
    }
    // The fields of a single layout are those of the object.
    Json json = {{"arch", arch}};
    if (layouts.size() == 1) {
        json.update(layout_json(layouts[0], model));
    } else {
        json["layouts"] = Json::array();
        for (const LabLayout& layout : layouts) json["layouts"].push_back(layout_json(layout, model));
    }
    json["svg"] = call.has("svg") ? Json(call.value("svg")) : Json();
    call.print(json, layouts_text(layouts, model, call.terminal.output_columns()));
    return kPassed;
}

std::vector<LabPattern> chosen_patterns(const Call& call) {
    std::vector<LabPattern> all =
        lab_patterns(parse_strides(call.has("stride") ? call.value("stride") : kStrides));
    if (!call.has("pattern")) return all;
    const std::string& wanted = call.value("pattern");
    std::vector<std::string> names;
    std::vector<LabPattern> chosen;
    for (const LabPattern& pattern : all) {
        names.push_back(pattern.name);
        // "ldmatrix" means all of ldmatrix+0, ldmatrix-swizzle-64, ...
        names.push_back(pattern.name.substr(0, pattern.name.find('+')));
        const bool family = pattern.name.starts_with(wanted + "+") || pattern.name.starts_with(wanted + "-");
        if (pattern.name == wanted || family) chosen.push_back(pattern);
    }
    if (!chosen.empty()) return chosen;
    const std::string near = nearest(wanted, names);
    names.clear();
    for (const LabPattern& pattern : all) names.push_back(pattern.name);
    throw UsageError("there is no pattern '" + wanted + "'." +
                     (near.empty() ? "" : " Did you mean " + near + "?") + " There are " +
                     enumerate(names, " and ") + ".");
}

/// All times are relative to this pattern's: no conflict, 4 bytes per lane.
LabPattern conflict_free() { return lab_patterns({1}).front(); }

std::vector<Row> examined(const Call& call, const BankModel& model, Service* service) {
    std::vector<Row> rows;
    double base_cycles = 0;
    int base_wavefronts = 1;
    if (service != nullptr) {
        base_cycles = measure(*service, conflict_free(), model).cycles;
        base_wavefronts = conflict_free().predicted(model).actual;
    }
    for (LabPattern& pattern : chosen_patterns(call)) {
        Row row{std::move(pattern), {}, {}, {}, {}};
        row.predicted = row.pattern.predicted(model);
        // On NVIDIA a kernel fails at a misaligned access, so lab_banks does not make one.
        if (service != nullptr && row.predicted.aligned) {
            row.time = measure(*service, row.pattern, model);
            row.ratio = row.time->cycles / base_cycles;
            row.agreement = *row.ratio * base_wavefronts / row.predicted.actual;
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

std::string verdict(const Row& row) {
    if (!row.predicted.aligned) return "misaligned";
    if (row.time && !row.time->verified) return "WRONG DATA";
    if (!row.agrees()) return formatted("DISAGREES: {:.2f} times the prediction", *row.agreement);
    if (row.predicted.actual > row.predicted.ideal) return formatted("{}-way conflict", row.predicted.degree);
    return row.predicted.merged ? "merged" : "";
}

std::string rows_text(const std::vector<Row>& rows, bool measured) {
    std::vector<std::vector<std::string>> table_rows;
    std::vector<std::string> head = {"pattern", "wavefronts", "ideal", "degree"};
    if (measured) head.insert(head.end(), {"cycles", "ratio"});
    head.insert(head.end(), {"", "what lanes read"});
    table_rows.push_back(head);
    for (const Row& row : rows) {
        std::vector<std::string> line = {row.pattern.name, std::to_string(row.predicted.actual),
                                         std::to_string(row.predicted.ideal),
                                         std::to_string(row.predicted.degree)};
        if (measured) {
            line.push_back(row.time ? formatted("{:.2f}", row.time->cycles) : "-");
            line.push_back(row.ratio ? formatted("{:.2f}", *row.ratio) : "-");
        }
        line.push_back(verdict(row));
        line.push_back(row.pattern.text);
        table_rows.push_back(std::move(line));
    }
    return table(table_rows,
                 measured ? std::vector<std::size_t>{1, 2, 3, 4, 5} : std::vector<std::size_t>{1, 2, 3});
}

Json rows_json(const std::vector<Row>& rows) {
    Json list = Json::array();
    for (const Row& row : rows) {
        const LabPattern& pattern = row.pattern;
        list.push_back({{"name", pattern.name},
                        {"text", pattern.text},
                        {"width", pattern.width},
                        {"pitch", pattern.pitch},
                        {"predicted", wavefronts_json(row.predicted)},
                        {"cycles", row.time ? Json(row.time->cycles) : Json()},
                        {"ratio", or_null(row.ratio)},
                        {"agreement", or_null(row.agreement)},
                        {"agrees", row.agreement ? Json(row.agrees()) : Json()},
                        {"verified", row.time ? Json(row.time->verified) : Json()}});
    }
    return list;
}

bool has_gpu() { return !Device::list(Backend::cuda).empty() || !Device::list(Backend::hip).empty(); }

/// A service on the GPU to be measured; nullptr: predict only.
std::unique_ptr<Service> open_gpu(const Call& call, Warnings& warnings) {
    if (!call.options.arch.empty() || call.options.backend == Backend::host) return nullptr;
    if (!call.options.backend && !has_gpu()) return nullptr;
    ServiceOptions options = service_options(call.options, warnings, call.interrupts.token());
    options.cache = cache_options(call.options);
    return open_service(call, warnings, std::move(options));
}

}  // namespace

int lab(const Call& call) {
    if (call.words[0] != "banks")
        throw UsageError("there is no 'kiln lab " + call.words[0] + "'; there is kiln lab banks.");
    const bool map = call.flag("map");
    for (const char* option : {"pad", "element", "svg"})
        if (!map && call.has(option))
            throw UsageError(std::string("--") + option +
                             " is an option of a map: kiln lab banks --map ROWS COLUMNS --" + option +
                             " ...");
    if (!map && call.flag("swizzle"))
        throw UsageError("--swizzle is an option of a map: kiln lab banks --map ROWS COLUMNS --swizzle.");
    if (!map && call.words.size() > 1)
        throw UsageError("'" + call.words[1] + "' is too many; a map is requested by --map ROWS COLUMNS.");
    for (const char* option : {"pattern", "stride"})
        if (map && call.has(option))
            throw UsageError(std::string("--") + option +
                             " chooses rows of the table, which --map does not print.");

    const std::string named = call.options.arch;
    if (map) return show_map(call, named.empty() ? kModelWithoutGpu : named);

    Warnings warnings(call.terminal);
    const auto service = open_gpu(call, warnings);
    const std::string arch = service ? service->target().arch : named.empty() ? kModelWithoutGpu : named;
    const std::vector<Row> rows = examined(call, bank_model(arch), service.get());
    const bool right =
        std::all_of(rows.begin(), rows.end(), [](const Row& row) { return !row.time || row.time->verified; });
    const auto disagreeing =
        std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.agrees(); });
    const std::string device = service ? service->device().info().name : std::string();

    std::string text =
        service ? "Measured on " + device + " (" + arch +
                      "); cycles of the multiprocessor per access "
                      "of a warp, ratio to stride-1.\n\n"
                : "Predicted for " + arch + (named.empty() ? "; no GPU is measured" : "") + ".\n\n";
    text += rows_text(rows, service != nullptr);
    if (service)
        text += formatted("\n{} patterns, {} of them more than {:.0f}% off the prediction.\n", rows.size(),
                          static_cast<std::ptrdiff_t>(disagreeing), 100 * kTolerance);
    call.print({{"arch", arch},
                {"device", service ? Json(device) : Json()},
                {"patterns", rows_json(rows)},
                {"disagreeing", service ? Json(disagreeing) : Json()}},
               text);
    return right ? kPassed : kNegative;
}

}  // namespace kiln::cli
