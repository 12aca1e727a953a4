// SPDX-License-Identifier: Apache-2.0
//
// A template of name N is looked for in N.cu first, which spares parsing the other files; one whose
// file is named otherwise is found by parsing them all. What takes precedence over it and is wrong is an error if it may be
// the template that was meant: else another one of that name would serve without a word.
#include <kiln/error.h>
#include <kiln/template_set.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "base/config.h"
#include "base/file.h"
#include "base/file_name.h"
#include "base/fork.h"
#include "base/no_cancel.h"
#include "base/words.h"
#include "service/absolute_paths.h"
#include "service/bound_templates.h"
#include "template/directives.h"
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

[[noreturn]] void throw_unreadable(const std::filesystem::path& directory, const std::error_code& error) {
    throw TemplateError(directory.string(), 0, 0,
                        "the template directory can't be read: " + error.message() +
                            "; name one that holds *.cu files and that you may read");
}

/// The *.cu files of a directory in the order of their names, but those of editors and systems, which begin with a dot.
/// Throws TemplateError.
std::vector<std::filesystem::path> template_files(const std::filesystem::path& directory) {
    std::vector<std::filesystem::path> files;
    std::error_code error;
    for (std::filesystem::directory_iterator item(directory, error), end; !error && item != end;
         item.increment(error))
        if (item->path().extension() == ".cu" && !item->path().filename().string().starts_with('.'))
            files.push_back(item->path());
    if (error) throw_unreadable(directory, error);
    std::sort(files.begin(), files.end());
    return files;
}

/// The name of the template in a file that is wrong, as far as it can be read; else empty.
std::string kernel_in(const std::filesystem::path& file) {
    try {
        return first_kernel(read_text_if_exists(file).value_or(""));
    } catch (const FileError&) {
        return {};
    }
}

bool has_name_of_its_file(const Template& one) {
    return std::filesystem::path(one.file()).stem() == one.name();
}

}  // namespace

class __attribute__((visibility("hidden"))) TemplateSet::State {
  public:
    explicit State(std::vector<std::filesystem::path> directories);

    Template find(std::string_view name);
    std::vector<Template> all();
    BoundTemplates::Readable readable();
    bool is_of_this_process() const { return generation_ == fork_generation(); }
    const std::vector<std::filesystem::path>& directories() const { return directories_; }

  private:
    struct Found {
        Template value;
        std::size_t rank;  ///< its directory's place; behind all of them: built in
    };
    struct Wrong {
        TemplateError error;
        std::size_t rank;                ///< likewise
        std::vector<std::string> names;  ///< the file's, and its template's; of a directory none
    };

    /// nullptr: there is none. Throws the error of what takes precedence and may hold a template of this name.
    const Template* known(std::string_view name) const;
    /// Keeps the errors of directories and files and goes on with the others.
    void load_all();
    std::vector<Template> list() const;
    void add(const Template& found, std::size_t rank) {
        templates_.try_emplace(found.name(), Found{found, rank});
    }

    const unsigned generation_ = fork_generation();
    const std::vector<std::filesystem::path> directories_;
    std::mutex mutex_;
    std::map<std::string, Found, std::less<>> templates_;
    bool all_loaded_ = false;
    std::vector<Wrong> errors_;         ///< what takes precedence first
    std::vector<TemplateError> twice_;  ///< of a second file of a directory that declares a template
};

TemplateSet::State::State(std::vector<std::filesystem::path> directories)
    : directories_(std::move(directories)) {
    for (const auto& directory : directories_) {
        std::error_code error;
        const std::filesystem::file_status status = std::filesystem::status(directory, error);
        if (std::filesystem::is_directory(status)) continue;
        if (!std::filesystem::status_known(status)) throw_unreadable(directory, error);
        throw TemplateError(
            directory.string(), 0, 0,
            std::filesystem::exists(status)
                ? "the template directory is not a directory; name the one that holds the *.cu files"
                : "the template directory does not exist; name one that holds *.cu files");
    }
}

const Template* TemplateSet::State::known(std::string_view name) const {
    const auto found = templates_.find(name);
    if (found == templates_.end()) return nullptr;
    const auto& [value, rank] = found->second;
    for (const Wrong& wrong : errors_) {
        const bool may_be_it =
            wrong.names.empty() || std::ranges::find(wrong.names, name) != wrong.names.end();
        if (may_be_it && (wrong.rank < rank || (wrong.rank == rank && !has_name_of_its_file(value))))
            throw wrong.error;
    }
    return &value;
}

