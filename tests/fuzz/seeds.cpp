// SPDX-License-Identifier: Apache-2.0
//
// fuzz-seeds DIRECTORY: writes to DIRECTORY/<fuzzer>/ a few sound inputs, from which mutations start.
#include <elf.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "cache/build_key.h"
#include "cache/disk_state.h"
#include "cache/entry.h"
#include "cache/remote_value.h"
#include "cache/seed_pack.h"
#include "compile/compile_protocol.h"

namespace {

using namespace kiln;

class Corpus {
  public:
    explicit Corpus(std::filesystem::path root) : root_(std::move(root)) {}

    std::filesystem::path next(const std::string& fuzzer) {
        const auto folder = root_ / fuzzer;
        std::filesystem::create_directories(folder);
        return folder / ("seed-" + std::to_string(++count_));
    }
    void add(const std::string& fuzzer, std::string_view text) { write_text(next(fuzzer), text); }
    void add(const std::string& fuzzer, const Bytes& bytes) {
        add(fuzzer, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }

  private:
    std::filesystem::path root_;
    int count_ = 0;
};

Source sample_source(int number) {
    const std::string text = "#include \"kiln/device.h\"\nconstexpr int BM = " + std::to_string(number) +
                             ";\nusing T = kiln::half;\n#line 1 \"k.cu\"\nvoid k() {}\n";
    return {"k.cu", "k", text, {{"kiln/device.h", "// prelude\n"}}};
}

/// The least that has all tables: sections .text.kernel, .nv.info, .note and the tables of names and symbols.
std::string sample_elf(bool cuda) {
    const std::string names("\0.text.kernel\0.nv.info\0.note\0.symtab\0.strtab\0kernel", 52);
    Elf64_Sym symbols[2] = {};
    symbols[1].st_name = 45;
    symbols[1].st_shndx = 1;
    symbols[1].st_size = 32;
    const std::string code("\x23\x72\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x84\x79\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0", 32);
    const std::string info("\x04\x2f\x08\0\x01\0\0\0\x20\0\0\0", 12);
    const std::string metadata = std::string("\x82\xae") + "amdhsa.kernels" +
                                 "\x91\x82\xa5.name\xa6kernel\xab.vgpr_count\x20\xad" + "amdhsa.target\xb9" +
                                 "amdgcn-amd-amdhsa--gfx90a";
    std::string note("\x07\0\0\0", 4);
    note += static_cast<char>(metadata.size());
    note += std::string("\0\0\0\x20\0\0\0AMDGPU\0\0", 15) + metadata;
    note.resize((note.size() + 3) / 4 * 4);
    struct Section {
        unsigned name, type, link;
        std::string bytes;
    };
    const Section sections[] = {
        {1, SHT_PROGBITS, 0, code},
        {14, 0x70000000, 4, info},
        {23, SHT_NOTE, 0, note},
        {29, SHT_SYMTAB, 5, std::string(reinterpret_cast<char*>(symbols), sizeof symbols)},
        {37, SHT_STRTAB, 0, names}};
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = cuda ? 190 : 224;
    header.e_flags = 90;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 6;
    header.e_shstrndx = 5;
    std::string content, table(sizeof(Elf64_Shdr), '\0');
    for (const Section& section : sections) {
        Elf64_Shdr row = {};
        row.sh_name = section.name;
        row.sh_type = section.type;
        row.sh_link = section.link;
        row.sh_offset = sizeof header + content.size();
        row.sh_size = section.bytes.size();
        content += section.bytes;
        table.append(reinterpret_cast<const char*>(&row), sizeof row);
    }
    header.e_shoff = sizeof header + content.size();
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + content + table;
}

void write_seeds(Corpus& corpus) {
    std::vector<std::string> digests;
    std::vector<Bytes> entries;
    for (const int number : {16, 32, 64}) {
        const BuildKey key = make_build_key({Backend::cuda, "sm_90a", {}}, "compiler 1.0",
                                            {"-O3", "--std=c++17"}, sample_source(number));
        Binary binary;
        binary.entry = "k";
        binary.bytes = std::vector<std::byte>(static_cast<std::size_t>(number), std::byte{7});
        binary.log = "a warning\n";
        binary.compiler = "Compiler 1.0";
        binary.compile_ms = 12.5;
        digests.push_back(key.digest);
        entries.push_back(encode_entry(key, binary));
        corpus.add("entry", entries.back());
        corpus.add("key", key.text);
        std::vector<std::byte> value =
            signature_head(SignatureKey(16), key.digest, {entries.back().data(), 1});
        value.insert(value.end(), entries.back().begin(), entries.back().end());
        corpus.add("value", Bytes(std::move(value)));
        corpus.add("value", entries.back());
    }
    for (const std::size_t count : {0, 1, 3}) {
        const std::vector<std::string> some(digests.begin(),
                                            digests.begin() + static_cast<std::ptrdiff_t>(count));
        write_pack(corpus.next("pack"), some, [&](const std::string& digest) {
            for (std::size_t i = 0; i < digests.size(); ++i)
                if (digests[i] == digest) return entries[i];
            return Bytes();
        });
    }

    corpus.add("manifest", "# comment\nk BM=16,64 BN=* T=half,float V=true R=7 @cuda:sm_90a @hip @host\n");
    corpus.add("manifest", "\xef\xbb\xbfk\tBM=*\r\n\r\nk BM=64 BN=-1 # behind\r\n");
    corpus.add("manifest", "k BN=9223372036854775807 T=f32,i8 V=*\nk R=-5,2000000\nk @cuda: \nk R=*\n");

    DiskState state;
    corpus.add("state", state_text(state));
    state.entry_bytes = 1'000'000;
    state.counted_at = 1'700'000'000;
    corpus.add("state", state_text(state));

    CompileRequest request;
    request.library = "libnvrtc.so";
    request.arch = "sm_90a";
    request.options = {"-O3"};
    request.source = sample_source(16);
    corpus.add("message", encode(request));
    CompileResponse response;
    response.binary = "binary";
    response.supported_archs = {"sm_80", "sm_90"};
    corpus.add("message", encode(response));

    for (const char* reply : {"+OK\r\n", "-NOAUTH no\r\n", ":12\r\n", "$5\r\nbytes\r\n", "$-1\r\n",
                              "*2\r\n$1\r\n0\r\n*2\r\n+a\r\n:-1\r\n", "*-1\r\n"})
        corpus.add("redis", reply);
    for (const char* url :
         {"redis://cache.example", "rediss://user:p%40ss@[::1]:6380/3", "redis://:word@10.0.0.1/15"})
        corpus.add("redis", url);

    for (const bool cuda : {true, false}) corpus.add("resources", sample_elf(cuda));
    corpus.add("resources",
               "ptxas info    : Compiling entry function 'kernel' for 'sm_90a'\n"
               "ptxas info    : Function properties for kernel\n"
               "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
               "ptxas info    : Used 10 registers, used 0 barriers, 16 bytes smem\n");
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "fuzz-seeds: usage: fuzz-seeds DIRECTORY\n");
        return 2;
    }
    try {
        Corpus corpus(arguments[1]);
        write_seeds(corpus);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fuzz-seeds: %s\n", error.what());
        return 1;
    }
}
