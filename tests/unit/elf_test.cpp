// SPDX-License-Identifier: Apache-2.0
//
// The ELF reader: what it finds in a sound file, in memory and on disk, and that a file which was cut short or damaged
// gives nothing beyond its bytes. Damaged files are copies of exactly their size, so that a sanitizer sees a read
// beyond them.
#include "base/elf.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/dynamic_library.h"
#include "base/file.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

std::string notes() {
    std::string text;
    const auto add = [&](std::uint32_t type, const std::string& name, const std::string& description) {
        const Elf64_Nhdr note{static_cast<Elf64_Word>(name.size()),
                              static_cast<Elf64_Word>(description.size()), type};
        text.append(reinterpret_cast<const char*>(&note), sizeof(note));
        for (const std::string& part : {name, description})
            text += part + std::string((4 - part.size() % 4) % 4, '\0');
    };
    add(32, std::string("AMDGPU\0", 7), "map");
    add(NT_GNU_BUILD_ID, std::string("GNU\0", 4), std::string("\x12\xab\0\xff", 4));
    return text;
}

constexpr std::size_t kSections = 6, kSegments = 2;
constexpr const char* kSectionNames[kSections] = {"", ".text", ".note", ".strtab", ".symtab", ".bss"};

// Header, segments, the sections' contents, the table of sections.
Bytes sound_file() {
    std::string names("\0", 1), content[kSections];
    std::vector<Elf64_Shdr> sections(kSections);
    const auto name = [&names](const std::string& text) {
        names += text + '\0';
        return static_cast<Elf64_Word>(names.size() - text.size() - 1);
    };
    for (std::size_t i = 1; i < kSections; ++i) sections[i].sh_name = name(kSectionNames[i]);
    std::vector<Elf64_Sym> symbols(3);
    symbols[1] = {name("kernel"), ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x1004, 8};
    symbols[2] = {name("tile"), ELF64_ST_INFO(STB_LOCAL, STT_TLS), 0, 5, 16, 128};
    content[1] = "0123kernel__89ab";
    content[2] = notes();
    content[3] = names;
    content[4] =
        std::string(reinterpret_cast<const char*>(symbols.data()), symbols.size() * sizeof(Elf64_Sym));
    const Elf64_Word types[kSections] = {SHT_NULL,   SHT_PROGBITS, SHT_NOTE,
                                         SHT_STRTAB, SHT_SYMTAB,   SHT_NOBITS};
    const std::vector<Elf64_Phdr> segments{{PT_LOAD, PF_R, 0, 0x1000, 0, 120, 4096, 8},
                                           {PT_NOTE, PF_R, 8, 0, 0, 8, 8, 8}};

    std::string file(sizeof(Elf64_Ehdr) + kSegments * sizeof(Elf64_Phdr), '\0');
    for (std::size_t i = 0; i < kSections; ++i) {
        sections[i].sh_type = types[i];
        sections[i].sh_offset = file.size();
        sections[i].sh_size = i == 5 ? 1 << 20 : content[i].size();
        file += content[i];
    }
    sections[1].sh_addr = 0x1000;
    sections[4].sh_link = 3;

    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_ABIVERSION] = 8;
    header.e_machine = 190;
    header.e_flags = 0x5a;
    header.e_phoff = sizeof(header);
    header.e_phnum = kSegments;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shoff = file.size();
    header.e_shnum = kSections;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shstrndx = 3;
    file.append(reinterpret_cast<const char*>(sections.data()), kSections * sizeof(Elf64_Shdr));
    std::memcpy(file.data(), &header, sizeof(header));
    std::memcpy(file.data() + sizeof(header), segments.data(), kSegments * sizeof(Elf64_Phdr));
    const auto* const bytes = reinterpret_cast<const std::byte*>(file.data());
    return {bytes, bytes + file.size()};
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Everything that the reader gives of these bytes lies within them.
void examine(const Bytes& bytes) {
    const auto inside = [&](std::span<const std::byte> part) {
        return part.empty() || (part.data() >= bytes.data() && part.size() <= bytes.size() &&
                                part.data() + part.size() <= bytes.data() + bytes.size());
    };
    const auto name_is_inside = [&](std::string_view name) { return inside(std::as_bytes(std::span(name))); };
    const std::string problem = elf_problem(bytes);
    const auto view = ElfView::open(bytes);
    if (!view) {
        EXPECT_NE(problem, "");
        return;
    }
    for (const ElfSection& one : view->sections()) {
        ASSERT_TRUE(inside(one.bytes) && name_is_inside(one.name));
        for (const ElfNote& note : elf_notes(one.bytes))
            ASSERT_TRUE(inside(note.description) && name_is_inside(note.name));
    }
    for (const ElfSymbol& one : view->symbols())
        ASSERT_TRUE(name_is_inside(one.name) && inside(view->code_of(one)));
}

