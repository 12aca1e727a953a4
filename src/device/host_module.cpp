// SPDX-License-Identifier: Apache-2.0
//
// Loading through the dynamic loader, and the checks that a GPU's driver would make.
#include "device/host_module.h"

#include <dlfcn.h>
#include <kiln/error.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/elf.h"
#include "base/file.h"
#include "base/float_environment.h"
#include "base/fork.h"
#include "base/kernel_watch.h"
#include "device/host_graph.h"
#include "device/host_object.h"
#include "format/format.h"

namespace kiln {
namespace {

const Bytes& checked(const Binary& binary) {
    if (binary.kind != BinaryKind::shared_object) {
        throw DeviceError("The binary of kernel " + binary.entry +
                              " was made for a GPU; the host device loads shared objects. Build it for the "
                              "host backend.",
                          "load");
    }
    if (const std::string problem = elf_problem(binary.bytes); !problem.empty()) {
        throw DeviceError("The host device can't load the binary of kernel " + binary.entry + ": it " +
                              problem + ". Building it again replaces it.",
                          "load");
    }
    return binary.bytes;
}

/// After a call that failed: throws where the process may open no more files.
void check_more_files() {
    const int reason = errno;
    if (reason != EMFILE && reason != ENFILE) return;
    rlimit limit{};
    const bool is_own = reason == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    throw DeviceError(
        std::string("The kernel's shared object can't be loaded: ") +
            (is_own ? formatted("this process has as many open files as it may, {}. Close some, or raise the "
                                "limit (ulimit -n).",
                                limit.rlim_cur)
                    : "the system has as many open files as it may (sysctl fs.file-max)."),
        "open", reason);
}

std::string text_of(Dim3 extent) { return formatted("{}x{}x{}", extent.x, extent.y, extent.z); }

/// Its constructors run: the kernel's code, but no thread of a launch.
class LoadingObject final : public KernelRunner {
  public:
    explicit LoadingObject(const std::string& kernel) : kernel_(kernel) {}
    bool where(KernelFacts& facts) const noexcept override {
        facts.kernel = kernel_.c_str();
        facts.is_loading = true;
        return true;
    }

