// SPDX-License-Identifier: Apache-2.0
//
// The public front over the templates and the builder.
#include <kiln/error.h>
#include <kiln/service.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "base/config.h"
#include "base/fork.h"
#include "base/no_cancel.h"
#include "base/profiler_ranges.h"
#include "format/printable.h"
#include "service/absolute_paths.h"
#include "service/background.h"
#include "service/bound_templates.h"
#include "service/builder.h"
#include "service/recorder.h"
#include "service/service_access.h"
#include "service/stored_variants.h"

namespace kiln {
namespace {

void print_warning(std::string_view text) {
    const std::string line = "kiln: " + printable(text) + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
}

TemplateSet templates(const ServiceOptions& options) {
    return options.templates ? *options.templates : TemplateSet(options.template_directories);
}

bool validates(const ServiceOptions& options) {
#ifdef NDEBUG
    constexpr bool kIsDebugBuild = false;
#else
    constexpr bool kIsDebugBuild = true;
#endif
    return options.validate.value_or(config::validate().value_or(kIsDebugBuild));
}

std::shared_ptr<const ProfilerRanges> open_ranges(ServiceEvents& events) {
    std::string problem;
    auto ranges = ProfilerRanges::open(problem);
    if (!problem.empty()) events.warn_once(problem);
    return ranges;
}

}  // namespace

/// What services of several devices have in common: the compiler, the tiers, and what is in flight between them.
struct SharedBuilds {
    SharedBuilds(const ServiceOptions& options, std::unique_ptr<Compiler> compiler, IncludeTree includes,
                 CacheSetup cache)
        : events(options.on_warning ? options.on_warning : print_warning, options.on_trace),
          binaries(std::move(compiler), std::move(includes), std::move(cache),
                   {options.cache.enabled, options.cached_only, options.cache.wait_limit, options.stop,
                    options.compile_options, options.debug},
                   events) {}

    ServiceEvents events;
    BinaryBuilder binaries;
};

class ServiceState {
  public:
    /// shared: another service's; nullptr: its own.
    explicit ServiceState(const ServiceOptions& options, std::shared_ptr<SharedBuilds> shared = nullptr)
        : ServiceState(options, parts(options, std::move(shared))) {}
    ~ServiceState() { finish_builds(); }

    void finish_builds() {
        background_.finish();
        builds_->binaries.tiers().flush();
    }

    /// Made when it is first asked for: an application with streams of its own never needs it.
    const Stream& stream() {
        std::call_once(stream_once_, [this] { stream_ = builder_.selection().device->stream(); });
        return stream_;
    }
    /// What was just built, or found in a tier: what memory serves was noted before.
    void note(const Builder::Found& found, const Variant& variant) {
        if (recorder_ && found.origin != Origin::memory) recorder_->note(variant);
    }
    bool is_of_this_process() const { return generation_ == fork_generation(); }

    const std::shared_ptr<SharedBuilds> builds_;
    Builder builder_;
    std::optional<Recorder> recorder_;
    BoundTemplates templates_;
    Background background_;

  private:
    struct Parts {
        Selection selection;
        std::shared_ptr<SharedBuilds> builds;
    };
    static Parts parts(const ServiceOptions& options, std::shared_ptr<SharedBuilds> shared) {
        if (shared) return {select_backend(options), std::move(shared)};
        CacheSetup cache = open_cache(options.cache);
        Selection selection = select_backend(options);
        auto compiler = make_compiler(options, selection.target.backend,
                                      disk_memory(cache.disk, DiskCache::Memory::identities));
        IncludeTree includes =
            include_tree(options, *compiler, disk_memory(cache.disk, DiskCache::Memory::includes));
        const std::string warning = check_arch_exists(options, selection, *compiler);
        auto builds = std::make_shared<SharedBuilds>(options, std::move(compiler), std::move(includes),
                                                     std::move(cache));
        if (!warning.empty()) builds->events.warn_once(warning);
        return {std::move(selection), std::move(builds)};
    }
    ServiceState(const ServiceOptions& options, Parts parts)
        : builds_(std::move(parts.builds)),
          builder_(std::move(parts.selection), builds_->binaries, validates(options),
                   open_ranges(builds_->events), builds_->events),
          templates_(templates(options), builder_.selection().target),
          background_(worker_limits(options).workers) {
        if (!options.record.empty()) recorder_.emplace(options, builder_.selection().target, builds_->events);
    }

