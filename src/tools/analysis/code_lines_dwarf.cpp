// SPDX-License-Identifier: Apache-2.0
//
// Runs the line number programs of a cubin: DWARF Debugging Information Format 4, chapter 6.2.
//
// NVIDIA's extended opcode 0x90 is not documented. Its operands are two LEB128 numbers. The first is the row, counted
// from 1 over the rows that the program has emitted, of the call that the following rows were inlined into; 0 ends
// the inlined code. The second names the function. This was found from cubins of kernels with inlined functions in
// inlined functions, and tests/analysis checks it with such kernels.
#include "analysis/code_lines_dwarf.h"

#include <elf.h>

#include <algorithm>
#include <map>

namespace kiln {
namespace {

using Span = std::span<const std::byte>;

/// Reads forwards; past the end everything is 0 and failed() holds.
class Reader {
  public:
    explicit Reader(Span bytes) : bytes_(bytes) {}

    bool failed() const { return failed_; }
    bool at_end() const { return failed_ || at_ >= bytes_.size(); }
    std::size_t position() const { return at_; }
    void skip(std::uint64_t count) {
        if (count > bytes_.size() - at_) failed_ = true;
        at_ = failed_ ? bytes_.size() : at_ + count;
    }
    /// A reader of the next `count` bytes.
    Reader part(std::uint64_t count) {
        const std::size_t begin = at_;
        skip(count);
        return Reader(failed_ ? Span() : bytes_.subspan(begin, count));
    }

    template <class T>
    T number() {
        const T value = read_at<T>(bytes_, at_);
        skip(sizeof(T));
        return failed_ ? T{} : value;
    }
    std::uint64_t unsigned_leb() { return leb().value; }
    std::int64_t signed_leb() {
        const Leb read = leb();
        const bool negative = read.bits < 64 && (read.value >> (read.bits - 1) & 1) != 0;
        return static_cast<std::int64_t>(negative ? read.value | ~std::uint64_t{0} << read.bits : read.value);
    }
    std::string_view text() {
        const auto* const begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
        const auto rest = bytes_.subspan(at_);
        const auto end = std::ranges::find(rest, std::byte{0});
        const auto length = static_cast<std::size_t>(end - rest.begin());
        skip(length + 1);
        return failed_ ? std::string_view() : std::string_view(begin, length);
    }

  private:
    struct Leb {
        std::uint64_t value = 0;
        unsigned bits = 7;  // that were read, up to 64
    };
    Leb leb() {
        Leb result;
        for (unsigned shift = 0;; shift += 7) {
            const auto byte = number<std::uint8_t>();
            if (shift < 64) result.value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            result.bits = std::min(shift + 7, 64U);
            if ((byte & 0x80) == 0) return result;  // also when it failed: numbers are 0 then
        }
    }

    Span bytes_;
    std::size_t at_ = 0;
    bool failed_ = false;
};

/// The section of code that an address at some offset of .debug_line lies in.
using Sections = std::map<std::uint64_t, std::pair<const ElfSection*, std::uint64_t>>;

/// The targets of the relocations of .debug_line: by offset, the section and the address in it.
Sections relocated(const ElfView& elf) {
    Sections found;
    for (const char* const name : {".rela.debug_line", ".rel.debug_line"}) {
        const ElfSection* const section = elf.section(name);
        if (section == nullptr) continue;
        const bool with_addend = section->type == SHT_RELA;
        const std::size_t size = with_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
        for (std::size_t at = 0; at + size <= section->bytes.size(); at += size) {
            const auto entry = read_at<Elf64_Rel>(section->bytes, at);
            const auto addend = with_addend ? read_at<std::uint64_t>(section->bytes, at + sizeof entry) : 0;
            const std::uint64_t symbol = ELF64_R_SYM(entry.r_info);
            if (symbol >= elf.symbols().size()) continue;
            const ElfSymbol& target = elf.symbols()[symbol];
            if (target.section == SHN_UNDEF || target.section >= elf.sections().size()) continue;
            found[entry.r_offset] = {&elf.sections()[target.section], target.address + addend};
        }
    }
    return found;
}

struct LineHeader {
    unsigned instruction_bytes = 1;
    int line_base = 0;
    unsigned line_range = 1;
    unsigned opcode_base = 10;
    std::vector<unsigned> operands;  // of each standard opcode
};

/// Reads the header of a unit and appends its files; false: it is not valid.
bool read_header(Reader& unit, LineHeader& header, std::vector<std::string>& files) {
    const auto version = unit.number<std::uint16_t>();
    if (version < 2 || version > 4) return false;
    const auto length = unit.number<std::uint32_t>();
    Reader head = unit.part(length);
    header.instruction_bytes = head.number<std::uint8_t>();
    if (version >= 4) head.skip(1);  // operations per instruction: GPUs have one
    head.skip(1);                    // whether rows are statements
    header.line_base = head.number<std::int8_t>();
    header.line_range = head.number<std::uint8_t>();
    header.opcode_base = head.number<std::uint8_t>();
    for (unsigned opcode = 1; opcode < header.opcode_base; ++opcode)
        header.operands.push_back(head.number<std::uint8_t>());
    std::vector<std::string_view> folders;
    while (!head.failed()) {
        folders.push_back(head.text());
        if (folders.back().empty()) break;
    }
    while (!head.failed()) {
        const std::string_view name = head.text();
        if (name.empty()) break;
        const std::uint64_t folder = head.unsigned_leb();
        head.unsigned_leb();  // time
        head.unsigned_leb();  // size
        const bool in_folder = folder > 0 && folder < folders.size();
        files.push_back(in_folder ? std::string(folders[folder - 1]) + "/" + std::string(name)
                                  : std::string(name));
    }
    return !unit.failed() && !head.failed() && header.line_range != 0 && header.opcode_base != 0;
}

/// The state of one program, and the rows it emits into a section of code.
class Program {
  public:
    Program(const LineHeader& header, const Sections& sections, const ElfSection& text,
            std::uint32_t first_file, LineTable& table)
        : header_(header), sections_(sections), text_(text), first_file_(first_file), table_(table) {
        reset();
    }