TEST(Elf, FindsSectionsSegmentsSymbolsAndNotes) {
    const Bytes bytes = sound_file();
    EXPECT_EQ(elf_problem(bytes), "");
    const auto view = ElfView::open(bytes);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->machine(), 190);
    EXPECT_EQ(view->flags(), 0x5au);
    EXPECT_EQ(view->abi_version(), 8);
    ASSERT_EQ(view->sections().size(), kSections);
    for (std::size_t i = 0; i < kSections; ++i) EXPECT_EQ(view->sections()[i].name, kSectionNames[i]);
    EXPECT_EQ(text_of(view->section(".text")->bytes), "0123kernel__89ab");
    EXPECT_EQ(view->section(".bss")->size, std::size_t{1} << 20);
    EXPECT_TRUE(view->section(".bss")->bytes.empty());
    EXPECT_EQ(view->section(".data"), nullptr);
    ASSERT_EQ(view->segments().size(), kSegments);
    EXPECT_EQ(view->segments()[0].type, std::uint32_t{PT_LOAD});
    EXPECT_EQ(view->segments()[0].memory_bytes, 4096u);
    const ElfSymbol* const kernel = view->symbol("kernel");
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->type, STT_FUNC);
    EXPECT_EQ(text_of(view->code_of(*kernel)), "kernel__");
    EXPECT_EQ(view->symbol("tile")->type, STT_TLS);
    const auto found = elf_notes(view->section(".note")->bytes);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].name, "AMDGPU");
    EXPECT_EQ(text_of(found[0].description), "map");
    EXPECT_EQ(hex_text(found[1].description), "12ab00ff");
}

TEST(Elf, ReadsTheHeadersOfAFileOnDisk) {
    const Bytes bytes = sound_file();
    const TemporaryDirectory directory;
    write_text(directory.path() / "file", text_of(bytes));
    const auto identity = elf_identity(directory.path() / "file");
    ASSERT_TRUE(identity);
    EXPECT_THAT(*identity, HasSubstr("build 12ab00ff size " + std::to_string(bytes.size()) + " sections "));
    EXPECT_THAT(*content_identity(directory.path() / "file"), HasSubstr("build 12ab00ff content "));
    for (const std::size_t length : {std::size_t{0}, std::size_t{63}, bytes.size() - 1}) {
        write_text(directory.path() / "short", text_of(bytes).substr(0, length));
        EXPECT_EQ(elf_identity(directory.path() / "short"), std::nullopt) << length;
        EXPECT_FALSE(elf_needs(directory.path() / "short")) << length;
        EXPECT_EQ(content_identity(directory.path() / "short")->find("build"), std::string::npos) << length;
    }
}

TEST(ContentIdentity, CoversEachByteOfAFileThatSeveralThreadsRead) {
    const TemporaryDirectory directory;
    const auto file = directory.path() / "large";
    std::string bytes((std::size_t{20} << 20) + 3, 'a');
    const auto identity = [&] {
        write_text(file, bytes);
        return content_identity(file).value();
    };
    std::set<std::string> seen = {identity()};
    EXPECT_EQ(identity(), *seen.begin());
    for (const std::size_t at : {std::size_t{0}, (std::size_t{8} << 20) - 1, std::size_t{8} << 20,
                                 std::size_t{17} << 20, bytes.size() - 1}) {
        bytes[at] = 'b';
        EXPECT_TRUE(seen.insert(identity()).second) << at;
        bytes[at] = 'a';
    }
    bytes.pop_back();
    EXPECT_TRUE(seen.insert(identity()).second) << "shorter";
    // Two parts that change places.
    std::fill_n(bytes.begin(), std::size_t{8} << 20, 'b');
    EXPECT_TRUE(seen.insert(identity()).second);
    std::rotate(bytes.begin(), bytes.begin() + (std::ptrdiff_t{8} << 20),
                bytes.begin() + (std::ptrdiff_t{16} << 20));
    EXPECT_TRUE(seen.insert(identity()).second);
}

