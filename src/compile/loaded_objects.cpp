// SPDX-License-Identifier: Apache-2.0
//
// The loader prints "name => path (address)" for a library that it found, "name => not found" for one that it did not,
// and "path (address)" for one that was named by a path.
#include "compile/loaded_objects.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/config.h"
#include "base/dynamic_library.h"
#include "base/process.h"
#include "base/words.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr auto kOfCLibrary = std::to_array<std::string_view>({"libc",
                                                              "libm",
                                                              "libmvec",
                                                              "libdl",
                                                              "librt",
                                                              "libpthread",
                                                              "libutil",
                                                              "libresolv",
                                                              "libanl",
                                                              "libnsl",
                                                              "libBrokenLocale",
                                                              "libthread_db",
                                                              "libc_malloc_debug",
                                                              "ld-linux",
                                                              "ld-linux-x86-64",
                                                              "ld-linux-aarch64",
                                                              "ld64",
                                                              "linux-vdso",
                                                              "linux-gate",
                                                              "libc.musl-x86_64",
                                                              "ld-musl-x86_64",
                                                              "ld-musl-aarch64"});
constexpr auto kStartFiles = std::to_array<std::string_view>(
    {"crt1.o", "Scrt1.o", "gcrt1.o", "Mcrt1.o", "rcrt1.o", "crti.o", "crtn.o"});

// The loader of programs of this machine: that of this one, unless it is linked statically.
fs::path usual_loader() {
    if (const auto own = elf_needs("/proc/self/exe"); own && !own->interpreter.empty())
        return own->interpreter;
#ifdef __aarch64__
    return "/lib/ld-linux-aarch64.so.1";
#else
    return "/lib64/ld-linux-x86-64.so.2";
#endif
}

}  // namespace

bool is_of_c_library(const std::string& name) {
    if (std::find(kStartFiles.begin(), kStartFiles.end(), name) != kStartFiles.end()) return true;
    const auto stem = std::string_view(name).substr(0, name.find(".so"));
    return stem.size() < name.size() &&
           std::find(kOfCLibrary.begin(), kOfCLibrary.end(), stem) != kOfCLibrary.end();
}

void CompilerObjects::add_alone(const fs::path& file) {
    std::error_code error;
    fs::path real = fs::canonical(file, error);
    if (error) real = file;
    if (is_of_c_library(file.filename().string()) ||
        std::find(files_.begin(), files_.end(), real) != files_.end())
        return;
    if (file != real) places_.push_back(file);  // a link that may come to lead elsewhere
    files_.push_back(std::move(real));
}

void CompilerObjects::add(const fs::path& file) { add(file, {}); }

void CompilerObjects::add(const fs::path& file, const std::vector<std::string>& opened_by_name) {
    const std::size_t before = files_.size();
    add_alone(file);
    const auto needs = elf_needs(file);
    if (files_.size() == before || !needs) return;
    if (opened_by_name.empty() &&
        std::all_of(needs->libraries.begin(), needs->libraries.end(), is_of_c_library))
        return;
    watch_search(file);
    const auto found = ask_loader(file, opened_by_name);
    for (const auto& library : found) {
        if (library.file.empty())
            missing_.push_back(library.name);
        else
            add_alone(library.file);
    }
    // Where the loader can't be asked (it is another's, or not allowed to run), what is known is the names.
    for (const auto& name : needs->libraries) {
        if (!is_of_c_library(name) &&
            std::none_of(found.begin(), found.end(), [&](const Library& one) { return one.name == name; }))
            missing_.push_back(name);
    }
}

void CompilerObjects::add_opened_alone(const fs::path& library, const std::vector<std::string>& names) {
    watch_search(library);
    for (const auto& found : ask_loader(library, names))
        if (std::find(names.begin(), names.end(), found.name) != names.end()) add_alone(found.file);
}

// Where the loader looks, and where a library would be found before the one that is found now.
void CompilerObjects::watch_search(const fs::path& file) {
    places_.insert(places_.end(), {"/etc/ld.so.cache", "/etc/ld.so.preload"});
    auto directories = config::library_path();
    if (const auto needs = elf_needs(file))
        directories.insert(directories.end(), needs->run_path.begin(), needs->run_path.end());
    for (const auto& directory : directories) {
        places_.push_back(directory);
        for (const char* part : {"", "x86-64-v2", "x86-64-v3", "x86-64-v4"})
            places_.push_back(directory / "glibc-hwcaps" / part);
    }
}

std::vector<CompilerObjects::Library> CompilerObjects::ask_loader(
    const fs::path& file, const std::vector<std::string>& opened_by_name) const {
    const auto needs = elf_needs(file);
    ProcessRequest request;
    request.arguments = {
        (needs && !needs->interpreter.empty() ? needs->interpreter : usual_loader()).string(), "--list",
        file.string()};
    request.environment = {{"LC_ALL", "C"}};
    if (!opened_by_name.empty()) request.environment.emplace_back("LD_PRELOAD", join(opened_by_name, ":"));
    request.drops = [kind = kind_](std::string_view name) {
        return treatment_of(kind, name) != VariableTreatment::harmless;
    };
    request.timeout = std::chrono::seconds(20);
    const ProcessResult result = run_process(request);
    std::vector<Library> libraries;
    std::string line;
    for (std::istringstream lines(result.output); std::getline(lines, line);) {
        auto library = library_of_line(line);
        if (library && !is_of_c_library(library->name)) libraries.push_back(std::move(*library));
    }
    return libraries;
}

std::optional<CompilerObjects::Library> CompilerObjects::library_of_line(std::string_view line) {
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return std::nullopt;
    line.remove_prefix(begin);
    const auto arrow = line.find(" => ");
    const auto without_address = [](std::string_view text) { return text.substr(0, text.rfind(" (0x")); };
    if (arrow == std::string_view::npos) {
        const fs::path file = without_address(line);
        if (!file.is_absolute()) return Library{std::string(without_address(line)), {}};  // linux-vdso.so.1
        return Library{file.filename().string(), file};
    }
    const auto file = without_address(line.substr(arrow + 4));
    return Library{std::string(line.substr(0, arrow)), file == "not found" ? fs::path() : fs::path(file)};
}

std::string CompilerObjects::identity() const {
    std::vector<std::string> texts;
    for (const auto& file : files_)
        // Without its version, which the content has: the same library may have several names.
        texts.push_back(file.filename().string().substr(0, file.filename().string().find(".so")) + " " +
                        content_identity(file).value_or("unreadable"));
    for (const auto& name : missing_) texts.push_back(name + " missing");
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    std::string text;
    for (const auto& one : texts) text += (text.empty() ? "" : " ") + one;
    return text;
}

std::vector<fs::path> CompilerObjects::watched() const {
    auto all = files_;
    all.insert(all.end(), places_.begin(), places_.end());
    return all;
}

}  // namespace kiln
