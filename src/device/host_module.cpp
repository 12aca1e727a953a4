// SPDX-License-Identifier: Apache-2.0
//
// Loading through the dynamic loader, and the checks that a GPU's driver would make.
#include "device/host_module.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <kiln/error.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/elf.h"
#include "device/host_graph.h"

namespace kiln {
namespace {

std::span<const std::byte> checked(const Binary& binary) {
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

// Thread-local variables, but for the compiler's marks of what is initialised. Their address is the offset in the
// thread-local storage.
std::vector<ElfSymbol> thread_locals(std::span<const std::byte> bytes) {
    const auto elf = ElfView::open(bytes);
    if (!elf) return {};
    std::vector<ElfSymbol> found = elf->symbols();
    std::erase_if(found, [](const ElfSymbol& symbol) {
        return symbol.type != STT_TLS || symbol.section == SHN_UNDEF || symbol.name.starts_with("_ZGV");
    });
    return found;
}

// What the kernel declared __shared__: all that is not the prelude's own, which is in its namespace.
bool is_shared(const ElfSymbol& symbol) {
    return !symbol.name.starts_with("_ZN9kiln_host") && !symbol.name.starts_with("_ZZN9kiln_host");
}

std::size_t static_shared_bytes(std::span<const std::byte> bytes) {
    std::size_t total = 0;
    for (const ElfSymbol& symbol : thread_locals(bytes)) total += is_shared(symbol) ? symbol.size : 0;
    return total;
}

// As it was declared: "tile" of "_ZZ6kernelE4tile", "tile.0" or "tile".
std::string declared_name(std::string_view symbol) {
    std::string name(symbol);
    int status = 0;
    if (char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status)) {
        name = text;
        std::free(text);
        if (const auto scope = name.rfind("::"); scope != std::string::npos) name.erase(0, scope + 2);
    }
    return name.substr(0, name.find('.'));
}

// Where they lie on this OS thread.
std::vector<SharedVariable> shared_variables(std::span<const std::byte> bytes, const void* anchor) {
    const std::vector<ElfSymbol> symbols = thread_locals(bytes);
    const auto place = std::ranges::find(symbols, "_ZN9kiln_hostL6anchorE", &ElfSymbol::name);
    std::vector<SharedVariable> variables;
    if (place == symbols.end()) return variables;
    const std::uint64_t start = reinterpret_cast<std::uint64_t>(anchor) - place->address;
    for (const ElfSymbol& symbol : symbols) {
        if (is_shared(symbol))
            variables.push_back({declared_name(symbol.name), start + symbol.address, symbol.size});
    }
    std::ranges::sort(variables, {}, &SharedVariable::address);
    return variables;
}

// Where the object's code and data lie, from a place in it.
std::vector<MemoryRange> loaded_ranges(std::span<const std::byte> bytes, const void* place) {
    std::vector<MemoryRange> ranges;
    Dl_info info{};
    if (::dladdr(place, &info) == 0) return ranges;
    const auto base = reinterpret_cast<std::uint64_t>(info.dli_fbase);
    const auto elf = ElfView::open(bytes);
    if (!elf) return ranges;
    for (const ElfSegment& segment : elf->segments())
        if (segment.type == PT_LOAD) ranges.push_back({base + segment.address, segment.memory_bytes, {}});
    return ranges;
}

std::string text_of(Dim3 extent) {
    return std::to_string(extent.x) + "x" + std::to_string(extent.y) + "x" + std::to_string(extent.z);
}

}  // namespace

LoadedObject::LoadedObject(std::span<const std::byte> bytes) {
    std::string problems;
    file_ = FileDescriptor(::memfd_create("kiln-kernel", MFD_CLOEXEC));
    if (file_ && write_all(file_.value(), bytes)) {
        name_ = "/proc/self/fd/" + std::to_string(file_.value());
        handle_ = ::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ == nullptr) problems = ::dlerror();
    }
    if (handle_ != nullptr) return;
    // No memfd, no /proc, or a system that runs nothing from memory.
    file_.reset();
    try {
        const TemporaryDirectory directory;
        name_ = (directory.path() / "kernel.so").string();
        write_text(name_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        handle_ = ::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ == nullptr) problems += (problems.empty() ? "" : "; ") + std::string(::dlerror());
    } catch (const std::exception& exception) {
        problems += (problems.empty() ? "" : "; ") + std::string(exception.what());
    }
    if (handle_ == nullptr) {
        throw DeviceError("The system's loader rejected the kernel's shared object: " + problems + ".",
                          "dlopen");
    }
}

