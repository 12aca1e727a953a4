// SPDX-License-Identifier: Apache-2.0
//
// kiln_service: made of options, described, and building.
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c/call.h"
#include "c/handle.h"
#include "format/format.h"

namespace kiln::c_api {
namespace {

/// A list of paths or of texts.
template <class T>
std::vector<T> list_of(const char* const* texts, std::size_t count, const char* member) {
    array(texts, count, member);
    std::vector<T> result;
    for (std::size_t i = 0; i < count; ++i)
        result.emplace_back(in(texts[i], formatted("{}[{}]", member, i).c_str()));
    return result;
}

void build_async(kiln_service* service, const kiln_variant* variant, std::stop_token stop,
                 kiln_build_function finished, void* user) {
    in(finished, "finished");
    Service& of = *object(service).service;
    of.build_async(
        object(variant).value,
        [finished, user](AnyKernel built, std::exception_ptr error) {
            kiln_kernel* kernel = nullptr;
            const kiln_status status = guarded(nullptr, [&] {
                if (error) std::rethrow_exception(error);
                kernel = make<kiln_kernel>(KernelObject(std::move(built)));
            });
            finished(user, status, kernel);
        },
        std::move(stop));
}

void pass_event(kiln_trace_function function, void* user, const TraceEvent& event) {
    const std::string key(event.key), variant(event.variant), detail(event.detail);
    const kiln_trace_event passed = {sizeof(kiln_trace_event),
                                     name(event.kind).data(),
                                     name(event.tier).data(),
                                     key.c_str(),
                                     variant.c_str(),
                                     event.elapsed_ms,
                                     event.bytes,
                                     detail.c_str()};
    function(user, &passed);
}

ServiceOptions service_options_of(const kiln_service_options* options) {
    const kiln_service_options known = given(options, "kiln_service_options");
    ServiceOptions result;
    if (known.backend != nullptr) result.backend = parse_backend(known.backend);
    result.device = known.device;
    if (known.context != nullptr) result.context = ContextRef(known.context);
    result.arch = text_or_empty(known.arch);
    result.compile_only = known.compile_only != 0;
    result.cached_only = known.cached_only != 0;
    result.validate = choice_of(known.validate, "validate");
    result.template_directories = list_of<std::filesystem::path>(
        known.template_directories, known.template_directory_count, "template_directories");
    result.include_directories = list_of<std::filesystem::path>(
        known.include_directories, known.include_directory_count, "include_directories");
    result.compile_options =
        list_of<std::string>(known.compile_options, known.compile_option_count, "compile_options");
    result.debug = known.debug != 0;
    result.cache = cache_options_of(known.cache);
    result.record = text_or_empty(known.record);
    result.workers = known.workers;
    if (known.compile_timeout_ms != 0)
        result.compile_timeout = std::chrono::milliseconds(known.compile_timeout_ms);
    if (known.worker_memory_bytes != 0) result.worker_memory_bytes = known.worker_memory_bytes;
    if (known.on_log != nullptr)
        result.on_warning = [function = known.on_log, user = known.on_log_user](std::string_view line) {
            function(user, std::string(line).c_str());
        };
    if (known.on_trace != nullptr)
        result.on_trace = [function = known.on_trace, user = known.on_trace_user](const TraceEvent& event) {
            pass_event(function, user, event);
        };
    return result;
}

}  // namespace
}  // namespace kiln::c_api

using namespace kiln::c_api;

kiln_status kiln_service_create(const kiln_service_options* options, kiln_service** service) {
    return guarded(__func__, [&] {
        kiln_service*& place = out(service, "service");
        kiln::ServiceOptions wanted = service_options_of(options);
        std::stop_source stop;
        wanted.stop = stop.get_token();
        place = make<kiln_service>({std::make_shared<kiln::Service>(std::move(wanted)), stop});
    });
}

kiln_status kiln_service_share(const kiln_service* service, int device, kiln_service** shared) {
    return guarded(__func__, [&] {
        kiln_service*& place = out(shared, "shared");
        const ServiceObject& first = object(service);
        place = make<kiln_service>({std::make_shared<kiln::Service>(*first.service, device), first.stop});
    });
}

kiln_status kiln_service_destroy(kiln_service* service) {
    return guarded(__func__, [&] { destroy(service); });
}

kiln_status kiln_service_stop(kiln_service* service) {
    return guarded(__func__, [&] { object(service).stop.request_stop(); });
}

