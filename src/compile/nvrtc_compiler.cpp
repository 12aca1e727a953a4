// SPDX-License-Identifier: Apache-2.0
//
// NVRTC, in this process or in a worker, and nvJitLink.
#include <kiln/error.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "base/config.h"
#include "base/digest.h"
#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compile_options.h"
#include "compile/compiler.h"
#include "compile/hoisted_includes.h"
#include "compile/invocation.h"
#include "compile/library_search.h"
#include "compile/loaded_objects.h"
#include "compile/nvjitlink.h"
#include "compile/nvrtc_api.h"
#include "compile/nvrtc_library.h"
#include "compile/nvrtc_plan.h"
#include "compile/nvrtc_program.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

// Then the compile unit has a name of its own, and debuggers look at everything.
bool is_debug(const std::vector<std::string>& options) {
    return std::ranges::find(options, "--device-debug") != options.end();
}

std::string key_of_headers(const std::string& hoisted, const Source& source) {
    ChecksumStream all;
    const auto add = [&](const std::string& text) {
        const std::string size = formatted("{}\n", text.size());
        all.add(std::as_bytes(std::span(size)));
        all.add(std::as_bytes(std::span(text)));
    };
    add(hoisted);
    add(source.include_digest);  // which stands for source.found_headers
    for (const Header& header : source.headers) {
        add(header.name);
        add(header.text);
    }
    return all.hex();
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
    std::vector<std::string> link_options(const Target& target, const Source& source) override {
        return nvjitlink_options(target.arch, options(target, source));
    }
    Binary link(const Source& source, const Target& target, const Binary& ltoir) override;
    std::string description() override;
    std::vector<std::string> supported_archs() override { return facts(usual_place()).archs; }
    std::vector<fs::path> include_directories() override { return cuda_include_directories(); }

  private:
    struct Located {
        fs::path file;
        std::string build;  // its elf_identity()
        std::string identity;
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
    NvrtcFacts facts(const Place& place);
    CompileResponse ask(const Place& place, CompileRequest request, const std::string& what);
    /// Compiles. Throws BuildError.
    /// times: the file that NVRTC writes the times of its phases to; empty: none.
    CompileResponse run(const Source& source, const Target& target, const NvrtcPlan& plan,
                        const NvrtcFacts& facts, const Place& place, const std::string& times = {});

    const std::shared_ptr<WorkerPool> workers_;
    const SharedMemory memory_;
    std::mutex mutex_;
    std::optional<Located> located_;
    std::optional<NvrtcApi> api_;
    std::optional<Located> linker_;
    std::optional<NvJitLinkApi> link_api_;
    std::optional<NvrtcFacts> facts_;
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
            add_nvrtc_builtins(*file, objects);
            auto watched = objects.watched();
            watched.push_back(file->parent_path());  // builtins may come, or go
            return {{*build, "nvrtc " + objects.identity()}, std::move(watched)};
        });
    const std::string identity = formatted("{} {}", found[1], kNvrtcInvocation);
    if (located_ && located_->identity != identity) facts_.reset();
    located_ = Located{*file, found[0], identity};
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

NvrtcFacts Nvrtc::facts(const Place& place) {
    (void)located();
    {
        const std::lock_guard lock(mutex_);
        if (facts_) return *facts_;
    }
    auto response = ask(place, {}, "NVRTC");
    const std::lock_guard lock(mutex_);
    facts_ = NvrtcFacts{"NVRTC " + response.version, std::move(response.supported_archs)};
    return *facts_;
}

std::string Nvrtc::description() {
    return facts(usual_place()).product + " (build " + short_build(located().build) + "), " +
           located().file.string();
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

CompileResponse Nvrtc::run(const Source& source, const Target& target, const NvrtcPlan& plan,
                           const NvrtcFacts& facts, const Place& place, const std::string& times) {
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
            request.hoisted_key = key_of_headers(request.hoisted, source);
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
    const NvrtcFacts facts = this->facts(place);
    const NvrtcPlan plan = nvrtc_plan(target, facts);
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
    const NvrtcFacts facts = this->facts(place);
    NvrtcPlan plan = nvrtc_plan(target, facts);
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
    const NvrtcFacts facts = this->facts(place);
    const TemporaryDirectory directory;
    const std::string file = (directory.path() / "times.csv").string();
    const Stopwatch watch;
    CompileResponse response = run(timed, target, nvrtc_plan(target, facts), facts, place, file);
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
    static_cast<void>(config::precompiles());  // throws before anything is compiled or found in the cache
    return std::make_unique<Nvrtc>(std::move(workers), std::move(memory));
}

}  // namespace kiln
