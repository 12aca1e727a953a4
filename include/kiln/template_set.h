// SPDX-License-Identifier: Apache-2.0
//
// TemplateSet: the templates of directories and the built-in ones, by name. Needs neither a device nor a compiler. A
// program that looks into templates before it makes a Service gives the set to it (ServiceOptions::templates), and
// each file is parsed once.
#pragma once

#include <kiln/template.h>
#include <kiln/version.h>

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace kiln {

class BoundTemplates;  // internal

inline namespace KILN_ABI {

/// A handle: copies share what was parsed. Thread-safe.
class TemplateSet {
  public:
    /// directories: searched in this order, then those of KILN_TEMPLATE_PATH, then the built-in templates. Throws
    /// TemplateError for a directory that is not there.
    explicit TemplateSet(std::vector<std::filesystem::path> directories = {});

    /// Bound to no target (Template::for_target). Throws UsageError that lists the nearest names, TemplateError when the
    /// template's file is wrong, and when what takes precedence over it is: a file with this name or this kernel, or a
    /// directory that can't be read. A wrong file of another template does no harm to this one.
    Template find(std::string_view name) const;
    /// All, each name once, ordered by name; of two with one name the first directory's. Throws TemplateError, also for two
    /// of one directory.
    std::vector<Template> all() const;

  private:
    friend class kiln::BoundTemplates;
    class State;
    std::shared_ptr<State> state_;
};

}  // namespace KILN_ABI
}  // namespace kiln
