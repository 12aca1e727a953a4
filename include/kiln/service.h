// SPDX-License-Identifier: Apache-2.0
//
// Service: the main class of the API. It finds templates, builds variants (memory, disk, or compiling once), and
// hands out typed kernels. Thread-safe throughout; requests for the same key compile once.
#pragma once

#include <kiln/build.h>
#include <kiln/cache.h>
#include <kiln/device.h>
#include <kiln/kernel.h>
#include <kiln/template.h>
#include <kiln/template_set.h>
#include <kiln/trace.h>
#include <kiln/version.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

class ServiceAccess;  // internal
class ServiceState;

inline namespace KILN_ABI {

class AccessObserver;

/// How a Service is set up. What is not set is taken from the environment (docs/environment.md), else it has a default.
struct ServiceOptions {
    /// Not set: CUDA if a device answers, else HIP, else the host.
    std::optional<Backend> backend;
    int device = 0;  ///< its number in the backend, from 0
    /// CUDA only: the context to work in; one that is not the primary one decides about `device` and `backend` too.
    ContextRef context = ContextRef::primary();
    /// Not set: the device's own. With no device it must be set for cuda and hip; then the service
    /// compiles and can't launch.
    std::string arch;
    /// Do not open a device: compile only.
    bool compile_only = false;
    /// Never start a compiler: what is in no tier is a BuildError that says so. Then entries of any compiler serve,
    /// and there need not be one here: look-ups match all ingredients but the compiler's own (its identity, what of
    /// the environment reaches it, options that only it has). First the exact key on disk, then the packs in their
    /// order, then the directory, then the exact key remotely; then packs and directory with other headers of include
    /// directories than those here, the last used ones.
    bool cached_only = false;

    /// Launches ask the driver about their pointers and streams first, which takes some microseconds: memory that kernels
    /// of this device can't use, or less of it than a tensor has, and streams of other devices and contexts are
    /// UsageErrors, as far as the driver can tell. Not set: KILN_VALIDATE, else where libkiln is a debug build (without
    /// NDEBUG). Null pointers, alignment, and the size of workspace are checked at every launch.
    std::optional<bool> validate;

    /// Directories of *.cu files, searched before the built-in templates, in this order; then those
    /// of KILN_TEMPLATE_PATH.
    std::vector<std::filesystem::path> template_directories;
    /// Where headers are looked for that a template includes and that do not lie next to it: first the template's own
    /// `//@ include_dir` lines, then these, in this order, then those of KILN_INCLUDE_PATH, then the compiler's
    /// platform (CUDA's and CCCL's, ROCm's). What is found is part of the key by its content.
    std::vector<std::filesystem::path> include_directories;
    /// Options of the compiler for every template, after the template's own `//@ option` lines: "-DNAME=1",
    /// "cuda: --maxrregcount=64" (docs/templates.md). All are part of the key. What a backend lacks, or Kiln sets itself,
    /// is a UsageError at the build.
    std::vector<std::string> compile_options;
    /// Line information, and with it debuggers and profilers, name the templates' files by their real paths; without it
    /// no path is in a binary. Templates that are built in have none.
    bool debug = false;
    /// Templates that are parsed already, with directories of their own; not set: a set of template_directories.
    std::optional<TemplateSet> templates;

    CacheOptions cache;  ///< the tiers, and where they are

    /// A file for what this service is asked for: variants that are built, and sizes that kiln::Operation is called
    /// with (kiln/record.h). Several services and processes may have one file. `kiln cache pack --for FILE` makes a seed
    /// pack of it. What the tuner builds is recorded too: tune in a run without a record. Empty: nothing is recorded.
    std::filesystem::path record;

    /// A compile that takes longer is given up. Applies to compilers that run in a process of their own.
    std::chrono::milliseconds compile_timeout{120000};
    /// Processes that compile for build_async and compile_async. 1 to 1024, or 0: KILN_WORKERS, else one per core.
    int workers = 0;
    /// Address space that such a process may use; a compile that needs more fails. 0: no limit.
    std::uint64_t worker_memory_bytes = std::uint64_t{16} << 30;
    /// When a stop is requested, such compilers are ended and their builds throw BuildError.
    std::stop_token stop;

    /// Host backend only (else the constructor throws UsageError): kernels are compiled to tell it of every
    /// access to memory that they make, and run slower, one block at a time. See kiln/observe.h.
    std::shared_ptr<AccessObserver> observer;

    /// Host backend only: Runner, Analyzer, tune() and regress() launch kernels in child processes, so that one that
    /// faults, ends its process or never ends is a DeviceError that names the block, the thread and the line. What
    /// it prints goes to standard error. The programs of Kiln do this; KILN_HOST_IN_PROCESS=1 undoes it, for
    /// debuggers. The children are forks of this process.
    bool isolate_host = false;
    /// What one such child may take, for one variant: to fill tensors, launch and check. What comes before the first
    /// kernel depends on the machine's load: it may take 3 s whatever the limit, and leaves the kernels as much.
    std::chrono::duration<double> host_time_limit{600};

    /// Receives a line when something degraded (an unwritable cache, say), each once. Called from any
    /// thread; it must neither throw nor call the service. Not set: the line goes to standard error.
    std::function<void(std::string_view)> on_warning;
    TraceFunction on_trace;  ///< called for each event of the cache; not set: none is traced
};

/// A binary and where it came from.
struct Compiled {
    Binary binary;                     ///< what a driver loads
    Origin origin = Origin::compiled;  ///< which tier had it
    BuildKey key;                      ///< of the variant
    double elapsed_ms = 0;             ///< look-up and, on a miss, compiling
};

/// One ingredient in which the nearest entry differs.
struct KeyDifference {
    std::string ingredient;  ///< "arch", "compiler", "option", "header kiln/device.h", "source line 3", ...
    std::string wanted;      ///< empty: it is not there
    std::string found;       ///< in the nearest entry; empty: it is not there
};

/// Why a variant is a hit or a miss.
struct Explanation {
    BuildKey key;  ///< that is looked up
    /// The tier that would serve it in a new process; not set: it would be compiled.
    std::optional<Origin> tier;
    std::string place;                  ///< the file or server that has it
    std::string compiler;               ///< on a hit: what made the entry
    std::string no_compiler;            ///< why there is none here; then `key` is empty
    std::vector<std::string> rejected;  ///< entries of this key, and tiers, that can't be used, and why
    /// On a miss: the entry, on disk or in a pack, whose ingredients are nearest; empty: there is none of
    /// this kernel. On a hit: the entry that serves, where another compiler made it, and how that one differs.
    std::string nearest_key;
    std::string nearest_variant;             ///< what that entry holds: "gemm_tiled BM=64 ..."
    std::vector<KeyDifference> differences;  ///< from that entry
};

/// A part of a compile: Service::compile_phases.
struct CompilePhase {
    std::string name;  ///< "front end", "NVVM optimizer", "ptxas", "link", "rest"
    double ms = 0;     ///< what it took
};

/// Finds templates, builds variants and returns kernels. Has a device, a stream and a cache. Thread-safe. A thread is not
/// cancelled (pthread_cancel) in a call, but at its next cancellation point after that.
class Service {
  public:
    /// Opens the device (primary context). Throws DeviceError when the backend asked for is not
    /// there, UsageError for a bad architecture, TemplateError for a template directory that is not there.
    explicit Service(ServiceOptions options = {});
    /// A service of another device, with the options of `shares` otherwise, that shares with it all that belongs to no
    /// device: the compiler and its processes, the cache's tiers, counters, and what is being compiled, so that devices
    /// of one architecture compile each variant once. Kernels, streams and background threads are its own. Neither needs
    /// to outlive the other; in a child of fork() each starts again, alone. Throws as above, and on_warning and on_trace
    /// are those of `shares`. See also DeviceServices.
    Service(const Service& shares, int device, ContextRef context = ContextRef::primary());
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    /// The template of that name, bound to this service's target. Throws as TemplateSet::find.
    Template find(std::string_view name) const;
    /// All templates, each name once, ordered by name. Throws TemplateError.
    std::vector<Template> templates() const;
    /// The same without those whose files or directories are wrong, of which each is a warning.
    std::vector<Template> readable_templates() const;
    /// A template from text, bound to this service's target; `file` is its name in messages. Its
    /// headers: `headers`, then the prelude. It is not remembered: find() does not see it.
    Template parse(std::string text, std::string file, std::vector<Header> headers = {}) const;

    /// A callable kernel: from memory, from disk, or compiled. Throws UsageError when Fn does not
    /// match the kernel's declaration, VariantError, BuildError, DeviceError.
    template <class Fn>
    Kernel<Fn> build(const Variant& variant) {
        return Kernel<Fn>(build_any(variant, Kernel<Fn>::argument_types()));
    }
    /// The same in the background, compiling in one of `workers` processes. The future holds the kernel or
    /// the exception; it may be dropped, and may outlive the service, whose destructor waits for all such
    /// builds. Where no thread can be started, the call itself builds.
    /// stop: a request for a stop cancels it. A build that waits for its turn is not begun; the process of a compile is
    /// ended, unless others want the same kernel, and nothing of it is stored. The future then holds a BuildError, or
    /// the kernel if it was built all the same.
    template <class Fn>
    std::future<Kernel<Fn>> build_async(const Variant& variant, std::stop_token stop = {}) {
        auto promise = std::make_shared<std::promise<Kernel<Fn>>>();
        build_in_background(
            variant, Kernel<Fn>::argument_types(),
            [promise](AnyKernel kernel, std::exception_ptr error) {
                if (error)
                    promise->set_exception(std::move(error));
                else
                    promise->set_value(Kernel<Fn>(std::move(kernel)));
            },
            std::move(stop));
        return promise->get_future();
    }
    /// Without a static type; the caller answers for the arguments.
    AnyKernel build(const Variant& variant) { return build_any(variant, std::nullopt); }
    /// Called once by a thread of the service when a build in the background has ended: with the kernel, or with the
    /// exception. It must not throw, must not destroy the service, and must not wait for another build in the background (a
    /// future, tune()); Operation::prepare() builds in the callback's own thread.
    using Finished = std::function<void(AnyKernel, std::exception_ptr)>;
    /// The same in the background, like build_async<Fn>.
    void build_async(const Variant& variant, Finished finished, std::stop_token stop = {}) {
        build_in_background(variant, std::nullopt, std::move(finished), std::move(stop));
    }

    /// The binary alone; needs no device.
    Compiled compile(const Variant& variant);
    /// The same in the background, like build_async.
    std::future<Compiled> compile_async(const Variant& variant, std::stop_token stop = {});
    /// Hit or miss, in which tier, and which ingredients differ from the nearest entry. Reads every entry's
    /// key on a miss; changes nothing.
    Explanation explain(const Variant& variant) const;
    /// The variants of a template that the seed packs and the disk have for this target, each once, in no order. Reads the
    /// key of every entry; changes nothing.
    std::vector<Variant> stored(const Template& of) const;
    /// The key that build() and compile() look up.
    BuildKey key(const Variant& variant) const;
    /// The specialised source as the compiler gets it.
    Source source(const Variant& variant) const;
    /// CUDA only: the PTX of a variant, past the cache. Throws UsageError on the other backends.
    std::string ptx(const Variant& variant) const;
    /// CUDA only: compiles the variant, past the cache and without precompiled headers, and says how long each phase took, as
    /// the compiler itself tells, and in the end what it does not. Throws UsageError on the other backends.
    std::vector<CompilePhase> compile_phases(const Variant& variant) const;

    /// Adds the sizes of a problem to the record, if there is one; kiln::Operation does. of, fixed: what names the
    /// problem, as for Chooser::alternatives(). Throws nothing.
    void record(const Template& of, const Values& fixed, const Sizes& sizes) const;

    const ServiceOptions& options() const { return options_; }  ///< as they were given, with absolute paths
    /// The backend that was requested or found.
    Backend backend() const;
    /// What it builds for. Without a device the limits are those of a table.
    const Target& target() const;
    /// False with ServiceOptions::compile_only, and where an architecture was asked for and no device answers.
    bool has_device() const;
    const Device& device() const;  ///< throws DeviceError when there is none
    const Stream& stream() const;  ///< a stream of the service's own; throws the same
    /// The directory of the disk cache, usable or not (cache_problem()); empty without one.
    std::filesystem::path cache_directory() const;
    /// Why the disk cache is not in use though it was asked for; empty when all is well.
    std::string cache_problem() const;
    /// The counters of this service and of those that share its builds, since the first was created.
    Counters counters() const;

  private:
    AnyKernel build_any(const Variant& variant, std::optional<std::span<const ArgumentType>> types);
    void build_in_background(const Variant& variant, std::optional<std::span<const ArgumentType>> types,
                             Finished finished, std::stop_token stop);
    friend class DeviceServices;
    friend class kiln::ServiceAccess;
    void finish_builds();  ///< those in the background; later ones are built by the calls themselves
    ServiceState& state() const;

    const ServiceOptions options_;
    mutable std::atomic<ServiceState*> state_;  ///< owned; a child of fork() makes its own
};

/// "0.1.0"
std::string_view version();

}  // namespace KILN_ABI
}  // namespace kiln
