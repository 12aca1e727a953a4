// SPDX-License-Identifier: Apache-2.0
//
// The section on where a report's numbers come from; and make_report_item.
#include <kiln/error.h>

#include "format/format.h"
#include "inspect/picture.h"
#include "inspect/report_html.h"
#include "inspect/text_format.h"

namespace kiln {

ReportItem ReportItem::of(const Variant& variant, Analysis analysis) {
    ReportItem item;
    item.analysis = std::move(analysis);
    item.summary = variant.origin().summary();
    const Source source = variant.source(Backend::host);
    item.source_file = source.file_name;
    // Specialising prepends lines up to this one, and does not change the template's bytes.
    const std::size_t at = own_text_begin(source.text);
    const std::size_t end = at == std::string::npos ? at : source.text.find('\n', at);
    if (end != std::string::npos) item.source = source.text.substr(end + 1);
    return item;
}

}  // namespace kiln

namespace kiln::inspect {
namespace {

/// The sentences of all items, each once, with the letters of its items unless it is about all.
class Statements {
  public:
    explicit Statements(const Page& page) : page_(page) {}

    void add(std::size_t item, const std::string& text) {
        for (auto& [known, items] : all_)
            if (known == text) return items.push_back(item);
        all_.push_back({text, {item}});
    }
    bool empty() const { return all_.empty(); }
    std::string list() const {
        std::string text;
        for (const auto& [statement, items] : all_) {
            std::string badges;
            if (items.size() < page_.items.size())
                for (const std::size_t item : items) badges += badge(page_, item) + " ";
            text += html("statement", {{"badges", badges}, {"text", statement}});
        }
        return text;
    }

  private:
    const Page& page_;
    std::vector<std::pair<std::string, std::vector<std::size_t>>> all_;
};

std::string chip_text(const Analysis& analysis) {
    if (analysis.chip == nullptr)
        return analysis.chip_name.empty() ? "" : analysis.chip_name + ": its figures are the device’s own.";
    std::string text = formatted("{}: {:.4g} GB/s", analysis.chip->name, analysis.chip->memory_gbps);
    if (analysis.chip->measured_copy_gbps > 0)
        text += formatted(" (a copy reaches {:.4g})", analysis.chip->measured_copy_gbps);
    text += ", " + grouped(static_cast<double>(analysis.multiprocessors)) + " " +
            multiprocessor_text(analysis.arch) + "s";
    return text + (analysis.chip->source.empty() ? "." : "; " + analysis.chip->source + ".");
}

std::string recording_text(const Analysis& analysis) {
    if (!analysis.recording) return "Nothing was recorded: there are no counts of accesses.";
    const Recording& recording = *analysis.recording;
    std::string text = "Run on the host with every access recorded: " +
                       counted(recording.blocks_recorded, "block", "blocks") + " of " +
                       grouped(static_cast<double>(recording.blocks));
    if (!analysis.recorded_sizes.empty()) text += ", at " + sizes_text(analysis.recorded_sizes);
    text += ", in " + time_of(recording.elapsed_ms);
    if (!analysis.recorded_sizes.empty() && analysis.recorded_sizes != analysis.problem.sizes)
        text += ". Totals are scaled to the requested sizes";
    return text + ".";
}

}  // namespace

std::string origins_section(const Page& page) {
    Statements chips(page), binaries(page), rooflines(page), recordings(page);
    for (std::size_t i = 0; i < page.items.size(); ++i) {
        const Analysis& analysis = page.items[i].analysis;
        if (const std::string text = chip_text(analysis); !text.empty()) chips.add(i, text);
        if (analysis.resources.registers)
            binaries.add(i, "Read from the binary compiled for " + analysis.arch + ", which was not run.");
        if (analysis.roofline && memory_gbps(analysis) > 0)
            rooflines.add(
                i, formatted(
                       "{:.4g} GB/s and {} of {}. Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.",
                       memory_gbps(analysis), rate_text(compute_tflops(analysis)),
                       name(analysis.roofline->unit)));
        recordings.add(i, recording_text(analysis));
    }
    std::string list;
    const auto part = [&](const char* term, const Statements& statements) {
        if (!statements.empty()) list += html("origin", {{"term", term}, {"statements", statements.list()}});
    };
    part("Chip", chips);
    part("Registers, spills, widths", binaries);
    part("Roofline", rooflines);
    part("Wavefronts, sectors, problems", recordings);
    return html("origins", {{"parts", list}});
}

}  // namespace kiln::inspect
