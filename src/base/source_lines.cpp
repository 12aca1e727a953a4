// SPDX-License-Identifier: Apache-2.0
//
// A code address belongs to one function, and within it to nested inlined functions, each of which has the
// place of its call. The line table gives the place in the innermost one; each call's file and line give that
// of the next outer one.
#include "base/source_lines.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/dwarf_alignment.h"
#include "base/dwarf_api.h"
#include "base/kernel_file.h"
#include "format/format.h"

namespace kiln {
namespace {

struct Frame {
    std::string file;
    int line = 0;
};

bool in_template(const Frame& frame) { return frame.file.ends_with(".cu"); }

// Some language features of templates are functions of the prelude on the host: conversions of element types,
// elements of vectors, atomics.
bool stands_for_language(const Frame& frame) {
    return frame.file.starts_with("kiln/host_") || frame.file.starts_with("kiln/device");
}

struct CompileUnit {
    dwarf::Entry entry{};
    std::string directory;
    std::vector<dwarf::Entry> functions;  // with code
};

}  // namespace

struct SourceLines::Reader {
    const dwarf::Api& api;
    std::vector<char> bytes;  // libelf wants memory that it may write to
    dwarf::ElfHandle elf = nullptr;
    dwarf::Handle handle = nullptr;
    std::vector<CompileUnit> units;

    Reader(const dwarf::Api& library, const Bytes& file)
        : api(library),
          bytes(reinterpret_cast<const char*>(file.data()),
                reinterpret_cast<const char*>(file.data()) + file.size()) {}
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() {
        if (handle != nullptr) api.end(handle);
        if (elf != nullptr) api.elf_end(elf);
    }

