// SPDX-License-Identifier: Apache-2.0
//
// NVRTC, in this process or in a worker: to a cubin for the exact architecture, or to PTX where the library
// is older than the device.
#include <kiln/error.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "base/arch_facts.h"
#include "base/config.h"
#include "base/digest.h"
#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compile_options.h"
#include "compile/compiler.h"
#include "compile/hoisted_includes.h"
#include "compile/library_search.h"
#include "compile/loaded_objects.h"
#include "compile/nvjitlink.h"
#include "compile/nvrtc_api.h"
#include "compile/nvrtc_program.h"
#include "format/format.h"

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
        "CUDA 12): next to the package kiln, as 'pip install kiln[cuda]' does, or elsewhere, with KILN_NVRTC "
        "set to "
        "the libnvrtc.so.* file in it.";
    search.directories = config::library_path();
    // Its wheel, where Kiln was installed from one: site-packages/kiln and site-packages/nvidia/cu13/lib, or cuda_nvrtc.
    for (const auto& wheel : versioned_directories(own_directory().parent_path() / "nvidia", "cu"))
        search.directories.push_back(wheel / "lib");
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

// The names of builtins that the library may open: those of its major version, or of any when the file's name has
// none.
std::vector<std::string> builtins_names(const fs::path& library) {
    constexpr int kNewestMajor = 13, kOldestMajor = 11, kMinors = 10;
    std::error_code error;
    const std::string name = fs::canonical(library, error).filename().string();
    constexpr std::string_view kStem = "libnvrtc.so.";
    const int major = name.starts_with(kStem) ? std::atoi(name.c_str() + kStem.size()) : 0;
    std::vector<std::string> names;
    for (int m = major > 0 ? major : kNewestMajor; m >= (major > 0 ? major : kOldestMajor); --m) {
        for (int minor = 0; minor < kMinors; ++minor)
            names.push_back(formatted("libnvrtc-builtins.so.{}.{}", m, minor));
    }
    return names;
}

// The builtins hold headers and code for the GPU; what they need of the C++ library makes no difference. Those next to
// the library are opened before any others of that name could be (NvrtcApi::open).
void add_builtins(const fs::path& library, CompilerObjects& objects) {
    const auto names = builtins_names(library);
    bool any = false;
    std::error_code error;
    for (const auto& name : names) {
        const auto file = library.parent_path() / name;
        if (!fs::is_regular_file(file, error)) continue;
        objects.add_alone(file);
        any = true;
    }
    if (!any) objects.add_opened_alone(library, names);
}

// Then the compile unit has a name of its own, and debuggers look at everything.
bool is_debug(const std::vector<std::string>& options) {
    return std::ranges::find(options, "--device-debug") != options.end();
}

std::string key_of_headers(const std::string& hoisted, const std::vector<Header>& headers) {
    ChecksumStream all;
    const auto add = [&](const std::string& text) {
        const std::string size = formatted("{}\n", text.size());
        all.add(std::as_bytes(std::span(size)));
        all.add(std::as_bytes(std::span(text)));
    };
    add(hoisted);
    for (const Header& header : headers) {
        add(header.name);
        add(header.text);
    }
    return all.hex();
}

// "sm_90a" is the number 90 with the suffix "a".
struct SmArch {
    int number = 0;
    std::string suffix;
};

std::optional<SmArch> parse_sm_arch(std::string_view text) {
    const auto number = is_ptx_arch(text) ? std::nullopt : cuda_arch_number(text);
    if (!number) return std::nullopt;
    const bool has_suffix = text.ends_with('a') || text.ends_with('f');
    return SmArch{*number, std::string(text.substr(text.size() - (has_suffix ? 1 : 0)))};
}

class Nvrtc final : public NvrtcCompiler {
  public:
    Nvrtc(std::shared_ptr<WorkerPool> workers, SharedMemory memory)
        : workers_(std::move(workers)), memory_(std::move(memory)) {}

