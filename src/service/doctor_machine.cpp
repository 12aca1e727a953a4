// SPDX-License-Identifier: Apache-2.0
//
// Compilers, devices, the worker program, and the limits of this process.
#include <kiln/error.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/config.h"
#include "base/words.h"
#include "compile/compiler.h"
#include "format/format.h"
#include "service/backends.h"
#include "service/doctor_parts.h"

namespace kiln {
namespace {

// A few descriptors are held per compile.
constexpr rlim_t kEnoughFiles = 1024;
constexpr std::uint64_t kEnoughTemporary = std::uint64_t{256} << 20;

struct BackendFacts {
    Backend backend;
    const char* compiler;
    const char* variable;  ///< that names the compiler
    bool chosen;           ///< it is set
    const char* purpose;   ///< what is missing without the compiler
    const char* device_remedy;
};

std::vector<BackendFacts> backends() {
    return {
        {Backend::cuda, "NVRTC", "KILN_NVRTC", config::nvrtc_library().has_value(),
         "kernels for NVIDIA GPUs can't be compiled here",
         "To run kernels on an NVIDIA GPU, install NVIDIA's driver, and give a container access to the GPU. "
         "Compiling works without."},
        {Backend::hip, "hipRTC", "KILN_HIPRTC", config::hiprtc_library().has_value(),
         "kernels for AMD GPUs can't be compiled here",
         "To run kernels on an AMD GPU, install ROCm and the amdgpu driver, and give this user access to "
         "/dev/kfd and /dev/dri. Compiling works without."},
        {Backend::host, "C++ compiler", "KILN_HOST_CXX", config::host_cxx().has_value(),
         "kernels for the host can't be compiled here", "The host needs no device."}};
}

std::unique_ptr<Compiler> make_compiler(Backend backend, const WorkerLimits& limits) {
    if (backend == Backend::cuda) return make_nvrtc_compiler(std::make_shared<WorkerPool>(limits));
    if (backend == Backend::hip) return make_hiprtc_compiler(std::make_shared<WorkerPool>(limits));
    return make_host_compiler(limits);
}

// Messages of compilers end with what to do about them.
struct Advice {
    std::string text, remedy;
};
Advice split_advice(std::string_view message) {
    message = message.substr(0, message.find('\n'));  // then comes a log
    std::size_t begin = std::string_view::npos;
    for (const std::string_view verb : {". Install ", ". Set ", ". Correct "})
        begin = std::min(begin, message.find(verb));
    if (begin == std::string_view::npos) return {std::string(message), {}};
    return {std::string(message.substr(0, begin)), std::string(message.substr(begin + 2))};
}

struct CompilerFacts {
    std::string description;
    std::vector<std::string> archs;
};

// nullopt: it was told why there is none.
std::optional<CompilerFacts> examine_compiler(const BackendFacts& facts, const WorkerLimits& limits,
                                              bool is_wanted, Findings& findings) {
    try {
        const auto compiler = make_compiler(facts.backend, limits);
        CompilerFacts found{compiler->description(), compiler->supported_archs()};
        findings.good(
            "compilers", facts.compiler,
            found.description + (found.archs.empty() ? "" : "; compiles for " + enumerate(found.archs)));
        return found;
    } catch (const Error& error) {
        const auto [text, remedy] = split_advice(error.what());
        const bool is_problem = is_wanted || facts.chosen;
        findings.add(
            "compilers", facts.compiler, is_problem ? FindingStatus::problem : FindingStatus::note,
            text + "; " + facts.purpose,
            remedy.empty() ? std::string("Fix it, or set ") + facts.variable + " to another." : remedy);
        return std::nullopt;
    }
}

// The number before the dot in "NVRTC 13.0 (build ..." or "CUDA 12.4, driver ...".
std::optional<int> major_version(std::string_view text, std::string_view product) {
    const auto begin = text.find(product);
    if (begin == std::string_view::npos) return std::nullopt;
    text.remove_prefix(begin + product.size());
    int version = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    return error == std::errc() ? std::optional(version) : std::nullopt;
}

void examine_device(const DeviceInfo& device, const std::optional<CompilerFacts>& compiler,
                    Findings& findings) {
    const std::string subject = formatted("{} {}", name(device.backend), device.ordinal);
    std::string text = device.name + ", " + device.arch;
    if (device.memory_bytes > 0) text += ", " + bytes_text(device.memory_bytes);
    text += ", " + device.driver;
    const auto note = [&](const std::string& what, std::string remedy) {
        findings.note("devices", subject, text + "; " + what, std::move(remedy));
    };
    if (device.backend == Backend::cuda && compiler) {
        const auto compiler_version = major_version(compiler->description, "NVRTC ");
        const auto driver_version = major_version(device.driver, "CUDA ");
        if (compiler_version && driver_version && *compiler_version > *driver_version)
            return note(
                "its driver is older than NVRTC, and may reject the binaries that NVRTC makes",
                formatted("Update the driver, or set KILN_NVRTC to an NVRTC of CUDA {}.", *driver_version));
    }
    // NVRTC may know sm_90 and not name sm_90a.
    const auto knows = [&](std::string_view arch) {
        while (!arch.empty() && arch.back() >= 'a' && arch.back() <= 'z') arch.remove_suffix(1);
        return std::any_of(compiler->archs.begin(), compiler->archs.end(), [&](const std::string& known) {
            return std::string_view(known).starts_with(arch);
        });
    };
    if (device.backend == Backend::cuda && compiler && !compiler->archs.empty() && !knows(device.arch))
        return note("NVRTC does not name its architecture", "Use another NVRTC (KILN_NVRTC) if builds fail.");
    findings.good("devices", subject, text);
}

std::string limit_text(rlim_t limit) {
    return limit == RLIM_INFINITY ? std::string("no limit") : std::to_string(limit);
}

rlim_t soft_limit(decltype(RLIMIT_NOFILE) which) {
    rlimit limit{};
    if (::getrlimit(which, &limit) != 0) return RLIM_INFINITY;
    return limit.rlim_cur;
}

void examine_temporary_files(Findings& findings) {
    std::error_code error;
    const auto directory = std::filesystem::temp_directory_path(error);
    const std::string remedy = "Set TMPDIR to a directory that can be written to.";
    if (error)
        return findings.problem("limits", "temporary files",
                                "there is no directory for them, and compilers need one", remedy);
    if (::access(directory.c_str(), W_OK | X_OK) != 0)
        return findings.problem("limits", "temporary files",
                                "compilers need to write to " + directory.string() + ", and this user can't",
                                remedy);
    const auto free_bytes = file_system_of(directory).free_bytes;
    const std::string text = directory.string() + " has " + bytes_text(free_bytes) + " free";
    if (free_bytes < kEnoughTemporary)
        return findings.note("limits", "temporary files", text,
                             "Make room there, or set TMPDIR to another directory.");
    findings.good("limits", "temporary files", text);
}

}  // namespace

void examine_compilers(const ServiceOptions& options, Findings& findings) {
    // A bad KILN_WORKERS is told with the workers.
    WorkerLimits limits;
    limits.timeout = options.compile_timeout;
    limits.memory_bytes = options.worker_memory_bytes;
    limits.stop = options.stop;
    bool has_nvrtc_options = true;
    try {
        static_cast<void>(config::precompiles());
    } catch (const UsageError& error) {
        has_nvrtc_options = false;
        findings.problem("compilers", "KILN_PCH", error.what(), "Set KILN_PCH to 0 or 1.");
    }
    for (const auto& facts : backends()) {
        std::string reason;
        const auto devices = Device::list(facts.backend, &reason);
        const bool is_gpu = facts.backend != Backend::host;
        const bool is_wanted = options.backend == facts.backend || (is_gpu && !devices.empty());
        std::optional<CompilerFacts> compiler;
        if (facts.backend != Backend::cuda || has_nvrtc_options)
            compiler = examine_compiler(facts, limits, is_wanted, findings);
        for (const auto& device : devices) examine_device(device, compiler, findings);
        if (!devices.empty()) continue;
        const bool is_problem = options.backend == facts.backend && !options.compile_only;
        findings.add("devices", std::string(name(facts.backend)),
                     is_problem ? FindingStatus::problem : FindingStatus::note, "none: " + reason,
                     facts.device_remedy);
    }
}

void examine_workers(const ServiceOptions& options, Findings& findings) {
    constexpr const char* kSubject = "kiln-compile-worker";
    try {
        const std::string program = worker_program();
        if (::access(program.c_str(), X_OK) == 0)
            findings.good("workers", kSubject, program);
        else
            findings.problem("workers", kSubject, program + " can't be run by this user",
                             "Give it the right to be executed (chmod +x).");
    } catch (const Error& error) {
        const auto [text, remedy] = split_advice(error.what());
        const bool is_problem = config::compile_worker().has_value() || options.backend == Backend::hip;
        findings.add("workers", kSubject, is_problem ? FindingStatus::problem : FindingStatus::note,
                     text + "; without it hipRTC can't be used, and nothing is compiled in the background",
                     remedy);
    }
    try {
        const WorkerLimits limits = worker_limits(options);
        findings.good(
            "workers", "processes",
            formatted("{} at once, each with {} of address space, and {} s for a compile", limits.workers,
                      limits.memory_bytes == 0 ? std::string("any amount")
                                               : bytes_text(limits.memory_bytes) + " at most",
                      limits.timeout.count() / 1000));
    } catch (const UsageError& error) {
        findings.problem("workers", "KILN_WORKERS", error.what(), "Correct or unset KILN_WORKERS.");
    }
}

void examine_limits(const ServiceOptions& options, Findings& findings) {
    const rlim_t files = soft_limit(RLIMIT_NOFILE);
    const std::string files_text = limit_text(files) + "; each compile holds a few";
    if (files < kEnoughFiles)
        findings.note(
            "limits", "open files", files_text,
            "Raise it before the program starts: ulimit -n 4096. Kiln's programs have raised it to the hard "
            "limit (ulimit -Hn), which limits.conf or the container sets.");
    else
        findings.good("limits", "open files", files_text);

    const auto cores = static_cast<rlim_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    const rlim_t processes = soft_limit(RLIMIT_NPROC);
    const std::string processes_text = limit_text(processes) + ", of all of this user together";
    if (processes < 16 * cores + 64)
        findings.note("limits", "processes", processes_text,
                      "Raise it (ulimit -u), or compile in fewer processes (KILN_WORKERS).");
    else
        findings.good("limits", "processes", processes_text);

    const rlim_t memory = soft_limit(RLIMIT_AS);
    if (memory != RLIM_INFINITY && (options.worker_memory_bytes == 0 || memory < options.worker_memory_bytes))
        findings.note("limits", "address space",
                      bytes_text(memory) + ", for compilers too, which then run out of memory",
                      "Raise it: ulimit -v unlimited");
    examine_temporary_files(findings);
}

}  // namespace kiln
