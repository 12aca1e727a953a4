// SPDX-License-Identifier: Apache-2.0
//
// kiln wisdom show, merge, export.
#include <kiln/error.h>
#include <kiln/wisdom.h>

#include <algorithm>

#include "cli/command_line.h"
#include "cli/kiln_command.h"
#include "cli/output_file.h"
#include "cli/text_format.h"
#include "cli/tune_report.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

/// The wisdom of these files; without any, the user's and the shipped.
Wisdom wisdom_of(std::span<const std::string> files) {
    if (files.empty()) {
        std::string problem;
        Wisdom wisdom = Wisdom::usual(&problem);
        if (!problem.empty()) throw UsageError(problem);
        return wisdom;
    }
    std::vector<WisdomEntry> entries;
    for (const std::string& file : files) {
        const Wisdom wisdom = Wisdom::load(file);
        entries.insert(entries.end(), wisdom.entries().begin(), wisdom.entries().end());
    }
    Wisdom all;
    all.merge(entries);
    return all;
}

/// Throws UsageError, with the nearest name, where --template names neither a template nor one that has wisdom.
void check_template(const Call& call, const Wisdom& wisdom) {
    if (!call.has("template")) return;
    const std::string& name = call.value("template");
    if (std::ranges::find(wisdom.entries(), name, &WisdomEntry::template_name) == wisdom.entries().end())
        static_cast<void>(TemplateSet(call.options.template_directories).find(name));
}

Wisdom selected(const Call& call, Wisdom wisdom) {
    check_template(call, wisdom);
    const auto is_wanted = [&](const char* option, const std::string& value) {
        return !call.has(option) || call.value(option) == value;
    };
    wisdom.keep_if([&](const WisdomEntry& entry) {
        return is_wanted("template", entry.template_name) && is_wanted("for-device", entry.device) &&
               is_wanted("for-arch", entry.arch);
    });
    return wisdom;
}

/// "gemm_mma T=half BM=128  @cuda:sm_90a": each variant once, in the order of the entries.
std::string manifest_text(const Wisdom& wisdom) {
    std::vector<std::string> lines;
    for (const WisdomEntry& entry : wisdom.entries()) {
        std::string line = entry.template_name;
        for (const auto& [name, value] : entry.values) line += " " + name + "=" + value.text();
        const char* const backend = entry.arch.starts_with("sm_")   ? "cuda"
                                    : entry.arch.starts_with("gfx") ? "hip"
                                                                    : "host";
        line += std::string(" @") + backend + ":" + entry.arch;
        if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

Json entries_json(const Wisdom& wisdom) {
    Json entries = Json::array();
    for (const WisdomEntry& entry : wisdom.entries()) entries.push_back(to_json(entry));
    return {{"entries", entries}};
}

std::string entries_text(const Wisdom& wisdom) {
    if (wisdom.empty()) return "no wisdom; 'kiln tune' finds some\n";
    std::vector<std::vector<std::string>> rows = {
        {"template", "sizes", "time", "tried", "device", "date", "values"}};
    for (const WisdomEntry& entry : wisdom.entries()) {
        std::string values;
        for (const auto& [name, value] : entry.values)
            values += (values.empty() ? "" : " ") + name + "=" + value.text();
        rows.push_back({entry.template_name, wisdom_sizes_text(entry.sizes), duration(entry.median_ms),
                        std::to_string(entry.tried), entry.device, entry.date.substr(0, 10), values});
    }
    return table(rows, {2, 3});
}

}  // namespace

int wisdom_show(const Call& call) {
    const Wisdom wisdom = selected(call, wisdom_of(call.words));
    call.print(entries_json(wisdom), entries_text(wisdom));
    return kPassed;
}

int wisdom_merge(const Call& call) {
    const Wisdom wisdom = wisdom_of(call.words);
    const Output output = settings_output(call, "wisdom", Wisdom::user_file());
    Wisdom::store(output.path(), wisdom);
    if (output.is_standard_output()) return kPassed;
    const std::string file = output.path().string();
    const std::size_t entries = (output.is_stream() ? wisdom : Wisdom::load(file)).entries().size();
    call.print({{"wisdom", file}, {"read", wisdom.entries().size()}, {"entries", entries}},
               line("wisdom", formatted("{}: {} entries", file, entries)));
    return kPassed;
}

int wisdom_export(const Call& call) {
    const Wisdom wisdom = selected(call, wisdom_of(call.words));
    const std::string text = call.flag("manifest") ? manifest_text(wisdom) : wisdom.text();
    if (!call.has("output")) {
        call.print(entries_json(wisdom), text);
        return kPassed;
    }
    const Output output("--output", call.value("output"));
    output.check_json(call.options.json);
    if (call.flag("manifest"))
        output.check_replaces("manifest", {" @cuda:", " @hip:", " @host:"});
    else
        output.check_replaces("wisdom", {"# kiln wisdom "});
    output.write(text);
    if (output.is_standard_output()) return kPassed;
    call.print({{"wisdom", call.value("output")}, {"written", wisdom.entries().size()}},
               line("wisdom", formatted("{}: {} entries", call.value("output"), wisdom.entries().size())));
    return kPassed;
}

}  // namespace kiln::cli