    CompilerIngredients ingredients() override {
        return {located().identity, compiler_environment(CompilerKind::nvrtc).ingredients, {}};
    }
    void prepare() override {
        static_cast<void>(ingredients());
        if (!usual_place().in_worker) static_cast<void>(api());
    }
    std::vector<std::string> options(const Target& target, const Source& source) override;
    std::string ptx(const Source& source, const Target& target) override;
    std::vector<std::pair<std::string, double>> phases(const Source& source, const Target& target) override;
    std::string linker_identity() override { return linker().identity; }
    std::vector<std::string> link_options(const Target& target, const Source& source) override;
    Binary link(const Source& source, const Target& target, const Binary& ltoir) override;
    std::string description() override;
    std::vector<std::string> supported_archs() override { return facts(usual_place()).archs; }
    std::vector<fs::path> include_directories() override;

  private:
    struct Located {
        fs::path file;
        std::string build;  // its elf_identity()
        std::string identity;
    };
    // What the library reports about itself.
    struct Facts {
        std::string product;  // "NVRTC 13.0"
        std::vector<std::string> archs;
    };
    // What to ask of NVRTC for a target, and a word on it for the log.
    struct Plan {
        std::string arch;
        std::string note;
        bool to_ptx = false;
    };

    /// Where a compile runs, and with what of the environment.
    struct Place {
        bool in_worker = false;
        std::vector<Variable> environment;
        std::stop_token stop = {};
    };

    Binary compile_as(const CompilerIngredients& as, const Source& source, const Target& target,
                      const CompilePlace& where) override;
    Located located();
    Located linker();
    const NvJitLinkApi& link_api();
    Place place(const std::vector<Variable>& environment, const CompilePlace& where) const;
    Place usual_place() const;
    Precompiling precompiling(const CompileRequest& request);
    template <class Api>
    const Api& opened(std::optional<Api>& api, const fs::path& file, const std::string& product);
    const NvrtcApi& api();
    Facts facts(const Place& place);
    Plan plan(const Target& target, const Facts& facts);
    CompileResponse ask(const Place& place, CompileRequest request, const std::string& what);
    /// Compiles. Throws BuildError.
    /// times: the file that NVRTC writes the times of its phases to; empty: none.
    CompileResponse run(const Source& source, const Target& target, const Plan& plan, const Facts& facts,
                        const Place& place, const std::string& times = {});

    const std::shared_ptr<WorkerPool> workers_;
    const SharedMemory memory_;
    std::mutex mutex_;
    std::optional<Located> located_;
    std::optional<NvrtcApi> api_;
    std::optional<Located> linker_;
    std::optional<NvJitLinkApi> link_api_;
    std::optional<Facts> facts_;
    PrecompiledHeaders precompiled_;   // in this process
    std::set<std::string> asked_for_;  // keys of headers that can be precompiled
    DynamicLibrary opened_by_name_;    // where only the loader knows the place
};

Nvrtc::Located Nvrtc::located() {
    const std::lock_guard lock(mutex_);
    // What is open in this process stays what it is, whatever becomes of the file.
    if (located_ && api_) return *located_;
    const LibrarySearch search = nvrtc_search();
    auto file = search.find();
    if (!file) {
        opened_by_name_ = DynamicLibrary::open(search.names);
        if (!opened_by_name_) throw BuildError(search.not_found_message());
        opened_by_name_.keep_forever();
        file = opened_by_name_.path();
    }
    const auto found =
        memory_->ask("nvrtc " + file->string() + " " + search_environment(), [&]() -> IdentityMemory::Answer {
            const auto build = elf_identity(*file);
            if (!build)
                throw BuildError("The NVRTC library " + file->string() +
                                 " can't be read or is no ELF library.");
            CompilerObjects objects(CompilerKind::nvrtc);
            objects.add(*file);
            add_builtins(*file, objects);
            auto watched = objects.watched();
            watched.push_back(file->parent_path());  // builtins may come, or go
            return {{*build, "nvrtc " + objects.identity()}, std::move(watched)};
        });
    if (located_ && located_->identity != found[1]) facts_.reset();
    located_ = Located{*file, found[0], found[1]};
    return *located_;
}

// A worker's environment can be chosen; that of this process can't be changed without a race.
Nvrtc::Place Nvrtc::place(const std::vector<Variable>& environment, const CompilePlace& where) const {
    if (workers_ == nullptr) return {false, environment};
    const bool is_clean = environment.empty() && compiler_environment(CompilerKind::nvrtc).empty();
    return {where.isolation == Isolation::worker || (!is_clean && has_worker_program()), environment,
            where.stop};
}

