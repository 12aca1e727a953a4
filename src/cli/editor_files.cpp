// SPDX-License-Identifier: Apache-2.0
#include "cli/editor_files.h"

#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/service.h>

#include <sstream>
#include <system_error>

#include "cli/json.h"

namespace kiln::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;  // of compile_commands.json

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

Json without_file(const fs::path& database, const std::string& file) {
    std::error_code error;
    if (!fs::exists(database, error)) return Json::array();
    const Json all = Json::parse(read_input(database, kMostBytes), nullptr, false);
    if (!all.is_array())
        throw UsageError(database.string() +
                         " is no list of compile commands; name another directory, or remove it");
    Json others = Json::array();
    for (const Json& entry : all)
        if (!entry.is_object() || entry.value("file", "") != file) others.push_back(entry);
    return others;
}

}  // namespace

std::vector<fs::path> write_editor_files(const Template& of, const CommonOptions& options,
                                         const fs::path& directory) {
    const Source source = source_of(of, options);
    const fs::path root = fs::absolute(directory).lexically_normal();
    std::error_code error;
    fs::create_directories(root / "include" / "kiln", error);
    if (error) throw UsageError("can't make the directory " + root.string() + ": " + error.message());
    std::vector<fs::path> written;
    const auto write = [&](const fs::path& file, const std::string& content) {
        write_output(file, content);
        written.push_back(file);
    };

    for (const Header& header : source.headers)
        if (header.name.starts_with("kiln/")) write(root / "include" / header.name, header.text);
    const std::size_t line = own_text_begin(source.text);
    write(root / (of.name() + ".h"),
          "// The parameters of " + of.name() +
              " with their defaults, for an editor; made by kiln show --editor.\n" +
              source.text.substr(0, line));
    fs::path file = fs::absolute(of.file()).lexically_normal();
    if (!fs::is_regular_file(file, error)) {  // a built-in one
        file = root / (of.name() + ".cu");
        write(file, source.text.substr(source.text.find('\n', line) + 1));
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
    write(database, commands.dump(2) + "\n");
    return written;
}

}  // namespace kiln::cli
