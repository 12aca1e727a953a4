// SPDX-License-Identifier: Apache-2.0
//
// Joins the accesses of the machine code (sass) with the line table (code_lines_dwarf).
#include "analysis/code_lines.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/code_lines_dwarf.h"
#include "analysis/sass.h"
#include "base/elf.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::uint16_t kMachineCuda = 190;  // EM_CUDA

/// The innermost row of `file` that a row was inlined into; nullptr: none.
const LineRow* row_in(const LineTable& table, const LineRow* row, std::uint32_t file) {
    constexpr int kDeepest = 256;  // depth of inlined calls; more means that the data is damaged
    for (int depth = 0; depth < kDeepest && row->file != file; ++depth) {
        if (row->caller == 0) return nullptr;
        row = &table.rows[row->caller - 1];
    }
    return row->file == file ? row : nullptr;
}

/// "kiln/async.h:50" for a template next to the folder kiln.
std::string header_place(const LineTable& table, const LineRow& row, const LineRow& entry) {
    const std::string& templates = table.files[entry.file];
    std::string_view name = table.files[row.file];
    const std::string_view folder = std::string_view(templates).substr(0, templates.rfind('/') + 1);
    if (name.starts_with(folder)) name.remove_prefix(folder.size());
    return formatted("{}:{}", name, row.line);
}

/// The rows by address. Of several with the same address, the last one applies.
class RowsByAddress {
  public:
    explicit RowsByAddress(const LineTable& table) {
        for (const LineRow& row : table.rows) rows_.push_back(&row);
        std::ranges::stable_sort(rows_, {}, &LineRow::address);
    }
    const LineRow* at(std::uint64_t address) const {
        const auto behind = std::ranges::upper_bound(rows_, address, {}, &LineRow::address);
        if (behind == rows_.begin() || (*std::prev(behind))->ends) return nullptr;
        return *std::prev(behind);
    }

  private:
    std::vector<const LineRow*> rows_;
};

/// How often a line, in the template and in a header, has an instruction with that many bytes.
using Counts = std::map<std::tuple<std::pair<int, std::string>, std::string, int>, int>;

void count_accesses(const ElfView& elf, const std::string& kernel, Counts& counts) {
    const ElfSection* const text = elf.section(".text." + kernel);
    if (text == nullptr) return;
    const LineTable table = line_table(elf, *text);
    const RowsByAddress rows(table);
    const LineRow* entry = rows.at(0);
    if (entry == nullptr) return;
    // The kernel begins with its own code, or with code that was inlined into it.
    while (entry->caller != 0) entry = &table.rows[entry->caller - 1];

    for (const SassAccess& access : sass_accesses(text->bytes)) {
        std::pair<int, std::string> place;
        if (const LineRow* const row = rows.at(access.offset)) {
            if (const LineRow* const own = row_in(table, row, entry->file))
                place.first = static_cast<int>(own->line);
            if (row->file != entry->file) place.second = header_place(table, *row, *entry);
        }
        ++counts[{std::move(place), access.name, access.bytes}];
    }
}

}  // namespace

std::vector<CompiledAccess> compiled_accesses(const Binary& binary) {
    if (binary.kind != BinaryKind::cubin) return {};
    const auto elf = ElfView::open({binary.bytes.data(), binary.bytes.size()});
    if (!elf || elf->machine() != kMachineCuda) return {};
    Counts counts;
    count_accesses(*elf, binary.entry, counts);
    for (const std::string& kernel : binary.more_entries) count_accesses(*elf, kernel, counts);
    std::vector<CompiledAccess> result;
    for (const auto& [key, count] : counts) {
        const auto& [place, instruction, bytes] = key;
        result.push_back({place.first, instruction, count, bytes, place.second});
    }
    return result;
}

}  // namespace kiln