Nvrtc::Place Nvrtc::usual_place() const {
    return place(compiler_environment(CompilerKind::nvrtc).ingredients, Isolation::here);
}

// One variant gains nothing from it. Where there was one, others will follow.
Precompiling Nvrtc::precompiling(const CompileRequest& request) {
    const std::lock_guard lock(mutex_);
    return asked_for_.insert(request.hoisted_key).second ? Precompiling::when_idle : Precompiling::now;
}

template <class Api>
const Api& Nvrtc::opened(std::optional<Api>& api, const fs::path& file, const std::string& product) {
    const std::lock_guard lock(mutex_);
    if (!api) {
        std::string error;
        auto library = DynamicLibrary::open({file.string()}, &error);
        if (!library)
            throw BuildError("The " + product + " library " + file.string() + " does not open: " + error);
        api = Api::open(std::move(library));
    }
    return *api;
}

const NvrtcApi& Nvrtc::api() { return opened(api_, located().file, "NVRTC"); }

CompileResponse Nvrtc::ask(const Place& place, CompileRequest request, const std::string& what) {
    if (!place.in_worker) return answer(api(), request, precompiled_);
    const Located library = located();
    request.product = RuntimeProduct::nvrtc;
    request.library = library.file.string();
    request.build = library.build;
    request.environment = place.environment;
    CompileResponse response;
    try {
        response = workers_->run(request, what, {}, place.stop);
    } catch (const BuildError& error) {
        if (place.environment.empty()) throw;
        throw with_note(error, place.environment);
    }
    if (response.status == CompileStatus::unusable_library)
        throw BuildError("The NVRTC library " + library.file.string() +
                             " can't be used in a worker process." + memory_note(workers_->limits()),
                         response.log);
    return response;
}

Nvrtc::Facts Nvrtc::facts(const Place& place) {
    (void)located();
    {
        const std::lock_guard lock(mutex_);
        if (facts_) return *facts_;
    }
    auto response = ask(place, {}, "NVRTC");
    const std::lock_guard lock(mutex_);
    facts_ = Facts{"NVRTC " + response.version, std::move(response.supported_archs)};
    return *facts_;
}

std::string Nvrtc::description() {
    return facts(usual_place()).product + " (build " + short_build(located().build) + "), " +
           located().file.string();
}

// Of the toolkit or the wheels that NVRTC belongs to, then of those that the environment names.
std::vector<fs::path> Nvrtc::include_directories() {
    std::vector<fs::path> roots;
    std::error_code error;
    try {
        if (const auto library = nvrtc_search().find()) {
            // .../lib64, .../lib, .../targets/x86_64-linux/lib; nvidia/cu13/lib, nvidia/cuda_nvrtc/lib of the wheels
            const fs::path root = fs::canonical(*library, error).parent_path().parent_path();
            roots.push_back(root);
            roots.push_back(root.parent_path() / "cuda_runtime");
            roots.push_back(root.parent_path() / "cuda_cccl");
        }
    } catch (const BuildError&) {
        // The one that was chosen is not there: what is packed may serve.
    }
    for (auto& home : config::cuda_homes()) roots.push_back(std::move(home));
    roots.emplace_back("/usr/local/cuda");
    std::vector<fs::path> directories;
    for (const fs::path& root : roots) {
        for (const fs::path& directory : {root / "include" / "cccl", root / "include"}) {
            const fs::path real = fs::canonical(directory, error);
            if (error || real == "/usr/include")
                continue;  // where distributions put it among everything else
            if (std::find(directories.begin(), directories.end(), real) == directories.end())
                directories.push_back(real);
        }
    }
    return directories;
}

std::vector<std::string> Nvrtc::options(const Target& target, const Source& source) {
    CompileOptions given = compile_options(target, source);
    std::vector<std::string> options = {"--gpu-architecture=" + target.arch, "--std=" + given.standard,
                                        given.debug ? "--device-debug" : "--generate-line-info",
                                        // Else a header that is missing in memory would be taken from the
                                        // current directory, past the key.
                                        "--no-source-include", "--ptxas-options=-v"};
    if (source.opt_level != kUsualOptLevel)
        options.push_back(formatted("--ptxas-options=-O{}", source.opt_level));
    for (std::string& one : given.others) options.push_back(std::move(one));
    if (source.to_ltoir || !source.linked.empty()) options.emplace_back("--dlink-time-opt");
    return options;
}

