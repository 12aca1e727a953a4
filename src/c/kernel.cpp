// SPDX-License-Identifier: Apache-2.0
//
// kiln_kernel: what it is, its launches by position and by name, the variables of its module; kiln_buffer.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/words.h"
#include "c/call.h"
#include "c/handle.h"
#include "format/format.h"

namespace kiln::c_api {
namespace {

AccessPolicyWindow::Property property_of(kiln_access access, const char* member) {
    switch (access) {
        case KILN_ACCESS_NORMAL:
            return AccessPolicyWindow::Property::normal;
        case KILN_ACCESS_STREAMING:
            return AccessPolicyWindow::Property::streaming;
        case KILN_ACCESS_PERSISTING:
            return AccessPolicyWindow::Property::persisting;
    }
    throw Misuse(
        formatted("{} is {}, and may be KILN_ACCESS_NORMAL (0), KILN_ACCESS_STREAMING (1) or "
                  "KILN_ACCESS_PERSISTING (2)",
                  member, access));
}

/// Bytes of a value of this type; 0: a type of the template's own.
std::size_t bytes_of(std::string_view type) {
    static constexpr ArgumentType kScalars[] = {
        argument_type<bool>(),         argument_type<signed char>(),    argument_type<unsigned char>(),
        argument_type<short>(),        argument_type<unsigned short>(), argument_type<int>(),
        argument_type<unsigned int>(), argument_type<long long>(),      argument_type<unsigned long long>(),
        argument_type<float>(),        argument_type<double>(),         argument_type<half>(),
        argument_type<bfloat16>()};
    if (type.ends_with('*')) return sizeof(void*);
    const auto found = std::ranges::find(kScalars, type, &ArgumentType::scalar);
    return found == std::end(kScalars) ? 0 : found->size;
}

/// The place of each argument, in the kernel's order.
std::vector<void*> by_position(const Variant& variant, const kiln_argument* arguments, std::size_t count) {
    const std::vector<KernelArgument>& declared = variant.arguments();
    std::vector<void*> places(declared.size());
    array(arguments, count, "arguments");
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view name = in(arguments[i].name, "the name of an argument");
        const auto found = std::ranges::find(declared, name, &KernelArgument::name);
        if (found == declared.end()) {
            std::vector<std::string> names;
            for (const KernelArgument& argument : declared) names.push_back(argument.name);
            throw Misuse(variant.template_name() + " has no argument '" + std::string(name) +
                         "'; its arguments are " + join(names));
        }
        void*& place = places[static_cast<std::size_t>(found - declared.begin())];
        if (place != nullptr) throw Misuse("the argument " + found->name + " is given twice");
        const std::size_t bytes = bytes_of(found->type);
        if (bytes != 0 && arguments[i].bytes != bytes)
            throw Misuse(formatted("the argument {} has {} bytes, and a {} has {}", found->name,
                                   arguments[i].bytes, found->type, bytes));
        place = const_cast<void*>(in(arguments[i].value, "the value of an argument"));
    }
    for (std::size_t i = 0; i < places.size(); ++i)
        if (places[i] == nullptr)
            throw Misuse("the argument " + declared[i].name + " (" + declared[i].type + ") of " +
                         variant.template_name() + " is missing");
    return places;
}

std::span<const std::byte> source_bytes(const void* source, std::size_t bytes) {
    return {array(static_cast<const std::byte*>(source), bytes, "source"), bytes};
}

std::span<std::byte> destination_bytes(void* destination, std::size_t bytes) {
    if (bytes != 0) in(destination, "destination");
    return {static_cast<std::byte*>(destination), bytes};
}

AnySymbol symbol(const kiln_kernel* kernel, const char* name) {
    return object(kernel).value.any_symbol(in(name, "name"));
}

}  // namespace

StreamWithOptions::StreamWithOptions(void* native, const kiln_launch_options* options)
    : stream_(CaptureOfThread::stream_of(native)) {
    if (options == nullptr) return;
    const kiln_launch_options known = given(options, "kiln_launch_options");
    if (known.has_priority != 0) options_.priority = known.priority;
    options_.dependent = choice_of(known.dependent, "dependent");
    options_.multiprocessors = known.multiprocessors;
    options_.workspace = known.workspace;
    options_.workspace_bytes = known.workspace_bytes;
    if (known.policy_bytes != 0)
        options_.access_policy = {known.policy_base, known.policy_bytes, known.policy_hit_ratio,
                                  property_of(known.policy_hit, "policy_hit"),
                                  property_of(known.policy_miss, "policy_miss")};
    stream_ = stream_.with(options_);
}

void check_count(const char* what, std::size_t count, std::size_t declared) {
    if (count != declared)
        throw Misuse(formatted("{} arguments are given, and {} has {}", count, what, declared));
}

void check_arguments(void* const* arguments, std::size_t count) {
    array(arguments, count, "arguments");
    for (std::size_t i = 0; i < count; ++i)
        if (arguments[i] == nullptr) throw Misuse(formatted("arguments[{}] is NULL", i));
}

}  // namespace kiln::c_api

using namespace kiln::c_api;

