// SPDX-License-Identifier: Apache-2.0
//
// A template of name N is looked for in N.cu first, which spares parsing the other files; one whose
// file is named otherwise is found by parsing them all.
#include "service/template_library.h"

#include <kiln/error.h>

#include <algorithm>

#include "base/words.h"
#include "template/embedded.h"

namespace kiln {
namespace {

const EmbeddedFile* embedded_template(std::string_view file) {
    for (const auto& item : embedded_files()) {
        if (item.name == file) return &item;
    }
    return nullptr;
}

Template parse_embedded(const EmbeddedFile& file) {
    return Template::parse(std::string(file.text), std::string(file.name));
}

}  // namespace

TemplateLibrary::TemplateLibrary(std::vector<std::filesystem::path> directories, Target target)
    : directories_(std::move(directories)), target_(std::move(target)) {
    for (const auto& directory : directories_) {
        std::error_code error;
        if (std::filesystem::is_directory(directory, error)) continue;
        const bool exists = std::filesystem::exists(directory, error);
        throw TemplateError(
            directory.string(), 0, 0,
            exists ? "the template directory is not a directory; name the one that holds the *.cu files"
                   : "the template directory does not exist; name one that holds *.cu files");
    }
}

void TemplateLibrary::add(Template found) { templates_.try_emplace(found.name(), found.for_target(target_)); }

Template TemplateLibrary::find(std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (const auto found = templates_.find(name); found != templates_.end()) return found->second;

    const std::string file = std::string(name) + ".cu";
    const bool plain_name = name.find('/') == std::string_view::npos;
    std::optional<Template> candidate;
    for (const auto& directory : directories_) {
        std::error_code error;
        if (!plain_name || !std::filesystem::is_regular_file(directory / file, error)) continue;
        candidate = Template::load(directory / file);
        break;
    }
    if (!candidate) {
        // A user's file of another name may hold a template of this one, and goes before the built-in.
        if (const auto* builtin = embedded_template(file); builtin != nullptr && directories_.empty())
            candidate = parse_embedded(*builtin);
    }
    if (candidate && candidate->name() == name) {
        add(*candidate);
        return templates_.find(name)->second;
    }
    load_all();
    if (const auto found = templates_.find(name); found != templates_.end()) return found->second;
    if (first_error_) std::rethrow_exception(first_error_);

    std::vector<std::string> names;
    for (const auto& [known, value] : templates_) names.push_back(known);
    const auto guess = nearest(name, names);
    std::vector<std::string> searched;
    for (const auto& directory : directories_) searched.push_back(directory.string());
    throw UsageError("there is no template '" + std::string(name) + "'" +
                     (guess ? "; did you mean " + *guess + "?" : "") +
                     (guess ? " There are " : "; there are ") + join(names) +
                     ". Those of your own are looked for in the directories of --template-dir "
                     "(ServiceOptions::template_directories) and KILN_TEMPLATE_PATH, " +
                     (searched.empty() ? "of which there are none." : "here " + join(searched) + "."));
}

std::vector<Template> TemplateLibrary::all() {
    const std::lock_guard lock(mutex_);
    load_all();
    if (first_error_) std::rethrow_exception(first_error_);
    std::vector<Template> result;
    for (const auto& [name, value] : templates_) result.push_back(value);
    return result;
}

void TemplateLibrary::load_all() {
    if (all_loaded_) return;
    for (const auto& directory : directories_) {
        std::vector<std::filesystem::path> files;
        for (const auto& item : std::filesystem::directory_iterator(directory)) {
            if (item.path().extension() == ".cu") files.push_back(item.path());
        }
        std::sort(files.begin(), files.end());
        for (const auto& file : files) {
            try {
                add(Template::load(file));
            } catch (const TemplateError&) {
                if (!first_error_) first_error_ = std::current_exception();
            }
        }
    }
    for (const auto& file : embedded_files()) {
        if (file.name.ends_with(".cu")) add(parse_embedded(file));
    }
    all_loaded_ = true;
}

}  // namespace kiln
