// SPDX-License-Identifier: Apache-2.0
//
// kiln.Service
#include <kiln/cache.h>
#include <kiln/error.h>
#include <kiln/service.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "objects.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

using Paths = std::vector<nb::object>;

std::vector<std::filesystem::path> paths_of(const Paths& objects) {
    std::vector<std::filesystem::path> paths;
    for (const nb::object& object : objects) paths.push_back(path_of(object));
    return paths;
}

constexpr double kMostSeconds = 1e9;
constexpr double kCompileTimeoutSeconds = 120;

/// A callback of Python, called from any thread; what it raises is reported and ignored.
class Callback {
  public:
    explicit Callback(nb::object function)
        : function_(new nb::object(std::move(function)), [](nb::object* object) {
              if (Py_IsInitialized() == 0) return;
              const WithGil held;
              delete object;
          }) {}
    void operator()(std::string_view text) const {
        if (Py_IsInitialized() == 0) return;
        const WithGil held;
        try {
            (*function_)(nb::str(text.data(), text.size()));
        } catch (nb::python_error& error) {
            error.discard_as_unraisable(*function_);
        }
    }

  private:
    std::shared_ptr<nb::object> function_;
};

/// A service waits for its background builds when it ends, and these may call back into Python.
ServicePtr owned(std::unique_ptr<OpenService> service) {
    return ServicePtr(service.release(), [](OpenService* ending) {
        if (Py_IsInitialized() == 0) {
            delete ending;
            return;
        }
        const WithoutGil released;
        delete ending;
    });
}

struct Arguments {
    ServiceOptions options;

    ServicePtr open() {
        std::unique_ptr<OpenService> service;
        {
            const WithoutGil released;
            service = std::make_unique<OpenService>(std::move(options));
        }
        return owned(std::move(service));
    }
};

nb::dict counters_of(const Service& service) {
    const Counters counters = service.counters();
    nb::dict result;
    const auto add = [&](const char* name, std::uint64_t value) { result[name] = value; };
    add("memory_hits", counters.memory_hits);
    add("disk_hits", counters.disk_hits);
    add("seed_hits", counters.seed_hits);
    add("remote_hits", counters.remote_hits);
    add("misses", counters.misses);
    add("compiles", counters.compiles);
    add("build_failures", counters.build_failures);
    add("waits", counters.waits);
    add("take_overs", counters.take_overs);
    add("rejected_entries", counters.rejected_entries);
    add("stored_entries", counters.stored_entries);
    add("remote_stores", counters.remote_stores);
    add("remote_failures", counters.remote_failures);
    add("pruned_entries", counters.pruned_entries);
    add("bytes_read", counters.bytes_read);
    add("bytes_written", counters.bytes_written);
    add("compile_ms", counters.compile_ms);
    add("saved_ms", counters.saved_ms);
    return result;
}

}  // namespace

ServiceHandle::ServiceHandle(ServicePtr service)
    : service_(std::move(service)), operations_(service_->operations.lock()) {
    if (operations_ != nullptr) return;
    operations_ = std::make_shared<nb::dict>();
    service_->operations = operations_;
}

