// SPDX-License-Identifier: Apache-2.0
//
// The closure of #include lines, without a preprocessor: lines in dead branches count too, so there may be a
// header too many, but never one too few.
#include "template/includes.h"

#include <kiln/error.h>

#include <algorithm>
#include <filesystem>

#include "base/include_check.h"
#include "template/embedded.h"

namespace kiln {
namespace {

constexpr std::string_view kDeviceHeader = "kiln/device.h";

struct BackendHeader {
    std::string_view name;
    Backend backend;
};

/// The parts of the prelude that only one backend may see.
constexpr BackendHeader kBackendHeaders[] = {
    {"kiln/device_cuda.h", Backend::cuda}, {"kiln/device_hip.h", Backend::hip},
    {"kiln/device_host.h", Backend::host}, {"kiln/host_abi.h", Backend::host},
    {"kiln/host_tma.h", Backend::host},    {"kiln/host_wgmma.h", Backend::host},
};

bool is_meant_for(std::string_view name, Backend backend) {
    const auto found = std::ranges::find(kBackendHeaders, name, &BackendHeader::name);
    return found == std::end(kBackendHeaders) || found->backend == backend;
}

std::optional<std::string_view> prelude_text(std::string_view name) {
    if (!name.starts_with("kiln/")) return std::nullopt;
    const auto files = embedded_files();
    const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
    if (found == files.end()) return std::nullopt;
    return found->text;
}

// All names begin in the template's directory. C++ takes a file next to the header that has the name: Kiln would miss
// that file, or take another of the same name, and not say so.
void check_places(const std::vector<IncludedName>& names, const std::string& header, const std::string& file,
                  const HeaderFinder& find) {
    const std::filesystem::path folder = std::filesystem::path(header).parent_path();
    for (const IncludedName& one : names) {
        if (!one.is_quoted || folder.empty() || (one.is_question && find(one.name))) continue;
        const std::string beside = (folder / one.name).generic_string();
        if (find(beside))
            throw TemplateError(file, one.line, one.column,
                                (one.is_question ? "__has_include(" + one.text() + ") asks for"
                                                 : "#include " + one.text() + " takes") +
                                    " a file in the template's directory, and there is one next to this "
                                    "header; write \"" +
                                    beside + "\"");
    }
}

}  // namespace

std::vector<std::string> included_names(std::string_view text) {
    std::vector<std::string> names;
    const auto take_blanks = [](std::string_view& line) {
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    };
    // From one # to the next, of which there are few: every start of a process reads all headers.
    for (std::size_t at = text.find('#'); at != std::string_view::npos; at = text.find('#', at)) {
        const std::size_t before = text.substr(0, at).find_last_not_of(" \t");
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at + 1, end - at - 1);
        ++at;
        if (before != std::string_view::npos && text[before] != '\n') continue;
        take_blanks(line);
        if (!line.starts_with("include")) continue;
        line.remove_prefix(std::string_view("include").size());
        take_blanks(line);
        const std::size_t close = line.find('"', 1);
        if (line.starts_with('"') && close != std::string_view::npos && close > 1)
            names.emplace_back(line.substr(1, close - 1));
    }
    return names;
}

Includes::Includes(std::string_view text, const std::string& file, const HeaderFinder& find)
    : roots_(checked_includes(text, file)) {
    const auto directory = std::filesystem::path(file).parent_path();
    roots_.push_back({std::string(kDeviceHeader)});
    std::vector<IncludedName> pending = roots_;
    while (!pending.empty()) {
        const std::string name = std::move(pending.back().name);
        pending.pop_back();
        if (entries_.contains(name)) continue;
        Entry entry{find(name), {}, {}};
        if (!entry.own) {
            const std::optional<std::string_view> prelude = prelude_text(name);
            if (!prelude) continue;
            entry.prelude = *prelude;
        }
        if (entry.own) {
            const std::string own_file = (directory / name).string();
            entry.includes = checked_includes(*entry.own, own_file);
            check_places(entry.includes, name, own_file, find);
        } else {
            for (std::string& included : included_names(entry.prelude))
                entry.includes.push_back({std::move(included)});
        }
        pending.insert(pending.end(), entry.includes.begin(), entry.includes.end());
        entries_.emplace(name, std::move(entry));
    }
}

std::set<std::string_view> Includes::reached(Backend backend) const {
    std::set<std::string_view> reached;
    std::vector<std::string_view> pending;
    const auto add = [&](const std::vector<IncludedName>& names) {
        for (const IncludedName& one : names) pending.push_back(one.name);
    };
    add(roots_);
    while (!pending.empty()) {
        const std::string_view name = pending.back();
        pending.pop_back();
        const auto entry = entries_.find(name);
        if (entry == entries_.end() || !is_meant_for(name, backend) || !reached.insert(name).second) continue;
        add(entry->second.includes);
    }
    return reached;
}

std::vector<Header> Includes::headers(Backend backend) const {
    std::vector<Header> headers;
    for (std::string_view name : reached(backend))
        headers.push_back({std::string(name), std::string(entries_.find(name)->second.text())});
    return headers;
}

std::vector<std::string> Includes::open(Backend backend) const {
    std::set<std::string> open;
    const auto add = [&](const std::vector<IncludedName>& names) {
        for (const IncludedName& one : names)
            if (!entries_.contains(one.name)) open.insert(one.text());
    };
    add(roots_);
    for (std::string_view name : reached(backend)) add(entries_.find(name)->second.includes);
    return {open.begin(), open.end()};
}

std::vector<Header> Includes::own_headers() const {
    std::vector<Header> headers;
    for (const auto& [name, entry] : entries_)
        if (entry.own) headers.push_back({name, *entry.own});
    return headers;
}

}  // namespace kiln
