// SPDX-License-Identifier: Apache-2.0
//
// NVRTC in this process: to a cubin for the exact architecture, or to PTX where the library is older
// than the device. Headers are passed in memory and nothing is read from disk, so all input is known.
#include <kiln/error.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/config.h"
#include "base/dynamic_library.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compiler.h"
#include "compile/library_search.h"
#include "compile/nvrtc_api.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

LibrarySearch nvrtc_search() {
    LibrarySearch search;
    search.product = "NVRTC";
    search.variable = "KILN_NVRTC";
    search.chosen = config::nvrtc_library();
    search.names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
    search.remedy =
        "Install the CUDA toolkit, or the Python package nvidia-cuda-nvrtc (nvidia-cuda-nvrtc-cu12 for "
        "CUDA 12) and set KILN_NVRTC to the libnvrtc.so.* file in it.";
    search.directories = config::library_path();
    auto toolkits = config::cuda_homes();
    toolkits.emplace_back("/usr/local/cuda");
    for (auto& toolkit : versioned_directories("/usr/local", "cuda-")) toolkits.push_back(std::move(toolkit));
    for (const auto& toolkit : toolkits) {
        search.directories.push_back(toolkit / "lib64");
        for (const char* platform : {"x86_64-linux", "sbsa-linux", "aarch64-linux"})
            search.directories.push_back(toolkit / "targets" / platform / "lib");
    }
    for (const char* directory : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"})
        search.directories.emplace_back(directory);
    return search;
}

// The builtins beside the library: those of its major version, or of any when the file's name has none.
std::string builtins_identity(const fs::path& library) {
    constexpr int kNewestMajor = 13, kOldestMajor = 11, kMinors = 10;
    std::error_code error;
    const std::string name = fs::canonical(library, error).filename().string();
    constexpr std::string_view kStem = "libnvrtc.so.";
    const int major = name.starts_with(kStem) ? std::atoi(name.c_str() + kStem.size()) : 0;
    std::string identity;
    for (int m = major > 0 ? major : kNewestMajor; m >= (major > 0 ? major : kOldestMajor); --m) {
        for (int minor = 0; minor < kMinors; ++minor) {
            const std::string version = std::to_string(m) + "." + std::to_string(minor);
            if (auto id = elf_identity(library.parent_path() / ("libnvrtc-builtins.so." + version)))
                identity += " builtins " + version + " " + *id;
        }
    }
    return identity.empty() ? " builtins none" : identity;
}

// "sm_90a" is the number 90 with the suffix "a".
struct SmArch {
    int number = 0;
    std::string suffix;
};

std::optional<SmArch> parse_sm_arch(std::string_view text) {
    if (!text.starts_with("sm_")) return std::nullopt;
    text.remove_prefix(3);
    SmArch arch;
    std::size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && digits < 3; ++digits)
        arch.number = arch.number * 10 + (text[digits] - '0');
    arch.suffix = text.substr(digits);
    const bool suffix_fits = arch.suffix.empty() || (arch.suffix == "a" && arch.number >= 90) ||
                             (arch.suffix == "f" && arch.number >= 100);
    if (digits < 2 || text[0] == '0' || !suffix_fits) return std::nullopt;
    return arch;
}

// NVRTC puts the current directory before relative file names and writes the result into the line
// information. So every file gets a name below this root, which the log then loses again.
constexpr std::string_view kVirtualRoot = "/kiln-virtual/";

// The text with the root before the file names of its #line directives, and one more for its own name.
std::string rooted(const std::string& name, const std::string& text) {
    std::string result = "#line 1 \"" + std::string(kVirtualRoot) + name + "\"\n";
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
        const std::size_t quote = text.compare(begin, 6, "#line ") == 0 ? text.find('"', begin) : end;
        if (quote < end && text[quote + 1] != '/') {
            result.append(text, begin, quote + 1 - begin).append(kVirtualRoot);
            begin = quote + 1;
        }
        result.append(text, begin, end - begin);
        begin = end;
    }
    return result;
}

std::string without_root(std::string log) {
    for (std::size_t at = 0; (at = log.find(kVirtualRoot, at)) != std::string::npos;)
        log.erase(at, kVirtualRoot.size());
    return log;
}