Nvrtc::Plan Nvrtc::plan(const Target& target, const Facts& facts) {
    const bool is_ptx = is_ptx_arch(target.arch);
    const auto arch =
        parse_sm_arch(is_ptx ? "sm_" + target.arch.substr(target.arch.find('_') + 1) : target.arch);
    const std::string known = facts.product + " compiles for " + enumerate(facts.archs) + ".";
    if (!arch)
        throw BuildError("\"" + target.arch +
                         "\" is not the name of an NVIDIA architecture, which looks like sm_80 or sm_90a; "
                         "compute_80 is PTX. " +
                         known);
    std::vector<int> numbers;  // in rising order
    for (const auto& name : facts.archs) {
        if (const auto parsed = parse_sm_arch(name); parsed && parsed->suffix.empty())
            numbers.push_back(parsed->number);
    }
    if (numbers.empty() || std::binary_search(numbers.begin(), numbers.end(), arch->number))
        return {target.arch, "", is_ptx};
    const auto newer = std::upper_bound(numbers.begin(), numbers.end(), arch->number);
    if (newer == numbers.begin())
        throw BuildError(facts.product + " no longer compiles for " + target.arch + "; it compiles for " +
                         enumerate(facts.archs) +
                         ". An older CUDA toolkit is needed: set KILN_NVRTC to its library.");
    // PTX is for a device that is newer than this library; without one, an unknown name is a mistake.
    if (target.limits.multiprocessors == 0)
        throw BuildError(facts.product + " does not know " + target.arch + "; it compiles for " +
                         enumerate(facts.archs) + ".");
    const std::string virtual_arch = formatted("compute_{}", *(newer - 1));
    return {virtual_arch,
            facts.product + " does not know " + target.arch + ": made PTX for " + virtual_arch +
                ", which the driver compiles when it loads it.\n",
            true};
}

CompileResponse Nvrtc::run(const Source& source, const Target& target, const Plan& plan, const Facts& facts,
                           const Place& place, const std::string& times) {
    CompileRequest request;
    request.wanted = plan.to_ptx ? Wanted::ptx : source.to_ltoir ? Wanted::ltoir : Wanted::binary;
    request.arch = plan.arch;
    request.options = options(target, source);
    request.options.front() = "--gpu-architecture=" + plan.arch;
    if (plan.to_ptx)  // no ptxas runs
        std::erase_if(request.options,
                      [](const std::string& one) { return one.starts_with("--ptxas-options"); });
    request.source = source;
    if (!times.empty()) {
        request.options.push_back("--time=" + times);
    } else if (config::precompiles() && !is_debug(request.options)) {
        request.hoisted = hoisted_includes(source);
        if (!request.hoisted.empty()) {
            request.hoisted_key = key_of_headers(request.hoisted, source.headers);
            request.precompiling = precompiling(request);
        }
    }
    auto response = ask(place, std::move(request),
                        facts.product + " compiling " + source.file_name + " for " + plan.arch);
    response.log.insert(0, plan.note);
    if (response.status == CompileStatus::ok) return response;

    std::string message = facts.product + " could not compile " + source.file_name + " for " + plan.arch +
                          ": " + response.error + ".";
    if (response.code == kNvrtcInvalidOption) message += " It compiles for " + enumerate(facts.archs) + ".";
    if (response.code == kNvrtcBuiltinOperationFailure ||
        response.log.find("libnvrtc-builtins") != std::string::npos)
        message += " NVRTC needs libnvrtc-builtins.so." + response.version + ", which belongs next to " +
                   located().file.string() + ": install the complete NVRTC package.";
    else if (place.in_worker && (response.code != kNvrtcCompilation || may_lack_memory(response.log)))
        message += memory_note(workers_->limits());
    throw BuildError(message + environment_note(place.environment), response.log);
}