Template TemplateSet::State::find(std::string_view name) {
    const NoCancel no_cancel;
    const std::lock_guard lock(mutex_);
    if (const Template* const found = known(name)) return *found;

    const std::string file = std::string(name) + ".cu";
    const bool plain_name = name.find('/') == std::string_view::npos;
    std::optional<Template> candidate;
    // A file of another name may hold a template of this one, and takes precedence over what is behind its directory.
    std::error_code error;
    if (directories_.empty()) {
        if (const auto* builtin = embedded_template(file)) candidate = parse_embedded(*builtin);
    } else if (plain_name && std::filesystem::is_regular_file(directories_.front() / file, error)) {
        candidate = Template::load(directories_.front() / file);
    }
    if (candidate && candidate->name() == name) {
        add(*candidate, 0);
        return *candidate;
    }
    load_all();
    if (const Template* const found = known(name)) return *found;
    if (!errors_.empty()) throw errors_.front().error;

    std::vector<std::string> names;
    for (const auto& [other, found] : templates_) names.push_back(other);
    const auto guess = nearest(name, names);
    std::vector<std::string> searched;
    for (const auto& directory : directories_) searched.push_back(directory.string());
    std::vector<std::string> family;
    const std::string naive = std::string(name) + "_naive";
    if (templates_.contains(naive))
        for (const auto& [other, found] : templates_)
            if (other == naive || found.value.naive() == naive) family.push_back(other);
    if (!family.empty())
        throw UsageError("there is no template '" + std::string(name) + "': that is a family of templates, " +
                         enumerate(family) +
                         ". Name one of them, or have the best one chosen (--best, Operation).");
    throw UsageError("there is no template '" + std::string(name) + "'" +
                     (guess ? "; did you mean " + *guess + "? 'kiln list' shows all templates"
                            : "; there are " + join(names)) +
                     ". Those of your own are looked for in the directories of --template-dir "
                     "(ServiceOptions::template_directories) and KILN_TEMPLATE_PATH, " +
                     (searched.empty() ? "of which there are none." : "here " + join(searched) + "."));
}

std::vector<Template> TemplateSet::State::all() {
    const NoCancel no_cancel;
    const std::lock_guard lock(mutex_);
    load_all();
    if (!errors_.empty()) throw errors_.front().error;
    if (!twice_.empty()) throw twice_.front();
    return list();
}

std::vector<Template> TemplateSet::State::list() const {
    std::vector<Template> all;
    for (const auto& [name, found] : templates_) all.push_back(found.value);
    return all;
}

BoundTemplates::Readable TemplateSet::State::readable() {
    const NoCancel no_cancel;
    const std::lock_guard lock(mutex_);
    load_all();
    BoundTemplates::Readable found;
    found.templates = list();
    for (const Wrong& wrong : errors_) found.errors.emplace_back(wrong.error.what());
    for (const TemplateError& error : twice_) found.errors.emplace_back(error.what());
    return found;
}

void TemplateSet::State::load_all() {
    if (all_loaded_) return;
    errors_.clear();
    twice_.clear();
    for (std::size_t rank = 0; rank < directories_.size(); ++rank) {
        std::vector<std::filesystem::path> all;
        try {
            all = template_files(directories_[rank]);
        } catch (const TemplateError& error) {
            errors_.push_back({error, rank, {}});
        }
        std::vector<Template> found;
        for (const auto& file : all) {
            try {
                found.push_back(Template::load(file));
            } catch (const TemplateError& error) {
                errors_.push_back({error, rank, {file.stem().string(), kernel_in(file)}});
            }
        }
        // NAME.cu first, which find() takes.
        std::stable_partition(found.begin(), found.end(), has_name_of_its_file);
        std::map<std::string, std::string> files;
        for (const Template& one : found) {
            const auto [known, is_new] = files.try_emplace(one.name(), one.file());
            if (is_new)
                add(one, rank);
            else if (std::error_code error; !std::filesystem::equivalent(one.file(), known->second, error))
                twice_.emplace_back(one.file(), 0, 0,
                                    "the template " + one.name() + " is also in " + known->second +
                                        ", of the same directory; rename or remove one of them");
        }
    }
    for (const auto& file : embedded_files()) {
        if (file.name.ends_with(".cu")) add(parse_embedded(file), directories_.size());
    }
    all_loaded_ = true;
}

TemplateSet::TemplateSet(std::vector<std::filesystem::path> directories) {
    for (auto& directory : config::template_directories()) directories.push_back(std::move(directory));
    for (auto& directory : directories) directory = absolute_path(directory);
    state_ = std::make_shared<State>(std::move(directories));
}

Template TemplateSet::find(std::string_view name) const { return state_->find(name); }
std::vector<Template> TemplateSet::all() const { return state_->all(); }

BoundTemplates::BoundTemplates(const TemplateSet& templates, Target target)
    : templates_([&] {
          TemplateSet set = templates;
          if (!set.state_->is_of_this_process())
              set.state_ = std::make_shared<TemplateSet::State>(set.state_->directories());
          return set;
      }()),
      target_(std::move(target)) {}

Template BoundTemplates::bound(const Template& found) {
    const std::lock_guard lock(mutex_);
    const auto known = bound_.find(found.name());
    return known != bound_.end() ? known->second
                                 : bound_.emplace(found.name(), found.for_target(target_)).first->second;
}

Template BoundTemplates::find(std::string_view name) { return bound(templates_.find(name)); }

std::vector<Template> BoundTemplates::all() {
    std::vector<Template> result;
    for (const Template& found : templates_.all()) result.push_back(bound(found));
    return result;
}

std::vector<std::string> BoundTemplates::errors(const TemplateSet& templates) {
    return templates.state_->readable().errors;
}

BoundTemplates::Readable BoundTemplates::readable() {
    Readable found = templates_.state_->readable();
    for (Template& one : found.templates) one = bound(one);
    return found;
}

}  // namespace kiln