kiln_status kiln_kernel_describe(const kiln_kernel* kernel, kiln_kernel_info* info) {
    return guarded(__func__, [&] {
        const KernelObject& of = object(kernel);
        const kiln::BuildInfo& known = of.value.info();
        fill(info,
             {sizeof(kiln_kernel_info), of.value.variant().text().c_str(), name(of.value.origin()).data(),
              known.key.digest.c_str(), known.compiler.c_str(), known.log.c_str(), known.build_ms,
              known.load_ms, known.registers.value_or(-1), known.blocks_per_multiprocessor.value_or(-1),
              known.local_bytes ? static_cast<int64_t>(*known.local_bytes) : -1, known.static_shared_bytes,
              known.dynamic_shared_bytes, of.argument_count, of.value.function_handle()},
             "kiln_kernel_info");
    });
}

kiln_status kiln_kernel_arguments(const kiln_kernel* kernel, kiln_argument_function each, void* user) {
    return guarded(__func__, [&] {
        in(each, "each");
        for (const kiln::KernelArgument& argument : object(kernel).value.variant().arguments())
            each(user, argument.name.c_str(), argument.type.c_str(), "");
    });
}

kiln_status kiln_kernel_destroy(kiln_kernel* kernel) {
    return guarded(__func__, [&] { destroy(kernel); });
}

kiln_status kiln_kernel_launch(const kiln_kernel* kernel, void* stream, const kiln_launch_options* options,
                               void* const* arguments, size_t count) {
    return guarded(__func__, [&] {
        const KernelObject& of = object(kernel);
        check_count("the kernel", count, of.argument_count);
        check_arguments(arguments, count);
        of.value.launch(StreamWithOptions(stream, options), arguments);
    });
}

kiln_status kiln_kernel_launch_named(const kiln_kernel* kernel, void* stream,
                                     const kiln_launch_options* options, const kiln_argument* arguments,
                                     size_t count) {
    return guarded(__func__, [&] {
        const KernelObject& of = object(kernel);
        const std::vector<void*> places = by_position(of.value.variant(), arguments, count);
        of.value.launch(StreamWithOptions(stream, options), places.data());
    });
}

kiln_status kiln_kernel_symbol(const kiln_kernel* kernel, const char* name, void** data, size_t* bytes) {
    return guarded(__func__, [&] {
        if (data != nullptr) *data = nullptr;
        if (bytes != nullptr) *bytes = 0;
        const kiln::AnySymbol of = symbol(kernel, name);
        if (data != nullptr) *data = of.data();
        if (bytes != nullptr) *bytes = of.size_bytes();
    });
}

kiln_status kiln_kernel_symbol_write(const kiln_kernel* kernel, const char* name, size_t offset,
                                     const void* source, size_t bytes) {
    return guarded(__func__, [&] { symbol(kernel, name).copy_from(source_bytes(source, bytes), offset); });
}

kiln_status kiln_kernel_symbol_read(const kiln_kernel* kernel, const char* name, size_t offset,
                                    void* destination, size_t bytes) {
    return guarded(__func__,
                   [&] { symbol(kernel, name).copy_to(destination_bytes(destination, bytes), offset); });
}

kiln_status kiln_kernel_symbol_write_async(const kiln_kernel* kernel, const char* name, void* stream,
                                           size_t offset, const void* source, size_t bytes) {
    return guarded(__func__, [&] {
        symbol(kernel, name)
            .copy_from_async(source_bytes(source, bytes), StreamWithOptions(stream, nullptr), offset);
    });
}

kiln_status kiln_kernel_symbol_read_async(const kiln_kernel* kernel, const char* name, void* stream,
                                          size_t offset, void* destination, size_t bytes) {
    return guarded(__func__, [&] {
        symbol(kernel, name)
            .copy_to_async(destination_bytes(destination, bytes), StreamWithOptions(stream, nullptr), offset);
    });
}

kiln_status kiln_buffer_create(const kiln_service* service, size_t bytes, kiln_buffer** buffer) {
    return guarded(__func__, [&] {
        kiln_buffer*& place = out(buffer, "buffer");
        place = make<kiln_buffer>({object(service).service->device().allocate(bytes)});
    });
}

kiln_status kiln_buffer_destroy(kiln_buffer* buffer) {
    return guarded(__func__, [&] { destroy(buffer); });
}

kiln_status kiln_buffer_data(const kiln_buffer* buffer, void** data) {
    return guarded(__func__, [&] {
        void*& place = out(data, "data");
        place = object(buffer).value.data();
    });
}

kiln_status kiln_buffer_write(kiln_buffer* buffer, size_t offset, const void* source, size_t bytes) {
    return guarded(__func__, [&] {
        kiln::Buffer& of = object(buffer).value;
        of.copy_from(source_bytes(source, bytes), offset);
    });
}

kiln_status kiln_buffer_read(const kiln_buffer* buffer, size_t offset, void* destination, size_t bytes) {
    return guarded(__func__, [&] {
        const kiln::Buffer& of = object(buffer).value;
        of.copy_to(destination_bytes(destination, bytes), offset);
    });
}