TEST(Elf, ThisProgramNamesItsLoaderAndLibraries) {
    const auto needs = elf_needs("/proc/self/exe");
    ASSERT_TRUE(needs);
    EXPECT_THAT(needs->interpreter.string(), HasSubstr("ld-linux"));
    EXPECT_THAT(needs->libraries, ::testing::Contains(HasSubstr("libc.so")));
}

TEST(Elf, AFileThatIsCutShortHasAProblem) {
    const Bytes whole = sound_file();
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const Bytes bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_NE(elf_problem(bytes), "") << length;
        EXPECT_EQ(ElfView::open(bytes), std::nullopt) << length;  // the table of sections is last
    }
    EXPECT_EQ(elf_problem(std::span(whole).first(12)), "has 12 bytes, too few for an ELF header");
    EXPECT_EQ(elf_problem(std::span(whole).first(whole.size() - 1)),
              "has " + std::to_string(whole.size() - 1) + " bytes, but its header tables end beyond them");
}

TEST(Elf, OffsetsThatLeaveTheFileOrWrapAroundAreAProblem) {
    const Bytes sound = sound_file();
    const auto header = read_at<Elf64_Ehdr>(sound, 0);
    const auto with = [&](std::size_t offset, std::uint64_t value) {
        Bytes bytes = sound;
        std::memcpy(bytes.data() + offset, &value, sizeof(value));
        examine(bytes);
        return elf_problem(bytes);
    };
    const std::size_t section = header.e_shoff + 2 * sizeof(Elf64_Shdr), segment = header.e_phoff;
    for (const std::uint64_t value : {std::uint64_t{1} << 20, ~std::uint64_t{0}, ~std::uint64_t{0} - 15}) {
        EXPECT_THAT(with(offsetof(Elf64_Ehdr, e_shoff), value), HasSubstr("its header tables end beyond"));
        EXPECT_THAT(with(offsetof(Elf64_Ehdr, e_phoff), value), HasSubstr("its header tables end beyond"));
        EXPECT_THAT(with(section + offsetof(Elf64_Shdr, sh_offset), value),
                    HasSubstr("its section 2 ends beyond"));
        EXPECT_THAT(with(section + offsetof(Elf64_Shdr, sh_size), value),
                    HasSubstr("its section 2 ends beyond"));
        EXPECT_THAT(with(segment + offsetof(Elf64_Phdr, p_offset), value),
                    HasSubstr("its segment 0 ends beyond"));
        EXPECT_THAT(with(segment + offsetof(Elf64_Phdr, p_filesz), value),
                    HasSubstr("its segment 0 ends beyond"));
    }
}

TEST(Elf, OtherKindsOfFilesAreAProblem) {
    const auto with = [](std::size_t offset, unsigned char value) {
        Bytes bytes = sound_file();
        bytes[offset] = std::byte{value};
        return elf_problem(bytes);
    };
    EXPECT_EQ(with(0, 'X'), "does not start like an ELF file");
    EXPECT_EQ(with(EI_CLASS, ELFCLASS32), "is no 64-bit little-endian ELF file");
    EXPECT_EQ(with(EI_DATA, ELFDATA2MSB), "is no 64-bit little-endian ELF file");
    EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_shentsize), 40), "has header tables of an unknown layout");
    EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_phentsize), 32), "has header tables of an unknown layout");
    EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_shnum), 0), "has no sections");
}

TEST(Elf, DamagedFilesGiveNothingBeyondTheirBytes) {
    const Bytes whole = sound_file();
    std::mt19937 random(1);
    const auto below = [&](std::size_t end) {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
    };
    for (int round = 0; round < 5000 && !HasFailure(); ++round) {
        Bytes bytes = whole;
        for (std::size_t change = 0; change <= below(6); ++change) {
            constexpr unsigned kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
            bytes[below(bytes.size())] =
                static_cast<std::byte>(below(2) == 0 ? kEdges[below(5)] : below(256));
        }
        examine(bytes);
    }
}

}  // namespace
}  // namespace kiln
