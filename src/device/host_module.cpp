// SPDX-License-Identifier: Apache-2.0
//
// Loading through the dynamic loader, and the checks that a GPU's driver would make.
#include "device/host_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <kiln/error.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "device/elf_image.h"
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
    if (const std::string problem = elf_image_problem(binary.bytes); !problem.empty()) {
        throw DeviceError("The host device can't load the binary of kernel " + binary.entry + ": it " +
                              problem + ". Building it again replaces it.",
                          "load");
    }
    return binary.bytes;
}

template <class T>
T at(std::span<const std::byte> bytes, std::uint64_t offset) {
    T value{};
    if (offset <= bytes.size() && bytes.size() - offset >= sizeof(T))
        std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

// What the kernel declared __shared__: the thread-local symbols that are neither the prelude's own nor
// the compiler's marks of what is initialised.
std::size_t static_shared_bytes(std::span<const std::byte> bytes) {
    std::size_t total = 0;
    const auto header = at<Elf64_Ehdr>(bytes, 0);
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        const auto symbols = at<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
        if (symbols.sh_type != SHT_SYMTAB) continue;
        const auto names = at<Elf64_Shdr>(bytes, header.e_shoff + symbols.sh_link * sizeof(Elf64_Shdr));
        if (names.sh_offset + names.sh_size > bytes.size()) continue;
        const std::string_view text(reinterpret_cast<const char*>(bytes.data() + names.sh_offset),
                                    names.sh_size);
        for (std::uint64_t offset = 0; offset < symbols.sh_size; offset += sizeof(Elf64_Sym)) {
            const auto symbol = at<Elf64_Sym>(bytes, symbols.sh_offset + offset);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_TLS || symbol.st_name >= text.size()) continue;
            const std::string_view name =
                text.substr(symbol.st_name).substr(0, text.find('\0', symbol.st_name) - symbol.st_name);
            const bool own = name.find("kiln_host") != std::string_view::npos || name.starts_with("_ZGV");
            if (symbol.st_shndx != SHN_UNDEF && !own) total += symbol.st_size;
        }
    }
    return total;
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
        throw DeviceError("The system's loader refused the kernel's shared object: " + problems + ".",
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
                       std::function<HostExecutor&()> executor)
    : object_(checked(binary)),
      name_(binary.entry),
      limits_(device.limits),
      seed_(seed),
      executor_(std::move(executor)),
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
    if (auto* const queue = static_cast<HostStream*>(stream); queue != nullptr && queue->recording) {
        queue->recording->add(std::static_pointer_cast<const HostModule>(shared_from_this()), shape,
                              arguments, *info_.argument_bytes);
        return;
    }
    executor_().run({kernel_, arguments, shape.grid, shape.block, shape.dynamic_shared_bytes, seed_}, name_);
}

}  // namespace kiln
