// SPDX-License-Identifier: Apache-2.0
//
// fuzz-seeds DIRECTORY: writes to DIRECTORY/<fuzzer>/ a few sound inputs, from which mutations start.
#include <sys/stat.h>

#include <cstdio>
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
