// SPDX-License-Identifier: Apache-2.0
//
// How large a tensor is, is computed only where its address is wrong, or with validation.
#include "service/launch_checks.h"

#include <kiln/error.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "format/format.h"
#include "template/pointer_arguments.h"
#include "template/size_limits.h"

namespace kiln {
namespace {

std::string hexadecimal(std::uintptr_t address) {
    std::ostringstream text;
    text << "0x" << std::hex << address;
    return text.str();
}

/// nullopt: the template does not say what all arguments are, or does not allow these sizes.
std::optional<Problem> problem_of(const Variant& variant, void* const* arguments) {
    if (!variant.origin().is_runnable()) return std::nullopt;
    try {
        return variant.problem(launch_sizes(variant, arguments));
    } catch (const VariantError&) {
        return std::nullopt;
    }
}

const Tensor* tensor_of(const std::optional<Problem>& problem, const std::string& name) {
    if (!problem) return nullptr;
    const auto found = std::ranges::find(problem->tensors, name, &Tensor::name);
    return found == problem->tensors.end() ? nullptr : &*found;
}

std::string argument_text(const Variant& variant, const std::string& name) {
    return variant.template_name() + ": the argument " + name;
}

}  // namespace

LaunchChecks::LaunchChecks(const Variant& variant) {
    if (SizeLimits limits(variant); !limits.empty())
        sizes_ = std::make_shared<const SizeLimits>(std::move(limits));
    for (const PointerArgument& pointer : pointer_arguments(variant))
        pointers_.push_back({pointer.argument, pointer.align_bytes - 1});
}

void LaunchChecks::check_sizes(const Variant& variant, void* const* arguments) const {
    sizes_->check(variant, arguments);
}

void LaunchChecks::refuse_unless_empty(const Variant& variant, void* const* arguments,
                                       const Pointer& pointer) {
    const std::string& name = variant.arguments()[pointer.argument].name;
    const std::optional<Problem> problem = problem_of(variant, arguments);
    const Tensor* const tensor = tensor_of(problem, name);
    if (tensor != nullptr && tensor->count() == 0) return;
    const auto address = *static_cast<const std::uintptr_t*>(arguments[pointer.argument]);
    if (address == 0)
        throw UsageError(
            argument_text(variant, name) + " is a null pointer" +
            (tensor == nullptr ? "" : formatted(", and its tensor has {} elements", tensor->count())));
    const std::uintptr_t align = pointer.mask + 1;
    throw UsageError(
        formatted("{} is at {}, and has to be at a multiple of {} bytes; it is {} bytes behind one",
                  argument_text(variant, name), hexadecimal(address), align, address % align));
}

void LaunchChecks::validate(const Variant& variant, const Driver& driver, StreamRef stream,
                            void* const* arguments) const {
    const bool is_default = stream.handle() == StreamRef::legacy_default().handle() ||
                            stream.handle() == StreamRef::per_thread_default().handle();
    if (stream.is_native() && !is_default)
        if (const std::string problem = driver.native_stream_problem(stream.handle()); !problem.empty())
            throw UsageError(variant.template_name() + " can't be launched: the stream " + problem + ".");
    const std::optional<Problem> problem = problem_of(variant, arguments);
    for (const Pointer& pointer : pointers_) {
        const std::string& name = variant.arguments()[pointer.argument].name;
        const Tensor* const tensor = tensor_of(problem, name);
        if (tensor != nullptr && tensor->count() == 0) continue;
        const auto* const address = *static_cast<const void* const*>(arguments[pointer.argument]);
        const std::string what =
            driver.pointer_problem(address, tensor == nullptr ? 1 : tensor->size_bytes());
        if (!what.empty())
            throw UsageError(argument_text(variant, name) + ", " +
                             hexadecimal(reinterpret_cast<std::uintptr_t>(address)) + ", " + what);
    }
}

}  // namespace kiln
