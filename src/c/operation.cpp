// SPDX-License-Identifier: Apache-2.0
//
// kiln_operation.
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "c/call.h"
#include "c/handle.h"
#include "format/format.h"

namespace kiln::c_api {
namespace {

OperationOptions operation_options_of(const kiln_operation_options* options) {
    const kiln_operation_options known = given(options, "kiln_operation_options");
    OperationOptions result;
    if (known.when_missing < KILN_WHEN_MISSING_BUILD || known.when_missing > KILN_WHEN_MISSING_FAIL)
        throw Misuse(formatted(
            "when_missing is {}, and may be KILN_WHEN_MISSING_BUILD (0), _SUBSTITUTE (1) or _FAIL (2)",
            known.when_missing));
    result.when_missing = static_cast<WhenMissing>(known.when_missing);
    result.reproducible = known.reproducible != 0;
    if (known.max_shapes != 0) result.max_shapes = known.max_shapes;
    if (known.max_streams != 0) result.max_streams = known.max_streams;
    if (known.wisdom_file != nullptr) result.wisdom = Wisdom::load(known.wisdom_file);
    if ((known.allocate == nullptr) != (known.release == nullptr))
        throw Misuse("allocate and release must be given both or neither");
    if (known.allocate != nullptr) {
        result.allocator.allocate = [call = known.allocate, user = known.allocator_user](std::size_t bytes,
                                                                                         StreamRef stream) {
            return call(user, bytes, stream.handle());
        };
        result.allocator.release = [call = known.release, user = known.allocator_user](
                                       void* memory, std::size_t bytes, StreamRef stream) {
            call(user, memory, bytes, stream.handle());
        };
    }
    return result;
}

const char* role_of(const OperationArgument& argument) {
    return argument.is_size ? "size" : name(argument.role).data();
}

std::vector<Sizes> shapes_of(const kiln_shape* shapes, std::size_t count) {
    array(shapes, count, "shapes");
    std::vector<Sizes> result;
    for (std::size_t i = 0; i < count; ++i) result.push_back(sizes_of(shapes[i].sizes, shapes[i].count));
    return result;
}

/// Of a name or of a template.
template <class Of>
kiln_operation* make_operation(kiln_service* service, const Of& of, const kiln_value* values,
                               std::size_t count, const kiln_operation_options* options) {
    const std::shared_ptr<Service>& shared = object(service).service;
    return make<kiln_operation>(
        {shared, Operation(*shared, of, values_of(values, count), operation_options_of(options))});
}

}  // namespace
}  // namespace kiln::c_api

using namespace kiln::c_api;

kiln_status kiln_operation_create(kiln_service* service, const char* name, const kiln_value* values,
                                  size_t count, const kiln_operation_options* options,
                                  kiln_operation** operation) {
    return guarded(__func__, [&] {
        kiln_operation*& place = out(operation, "operation");
        place = make_operation(service, std::string(in(name, "name")), values, count, options);
    });
}

kiln_status kiln_operation_create_of(kiln_service* service, const kiln_template* handle,
                                     const kiln_value* values, size_t count,
                                     const kiln_operation_options* options, kiln_operation** operation) {
    return guarded(__func__, [&] {
        kiln_operation*& place = out(operation, "operation");
        place = make_operation(service, object(handle).value, values, count, options);
    });
}

kiln_status kiln_operation_destroy(kiln_operation* operation) {
    return guarded(__func__, [&] { destroy(operation); });
}

kiln_status kiln_operation_arguments(const kiln_operation* operation, kiln_argument_function each,
                                     void* user) {
    return guarded(__func__, [&] {
        in(each, "each");
        for (const kiln::OperationArgument& argument : object(operation).value.arguments())
            each(user, argument.name.c_str(), argument.type.c_str(), role_of(argument));
    });
}