    /// unit_offset: of the reader's first byte in .debug_line
    void run(Reader& unit, std::uint64_t unit_offset) {
        while (!unit.at_end()) {
            const unsigned opcode = unit.number<std::uint8_t>();
            if (opcode >= header_.opcode_base) {
                const unsigned adjusted = opcode - header_.opcode_base;
                row_.address += std::uint64_t{adjusted / header_.line_range} * header_.instruction_bytes;
                add_to_line(header_.line_base + static_cast<int>(adjusted % header_.line_range));
                emit();
            } else if (opcode == 0) {
                const std::uint64_t length = unit.unsigned_leb();
                const std::uint64_t offset = unit_offset + unit.position();
                Reader operands = unit.part(length);
                extended(operands, offset);
            } else {
                standard(opcode, unit);
            }
        }
    }

  private:
    void standard(unsigned opcode, Reader& unit) {
        enum : unsigned { copy = 1, advance_pc, advance_line, set_file, const_add_pc = 8, fixed_advance_pc };
        switch (opcode) {
            case copy:
                return emit();
            case advance_pc:
                row_.address += unit.unsigned_leb() * header_.instruction_bytes;
                return;
            case advance_line:
                return add_to_line(unit.signed_leb());
            case set_file:
                row_.file = file_number(unit.unsigned_leb());
                return;
            case const_add_pc:
                row_.address += std::uint64_t{(255 - header_.opcode_base) / header_.line_range} *
                                header_.instruction_bytes;
                return;
            case fixed_advance_pc:
                row_.address += unit.number<std::uint16_t>();
                return;
            default:
                for (unsigned operand = 0; operand < header_.operands[opcode - 1]; ++operand)
                    unit.unsigned_leb();
        }
    }

    void extended(Reader& operands, std::uint64_t offset) {
        enum : unsigned { end_sequence = 1, set_address = 2, inlined_call = 0x90 };
        switch (operands.number<std::uint8_t>()) {
            case end_sequence:
                row_.ends = true;
                emit();
                reset();
                return;
            case set_address: {
                row_.address = operands.number<std::uint64_t>();
                const auto found = sections_.find(offset + 1);
                section_ = found == sections_.end() ? nullptr : found->second.first;
                if (section_ != nullptr) row_.address = found->second.second;
                return;
            }
            case inlined_call: {
                const std::uint64_t call = operands.unsigned_leb();
                caller_ = call <= emitted_.size() ? static_cast<std::size_t>(call) : 0;
                return;
            }
            default:
                return;
        }
    }

    /// Files of this unit come after those of earlier units.
    std::uint32_t file_number(std::uint64_t file) const {
        const bool known = file != 0 && file <= table_.files.size() - first_file_;
        return known ? first_file_ + static_cast<std::uint32_t>(file) - 1 : 0;
    }
    void add_to_line(std::int64_t lines) {
        row_.line = static_cast<std::uint32_t>(std::int64_t{row_.line} + static_cast<std::int32_t>(lines));
    }
    void emit() {
        const bool ours = section_ == &text_;
        if (ours) {
            // Damaged data may refer to a row of another section, which counts as no call.
            row_.caller = caller_ == 0 ? 0 : emitted_[caller_ - 1];
            table_.rows.push_back(row_);
        }
        if (!row_.ends) emitted_.push_back(ours ? static_cast<std::uint32_t>(table_.rows.size()) : 0);
    }
    void reset() {
        row_ = {};
        row_.file = file_number(1);
        row_.line = 1;
        caller_ = 0;
    }

    const LineHeader& header_;
    const Sections& sections_;
    const ElfSection& text_;
    std::uint32_t first_file_;
    LineTable& table_;
    LineRow row_;
    const ElfSection* section_ = nullptr;
    std::size_t caller_ = 0;
    std::vector<std::uint32_t> emitted_;  // for each row of the program its number in the table; 0: not there
};

}  // namespace

LineTable line_table(const ElfView& elf, const ElfSection& text) {
    LineTable table;
    table.files.emplace_back();
    const ElfSection* const lines = elf.section(".debug_line");
    if (lines == nullptr) return table;
    const Sections sections = relocated(elf);
    Reader all(lines->bytes);
    while (!all.at_end()) {
        const auto length = all.number<std::uint32_t>();
        const std::uint64_t offset = all.position();
        Reader unit = all.part(length);
        LineHeader header;
        const auto first_file = static_cast<std::uint32_t>(table.files.size());
        if (!read_header(unit, header, table.files)) continue;
        Program(header, sections, text, first_file, table).run(unit, offset);
    }
    return table;
}

}  // namespace kiln
