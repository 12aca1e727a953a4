// SPDX-License-Identifier: Apache-2.0
//
// kiln doctor.
#include <kiln/calibration.h>
#include <kiln/doctor.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <filesystem>

#include "cli/kiln_command.h"
#include "cli/output_file.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kBeforeSubject = 11;  // "  problem  "
constexpr std::size_t kNarrow = 30;         // the least width of the text next to the subject

std::string findings_text(const std::vector<Finding>& findings, std::size_t problems,
                          const Terminal& terminal) {
    std::size_t width = 0;
    for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
    const int columns = terminal.output_columns();
    const bool narrow =
        columns > 0 && static_cast<std::size_t>(columns) < kBeforeSubject + width + 2 + kNarrow;
    const std::size_t indent = narrow ? kBeforeSubject : kBeforeSubject + width + 2;
    const std::string below = "\n" + std::string(indent, ' ');
    std::string text, area;
    for (const Finding& finding : findings) {
        if (finding.area != area) {
            if (!area.empty()) text += "\n";
            area = finding.area;
            text += area + "\n";
        }
        std::string status(name(finding.status));
        status.resize(7, ' ');
        const Colour colour = finding.status == FindingStatus::problem ? Colour::red
                              : finding.status == FindingStatus::good  ? Colour::green
                                                                       : Colour::none;
        text += "  " + terminal.painted(colour, status) + "  " + finding.subject +
                (narrow ? below : std::string(width - finding.subject.size() + 2, ' ')) +
                wrapped(finding.text, indent, columns);
        if (!finding.remedy.empty()) text += below + wrapped("-> " + finding.remedy, indent, columns);
        text += "\n";
    }
    text += problems == 0   ? "\nNo problem.\n"
            : problems == 1 ? "\n1 problem.\n"
                            : formatted("\n{} problems.\n", problems);
    return text;
}

/// The user's files of wisdom and calibrations: those that are there.
void add_settings(std::vector<Finding>& findings) {
    const auto add = [&](const char* subject, const std::filesystem::path& file, const std::string& problem,
                         const char* remedy) {
        if (!problem.empty())
            findings.push_back({"environment", subject, FindingStatus::problem, problem, remedy});
        else if (!file.empty() && std::filesystem::exists(status_of(file)))
            findings.push_back({"environment", subject, FindingStatus::good, file.string(), {}});
    };
    std::string wisdom, calibration;
    static_cast<void>(Wisdom::usual(&wisdom));
    static_cast<void>(Calibration::usual({}, {}, &calibration));
    add("wisdom", Wisdom::user_file(), wisdom, "Correct it, remove it, or set KILN_WISDOM to another file.");
    add("calibration", Calibration::user_file(), calibration,
        "Remove it; 'kiln calibrate' makes another one.");
}

}  // namespace

int doctor(const Call& call) {
    Warnings silent(call.terminal);  // never printed: they are among the findings
    std::vector<Finding> findings;
    add_settings(findings);
    for (Finding& finding : examine(compile_options(call, silent))) findings.push_back(std::move(finding));
    // Areas in the order of their first finding; all findings of an area together.
    std::vector<std::string> areas;
    for (const Finding& finding : findings)
        if (std::find(areas.begin(), areas.end(), finding.area) == areas.end()) areas.push_back(finding.area);
    const auto rank = [&](const Finding& finding) {
        return std::find(areas.begin(), areas.end(), finding.area) - areas.begin();
    };
    std::stable_sort(findings.begin(), findings.end(),
                     [&](const Finding& a, const Finding& b) { return rank(a) < rank(b); });
    const auto problems =
        static_cast<std::size_t>(std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
            return finding.status == FindingStatus::problem;
        }));
    Json list = Json::array();
    for (const Finding& finding : findings)
        list.push_back({{"area", finding.area},
                        {"subject", finding.subject},
                        {"status", name(finding.status)},
                        {"text", finding.text},
                        {"remedy", finding.remedy}});
    call.print({{"findings", list}, {"problems", problems}},
               findings_text(findings, problems, call.terminal));
    return problems == 0 ? kPassed : kNegative;
}

}  // namespace kiln::cli