  private:
    const std::string& kernel_;
};

}  // namespace

KernelObject::KernelObject(Bytes bytes)
    : file_(std::move(bytes)), variables_(declared_variables(file_.bytes())), static_shared_(file_.bytes()) {}

void KernelObject::load_now() {
    const ForkDelay while_it_begins;
    // What a library's constructors change of it, they change for the thread that opens the library and all that it does
    // then: compilers link one that flushes denormal numbers to zero where the options say fast mathematics.
    const FloatEnvironment stays;
    std::string problems;
    load_from_memory(problems);
    // No memfd, no /proc, or a system that runs nothing from memory.
    if (handle_ == nullptr) load_from_directory(problems);
    if (handle_ == nullptr) {
        throw DeviceError("The system's loader rejected the kernel's shared object: " + problems + ".",
                          "dlopen");
    }
    static_shared_.loaded(handle_);
}

void KernelObject::load_from_memory(std::string& problems) {
    const FileDescriptor memory(::memfd_create("kiln-kernel", MFD_CLOEXEC));
    if (!memory) return check_more_files();
    if (!write_all(memory.value(), file_.bytes())) return;
    const std::string name = file_.name(memory);
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return file_.use(memory);
    problems = ::dlerror();
    if (problems.starts_with(name)) problems.replace(0, name.size(), "kernel.so");
    if (!FileDescriptor(::dup(memory.value()))) check_more_files();
}

void KernelObject::load_from_directory(std::string& problems) {
    try {
        const TemporaryDirectory directory;
        const std::string name = (directory.path() / "kernel.so").string();
        const Bytes& bytes = file_.bytes();
        write_text(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) return file_.forget();
        problems += (problems.empty() ? "" : "; ") + std::string(::dlerror());
    } catch (const std::exception& exception) {
        problems += (problems.empty() ? "" : "; ") + std::string(exception.what());
    }
}

// The loader finds only what is exported, as are C++'s template variables. The others lie as far from the object's start as the file says.
ModuleVariable KernelObject::variable(const std::string& kernel, const std::string& name) const {
    const DeclaredVariable* const known = find_variable(variables_, name);
    if (known == nullptr) fail_no_variable(kernel, name, variables_);
    if (void* const exported = symbol(known->symbol.c_str())) return {exported, known->bytes};
    Dl_info info{};
    if (::dladdr(symbol("kiln_host_kernel"), &info) == 0)
        throw DeviceError("The loader does not say where kernel " + kernel + " lies.", "dladdr");
    return {static_cast<std::byte*>(info.dli_fbase) + known->address, known->bytes};
}

KernelObject::~KernelObject() {
    if (handle_ == nullptr) return;
    const ForkDelay while_it_ends;
    ::dlclose(handle_);
}

HostModule::HostModule(const Binary& binary, const DeviceInfo& device,
                       std::shared_ptr<const ThreadOrder> order, std::function<HostExecutor&()> executor,
                       std::shared_ptr<AccessObserver> observer, WhenLoaded when)
    : object_(std::make_shared<KernelObject>(checked(binary))),
      name_(binary.entry),
      symbol_("kiln_host_kernel"),
      limits_(device.limits),
      order_(std::move(order)),
      executor_(std::move(executor)),
      observer_(std::move(observer)),
      binary_(observer_ ? binary : Binary{}) {
    read_facts(binary);
    if (when == WhenLoaded::at_once) static_cast<void>(kernel());
}

HostModule::HostModule(const HostModule& first, const Binary& binary, std::size_t number)
    : object_(first.object_),
      name_(binary.more_entries[number]),
      symbol_(formatted("kiln_host_kernel_{}", number + 1)),
      limits_(first.limits_),
      order_(first.order_),
      executor_(first.executor_),
      observer_(first.observer_),
      binary_(first.binary_) {
    read_facts(binary);
}

void HostModule::read_facts(const Binary& binary) {
    const std::optional<HostObjectFacts> facts = host_object_facts(binary.bytes, symbol_);
    if (!facts) {
        throw DeviceError("The shared object of kernel " + name_ + " exports no " + symbol_ +
                              ": it was not made by Kiln's host compiler.",
                          "load");
    }
    if (facts->abi_version != kiln_host::kAbiVersion) {
        throw DeviceError(
            formatted("The shared object of kernel {} uses version {} of the host ABI; this library "
                      "uses {}. Rebuild it.",
                      name_, facts->abi_version, kiln_host::kAbiVersion),
            "load");
    }
    if (facts->tells_accesses != (observer_ != nullptr)) {
        throw DeviceError(
            "The shared object of kernel " + name_ +
                (observer_ ? " does not report its accesses to memory, and this device's are observed."
                           : " reports its accesses to memory, and this device is not observed."),
            "load");
    }
    info_.static_shared_bytes = static_shared_bytes(binary.bytes);
    info_.max_threads_per_block = static_cast<int>(limits_.threads_per_block);
    info_.argument_bytes = facts->argument_bytes;
    check_shared(0);
}

const kiln_host::Kernel& HostModule::kernel() const {
    std::call_once(loaded_, [this] {
        const LoadingObject loading(name_);
        const KernelThread in_kernel(loading);
        object_->load();
        kernel_ = static_cast<const kiln_host::Kernel*>(object_->symbol(symbol_.c_str()));
    });
    if (kernel_ != nullptr) return *kernel_;
    throw DeviceError("The shared object of kernel " + name_ + " exports no " + symbol_ + ".", "dlsym");
}

void HostModule::check_shared(std::size_t dynamic_bytes) const {
    const auto most = static_cast<std::size_t>(limits_.shared_bytes_per_block_optin);
    if (dynamic_bytes <= most && info_.static_shared_bytes <= most - dynamic_bytes) return;
    throw DeviceError(formatted("Kernel {} asks for {} bytes of dynamic and {} of static shared memory per "
                                "block; the host device gives {} together. Choose smaller tiles.",
                                name_, dynamic_bytes, info_.static_shared_bytes, most),
                      "launch");
}

void HostModule::check(const LaunchShape& shape) const {
    const auto refuse = [this](const std::string& what) {
        throw DeviceError("Kernel " + name_ + " can't be launched on the host: " + what + ".", "launch");
    };
    const Dim3 block = shape.block, grid = shape.grid;
    if (block.x == 0 || block.y == 0 || block.z == 0) refuse("the block " + text_of(block) + " is empty");
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) refuse("the grid " + text_of(grid) + " is empty");
    // Each extent first: their product may not fit.
    const auto most = static_cast<unsigned>(limits_.threads_per_block);
    if (block.x > most || block.y > most || block.z > most || block.count() > most)
        refuse(formatted("the block {} has more than the {} threads that a block may have", text_of(block),
                         most));
    if (grid.x > limits_.grid_x || grid.y > limits_.grid_y || grid.z > limits_.grid_z)
        refuse(formatted("the grid {} is larger than {}x{}x{}", text_of(grid), limits_.grid_x, limits_.grid_y,
                         limits_.grid_z));
    if (shape.cooperative && grid.count() > kMostCooperativeBlocks)
        refuse(
            formatted("its blocks wait for each other, and of the {} of its grid at most {} run at once here",
                      grid.count(), kMostCooperativeBlocks));
    if (shape.cooperative && grid.count() > 1 && observer_ != nullptr)
        refuse(
            "its blocks wait for each other, and those of a kernel whose accesses are observed run one "
            "after the other; one block can be observed");
    // Clusters are no matter here: each block is one of its own, and the prelude says so (kiln::kHasClusters).
    check_shared(shape.dynamic_shared_bytes);
}

void HostModule::launch(const LaunchShape& shape, void* const* arguments, void* stream) const {
    check(shape);
    if (HostGraph* const graph = recording(stream))
        return graph->add(std::static_pointer_cast<const HostModule>(shared_from_this()), shape, arguments,
                          *info_.argument_bytes);
    const BlockPlan plan = {&kernel(),        name_.c_str(),
                            arguments,        shape.grid,
                            shape.block,      shape.dynamic_shared_bytes,
                            observer_.get(),  order_->seed(),
                            order_->poison(), &object_->static_shared(),
                            shape.cooperative};
    if (observer_) return launch_observed(plan);
    executor_().run(plan, name_);
}

void HostModule::launch_observed(const BlockPlan& plan) const {
    ObservedLaunch launch;
    launch.binary = binary_;
    launch.grid = plan.grid;
    launch.block = plan.block;
    launch.dynamic_shared_bytes = plan.dynamic_shared_bytes;
    launch.shared = shared_variables(binary_.bytes, plan.kernel->anchor());
    launch.own = loaded_ranges(binary_.bytes, plan.kernel);
    executor_().run(plan, name_, &launch);
}

}  // namespace kiln
