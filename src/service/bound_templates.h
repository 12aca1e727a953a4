// SPDX-License-Identifier: Apache-2.0
//
// BoundTemplates: the templates of a set, bound to the target of a service.
#pragma once

#include <kiln/template_set.h>

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Thread-safe.
class BoundTemplates {
  public:
    /// In a child of fork() the set parses again: its parent's lock may be held. Throws TemplateError when a directory
    /// is not there any more then.
    BoundTemplates(const TemplateSet& templates, Target target);

    /// Throw as those of TemplateSet do.
    Template find(std::string_view name);
    std::vector<Template> all();

    struct Readable {
        std::vector<Template> templates;
        std::vector<std::string> errors;  ///< of the files and directories that are left out
    };
    Readable readable();
    /// What readable() leaves out of a set.
    static std::vector<std::string> errors(const TemplateSet& templates);

  private:
    Template bound(const Template& found);

    const TemplateSet templates_;
    const Target target_;
    std::mutex mutex_;
    std::map<std::string, Template, std::less<>> bound_;
};

}  // namespace kiln