class Program {
  public:
    Program(const NvrtcApi& api, const Source& source) : api_(api) {
        std::vector<std::string> rooted_texts;
        for (const auto& header : source.headers) rooted_texts.push_back(rooted(header.name, header.text));
        rooted_texts.push_back(rooted(source.file_name, source.text));
        std::vector<const char*> texts, names;
        for (const auto& text : rooted_texts) texts.push_back(text.c_str());
        for (const auto& header : source.headers) names.push_back(header.name.c_str());
        const NvrtcResult result =
            api_.create_program(&program_, texts.back(), source.file_name.c_str(),
                                static_cast<int>(names.size()), texts.data(), names.data());
        if (result != kNvrtcSuccess)
            throw BuildError("NVRTC did not accept " + source.file_name + ": " + api_.error_string(result) +
                             ".");
    }
    ~Program() { api_.destroy_program(&program_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    NvrtcResult compile(const std::vector<std::string>& options) {
        std::vector<const char*> pointers;
        for (const auto& option : options) pointers.push_back(option.c_str());
        return api_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
    }
    std::string log() const { return without_root(until_nul(text(api_.log_size, api_.log))); }
    std::string ptx() const { return until_nul(text(api_.ptx_size, api_.ptx)); }
    std::string cubin() const { return text(api_.cubin_size, api_.cubin); }

  private:
    using Size = NvrtcResult (*)(NvrtcProgram, std::size_t*);
    using Copy = NvrtcResult (*)(NvrtcProgram, char*);

    std::string text(Size size, Copy copy) const {
        std::size_t bytes = 0;
        NvrtcResult result = size(program_, &bytes);
        std::string text(result == kNvrtcSuccess ? bytes : 0, '\0');
        if (result == kNvrtcSuccess && bytes > 0) result = copy(program_, text.data());
        if (result != kNvrtcSuccess)
            throw BuildError(std::string("NVRTC compiled, but did not give its result: ") +
                             api_.error_string(result) + ".");
        return text;
    }
    static std::string until_nul(std::string text) {
        text.resize(std::min(text.size(), text.find('\0')));
        return text;
    }

    const NvrtcApi& api_;
    NvrtcProgram program_ = nullptr;
};

class Nvrtc final : public NvrtcCompiler {
  public:
    std::string identity() override { return located().identity; }
    std::vector<std::string> options(const Target& target) override;
    Binary compile(const Source& source, const Target& target) override;
    std::string ptx(const Source& source, const Target& target) override;
    std::string description() override;
    std::vector<std::string> supported_archs() override;

  private:
    struct Located {
        fs::path file;
        std::string identity;
        std::string build;
    };
    // What to ask of NVRTC for a target, and a word on it for the log.
    struct Plan {
        std::string arch;
        std::string note;
        bool to_ptx = false;
    };

    const Located& located();
    const NvrtcApi& api();
    std::vector<int> supported_numbers();
    Plan plan(const Target& target);
    SmArch checked_arch(const std::string& arch);
    std::string short_description();
    /// Compiles; returns the log. Throws BuildError.
    std::string run(Program& program, const Source& source, const Plan& plan);

    std::mutex mutex_;
    std::optional<Located> located_;
    std::optional<NvrtcApi> api_;
    DynamicLibrary opened_by_name_;  // where only the loader knows the place
};

const Nvrtc::Located& Nvrtc::located() {
    const std::lock_guard lock(mutex_);
    if (located_) return *located_;
    const LibrarySearch search = nvrtc_search();
    auto file = search.find();
    if (!file) {
        opened_by_name_ = DynamicLibrary::open(search.names);
        if (!opened_by_name_) throw BuildError(search.not_found_message());
        opened_by_name_.keep_forever();
        file = opened_by_name_.path();
    }
    const auto id = elf_identity(*file);
    if (!id) throw BuildError("The NVRTC library " + file->string() + " can't be read or is no ELF library.");
    located_ = Located{*file, "nvrtc " + *id + builtins_identity(*file), short_build(*id)};
    return *located_;
}

const NvrtcApi& Nvrtc::api() {
    const fs::path& file = located().file;
    const std::lock_guard lock(mutex_);
    if (!api_) {
        std::string error;
        auto library = DynamicLibrary::open({file.string()}, &error);
        if (!library) throw BuildError("The NVRTC library " + file.string() + " does not open: " + error);
        api_ = NvrtcApi::open(std::move(library));
    }
    return *api_;
}

std::string Nvrtc::short_description() {
    const auto& nvrtc = api();
    return "NVRTC " + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor);
}

std::string Nvrtc::description() {
    return short_description() + " (build " + located().build + "), " + located().file.string();
}

std::vector<int> Nvrtc::supported_numbers() {
    const auto& nvrtc = api();
    int count = 0;
    if (nvrtc.supported_arch_count(&count) != kNvrtcSuccess || count <= 0) return {};
    std::vector<int> numbers(static_cast<std::size_t>(count));
    if (nvrtc.supported_archs(numbers.data()) != kNvrtcSuccess) return {};
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

std::vector<std::string> Nvrtc::supported_archs() {
    // NVRTC lists plain numbers; from 90 on each has an architecture-specific form too.
    std::vector<std::string> archs;
    for (const int number : supported_numbers()) {
        archs.push_back("sm_" + std::to_string(number));
        if (number >= 90 && api().major >= 12) archs.push_back(archs.back() + "a");
    }
    return archs;
}

std::vector<std::string> Nvrtc::options(const Target& target) {
    return {"--gpu-architecture=" + target.arch, "--std=c++17", "--generate-line-info",
            // Else a header that is missing in memory would be taken from the current directory,
            // past the key.
            "--no-source-include", "--ptxas-options=-v"};
}

SmArch Nvrtc::checked_arch(const std::string& arch) {
    if (auto parsed = parse_sm_arch(arch)) return *parsed;
    throw BuildError("\"" + arch +
                     "\" is not the name of an NVIDIA architecture, which looks like sm_80 or sm_90a. " +
                     short_description() + " compiles for " + enumerate(supported_archs()) + ".");
}

Nvrtc::Plan Nvrtc::plan(const Target& target) {
    const SmArch arch = checked_arch(target.arch);
    const auto numbers = supported_numbers();
    if (numbers.empty() || std::binary_search(numbers.begin(), numbers.end(), arch.number))
        return {target.arch, "", false};
    const auto newer = std::upper_bound(numbers.begin(), numbers.end(), arch.number);
    if (newer == numbers.begin())
        throw BuildError(short_description() + " no longer compiles for " + target.arch +
                         "; it compiles for " + enumerate(supported_archs()) +
                         ". An older CUDA toolkit is needed: set KILN_NVRTC to its library.");
    // PTX is for a device that is newer than this library; without one, an unknown name is a mistake.
    if (target.limits.multiprocessors == 0)
        throw BuildError(short_description() + " does not know " + target.arch + "; it compiles for " +
                         enumerate(supported_archs()) + ".");
    const std::string virtual_arch = "compute_" + std::to_string(*(newer - 1));
    return {virtual_arch,
            short_description() + " does not know " + target.arch + ": made PTX for " + virtual_arch +
                ", which the driver compiles when it loads it.\n",
            true};
}

std::string Nvrtc::run(Program& program, const Source& source, const Plan& plan) {
    auto arguments = options({Backend::cuda, plan.arch, {}});
    if (plan.to_ptx) arguments.pop_back();  // no ptxas runs
    // From 12.9 on NVRTC keeps a cache of its own where there is a driver, and what comes from it has no log.
    // Not in options(): it does not change the binary, and to know the version the library must be open.
    if (std::pair(api().major, api().minor) >= std::pair(12, 9)) arguments.push_back("--no-cache");
    const NvrtcResult result = program.compile(arguments);
    std::string log = plan.note + program.log();
    if (result == kNvrtcSuccess) return log;

    std::string message = short_description() + " could not compile " + source.file_name + " for " +
                          plan.arch + ": " + api().error_string(result) + ".";
    if (result == kNvrtcInvalidOption) message += " It compiles for " + enumerate(supported_archs()) + ".";
    if (result == kNvrtcBuiltinOperationFailure || log.find("libnvrtc-builtins") != std::string::npos)
        message += " NVRTC needs libnvrtc-builtins.so." + std::to_string(api().major) + "." +
                   std::to_string(api().minor) + ", which belongs beside " + located().file.string() +
                   ": install the whole NVRTC package.";
    throw BuildError(message, log);
}

Binary Nvrtc::compile(const Source& source, const Target& target) {
    const Plan plan = this->plan(target);
    const Stopwatch watch;
    Program program(api(), source);
    Binary binary;
    binary.log = run(program, source, plan);
    const std::string bytes = plan.to_ptx ? program.ptx() : program.cubin();
    binary.kind = plan.to_ptx ? BinaryKind::ptx : BinaryKind::cubin;
    // A cubin has a section per kernel.
    const std::string mark = plan.to_ptx ? ".entry " + source.entry + "(" : ".text." + source.entry + '\0';
    if (bytes.find(mark) == std::string::npos)
        throw BuildError(source.file_name + " has no kernel named \"" + source.entry +
                             "\": it must be declared extern \"C\" __global__.",
                         binary.log);
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    binary.bytes.assign(data, data + bytes.size());
    binary.entry = source.entry;
    binary.compiler = short_description() + ", build " + located().build;
    binary.compile_ms = watch.elapsed_ms();
    return binary;
}

std::string Nvrtc::ptx(const Source& source, const Target& target) {
    Plan plan = this->plan(target);
    if (!plan.to_ptx) plan = {"compute_" + target.arch.substr(3), "", true};
    Program program(api(), source);
    run(program, source, plan);
    return program.ptx();
}

}  // namespace

std::unique_ptr<NvrtcCompiler> make_nvrtc_compiler() { return std::make_unique<Nvrtc>(); }

}  // namespace kiln
