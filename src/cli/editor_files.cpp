// SPDX-License-Identifier: Apache-2.0
#include "cli/editor_files.h"

#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/service.h>

#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/json.h"
#include "cli/output_file.h"
#include "format/format.h"

namespace kiln::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;  // of a file that is there already
constexpr int kMostDepth = 20;                  // of compile_commands.json, which needs three
constexpr std::string_view kMadeBy = "made by kiln show --editor";

/// The template for the host: its specialised text is what an editor shows.
Source source_of(const Template& of, const CommonOptions& options) {
    ServiceOptions host;
    host.backend = Backend::host;
    host.compile_only = true;
    host.template_directories = options.template_directories;
    host.cache.enabled = false;
    host.compile_options = options.compile_options;
    const Service service(std::move(host));
    try {
        return service.source(service.find(of.name()).variant());
    } catch (const VariantError& error) {
        throw UsageError(of.name() +
                         " can't be shown to an editor, which sees a template as the host's compiler does: " +
                         error.what());
    }
}

/// Flat enough that no recursion over it runs out of stack.
Json parsed_commands(const fs::path& database) {
    const auto reject = [&](const std::string& why) {
        throw UsageError(database.string() + " is no list of compile commands: " + why +
                         "; name another directory, or remove it");
    };
    bool is_deep = false;
    const auto keep = [&](int depth, Json::parse_event_t, const Json&) {
        if (depth > kMostDepth) is_deep = true;
        return !is_deep;
    };
    Json all = Json::parse(read_input(database, kMostBytes), keep, false);
    if (is_deep) reject(formatted("it is nested more than {} deep", kMostDepth));
    if (!all.is_array()) reject("it is no array in JSON");
    for (std::size_t i = 0; i < all.size(); ++i)
        if (!all[i].is_object() || !all[i].contains("file") || !all[i]["file"].is_string())
            reject(formatted("entry {} is no object with the name of a \"file\"", i + 1));
    return all;
}

Json without_file(const fs::path& database, const std::string& file) {
    Json others = Json::array();
    if (!fs::exists(status_of(database))) return others;
    for (const Json& entry : parsed_commands(database))
        if (entry["file"] != file) others.push_back(entry);
    return others;
}

/// The files to write. None is written before all have been checked.
class NewFiles {
  public:
    /// A text, which gets a first line that says where it is from. Throws UsageError where another text stands that has
    /// no such line.
    void add_text(const fs::path& file, const std::string& what, const std::string& text) {
        std::string content = "// " + what + "; " + std::string(kMadeBy) + ".\n" + text;
        if (fs::exists(status_of(file))) {
            const std::string old = read_input(file, kMostBytes);
            const std::string_view first = std::string_view(old).substr(0, old.find('\n'));
            if (old != content && (!first.starts_with("//") || first.find(kMadeBy) == first.npos))
                throw UsageError(
                    formatted("{} is a file of another origin: its first line does not say '{}'; name "
                              "a directory for these files alone, such as {}",
                              file.string(), kMadeBy, (file.parent_path() / "build").string()));
        }
        add(file, std::move(content));
    }
    void add(fs::path file, std::string content) { files_.emplace_back(std::move(file), std::move(content)); }
    std::vector<fs::path> write() const {
        std::vector<fs::path> written;
        for (const auto& [file, content] : files_) {
            std::error_code error;
            fs::create_directories(file.parent_path(), error);
            if (error)
                throw UsageError("can't make the directory " + file.parent_path().string() + ": " +
                                 error.message());
            write_output(file, content);
            written.push_back(file);
        }
        return written;
    }

  private:
    std::vector<std::pair<fs::path, std::string>> files_;
};

}  // namespace

std::vector<fs::path> write_editor_files(const Template& of, const CommonOptions& options,
                                         const fs::path& directory) {
    const Source source = source_of(of, options);
    const fs::path root = fs::absolute(directory).lexically_normal();
    NewFiles files;
    for (const Header& header : source.headers)
        if (header.name.starts_with("kiln/"))
            files.add_text(root / "include" / header.name, "A header of Kiln's prelude", header.text);
    const std::size_t line = own_text_begin(source.text);
    files.add_text(root / (of.name() + ".h"),
                   "The parameters of " + of.name() + " with their defaults, for an editor",
                   source.text.substr(0, line));
    fs::path file = fs::absolute(of.file()).lexically_normal();
    if (!fs::is_regular_file(status_of(file))) {  // a built-in one
        file = root / (of.name() + ".cu");
        files.add_text(file, "A copy of the built-in template " + of.name(),
                       source.text.substr(source.text.find('\n', line) + 1));
    }

    Json arguments = {"clang++",
                      "-x",
                      "c++",
                      "-std=c++20",
                      "-fsyntax-only",
                      "-Wno-unknown-pragmas",
                      "-Wno-attributes",
                      "-I" + (root / "include").string(),
                      "-I" + file.parent_path().string()};
    for (const auto& directories : {source.include_directories, options.include_directories})
        for (const fs::path& one : directories) arguments.push_back("-I" + fs::absolute(one).string());
    for (const CompileOption& option : source.options) {
        std::istringstream words(option.text);
        for (std::string word; words >> word;)
            if (word.starts_with("-D") || word.starts_with("-U")) arguments.push_back(word);
    }
    arguments.push_back("-include");
    arguments.push_back((root / (of.name() + ".h")).string());
    arguments.push_back(file.string());
    const fs::path database = root / "compile_commands.json";
    Json commands = without_file(database, file.string());
    commands.push_back({{"directory", root.string()}, {"file", file.string()}, {"arguments", arguments}});
    files.add(database, dumped(commands));
    return files.write();
}

}  // namespace kiln::cli
