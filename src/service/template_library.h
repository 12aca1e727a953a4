// SPDX-License-Identifier: Apache-2.0
//
// TemplateLibrary: name -> Template, from the user's directories and the built-in files. A file is
// parsed when it is first asked for, and once.
#pragma once

#include <kiln/template.h>

#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Thread-safe.
class TemplateLibrary {
  public:
    /// Throws TemplateError when a directory is not there.
    TemplateLibrary(std::vector<std::filesystem::path> directories, Target target);

    /// Throws UsageError that names the nearest template, TemplateError when its file is wrong. A wrong
    /// file that may hold another template does no harm to this one.
    Template find(std::string_view name);
    /// All, ordered by name; of two with one name the first directory's. Throws TemplateError.
    std::vector<Template> all();

  private:
    /// Keeps the first error of a file and goes on with the others.
    void load_all();
    void add(Template found);

    const std::vector<std::filesystem::path> directories_;
    const Target target_;
    std::mutex mutex_;
    std::map<std::string, Template, std::less<>> templates_;
    bool all_loaded_ = false;
    std::exception_ptr first_error_;
};

}  // namespace kiln