kiln_status kiln_service_describe(const kiln_service* service, kiln_service_info* info) {
    return guarded(__func__, [&] {
        static thread_local LastResult keep;
        const kiln::Service& of = *object(service).service;
        check_result(info, "kiln_service_info");
        keep.clear();
        const bool has_device = of.has_device();
        fill(info,
             {sizeof(kiln_service_info), name(of.backend()).data(), keep(of.target().arch), has_device,
              keep(has_device ? of.device().info().name : ""),
              keep(has_device ? of.device().info().driver : ""), keep(of.cache_directory().native()),
              keep(of.cache_problem())},
             "kiln_service_info");
    });
}

kiln_status kiln_service_stream(const kiln_service* service, void** stream) {
    return guarded(__func__, [&] {
        void*& place = out(stream, "stream");
        const kiln::Service& of = *object(service).service;
        const kiln::Stream& own = of.stream();
        if (of.backend() != kiln::Backend::host) place = own.handle();
    });
}

kiln_status kiln_service_synchronize(const kiln_service* service) {
    return guarded(__func__, [&] { object(service).service->stream().synchronize(); });
}

kiln_status kiln_service_counters(const kiln_service* service, kiln_counters* counters) {
    return guarded(
        __func__, [&] { fill(counters, counters_of(object(service).service->counters()), "kiln_counters"); });
}

kiln_status kiln_service_prometheus(const kiln_service* service, const char* labels, const char** text) {
    return guarded(__func__, [&] {
        static thread_local LastResult keep;
        const char*& place = out(text, "text");
        const kiln::Service& of = *object(service).service;
        keep.clear();
        place = keep(prometheus_text(of.counters(), text_or_empty(labels)));
    });
}

kiln_status kiln_service_build(kiln_service* service, const kiln_variant* variant, kiln_kernel** kernel) {
    return guarded(__func__, [&] {
        kiln_kernel*& place = out(kernel, "kernel");
        kiln::Service& of = *object(service).service;
        place = make<kiln_kernel>(KernelObject(of.build(object(variant).value)));
    });
}

kiln_status kiln_service_build_async(kiln_service* service, const kiln_variant* variant,
                                     kiln_build_function finished, void* user) {
    return guarded(__func__, [&] { build_async(service, variant, {}, finished, user); });
}

kiln_status kiln_stop_create(kiln_stop** stop) {
    return guarded(__func__, [&] {
        kiln_stop*& place = out(stop, "stop");
        place = make<kiln_stop>({});
    });
}

kiln_status kiln_stop_request(kiln_stop* stop) {
    return guarded(__func__, [&] { object(stop).value.request_stop(); });
}

kiln_status kiln_stop_destroy(kiln_stop* stop) {
    return guarded(__func__, [&] { destroy(stop); });
}

kiln_status kiln_service_build_async_until(kiln_service* service, const kiln_variant* variant,
                                           const kiln_stop* stop, kiln_build_function finished, void* user) {
    return guarded(__func__,
                   [&] { build_async(service, variant, object(stop).value.get_token(), finished, user); });
}

kiln_status kiln_service_compile(kiln_service* service, const kiln_variant* variant,
                                 kiln_binary_function each, void* user) {
    return guarded(__func__, [&] {
        kiln::Service& of = *object(service).service;
        const kiln::Compiled compiled = of.compile(object(variant).value);
        const kiln::Binary& binary = compiled.binary;
        const kiln_binary passed = {sizeof(kiln_binary),         name(binary.kind).data(),
                                    binary.entry.c_str(),        binary.bytes.data(),
                                    binary.bytes.size(),         name(compiled.origin).data(),
                                    compiled.key.digest.c_str(), binary.compiler.c_str(),
                                    binary.log.c_str(),          compiled.elapsed_ms};
        if (each != nullptr) each(user, &passed);
    });
}

kiln_status kiln_service_explain(const kiln_service* service, const kiln_variant* variant,
                                 kiln_explanation* explanation) {
    return guarded(__func__, [&] {
        static thread_local LastResult keep;
        static thread_local std::vector<kiln_difference> differences;
        static thread_local std::vector<const char*> rejected;
        const kiln::Service& of = *object(service).service;
        const kiln::Variant& wanted = object(variant).value;
        check_result(explanation, "kiln_explanation");
        const kiln::Explanation found = of.explain(wanted);
        keep.clear();
        differences.clear();
        rejected.clear();
        for (const kiln::KeyDifference& one : found.differences)
            differences.push_back({keep(one.ingredient), keep(one.wanted), keep(one.found)});
        for (const std::string& one : found.rejected) rejected.push_back(keep(one));
        fill(explanation,
             {sizeof(kiln_explanation), keep(found.key.digest), found.tier ? name(*found.tier).data() : "",
              keep(found.place), keep(found.compiler), keep(found.no_compiler), keep(found.nearest_key),
              keep(found.nearest_variant), differences.data(), differences.size(), rejected.data(),
              rejected.size()},
             "kiln_explanation");
    });
}
