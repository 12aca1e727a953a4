// SPDX-License-Identifier: Apache-2.0
//
// Service: the front door. It finds templates, builds variants (memory, disk, or compiling once), and
// hands out typed kernels. Thread-safe throughout; requests for the same key compile once.
#pragma once

#include <kiln/build.h>
#include <kiln/device.h>
#include <kiln/kernel.h>
#include <kiln/template.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct ServiceOptions {
    /// Not set: CUDA if a device answers, else HIP, else the host.
    std::optional<Backend> backend;
    int device = 0;
    /// Not set: the device's own. With no device it must be set for cuda and hip; then the service
    /// compiles and can't launch.
    std::string arch;
    /// Do not open a device: compile only.
    bool compile_only = false;

    /// Directories of *.cu files, searched before the built-in templates, in this order; then those
    /// of KILN_TEMPLATE_PATH.
    std::vector<std::filesystem::path> template_directories;

    /// Not set: KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln.
    std::optional<std::filesystem::path> cache_directory;
    bool use_cache = true;  ///< false: neither read nor write the disk; every process compiles

    /// A compile that takes longer is given up. Applies to compilers that run in a process of their own.
    std::chrono::milliseconds compile_timeout{120000};
    /// When a stop is requested, such compilers are ended and their builds throw BuildError.
    std::stop_token stop;

    /// Receives a line when something degraded (an unwritable cache, say), each once. Called from any
    /// thread; it must neither throw nor call the service. Not set: the line goes to standard error.
    std::function<void(std::string_view)> on_warning;
};

/// What has happened since the service was made. A snapshot.
struct Counters {
    std::uint64_t memory_hits = 0;
    std::uint64_t disk_hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t compiles = 0;
    std::uint64_t build_failures = 0;
    std::uint64_t rejected_entries = 0;  ///< damaged, foreign, or refused by the driver
    std::uint64_t stored_entries = 0;
};

class ServiceState;

class Service {
  public:
    /// Opens the device (primary context). Throws DeviceError when the backend asked for is not
    /// there, UsageError for a bad architecture, TemplateError for a template directory that is not there.
    explicit Service(ServiceOptions options = {});
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    /// The template of that name, bound to this service's target. Throws UsageError that lists the
    /// nearest names; TemplateError when its file is wrong.
    Template find(std::string_view name) const;
    /// All templates, each name once, ordered by name. Throws TemplateError.
    std::vector<Template> templates() const;
    /// A template from text, bound to this service's target; `file` is its name in messages. Its
    /// headers: `headers`, then the prelude. It is not remembered: find() does not see it.
    Template parse(std::string text, std::string file, std::vector<Header> headers = {}) const;

    /// A callable kernel: from memory, from disk, or compiled. Throws UsageError when Fn does not
    /// match the kernel's declaration, VariantError, BuildError, DeviceError.
    template <class Fn>
    Kernel<Fn> build(const Variant& variant) {
        return Kernel<Fn>(build_any(*state_, variant, Kernel<Fn>::argument_types()));
    }
    /// The same on a thread of its own. The future holds the kernel or the exception, may outlive the
    /// service, and waits for the build when it is dropped. Throws std::system_error when no thread starts.
    template <class Fn>
    std::future<Kernel<Fn>> build_async(const Variant& variant) {
        return std::async(std::launch::async, [state = state_, variant] {
            return Kernel<Fn>(build_any(*state, variant, Kernel<Fn>::argument_types()));
        });
    }
    /// Without a static type; the caller answers for the arguments.
    AnyKernel build(const Variant& variant) { return build_any(*state_, variant, std::nullopt); }

    /// The binary alone; needs no device. `origin`, when given, receives where it came from.
    Binary compile(const Variant& variant, Origin* origin = nullptr);
    /// The key that build() and compile() look up.
    BuildKey key(const Variant& variant) const;
    /// The specialised source as the compiler gets it.
    Source source(const Variant& variant) const;
    /// CUDA only: the PTX of a variant, past the cache. Throws UsageError on the other backends.
    std::string ptx(const Variant& variant) const;

    Backend backend() const;
    const Target& target() const;
    bool has_device() const;
    const Device& device() const;  ///< throws DeviceError when there is none
    const Stream& stream() const;  ///< a stream of the service's own; throws the same
    /// The directory of the disk cache, usable or not (cache_problem()); empty without one.
    std::filesystem::path cache_directory() const;
    /// Why the disk cache is not in use though it was asked for; empty when all is well.
    std::string cache_problem() const;
    Counters counters() const;

  private:
    static AnyKernel build_any(ServiceState& state, const Variant& variant,
                               std::optional<std::span<const ArgumentType>> types);

    std::shared_ptr<ServiceState> state_;  ///< shared with the builds of build_async
};

/// "0.1.0"
std::string_view version();

}  // namespace kiln
