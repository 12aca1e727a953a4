// SPDX-License-Identifier: Apache-2.0
//
// What each action does, and the one place where errors become messages and exit statuses.
#include "cli/jit_gemm.h"

#include <kiln/kiln.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <new>

#include "cli/emit.h"
#include "cli/gemm.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/parameter_options.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace kiln::cli {
namespace {

enum Status { kPassed = 0, kWrongResult = 1, kUsage = 2, kCompileError = 3, kDeviceError = 4 };

std::string list_kernels(const Options& options) {
    std::vector<KernelEntry> entries;
    for (const Template& found : Catalogue(options.template_directories).all()) {
        KernelEntry entry{found.name(), found.summary(), "", false};
        for (const Parameter& parameter : found.parameters())
            entry.parameters +=
                (entry.parameters.empty() ? "" : " ") + parameter.name + "=" + parameter.default_value.text();
        try {
            entry.is_gemm = gemm_dtype(found.variant()).has_value();
        } catch (const VariantError&) {
            // Its defaults are not for the host; the list shows it all the same.
        }
        entries.push_back(std::move(entry));
    }
    return options.json ? kernels_json(entries) : kernels_text(entries);
}

std::string list_devices(const Options& options) {
    std::vector<BackendEntry> entries;
    for (const Backend backend : {Backend::cuda, Backend::hip, Backend::host}) {
        BackendEntry entry;
        entry.backend = backend;
        entry.devices = Device::list(backend, &entry.reason);
        entries.push_back(std::move(entry));
    }
    return options.json ? devices_json(entries) : devices_text(entries);
}

/// The service's warnings. They wait until its construction has succeeded: what made it fail is told
/// as an error, and not before that as a warning too.
class Warnings {
  public:
    explicit Warnings(const Terminal& terminal) : terminal_(terminal) {}

    void add(std::string_view line) {
        const std::lock_guard lock(mutex_);
        if (released_)
            terminal_.note(line);
        else
            held_.emplace_back(line);
    }
    void release() {
        const std::lock_guard lock(mutex_);
        released_ = true;
        for (const std::string& line : held_) terminal_.note(line);
    }

  private:
    const Terminal& terminal_;
    std::mutex mutex_;
    bool released_ = false;
    std::vector<std::string> held_;
};

ServiceOptions service_options(const Options& options, Warnings& warnings, std::stop_token stop) {
    ServiceOptions result;
    result.backend = options.backend;
    result.device = options.device;
    result.arch = options.arch;
    result.compile_only = options.compile_only || options.emit.has_value();
    result.template_directories = options.template_directories;
    result.cache_directory = options.cache_directory;
    result.use_cache = options.use_cache;
    result.stop = std::move(stop);
    result.on_warning = [&warnings](std::string_view line) { warnings.add(line); };
    return result;
}

void say_why_host(const Service& service, const Options& options, const Terminal& terminal) {
    if (options.backend || !options.arch.empty() || service.backend() != Backend::host) return;
    std::string cuda, hip;
    Device::list(Backend::cuda, &cuda);
    Device::list(Backend::hip, &hip);
    std::string line = "no GPU (cuda: " + cuda + "; hip: " + hip + "); " +
                       (service.has_device() ? "running" : "compiling") + " on the host";
    std::replace(line.begin(), line.end(), '\n', ' ');
    terminal.note(line);
}

Status multiply(const Options& options, const Terminal& terminal, std::stop_token stop) {
    Warnings warnings(terminal);
    Service service(service_options(options, warnings, std::move(stop)));
    if (options.cache_directory && !service.cache_problem().empty())
        throw CacheError("--cache-dir " + options.cache_directory->string() + ": " + service.cache_problem());
    warnings.release();
    say_why_host(service, options, terminal);
    const Variant variant = choose_variant(service, options);

    if (options.emit) {
        const std::string content = emitted(service, variant, *options.emit);
        write_emitted(content, options, terminal);
        if (options.json)
            terminal.print(text_json(std::string(name(*options.emit)), options.output.string()));
        return kPassed;
    }
    const Report report = run_gemm(service, variant, options, terminal);
    terminal.print(options.json ? to_json(report) : to_text(report, terminal));
    if (!report.verdict || report.verdict->pass()) return kPassed;
    terminal.complain(describe_failure(*report.verdict));
    return kWrongResult;
}

Status act(const std::vector<std::string>& arguments, const Terminal& terminal, bool& json,
           std::stop_token stop) {
    const Options options = parse_options(arguments);
    json = options.json;
    switch (options.action) {
        case Action::help:
            terminal.print(json ? text_json("help", options.help) : options.help);
            break;
        case Action::version: {
            const std::string text(version());
            terminal.print(json ? text_json("version", text) : "kiln " + text + "\n");
            break;
        }
        case Action::list_kernels:
            terminal.print(list_kernels(options));
            break;
        case Action::list_devices:
            terminal.print(list_devices(options));
            break;
        case Action::multiply:
            return multiply(options, terminal, std::move(stop));
    }
    return kPassed;
}

struct Failure {
    Status status;
    const char* kind;
};

Failure classify(const std::exception& error) {
    const auto is = [&]<class T>(std::in_place_type_t<T>) {
        return dynamic_cast<const T*>(&error) != nullptr;
    };
    if (is(std::in_place_type<UsageError>)) return {kUsage, "usage"};
    if (is(std::in_place_type<VariantError>)) return {kUsage, "variant"};
    if (is(std::in_place_type<TemplateError>)) return {kUsage, "template"};
    if (is(std::in_place_type<CacheError>)) return {kUsage, "cache"};
    if (is(std::in_place_type<BuildError>)) return {kCompileError, "build"};
    if (is(std::in_place_type<std::bad_alloc>)) return {kUsage, "memory"};
    if (is(std::in_place_type<DeviceError>)) return {kDeviceError, "device"};
    return {kDeviceError, "internal"};
}

}  // namespace

int jit_gemm(const std::vector<std::string>& arguments) {
    reserve_standard_descriptors();
    const Interrupts interrupts;
    const Terminal terminal;
    // Known before the command line is understood, so that its errors come as JSON too.
    bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
    try {
        return act(arguments, terminal, json, interrupts.token());
    } catch (const std::exception& error) {
        if (interrupts.signal() != 0) return 128 + interrupts.signal();
        const Failure failure = classify(error);
        const bool out_of_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
        const std::string message = out_of_memory ? "out of memory; give smaller sizes." : error.what();
        terminal.complain(message);
        try {
            if (json) terminal.print(error_json(failure.kind, message));
        } catch (const UsageError&) {
            // Standard output is gone; standard error has the message.
        }
        return failure.status;
    }
}

}  // namespace kiln::cli
