// SPDX-License-Identifier: Apache-2.0
//
// The public front over the template library and the builder.
#include <kiln/error.h>
#include <kiln/service.h>

#include <cstdio>
#include <mutex>
#include <string>

#include "base/config.h"
#include "service/builder.h"
#include "service/template_library.h"

namespace kiln {
namespace {

constexpr const char* kNoDirectory =
    "nothing is kept on disk: none of KILN_CACHE_DIR, XDG_CACHE_HOME and HOME is set";

void print_warning(std::string_view text) {
    std::fprintf(stderr, "kiln: %.*s\n", static_cast<int>(text.size()), text.data());
}

std::vector<std::filesystem::path> template_directories(const ServiceOptions& options) {
    auto directories = options.template_directories;
    for (auto& directory : config::template_directories()) directories.push_back(std::move(directory));
    return directories;
}

std::unique_ptr<DiskCache> open_disk(const ServiceOptions& options,
                                     const std::function<void(std::string_view)>& warn) {
    if (!options.use_cache) return nullptr;
    auto directory = options.cache_directory;
    if (!directory) directory = config::cache_directory();
    if (!directory) {
        warn(kNoDirectory);
        return nullptr;
    }
    return std::make_unique<DiskCache>(*directory);
}

}  // namespace

class ServiceState {
  public:
    explicit ServiceState(const ServiceOptions& options)
        : warn_(options.on_warning ? options.on_warning : print_warning),
          builder_(select_backend(options), open_disk(options, warn_), options.use_cache, warn_),
          library_(template_directories(options), builder_.selection().target) {}

    /// Made when it is first asked for: an application with streams of its own never needs it.
    const Stream& stream() {
        std::call_once(stream_once_, [this] { stream_ = builder_.selection().device->stream(); });
        return stream_;
    }

    std::function<void(std::string_view)> warn_;
    Builder builder_;
    TemplateLibrary library_;

  private:
    std::once_flag stream_once_;
    Stream stream_;
};

Service::Service(ServiceOptions options) : state_(std::make_shared<ServiceState>(options)) {}
Service::~Service() = default;

Template Service::find(std::string_view name) const { return state_->library_.find(name); }
std::vector<Template> Service::templates() const { return state_->library_.all(); }

Template Service::parse(std::string text, std::string file, std::vector<Header> headers) const {
    return Template::parse(std::move(text), std::move(file), std::move(headers)).for_target(target());
}

AnyKernel Service::build_any(ServiceState& state, const Variant& variant,
                             std::optional<std::span<const ArgumentType>> types) {
    auto found = state.builder_.kernel(variant);
    if (types) found.kernel->check_arguments(*types);
    return AnyKernel(std::move(found.kernel), found.origin);
}

Binary Service::compile(const Variant& variant, Origin* origin) {
    auto built = state_->builder_.binary(variant);
    if (origin != nullptr) *origin = built.origin;
    return std::move(built.binary);
}

BuildKey Service::key(const Variant& variant) const { return state_->builder_.key(source(variant)); }

Source Service::source(const Variant& variant) const {
    return state_->builder_.source(state_->builder_.validated(variant));
}

std::string Service::ptx(const Variant& variant) const {
    const auto& selection = state_->builder_.selection();
    auto* nvrtc = dynamic_cast<NvrtcCompiler*>(selection.compiler.get());
    if (nvrtc == nullptr)
        throw UsageError("PTX exists for the backend cuda only; this is " +
                         std::string(name(selection.target.backend)) +
                         ", which has a source, a log and a binary");
    return nvrtc->ptx(source(variant), selection.target);
}

Backend Service::backend() const { return target().backend; }
const Target& Service::target() const { return state_->builder_.selection().target; }
bool Service::has_device() const { return state_->builder_.selection().device.has_value(); }

const Device& Service::device() const {
    if (!has_device()) throw DeviceError("this service only compiles; it has no device", "", 0);
    return *state_->builder_.selection().device;
}

const Stream& Service::stream() const {
    (void)device();
    return state_->stream();
}

std::filesystem::path Service::cache_directory() const {
    const auto* disk = state_->builder_.disk();
    return disk ? disk->directory() : std::filesystem::path();
}

std::string Service::cache_problem() const {
    const auto& builder = state_->builder_;
    if (builder.disk() != nullptr) return builder.disk()->problem();
    return builder.caching() ? kNoDirectory : std::string();
}

Counters Service::counters() const { return state_->builder_.counters(); }

std::string_view version() { return KILN_VERSION; }

}  // namespace kiln
