// SPDX-License-Identifier: Apache-2.0
//
// All parts, one after the other, and the environment.
#include <kiln/doctor.h>

#include <exception>
#include <system_error>

#include "base/config.h"
#include "base/words.h"
#include "service/bound_templates.h"
#include "service/doctor_parts.h"

namespace kiln {
namespace {

struct Part {
    const char* area;
    void (*examine)(const ServiceOptions&, Findings&);
};
constexpr Part kParts[] = {
    {"environment", examine_environment}, {"compilers", examine_compilers}, {"workers", examine_workers},
    {"limits", examine_limits},           {"cache", examine_cache},         {"seed packs", examine_seeds},
    {"remote", examine_remote},
};

}  // namespace

inline namespace KILN_ABI {

std::string_view name(FindingStatus status) {
    switch (status) {
        case FindingStatus::good:
            return "good";
        case FindingStatus::note:
            return "note";
        case FindingStatus::problem:
            return "problem";
    }
    return "unknown";
}

}  // namespace KILN_ABI

void examine_environment(const ServiceOptions& options, Findings& findings) {
    for (const auto& variable : config::unknown_variables()) {
        if (const auto meant = nearest(variable, config::known_variables()))
            findings.problem("environment", variable, "it is set, and Kiln knows no such variable",
                             "Did you mean " + *meant + "?");
        else
            findings.note("environment", variable, "it is set, and Kiln knows no such variable",
                          "Unset it, unless another program reads it.");
    }
    auto directories = options.template_directories;
    for (auto& directory : config::template_directories()) directories.push_back(std::move(directory));
    bool are_there = true;
    for (const auto& directory : directories) {
        std::error_code error;
        if (std::filesystem::is_directory(directory, error)) {
            findings.good("environment", "templates", directory.string());
        } else {
            are_there = false;
            findings.problem("environment", "templates", directory.string() + " is no directory",
                             "Correct it, or take it out of KILN_TEMPLATE_PATH or the options.");
        }
    }
    if (!are_there) return;  // no set can be made
    for (const std::string& error : BoundTemplates::errors(TemplateSet(options.template_directories)))
        findings.problem("environment", "templates", error, "Correct it, or take it out of the directory.");
}

inline namespace KILN_ABI {

std::vector<Finding> examine(const ServiceOptions& options) {
    Findings findings;
    for (const auto& part : kParts) {
        try {
            part.examine(options, findings);
        } catch (const std::exception& exception) {
            findings.problem(part.area, part.area, exception.what(), "Correct what it names.");
        }
    }
    return std::move(findings.list);
}

}  // namespace KILN_ABI
}  // namespace kiln