Binary Nvrtc::compile_as(const CompilerIngredients& as, const Source& source, const Target& target,
                         const CompilePlace& where) {
    const Place place = this->place(as.environment, where);
    const Facts facts = this->facts(place);
    const Plan plan = this->plan(target, facts);
    const Stopwatch watch;
    auto response = run(source, target, plan, facts, place);
    // A cubin has a section per kernel.
    const bool is_ltoir = source.to_ltoir && !plan.to_ptx;
    for (const std::string& entry : response.entries) {
        const std::string mark = plan.to_ptx ? ".entry " + entry + "(" : ".text." + entry + '\0';
        if (!is_ltoir && response.binary.find(mark) == std::string::npos)
            throw BuildError(source.file_name + " has no kernel named \"" + entry +
                                 "\": it must be declared extern \"C\" __global__.",
                             response.log);
    }
    Binary binary;
    binary.kind = plan.to_ptx ? BinaryKind::ptx : is_ltoir ? BinaryKind::ltoir : BinaryKind::cubin;
    set_entries(binary, std::move(response.entries));
    binary.bytes = take_binary(response);
    binary.log = std::move(response.log);
    binary.compiler = facts.product + ", build " + short_build(located().build);
    binary.compile_ms = watch.elapsed_ms();
    return binary;
}

Nvrtc::Located Nvrtc::linker() {
    const fs::path nvrtc = located().file;
    const std::lock_guard lock(mutex_);
    if (linker_ && link_api_) return *linker_;
    const LibrarySearch search = nvjitlink_search(nvrtc, nvrtc_search().directories);
    const auto file = search.find();
    if (!file) throw BuildError(search.not_found_message());
    const auto found = memory_->ask(
        "nvjitlink " + file->string() + " " + search_environment(), [&]() -> IdentityMemory::Answer {
            const auto build = elf_identity(*file);
            if (!build)
                throw BuildError("The nvJitLink library " + file->string() +
                                 " can't be read or is no ELF library.");
            CompilerObjects objects(CompilerKind::nvrtc);
            objects.add(*file);
            return {{*build, "nvjitlink " + objects.identity()}, objects.watched()};
        });
    linker_ = Located{*file, found[0], found[1]};
    return *linker_;
}

const NvJitLinkApi& Nvrtc::link_api() { return opened(link_api_, linker().file, "nvJitLink"); }

// Code is generated here: what options say of that is said again, in nvJitLink's words.
std::vector<std::string> Nvrtc::link_options(const Target& target, const Source& source) {
    constexpr std::pair<std::string_view, std::string_view> kBooleans[] = {{"--ftz=", "-ftz="},
                                                                           {"--prec-div=", "-prec-div="},
                                                                           {"--prec-sqrt=", "-prec-sqrt="},
                                                                           {"--fmad=", "-fma="}};
    constexpr std::string_view kPtxas = "--ptxas-options", kRegisters = "--maxrregcount";
    const std::vector<std::string> compiled_with = this->options(target, source);
    // ptxas does not optimise what is to be debugged.
    const bool is_debug = std::ranges::find(compiled_with, "--device-debug") != compiled_with.end();
    std::vector<std::string> options = {"-arch=" + target.arch, "-lto", is_debug ? "-O0" : "-O3", "-verbose"};
    for (const std::string& one : compiled_with) {
        if (one == "--use_fast_math")
            options.insert(options.end(), {"-ftz=1", "-prec-div=0", "-prec-sqrt=0", "-fma=1"});
        if (one == "--device-debug") options.emplace_back("-g");
        if (one == "--generate-line-info") options.emplace_back("-lineinfo");
        if (one.starts_with(kRegisters)) options.push_back(one.substr(1));
        if (one.starts_with(kPtxas)) options.push_back("-Xptxas" + one.substr(kPtxas.size()));
        for (const auto& [name, linked] : kBooleans) {
            if (!one.starts_with(name)) continue;
            const std::string value = one.substr(name.size());
            options.push_back(std::string(linked) + (value == "true" ? "1" : value == "false" ? "0" : value));
        }
    }
    return options;
}