    const unsigned generation_ = fork_generation();
    std::once_flag stream_once_;
    Stream stream_;
};

namespace {

std::unique_ptr<ServiceState> new_state(const ServiceOptions& options,
                                        std::shared_ptr<SharedBuilds> shared = nullptr) {
    const NoCancel no_cancel;
    return std::make_unique<ServiceState>(options, std::move(shared));
}

/// When its turn comes.
void check_wanted(const Variant& variant, const std::stop_token& stop) {
    if (stop.stop_requested())
        throw BuildError(variant.text() + ": its build was not begun, since a stop was requested");
}

}  // namespace

Service::Service(ServiceOptions options)
    : options_(with_absolute_paths(std::move(options))), state_(new_state(options_).release()) {}

Service::Service(const Service& shares, int device, ContextRef context)
    : options_([&] {
          ServiceOptions options = shares.options_;
          options.backend = shares.backend();
          options.device = device;
          options.context = context;
          return options;
      }()) {
    const std::shared_ptr<SharedBuilds>& builds = shares.state().builds_;
    state_ = new_state(options_, builds).release();
    builds->binaries.share();
}

Service::~Service() {
    const NoCancel no_cancel;
    end_state_of_this_process(state_);
}

void Service::finish_builds() {
    const NoCancel no_cancel;
    state().finish_builds();
}

ServiceState& Service::state() const {
    return state_of_this_process(state_, [this](const ServiceState&) { return new_state(options_); });
}

Template Service::find(std::string_view name) const { return state().templates_.find(name); }
std::vector<Template> Service::templates() const { return state().templates_.all(); }
std::vector<Template> Service::readable_templates() const {
    BoundTemplates::Readable found = state().templates_.readable();
    for (const std::string& error : found.errors)
        state().builds_->events.warn_once("a template is left out: " + error);
    return std::move(found.templates);
}

Template Service::parse(std::string text, std::string file, std::vector<Header> headers) const {
    return Template::parse(std::move(text), std::move(file), std::move(headers)).for_target(target());
}

AnyKernel Service::build_any(const Variant& variant, std::optional<std::span<const ArgumentType>> types) {
    const NoCancel no_cancel;
    auto found = state().builder_.kernel(variant, Isolation::here);
    state().note(found, variant);
    if (types) found.kernel->check_arguments(*types);
    return AnyKernel(std::move(found.kernel), found.origin);
}

void Service::build_in_background(const Variant& variant, std::optional<std::span<const ArgumentType>> types,
                                  Finished finished, std::stop_token stop) {
    const NoCancel no_cancel;
    state().background_.post(
        [&state = state(), variant, types, finished = std::move(finished), stop = std::move(stop)] {
            try {
                check_wanted(variant, stop);
                auto found = state.builder_.kernel(variant, Isolation::worker, stop);
                state.note(found, variant);
                if (types) found.kernel->check_arguments(*types);
                finished(AnyKernel(std::move(found.kernel), found.origin), nullptr);
            } catch (...) {
                finished({}, std::current_exception());
            }
        });
}

Compiled Service::compile(const Variant& variant) {
    const NoCancel no_cancel;
    return state().builder_.binary(variant, Isolation::here);
}

std::future<Compiled> Service::compile_async(const Variant& variant, std::stop_token stop) {
    const NoCancel no_cancel;
    auto task = std::make_shared<std::packaged_task<Compiled()>>(
        [&builder = state().builder_, variant, stop = std::move(stop)] {
            check_wanted(variant, stop);
            return builder.binary(variant, Isolation::worker, stop);
        });
    auto future = task->get_future();
    state().background_.post([task] { (*task)(); });
    return future;
}

void Service::record(const Template& of, const Values& fixed, const Sizes& sizes) const {
    const NoCancel no_cancel;
    if (ServiceState& current = state(); current.recorder_) current.recorder_->note(of, fixed, sizes);
}

void ServiceAccess::warn_once(const Service& service, const std::string& text) {
    service.state().builds_->events.warn_once(text);
}

BuildKey Service::key(const Variant& variant) const {
    const NoCancel no_cancel;
    return state().builder_.key(source(variant));
}

Explanation Service::explain(const Variant& variant) const {
    const NoCancel no_cancel;
    return state().builder_.explain(variant);
}

std::vector<Variant> Service::stored(const Template& of) const {
    const NoCancel no_cancel;
    const BinaryBuilder& binaries = state().builds_->binaries;
    return stored_variants(of.for_target(target()), binaries.tiers().setup(), binaries.options().debug);
}

Source Service::source(const Variant& variant) const {
    const NoCancel no_cancel;
    return state().builder_.source(state().builder_.validated(variant));
}

std::string Service::ptx(const Variant& variant) const {
    const NoCancel no_cancel;
    const BinaryBuilder& binaries = state().builds_->binaries;
    auto* nvrtc = dynamic_cast<NvrtcCompiler*>(&binaries.compiler());
    if (nvrtc == nullptr)
        throw UsageError("PTX exists for the backend cuda only; this is " + std::string(name(backend())) +
                         ", which has a source, a log and a binary");
    if (!binaries.compiles()) throw BuildError("PTX is not cached, and compiling is switched off");
    return nvrtc->ptx(binaries.includes().with_headers(source(variant)), target());
}

std::vector<CompilePhase> Service::compile_phases(const Variant& variant) const {
    const NoCancel no_cancel;
    const BinaryBuilder& binaries = state().builds_->binaries;
    auto* nvrtc = dynamic_cast<NvrtcCompiler*>(&binaries.compiler());
    if (nvrtc == nullptr)
        throw UsageError("Only NVRTC reports the phases of a compile; this is " +
                         std::string(name(backend())) + ", whose compiler reports the total time");
    if (!binaries.compiles()) throw BuildError("there is nothing to time: compiling is switched off");
    std::vector<CompilePhase> phases;
    for (auto& [phase, ms] : nvrtc->phases(binaries.includes().with_headers(source(variant)), target()))
        phases.push_back({std::move(phase), ms});
    return phases;
}

Backend Service::backend() const { return target().backend; }
const Target& Service::target() const { return state().builder_.selection().target; }
bool Service::has_device() const { return state().builder_.selection().device.has_value(); }

const Device& Service::device() const {
    if (!has_device()) throw DeviceError("this service only compiles; it has no device", "", 0);
    return *state().builder_.selection().device;
}

const Stream& Service::stream() const {
    const NoCancel no_cancel;
    (void)device();
    return state().stream();
}

std::filesystem::path Service::cache_directory() const {
    const auto& disk = state().builds_->binaries.tiers().setup().disk;
    return disk ? disk->directory() : std::filesystem::path();
}

std::string Service::cache_problem() const {
    const auto& setup = state().builds_->binaries.tiers().setup();
    return setup.disk ? setup.disk->problem() : setup.no_directory;
}

Counters Service::counters() const { return state().builds_->binaries.tiers().counters(); }

inline namespace KILN_ABI {

std::string_view version() { return KILN_VERSION; }

}  // namespace KILN_ABI
}  // namespace kiln