LoadedObject::~LoadedObject() {
    ::dlclose(handle_);
    // An object with process-wide unique symbols stays loaded, and so keeps its name.
    if (void* still_there = ::dlopen(name_.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
        ::dlclose(still_there);
        file_.release();
    }
}

void* LoadedObject::symbol(const char* name) const { return ::dlsym(handle_, name); }

HostModule::HostModule(const Binary& binary, const DeviceInfo& device, std::optional<std::uint64_t> seed,
                       std::function<HostExecutor&()> executor, std::shared_ptr<AccessObserver> observer)
    : object_(checked(binary)),
      name_(binary.entry),
      limits_(device.limits),
      seed_(seed),
      executor_(std::move(executor)),
      observer_(std::move(observer)),
      binary_(observer_ ? binary : Binary{}),
      kernel_(static_cast<const kiln_host::Kernel*>(object_.symbol("kiln_host_kernel"))) {
    if (kernel_ == nullptr) {
        throw DeviceError("The shared object of kernel " + name_ +
                              " exports no kiln_host_kernel: it was not made by Kiln's host compiler.",
                          "dlsym");
    }
    if (kernel_->abi_version != kiln_host::kAbiVersion) {
        throw DeviceError("The shared object of kernel " + name_ + " speaks version " +
                              std::to_string(kernel_->abi_version) +
                              " of the host interface; this library speaks " +
                              std::to_string(kiln_host::kAbiVersion) + ". Building it again replaces it.",
                          "load");
    }
    if ((kernel_->log != nullptr) != (observer_ != nullptr)) {
        throw DeviceError(
            "The shared object of kernel " + name_ +
                (observer_ ? " does not report its accesses to memory, and this device's are observed."
                           : " reports its accesses to memory, and this device is not observed."),
            "load");
    }
    info_.static_shared_bytes = static_shared_bytes(binary.bytes);
    info_.max_threads_per_block = static_cast<int>(limits_.threads_per_block);
    info_.argument_bytes.emplace(kernel_->argument_bytes, kernel_->argument_bytes + kernel_->argument_count);
    check_shared(0);
}

void HostModule::check_shared(std::size_t dynamic_bytes) const {
    const auto most = static_cast<std::size_t>(limits_.shared_bytes_per_block_optin);
    if (dynamic_bytes <= most && info_.static_shared_bytes <= most - dynamic_bytes) return;
    throw DeviceError("Kernel " + name_ + " asks for " + std::to_string(dynamic_bytes) +
                          " bytes of dynamic and " + std::to_string(info_.static_shared_bytes) +
                          " of static shared memory per block; the host device gives " +
                          std::to_string(most) + " together. Choose smaller tiles.",
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
        refuse("the block " + text_of(block) + " has more than the " + std::to_string(most) +
               " threads that a block may have");
    if (grid.x > limits_.grid_x || grid.y > limits_.grid_y || grid.z > limits_.grid_z)
        refuse("the grid " + text_of(grid) + " is larger than " + std::to_string(limits_.grid_x) + "x" +
               std::to_string(limits_.grid_y) + "x" + std::to_string(limits_.grid_z));
    // Clusters are no matter here: each block is one of its own, and the prelude says so (kiln::kHasClusters).
    check_shared(shape.dynamic_shared_bytes);
}

void HostModule::launch(const LaunchShape& shape, void* const* arguments, void* stream) const {
    check(shape);
    if (HostStream* const queue = host_stream(stream); queue != nullptr && queue->recording) {
        queue->recording->add(std::static_pointer_cast<const HostModule>(shared_from_this()), shape,
                              arguments, *info_.argument_bytes);
        return;
    }
    const BlockPlan plan = {kernel_,         name_.c_str(), arguments,
                            shape.grid,      shape.block,   shape.dynamic_shared_bytes,
                            observer_.get(), seed_};
    if (observer_) return launch_observed(plan);
    executor_().run(plan, name_);
}

void HostModule::launch_observed(const BlockPlan& plan) const {
    ObservedLaunch launch;
    launch.binary = binary_;
    launch.grid = plan.grid;
    launch.block = plan.block;
    launch.dynamic_shared_bytes = plan.dynamic_shared_bytes;
    launch.shared = shared_variables(binary_.bytes, kernel_->anchor());
    launch.own = loaded_ranges(binary_.bytes, kernel_);
    executor_().run(plan, name_, &launch);
}

}  // namespace kiln
