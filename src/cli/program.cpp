// SPDX-License-Identifier: Apache-2.0
//
// Converts exceptions to exit statuses.
#include "cli/program.h"

#include <kiln/error.h>
#include <sys/resource.h>

#include <algorithm>
#include <new>

#include "cli/json.h"

namespace kiln::cli {

Failure classify(const std::exception& error) {
    const auto is = [&]<class T>(std::in_place_type_t<T>) {
        return dynamic_cast<const T*>(&error) != nullptr;
    };
    if (is(std::in_place_type<UsageError>)) return {kUsage, "usage"};
    if (is(std::in_place_type<VariantError>)) return {kUsage, "variant"};
    if (is(std::in_place_type<TemplateError>)) return {kUsage, "template"};
    if (is(std::in_place_type<CacheError>)) return {kUsage, "cache"};
    if (is(std::in_place_type<BuildError>)) return {kCompileError, "build"};
    if (is(std::in_place_type<NotReadyError>)) return {kCompileError, "not_ready"};
    if (is(std::in_place_type<std::bad_alloc>)) return {kUsage, "memory"};
    if (is(std::in_place_type<DeviceError>)) return {kDeviceError, "device"};
    return {kDeviceError, "internal"};
}

namespace {

// Each loaded host kernel holds a descriptor, and shells usually allow 1024, for programs that call select().
void raise_descriptor_limit() {
    constexpr rlim_t kEnough = 65536;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int run_program(const std::string& name, const std::vector<std::string>& arguments,
                const std::function<int(const ProgramContext&)>& body) {
    reserve_standard_descriptors();
    raise_descriptor_limit();
    const Interrupts interrupts;
    const Terminal terminal(name);
    bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
    try {
        const int status = body({arguments, terminal, interrupts, json});
        // The failure may come from compilers and other processes that were stopped.
        return status != 0 && interrupts.signal() != 0 ? 128 + interrupts.signal() : status;
    } catch (const std::exception& error) {
        if (interrupts.signal() != 0) return 128 + interrupts.signal();
        const Failure failure = classify(error);
        const bool out_of_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
        const std::string message =
            out_of_memory ? "out of memory; use smaller sizes or fewer variants at once." : error.what();
        terminal.complain(message);
        try {
            if (json) terminal.print(error_json(failure.kind, message));
        } catch (const UsageError&) {
            // Standard output is gone; standard error has the message.
        }
        return failure.status;
    }
}

std::string error_json(const std::string& kind, const std::string& message) {
    return dumped({{"error", {{"kind", kind}, {"message", message}}}});
}

std::string text_json(const std::string& name, const std::string& text) {
    Json json;
    json[name] = text;
    return dumped(json);
}

}  // namespace kiln::cli