kiln_status kiln_operation_prepare(const kiln_operation* operation, const kiln_shape* shapes, size_t count) {
    return guarded(__func__, [&] { object(operation).value.prepare(shapes_of(shapes, count)); });
}

kiln_status kiln_operation_prepare_on(const kiln_operation* operation, const kiln_shape* shapes, size_t count,
                                      void* stream) {
    return guarded(__func__, [&] {
        object(operation).value.prepare(shapes_of(shapes, count), kiln::StreamRef(stream));
    });
}

kiln_status kiln_operation_workspace(const kiln_operation* operation, const kiln_size* sizes, size_t count,
                                     size_t* bytes) {
    return guarded(__func__, [&] {
        *in(bytes, "bytes") = 0;
        *bytes = object(operation).value.workspace_bytes(sizes_of(sizes, count));
    });
}

kiln_status kiln_operation_launch(const kiln_operation* operation, void* stream,
                                  const kiln_launch_options* options, void* const* arguments, size_t count) {
    return guarded(__func__, [&] {
        const kiln::Operation& of = object(operation).value;
        check_count("the operation", count, of.arguments().size());
        check_arguments(arguments, count);
        of.launch(StreamWithOptions(stream, options), arguments);
    });
}

kiln_status kiln_operation_launch_named(const kiln_operation* operation, void* stream,
                                        const kiln_launch_options* options, const kiln_size* sizes,
                                        size_t size_count, const kiln_tensor* tensors, size_t tensor_count) {
    return guarded(__func__, [&] {
        const kiln::Operation& of = object(operation).value;
        array(tensors, tensor_count, "tensors");
        kiln::TensorPointers pointers;
        for (size_t i = 0; i < tensor_count; ++i)
            if (!pointers.emplace(in(tensors[i].name, "the name of a tensor"), tensors[i].data).second)
                throw Misuse(std::string("the tensor ") + tensors[i].name + " is given twice");
        of(StreamWithOptions(stream, options), sizes_of(sizes, size_count), pointers);
    });
}

kiln_status kiln_operation_explain(const kiln_operation* operation, const kiln_size* sizes, size_t count,
                                   kiln_plan* plan) {
    return guarded(__func__, [&] {
        static thread_local LastResult keep;
        const kiln::Operation& of = object(operation).value;
        check_result(plan, "kiln_plan");
        const kiln::OperationPlan made = of.explain(sizes_of(sizes, count));
        keep.clear();
        fill(plan,
             {sizeof(kiln_plan), keep(made.choice.variant.text()), name(made.choice.origin).data(),
              made.best_ms.value_or(-1), made.built, keep(made.launched ? made.launched->text() : ""),
              made.workspace_bytes, keep(made.failure), keep(made.text())},
             "kiln_plan");
    });
}

kiln_status kiln_operation_usage(const kiln_operation* operation, kiln_operation_usage_info* usage) {
    return guarded(__func__, [&] {
        const kiln::OperationUsage now = object(operation).value.usage();
        fill(usage,
             {sizeof(kiln_operation_usage_info), now.shapes, now.substituted, now.pending, now.streams,
              now.workspace_bytes},
             "kiln_operation_usage_info");
    });
}

kiln_status kiln_operation_wait(const kiln_operation* operation) {
    return guarded(__func__, [&] { object(operation).value.wait(); });
}

kiln_status kiln_operation_tune(const kiln_operation* operation, double seconds, const char* wisdom_file) {
    return guarded(__func__, [&] {
        const kiln::Operation& of = object(operation).value;
        if (!(seconds >= 0))
            throw Misuse(kiln::formatted("seconds is {:f}, and may not be negative", seconds));
        const kiln::Wisdom found = of.tune_pending(std::chrono::duration<double>(seconds));
        if (wisdom_file != nullptr) kiln::Wisdom::store(wisdom_file, found);
    });
}

kiln_status kiln_operation_release(const kiln_operation* operation) {
    return guarded(__func__, [&] { object(operation).value.release(); });
}
