// SPDX-License-Identifier: Apache-2.0
//
// The parts of examine(): each adds its findings and throws for unexpected errors.
#pragma once

#include <kiln/doctor.h>

#include <string>
#include <vector>

namespace kiln {

class Findings {
  public:
    void good(std::string area, std::string subject, std::string text) {
        add(std::move(area), std::move(subject), FindingStatus::good, std::move(text), {});
    }
    void note(std::string area, std::string subject, std::string text, std::string remedy) {
        add(std::move(area), std::move(subject), FindingStatus::note, std::move(text), std::move(remedy));
    }
    void problem(std::string area, std::string subject, std::string text, std::string remedy) {
        add(std::move(area), std::move(subject), FindingStatus::problem, std::move(text), std::move(remedy));
    }
    void add(std::string area, std::string subject, FindingStatus status, std::string text,
             std::string remedy) {
        list.push_back({std::move(area), std::move(subject), status, std::move(text), std::move(remedy)});
    }

    std::vector<Finding> list;
};

void examine_environment(const ServiceOptions& options, Findings& findings);
void examine_compilers(const ServiceOptions& options, Findings& findings);
void examine_workers(const ServiceOptions& options, Findings& findings);
void examine_limits(const ServiceOptions& options, Findings& findings);
void examine_cache(const ServiceOptions& options, Findings& findings);
void examine_seeds(const ServiceOptions& options, Findings& findings);
void examine_remote(const ServiceOptions& options, Findings& findings);

/// "ext4", and what that means for a cache: empty when nothing.
struct FileSystem {
    std::string name;
    std::string meaning;
    std::uint64_t free_bytes = 0;  ///< for this user
};
/// Throws std::system_error.
FileSystem file_system_of(const std::filesystem::path& path);

}  // namespace kiln
