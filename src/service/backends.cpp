// SPDX-License-Identifier: Apache-2.0
//
// The table of backends: what each is opened, compiled and described with.
#include "service/backends.h"

#include <kiln/error.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "base/arch_facts.h"
#include "base/config.h"
#include "base/host_arch.h"
#include "base/number_range.h"
#include "base/words.h"
#include "device/driver.h"
#include "format/format.h"
#include "service/absolute_paths.h"

namespace kiln {
namespace {

class DiskMemory final : public IdentityStore {
  public:
    DiskMemory(std::shared_ptr<DiskCache> disk, DiskCache::Memory which)
        : disk_(std::move(disk)), which_(which) {}
    std::string read() override { return disk_->read_memory(which_); }
    void write(const std::string& text) override { disk_->write_memory(which_, text); }

  private:
    const std::shared_ptr<DiskCache> disk_;
    const DiskCache::Memory which_;
};

// Not set: no backend's architectures have such names.
std::optional<Backend> owner_of_arch(const std::string& arch) {
    if (cuda_arch_number(arch)) return Backend::cuda;
    if (is_hip_arch_name(arch)) return Backend::hip;
    const auto known = known_archs(Backend::host);
    if (arch == host_arch() || std::find(known.begin(), known.end(), arch) != known.end())
        return Backend::host;
    return std::nullopt;
}

// The one that is asked for, by name, context, observer or architecture; nullopt: none in particular.
std::optional<Backend> asked_backend(const ServiceOptions& options) {
    std::optional<Backend> wanted = options.backend;
    if (!wanted && !options.context.is_primary()) wanted = Backend::cuda;
    if (!wanted && options.arch.empty() && options.observer) wanted = Backend::host;
    if (!wanted && !options.arch.empty()) {
        wanted = owner_of_arch(options.arch);
        if (!wanted)
            throw UsageError("architecture '" + options.arch +
                             "' belongs to no backend; write sm_90a for CUDA, " + "gfx90a for HIP, " +
                             host_arch() + " for the host");
    }
    if (options.observer && *wanted != Backend::host)
        throw UsageError("accesses to memory can be observed on the backend host only; this service is for " +
                         std::string(name(*wanted)));
    return wanted;
}

// The host always has a device.
Backend first_with_device() {
    for (const Backend backend : {Backend::cuda, Backend::hip})
        if (!Device::list(backend).empty()) return backend;
    return Backend::host;
}

// The backend to use, with its device unless only compiling.
std::pair<Backend, std::optional<Device>> open_backend(const ServiceOptions& options) {
    const std::optional<Backend> wanted = asked_backend(options);
    if (wanted && options.compile_only && !options.arch.empty()) return {*wanted, std::nullopt};
    if (wanted) {
        try {
            return {*wanted, Device::open(*wanted, options.device, options.context)};
        } catch (const DeviceError& error) {
            if (!options.compile_only) throw;
            throw UsageError("compiling for " + std::string(name(*wanted)) +
                             " without a device needs an architecture; it is one of " +
                             join(known_archs(*wanted)) + " (" + error.what() + ")");
        }
    }
    const Backend backend = first_with_device();
    return {backend, Device::open(backend, options.device)};
}

}  // namespace

Backend choose_backend(const ServiceOptions& options) {
    const std::optional<Backend> asked = asked_backend(options);
    return asked ? *asked : first_with_device();
}

WorkerLimits worker_limits(const ServiceOptions& options) {
    WorkerLimits limits;
    // 0 is not set.
    if (options.workers != 0)
        check_range("ServiceOptions::workers", options.workers, 1, config::kMostWorkers);
    limits.workers = options.workers > 0 ? options.workers : config::workers();
    if (limits.workers <= 0)
        limits.workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    limits.timeout = options.compile_timeout;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose shadow memory is terabytes
    limits.memory_bytes = options.worker_memory_bytes;
#endif
    limits.stop = options.stop;
    return limits;
}

SharedMemory disk_memory(std::shared_ptr<DiskCache> disk, DiskCache::Memory which) {
    if (!disk) return process_memory();
    return std::make_shared<IdentityMemory>(std::make_shared<DiskMemory>(std::move(disk), which));
}

IncludeTree include_tree(const ServiceOptions& options, Compiler& compiler, SharedMemory memory) {
    std::vector<std::filesystem::path> directories = options.include_directories;
    for (const auto& directory : config::include_directories())
        directories.push_back(absolute_path(directory));
    return IncludeTree(
        std::move(directories), [&compiler] { return compiler.include_directories(); }, std::move(memory),
        [&compiler] {
            try {
                compiler.prepare();
            } catch (const std::exception&) {
                // Whoever asks for them next is told.
            }
        });
}

Selection select_backend(const ServiceOptions& options) {
    auto [backend, device] = open_backend(options);
    if (options.observer && device) device->driver()->observe(options.observer);
    if (options.isolate_host && device && !config::host_in_process()) {
        device->driver()->load_at_launch();
        device->driver()->separate_buffers();
    }
    Selection selection;
    if (device) {
        selection.target = device->target();
        if (!options.arch.empty()) selection.target.arch = options.arch;
    } else {
        selection.target = {backend, options.arch, arch_limits(backend, options.arch).value_or(Limits{})};
    }
    const auto& arch = selection.target.arch;
    if (const auto owner = owner_of_arch(arch); owner != backend)
        throw UsageError("architecture '" + arch + "' is not one of " + std::string(name(backend)) +
                         "'s; it has " + join(known_archs(backend)));
    // The levels of x86-64 sort by their names, and a newer one's instructions would end the process.
    if (!options.compile_only && backend == Backend::host && arch.starts_with("x86-64") && arch > host_arch())
        throw UsageError("architecture '" + arch + "' is beyond this processor, which is " + host_arch() +
                         "; to compile without running, ask for that only");
    if (!options.compile_only) selection.device = std::move(device);
    return selection;
}

std::string check_arch_exists(const ServiceOptions& options, const Selection& selection, Compiler& compiler) {
    const auto& [backend, arch, limits] = selection.target;
    const bool is_of_device =
        options.arch.empty() || (selection.device && selection.device->target().arch == arch);
    if (is_of_device || arch_limits(backend, arch)) return {};
    const std::vector<std::string> tables = known_archs(backend);
    std::vector<std::string> known;
    std::string why = "the compiler is not asked, since compiling is switched off";
    try {
        if (!options.cached_only) {
            known = compiler.supported_archs();
            why = "the compiler can't tell";
        }
    } catch (const BuildError& error) {
        why = error.what();
        why.resize(std::min(why.find('\n'), why.size()));
    }
    if (known.empty())
        return "it is not known whether there is an architecture '" + arch + "': Kiln has " + join(tables) +
               ", and " + why;
    const auto number = cuda_arch_number(arch);
    const std::string listed = number ? formatted("sm_{}", *number) : arch.substr(0, arch.find(':'));
    if (std::ranges::find(known, listed) == known.end())
        throw UsageError("architecture '" + arch + "' is known neither to Kiln, which has " + join(tables) +
                         ", nor to " + compiler.description() + ", which has " + join(known) +
                         did_you_mean(arch, tables));
    return {};
}

std::unique_ptr<Compiler> make_compiler(const ServiceOptions& options, Backend backend,
                                        const SharedMemory& memory) {
    const WorkerLimits limits = worker_limits(options);
    switch (backend) {
        case Backend::cuda:
            return make_nvrtc_compiler(std::make_shared<WorkerPool>(limits), memory);
        case Backend::hip:
            return make_hiprtc_compiler(std::make_shared<WorkerPool>(limits), memory);
        case Backend::host:
            break;
    }
    return make_host_compiler(limits, options.observer ? HostBuild::recorded : HostBuild::fast, memory);
}

}  // namespace kiln