Binary Nvrtc::link(const Source& source, const Target& target, const Binary& ltoir) {
    if (ltoir.kind != BinaryKind::ltoir)
        throw BuildError(source.file_name + " can't be linked with LTO-IR for " + target.arch +
                         ": NVRTC makes PTX for it. A newer NVRTC is needed, or code in C++.");
    const NvJitLinkApi& api = link_api();
    const Stopwatch watch;
    const std::vector<std::string> options = link_options(target, source);
    const auto view = [](const Bytes& bytes) {
        return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    std::vector<LinkInput> inputs = {{view(ltoir.bytes), source.file_name}};
    for (const LinkedCode& code : source.linked) inputs.push_back({*code.ltoir, code.symbol});
    LinkedCubin linked = link_ltoir(api, options, inputs);
    if (linked.bytes.empty()) {
        std::vector<std::string> symbols;
        for (const LinkedCode& code : source.linked) symbols.push_back(code.symbol);
        throw BuildError("nvJitLink could not link " + source.file_name + " with the LTO-IR of " +
                             enumerate(symbols) + " for " + target.arch +
                             ". The LTO-IR must have these functions, and be of this or an older CUDA.",
                         linked.log);
    }
    Binary binary;
    binary.kind = BinaryKind::cubin;
    binary.entry = ltoir.entry;
    binary.more_entries = ltoir.more_entries;
    binary.bytes = Bytes(std::vector<std::byte>(
        reinterpret_cast<const std::byte*>(linked.bytes.data()),
        reinterpret_cast<const std::byte*>(linked.bytes.data()) + linked.bytes.size()));
    binary.log = ltoir.log + linked.log;
    binary.compiler = ltoir.compiler + ", nvJitLink build " + short_build(linker().build);
    binary.compile_ms = watch.elapsed_ms();
    return binary;
}

std::string Nvrtc::ptx(const Source& source, const Target& target) {
    const Place place = usual_place();
    const Facts facts = this->facts(place);
    Plan plan = this->plan(target, facts);
    if (!plan.to_ptx) plan = {"compute_" + target.arch.substr(3), "", true};
    return run(source, target, plan, facts, place).binary;
}

// Lines of "k.cu, CUDA C++ Frontend, 613, ms", with a head.
std::vector<std::pair<std::string, double>> Nvrtc::phases(const Source& source, const Target& target) {
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"CUDA C++ Frontend", "front end"},
                                                                        {"NVVM Optimizer", "NVVM optimizer"},
                                                                        {"PTX Translation", "ptxas"}};
    Source timed = source;
    timed.to_ltoir = timed.to_ltoir || !source.linked.empty();
    const Place place = usual_place();
    const Facts facts = this->facts(place);
    const TemporaryDirectory directory;
    const std::string file = (directory.path() / "times.csv").string();
    const Stopwatch watch;
    CompileResponse response = run(timed, target, plan(target, facts), facts, place, file);
    double rest = watch.elapsed_ms();
    std::vector<std::pair<std::string, double>> phases;
    std::istringstream lines(read_text_if_exists(file).value_or(std::string()));
    for (std::string line; std::getline(lines, line);) {
        std::vector<std::string> cells;
        std::istringstream row(line);
        for (std::string cell; std::getline(row, cell, ',');) cells.emplace_back(trimmed(cell));
        if (cells.size() != 4 || cells[3] != "ms") continue;
        const auto known = std::ranges::find(kNames, cells[1], [](const auto& one) { return one.first; });
        phases.emplace_back(known == std::end(kNames) ? cells[1] : std::string(known->second),
                            std::strtod(cells[2].c_str(), nullptr));
        rest -= phases.back().second;
    }
    if (phases.empty()) throw BuildError(facts.product + " does not tell the phases of a compile.");
    phases.emplace_back("rest", std::max(rest, 0.0));
    if (source.linked.empty()) return phases;
    Binary ltoir;
    ltoir.kind = BinaryKind::ltoir;
    set_entries(ltoir, response.entries);
    ltoir.bytes = take_binary(response);
    const Stopwatch linking;
    static_cast<void>(link(source, target, ltoir));
    phases.emplace_back("link", linking.elapsed_ms());
    return phases;
}

}  // namespace

std::unique_ptr<NvrtcCompiler> make_nvrtc_compiler(std::shared_ptr<WorkerPool> workers, SharedMemory memory) {
    return std::make_unique<Nvrtc>(std::move(workers), std::move(memory));
}

}  // namespace kiln