    bool open();
    void collect(CompileUnit& unit, dwarf::Entry parent, int depth);
    std::string relative(const CompileUnit& unit, const char* path) const;
    Frame call_of(CompileUnit& unit, dwarf::Entry& inlined) const;
    std::vector<Frame> frames(std::uint64_t address);
    int line_of_variable(CompileUnit& unit, dwarf::Entry parent, const std::string& name, int depth);
};

bool SourceLines::Reader::open() {
    elf = api.elf_memory(bytes.data(), bytes.size());
    if (elf == nullptr) return false;
    handle = api.begin(elf, dwarf::kRead, nullptr);
    if (handle == nullptr) return false;
    dwarf::UnitHandle unit = nullptr, next = nullptr;
    dwarf::Entry entry{};
    while (api.units(handle, unit, &next, nullptr, nullptr, &entry, nullptr) == 0) {
        CompileUnit& made = units.emplace_back();
        made.entry = entry;
        dwarf::Attribute attribute{};
        if (api.attribute(&made.entry, dwarf::kCompilationDirectory, &attribute) != nullptr) {
            if (const char* const directory = api.text(&attribute)) made.directory = directory;
        }
        collect(made, made.entry, 0);
        // Reads the unit's lines now: libdw needs more stack for this than a fiber of the host backend has,
        // and look-ups may happen on a fiber.
        dwarf::FilesHandle files = nullptr;
        std::size_t count = 0;
        api.files(&made.entry, &files, &count);
        unit = next;
    }
    return !units.empty();
}

// Functions lie in the unit itself, and in namespaces and classes.
void SourceLines::Reader::collect(CompileUnit& unit, dwarf::Entry parent, int depth) {
    constexpr int kDeepest = 64;  // of damaged files
    dwarf::Entry entry{};
    if (depth > kDeepest || api.child(&parent, &entry) != 0) return;
    do {
        switch (api.tag(&entry)) {
            case dwarf::kSubprogram: {
                std::uint64_t base = 0, start = 0, end = 0;
                if (api.ranges(&entry, 0, &base, &start, &end) > 0) unit.functions.push_back(entry);
                break;
            }
            case dwarf::kNamespace:
            case dwarf::kStructure:
            case dwarf::kClass:
                collect(unit, entry, depth + 1);
                break;
            default:
                break;
        }
    } while (api.sibling(&entry, &entry) == 0);
}

// As #line or #include names it: compilers put the directory in which they run before a name.
std::string SourceLines::Reader::relative(const CompileUnit& unit, const char* path) const {
    if (path == nullptr) return {};
    std::string name = std::filesystem::path(path).lexically_normal().string();
    const std::string directory = std::filesystem::path(unit.directory).lexically_normal().string();
    if (!directory.empty() && name.size() > directory.size() + 1 && name.starts_with(directory) &&
        name[directory.size()] == '/')
        name.erase(0, directory.size() + 1);
    return name;
}

Frame SourceLines::Reader::call_of(CompileUnit& unit, dwarf::Entry& inlined) const {
    Frame frame;
    dwarf::Attribute attribute{};
    std::uint64_t number = 0;
    if (api.attribute(&inlined, dwarf::kCallLine, &attribute) != nullptr &&
        api.number(&attribute, &number) == 0)
        frame.line = static_cast<int>(number);
    dwarf::FilesHandle files = nullptr;
    std::size_t count = 0;
    if (api.attribute(&inlined, dwarf::kCallFile, &attribute) != nullptr &&
        api.number(&attribute, &number) == 0 && api.files(&unit.entry, &files, &count) == 0 && number < count)
        frame.file = relative(unit, api.file(files, number, nullptr, nullptr));
    return frame;
}

// The innermost first.
std::vector<Frame> SourceLines::Reader::frames(std::uint64_t address) {
    std::vector<Frame> found;
    for (CompileUnit& unit : units) {
        const auto function = std::ranges::find_if(
            unit.functions, [&](dwarf::Entry& entry) { return api.has_code(&entry, address) == 1; });
        if (function == unit.functions.end()) continue;
        Frame frame;
        if (const dwarf::LineHandle line = api.line_of_code(&unit.entry, address); line != nullptr) {
            api.line_number(line, &frame.line);
            frame.file = relative(unit, api.line_file(line, nullptr, nullptr));
        }
        found.push_back(std::move(frame));
        // Descends; what is called further in is found later, and stands further out in the list's tail.
        std::vector<Frame> calls;
        dwarf::Entry scope = *function, entry{};
        bool deeper = api.child(&scope, &entry) == 0;
        while (deeper) {
            const int tag = api.tag(&entry);
            const bool is_scope = tag == dwarf::kLexicalBlock || tag == dwarf::kInlinedSubroutine;
            if (is_scope && api.has_code(&entry, address) == 1) {
                if (tag == dwarf::kInlinedSubroutine) calls.push_back(call_of(unit, entry));
                scope = entry;
                deeper = api.child(&scope, &entry) == 0;
            } else {
                deeper = api.sibling(&entry, &entry) == 0;
            }
        }
        found.insert(found.end(), calls.rbegin(), calls.rend());
        return found;
    }
    return found;
}

int SourceLines::Reader::line_of_variable(CompileUnit& unit, dwarf::Entry parent, const std::string& name,
                                          int depth) {
    constexpr int kDeepest = 64;
    dwarf::Entry entry{};
    if (depth > kDeepest || api.child(&parent, &entry) != 0) return 0;
    do {
        const int tag = api.tag(&entry);
        if (tag == dwarf::kVariable) {
            const char* const found = api.name(&entry);
            int line = 0;
            if (found != nullptr && found == name &&
                in_template({relative(unit, api.declaration_file(&entry)), 0}) &&
                api.declaration_line(&entry, &line) == 0)
                return line;
        } else if (tag == dwarf::kSubprogram || tag == dwarf::kLexicalBlock || tag == dwarf::kNamespace ||
                   tag == dwarf::kStructure || tag == dwarf::kClass) {
            if (const int line = line_of_variable(unit, entry, name, depth + 1)) return line;
        }
    } while (api.sibling(&entry, &entry) == 0);
    return 0;
}

SourceLines::SourceLines(const Bytes& shared_object) {
    const dwarf::Api* const api = dwarf::api();
    if (api == nullptr || shared_object.empty()) return;
    reader_ = std::make_unique<Reader>(*api, shared_object);
    if (!reader_->open()) reader_.reset();
}
SourceLines::SourceLines(SourceLines&&) noexcept = default;
SourceLines& SourceLines::operator=(SourceLines&&) noexcept = default;
SourceLines::~SourceLines() = default;

const SourcePlace& SourceLines::place(std::uint32_t code, std::uint32_t caller) {
    const auto [slot, is_new] = places_.try_emplace({code, caller});
    SourcePlace& place = slot->second;
    if (!is_new || reader_ == nullptr) return place;
    // The address is the one to return to; the call stands before it.
    std::vector<Frame> frames = reader_->frames(std::uint64_t{code} - 1);
    if (caller != 0 && std::ranges::none_of(frames, in_template)) {
        const std::vector<Frame> outer = reader_->frames(std::uint64_t{caller} - 1);
        frames.insert(frames.end(), outer.begin(), outer.end());
    }
    if (frames.empty()) return place;
    const auto own = std::ranges::find_if(frames, in_template);
    const Frame& told = own != frames.end() ? *own : frames.front();
    place.file = told.file;
    place.line = told.line;
    for (auto frame = frames.begin(); frame != own && frame != frames.end(); ++frame) {
        if (own == frames.end()) break;
        if (stands_for_language(*frame) || frame->file.empty()) continue;
        place.inner = formatted("{}:{}", frame->file, frame->line);
        break;
    }
    return place;
}

int SourceLines::line_of_variable(const std::string& name) {
    const auto [slot, is_new] = variables_.try_emplace(name, 0);
    if (!is_new || reader_ == nullptr) return slot->second;
    for (CompileUnit& unit : reader_->units) {
        slot->second = reader_->line_of_variable(unit, unit.entry, name, 0);
        if (slot->second != 0) break;
    }
    return slot->second;
}

std::uint64_t SourceLines::alignment_of_variable(std::uint64_t offset) {
    const auto [slot, is_new] = alignments_.try_emplace(offset, 0);
    if (!is_new || reader_ == nullptr) return slot->second;
    for (const CompileUnit& unit : reader_->units)
        slot->second =
            std::max(slot->second, dwarf::alignment_of_thread_local(reader_->api, unit.entry, offset));
    return slot->second;
}

inline namespace KILN_ABI {

std::string source_lines_problem() {
    std::string reason;
    dwarf::api(&reason);
    return reason;
}

}  // namespace KILN_ABI

std::string SourcePlace::text() const {
    std::string text = file.empty() ? "an unknown line" : file;
    if (line != 0) text += formatted(":{}", line);
    if (!inner.empty()) text += " (" + inner + ")";
    return text;
}

SourcePlace place_in_file(const std::string& shared_object, std::uint64_t code) noexcept try {
    const auto bytes = bytes_of_kernel(shared_object);
    if (!bytes) return {};
    return SourceLines(*bytes).place(static_cast<std::uint32_t>(code), 0);
} catch (const std::exception&) {
    return {};
}

}  // namespace kiln