void bind_service(nb::module_& module) {
    nb::class_<PyService>(module, "Service", nb::is_weak_referenceable())
        .def(
            "__init__",
            [](PyService* self, const std::optional<std::string>& backend, int device,
               const std::string& arch, bool compile_only, bool cached_only,
               const std::optional<bool>& validate, const Paths& template_directories,
               const Paths& include_directories, bool cache, const nb::object& cache_directory,
               const Paths& seed_packs, const nb::object& record, double compile_timeout_s, int workers,
               bool isolate_host, const nb::object& on_warning, const PyService* shares,
               const std::vector<std::string>& compile_options, bool debug, std::uintptr_t context,
               std::uint64_t cache_limit_bytes, const std::optional<std::string>& remote,
               const std::optional<std::uint64_t>& worker_memory_bytes) {
                const ContextRef in(reinterpret_cast<void*>(context));  // 0: the primary one
                if (shares != nullptr) {
                    const std::pair<const char*, bool> others[] = {
                        {"backend", backend.has_value()},
                        {"arch", !arch.empty()},
                        {"compile_only", compile_only},
                        {"cached_only", cached_only},
                        {"validate", validate.has_value()},
                        {"template_directories", !template_directories.empty()},
                        {"include_directories", !include_directories.empty()},
                        {"cache", !cache},
                        {"cache_directory", !cache_directory.is_none()},
                        {"seed_packs", !seed_packs.empty()},
                        {"record", !record.is_none()},
                        {"compile_timeout_s", compile_timeout_s != kCompileTimeoutSeconds},
                        {"workers", workers != 0},
                        {"isolate_host", isolate_host},
                        {"on_warning", !on_warning.is_none()},
                        {"compile_options", !compile_options.empty()},
                        {"debug", debug},
                        {"cache_limit_bytes", cache_limit_bytes != 0},
                        {"remote", remote.has_value()},
                        {"worker_memory_bytes", worker_memory_bytes.has_value()},
                    };
                    for (const auto& [name, is_given] : others)
                        if (is_given)
                            throw UsageError(std::string(name) +
                                             " is that of the service that is shared; only device and "
                                             "context go with shares");
                    std::unique_ptr<OpenService> service;
                    {
                        const WithoutGil released;
                        service = std::make_unique<OpenService>(*shares->service, device, in);
                    }
                    new (self) PyService{owned(std::move(service))};
                    return;
                }
                Arguments arguments;
                ServiceOptions& options = arguments.options;
                if (backend) options.backend = parse_backend(*backend);
                options.device = device;
                options.arch = arch;
                options.compile_only = compile_only;
                options.cached_only = cached_only;
                options.validate = validate;
                options.template_directories = paths_of(template_directories);
                options.include_directories = paths_of(include_directories);
                options.cache.enabled = cache;
                if (!cache_directory.is_none()) {
                    options.cache.directory = path_of(cache_directory);
                    if (options.cache.directory->empty())
                        throw UsageError("cache_directory is empty; leave it out for the usual directory");
                }
                options.cache.seed_packs = paths_of(seed_packs);
                if (!record.is_none()) options.record = path_of(record);
                if (!(compile_timeout_s > 0 && compile_timeout_s <= kMostSeconds))
                    throw UsageError("compile_timeout_s is " + std::to_string(compile_timeout_s) +
                                     "; it is a number of seconds, above 0 and at most 1e9");
                options.compile_timeout =
                    std::chrono::milliseconds(static_cast<std::int64_t>(compile_timeout_s * 1000));
                options.workers = workers;
                options.isolate_host = isolate_host;
                options.compile_options = compile_options;
                options.debug = debug;
                options.context = in;
                if (cache_limit_bytes != 0) options.cache.limit_bytes = cache_limit_bytes;
                if (remote) options.cache.remote.emplace().url = *remote;
                if (worker_memory_bytes) options.worker_memory_bytes = *worker_memory_bytes;
                if (!on_warning.is_none()) options.on_warning = Callback(on_warning);
                new (self) PyService{arguments.open()};
            },
            nb::arg("backend") = nb::none(), nb::kw_only(), nb::arg("device") = 0, nb::arg("arch") = "",
            nb::arg("compile_only") = false, nb::arg("cached_only") = false, nb::arg("validate") = nb::none(),
            nb::arg("template_directories") = Paths(), nb::arg("include_directories") = Paths(),
            nb::arg("cache") = true, nb::arg("cache_directory") = nb::none(), nb::arg("seed_packs") = Paths(),
            nb::arg("record") = nb::none(), nb::arg("compile_timeout_s") = kCompileTimeoutSeconds,
            nb::arg("workers") = 0, nb::arg("isolate_host") = false, nb::arg("on_warning") = nb::none(),
            nb::arg("shares") = nb::none(), nb::arg("compile_options") = std::vector<std::string>(),
            nb::arg("debug") = false, nb::arg("context") = 0, nb::arg("cache_limit_bytes") = 0,
            nb::arg("remote") = nb::none(), nb::arg("worker_memory_bytes") = nb::none(),
            "Finds templates and builds variants; has a device, a stream and a cache. "
            "Thread-safe.")
        .def(
            "find",
            [](const PyService& self, const std::string& name) {
                return PyTemplate{self.service, self.service->find(name)};
            },
            nb::arg("name"), "The template of that name.")
        .def(
            "templates",
            [](const PyService& self) {
                std::vector<std::string> names;
                for (const Template& one : self.service->templates()) names.push_back(one.name());
                return names;
            },
            "The names of all templates.")
        .def_prop_ro("_operations", [](const PyService& self) { return self.service.operations(); })
        .def_prop_ro("backend",
                     [](const PyService& self) { return std::string(name(self.service->backend())); })
        .def_prop_ro("arch", [](const PyService& self) { return self.service->target().arch; })
        .def_prop_ro("has_device", [](const PyService& self) { return self.service->has_device(); })
        .def_prop_ro("device", [](const PyService& self) { return self.service->device().info().ordinal; })
        .def_prop_ro("device_name", [](const PyService& self) { return self.service->device().info().name; })
        .def_prop_ro("cache_directory",
                     [](const PyService& self) { return self.service->cache_directory().string(); })
        .def_prop_ro("counters", [](const PyService& self) { return counters_of(*self.service); })
        .def_prop_ro(
            "stream",
            [](const PyService& self) {
                return reinterpret_cast<std::uintptr_t>(self.service->stream().handle());
            },
            "The handle of the service's own stream.")
        .def(
            "synchronize",
            [](const PyService& self) {
                const WithoutGil released;
                self.service->stream().synchronize();
            },
            "Waits for the service's own stream.")
        .def("__eq__",
             [](const PyService& self, const nb::object& other) {
                 return nb::isinstance<PyService>(other) &&
                        nb::cast<const PyService&>(other).service.get() == self.service.get();
             })
        .def("__hash__",
             [](const PyService& self) { return reinterpret_cast<std::uintptr_t>(&*self.service) >> 4; })
        .def("__repr__", [](const PyService& self) {
            return "<kiln.Service " + std::string(name(self.service->backend())) + " " +
                   self.service->target().arch + ">";
        });
}

}  // namespace kiln::python
