// SPDX-License-Identifier: Apache-2.0
//
// kiln.Kernel and kiln.Operation: what is called. Calls come through the type's own slot, past nanobind's dispatch.
#include <kiln/device.h>
#include <kiln/error.h>
#include <kiln/operation.h>
#include <kiln/tune.h>
#include <kiln/wisdom.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "errors.h"
#include "objects.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

void launch(const PyKernel& self, const CallArguments& call) {
    self.kernel.launch(call.stream, const_cast<void* const*>(call.pointers.data()));
}

void launch(const PyOperation& self, const CallArguments& call) {
    LaunchOptions options;
    StreamRef stream = call.stream;
    if (call.workspace != nullptr) {
        options.workspace = call.workspace;
        options.workspace_bytes = call.workspace_bytes;
        stream = stream.with(options);
    }
    self.operation->launch(stream, const_cast<void* const*>(call.pointers.data()));
}

bool is_same(void* stream, void* other) {
    void* const legacy = reinterpret_cast<void*>(std::uintptr_t{1});  // the default stream, as nullptr
    return stream == other ||
           ((stream == nullptr || stream == legacy) && (other == nullptr || other == legacy));
}

/// The call's stream waits for what is still to be written to arrays on other streams (__cuda_array_interface__).
void wait_for_producers(const Service& service, StreamRef stream, const ArrayViews& arrays,
                        std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        if (!arrays[i].has_producer || is_same(arrays[i].producer, stream.handle())) continue;
        Event written = service.device().event();
        written.record(StreamRef(arrays[i].producer));
        stream.wait(written);
    }
}

template <class T>
PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
    try {
        if (!nb::inst_ready(nb::handle(self))) throw nb::type_error("this object was not made by Kiln");
        const T& callee = *nb::inst_ptr<T>(nb::handle(self));
        ArrayViews arrays(callee.plan.arguments().size() + 1);
        CallArguments arguments;
        callee.plan.read(arguments, arrays, args, kwargs, StreamRef(callee.service->stream()));
        {
            const WithoutGil released;
            wait_for_producers(*callee.service, arguments.stream, arrays, callee.plan.arguments().size() + 1);
            launch(callee, arguments);
        }
        Py_INCREF(Py_None);
        return Py_None;
    } catch (nb::python_error& error) {
        error.restore();
    } catch (nb::builtin_exception& error) {
        PyErr_SetString(error.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_ValueError,
                        error.what());
    } catch (...) {
        if (!set_error(std::current_exception())) {
            try {
                throw;
            } catch (const std::exception& error) {
                PyErr_SetString(PyExc_RuntimeError, error.what());
            }
        }
    }
    return nullptr;
}

template <class T>
PyType_Slot call_slots[] = {{Py_tp_call, reinterpret_cast<void*>(&call<T>)}, {0, nullptr}};

WhenMissing when_missing_of(const std::string& text) {
    if (text == "build") return WhenMissing::build;
    if (text == "substitute") return WhenMissing::substitute;
    if (text == "fail") return WhenMissing::fail;
    throw UsageError("when_missing is \"" + text + "\"; it is \"build\", \"substitute\" or \"fail\"");
}

/// A variant that computes what the operation does, for its declaration: one with the fixed values, by Kiln's own rules
/// of which templates these are.
Variant declared(const Service& service, const Template& of, const Values& fixed) {
    const Chooser chooser(service, Wisdom());
    std::optional<Variant> found;
    for (const Template& one : chooser.candidates(of.for_target(service.target()), fixed)) {
        Values values;
        for (const auto& [name, value] : fixed)
            if (one.parameter(name) != nullptr) values.insert_or_assign(name, value);
        try {
            return one.variant(values);
        } catch (const VariantError&) {
            // its defaults do not go with these values: the next has others
        }
    }
    Values values;
    for (const auto& [name, value] : fixed)
        if (of.parameter(name) != nullptr) values.insert_or_assign(name, value);
    return of.for_target(service.target()).variant(values);
}

PyOperation make_operation(const nb::object& what, const nb::object& service, const std::string& when_missing,
                           bool reproducible, const nb::object& wisdom, const nb::dict& fixed_values) {
    ServicePtr owner = nb::isinstance<PyTemplate>(what) && service.is_none()
                           ? nb::cast<const PyTemplate&>(what).service.get()
                           : service_or_default(service).get();
    const Values fixed = values_of(fixed_values);
    OperationOptions options;
    options.when_missing = when_missing_of(when_missing);
    options.reproducible = reproducible;
    std::string family, wisdom_file;
    std::optional<Template> of;
    if (!wisdom.is_none()) wisdom_file = path_of(wisdom).string();
    if (nb::isinstance<PyTemplate>(what))
        of = nb::cast<const PyTemplate&>(what).of;
    else if (!nb::try_cast(what, family))
        throw nb::type_error("an operation is of a template, or of the name of one or of a family");
    std::unique_ptr<Operation> made;
    std::optional<Variant> variant;
    {
        const WithoutGil released;
        if (!wisdom_file.empty()) options.wisdom = Wisdom::load(wisdom_file);
        if (!of) of = find_family(*owner, family);
        made = std::make_unique<Operation>(*owner, *of, fixed, std::move(options));
        variant = declared(*owner, *of, fixed);
    }
    std::unique_ptr<Operation, DeleteWithoutGil> operation(made.release());
    std::vector<std::string> names;
    for (const OperationArgument& argument : operation->arguments()) names.push_back(argument.name);
    CallPlan plan(of->name(), *variant, names, owner->backend(), owner->device().info().ordinal);
    return PyOperation{std::move(owner), std::move(operation), std::move(plan)};
}

nb::dict explain(const PyOperation& self, const Sizes& sizes) {
    const OperationPlan plan = [&] {
        const WithoutGil released;
        return self.operation->explain(sizes);
    }();
    nb::dict result;
    result["variant"] = plan.choice.variant.text();
    result["origin"] = std::string(name(plan.choice.origin));
    result["best_ms"] = plan.best_ms ? nb::cast(*plan.best_ms) : nb::object(nb::none());
    result["built"] = plan.built;
    result["launched"] = plan.launched ? nb::cast(plan.launched->text()) : nb::object(nb::none());
    result["workspace_bytes"] = plan.workspace_bytes;
    result["text"] = plan.text();
    return result;
}

}  // namespace

void bind_kernel(nb::module_& module) {
    nb::class_<PyKernel>(module, "Kernel", nb::type_slots(call_slots<PyKernel>), nb::is_weak_referenceable())
        .def_prop_ro("variant",
                     [](const PyKernel& self) {
                         return PyVariant{self.service, self.kernel.variant()};
                     })
        .def_prop_ro("service", [](const PyKernel& self) { return PyService{self.service}; })
        .def_prop_ro("info",
                     [](const PyKernel& self) { return dict_of(self.kernel.info(), self.kernel.origin()); })
        .def_prop_ro("arguments", [](const PyKernel& self) { return arguments_of(self.plan); })
        .def_prop_ro("function_handle",
                     [](const PyKernel& self) {
                         return reinterpret_cast<std::uintptr_t>(self.kernel.function_handle());
                     })
        .def(
            "sizes_of",
            [](const PyKernel& self, const Shapes& shapes, const nb::kwargs& given) {
                return dict_of(self.plan.sizes_of(shapes, sizes_of(given)));
            },
            nb::arg("shapes"), nb::arg("given"),
            "The sizes that tensors of these shapes have, by their names.")
        .def("__repr__",
             [](const PyKernel& self) { return "<kiln.Kernel " + self.kernel.variant().text() + ">"; });
}

void bind_operation(nb::module_& module) {
    nb::class_<PyOperation>(module, "Operation", nb::type_slots(call_slots<PyOperation>),
                            nb::is_weak_referenceable())
        .def_prop_ro("name", [](const PyOperation& self) { return self.plan.name(); })
        .def_prop_ro("service", [](const PyOperation& self) { return PyService{self.service}; })
        .def_prop_ro("arguments", [](const PyOperation& self) { return arguments_of(self.plan); })
        .def(
            "prepare",
            [](const PyOperation& self, const nb::object& stream, const nb::kwargs& sizes) {
                const Sizes shape = sizes_of(sizes);
                std::optional<StreamRef> where;
                if (!stream.is_none()) where = StreamRef(stream_handle(stream.ptr()));
                const WithoutGil released;
                if (where)
                    self.operation->prepare(std::span(&shape, 1), *where);
                else
                    self.operation->prepare(shape);
            },
            nb::arg("stream") = nb::none(), nb::arg("sizes"),
            "Chooses and builds for these sizes; with a stream, gets its workspace too, so that a capture "
            "finds all.")
        .def(
            "explain",
            [](const PyOperation& self, const nb::kwargs& sizes) { return explain(self, sizes_of(sizes)); },
            "Which variant these sizes get, and why.")
        .def(
            "workspace_bytes",
            [](const PyOperation& self, const nb::kwargs& sizes) {
                const Sizes shape = sizes_of(sizes);
                const WithoutGil released;
                return self.operation->workspace_bytes(shape);
            },
            "The scratch memory of the variant that these sizes get.")
        .def(
            "wait",
            [](const PyOperation& self) {
                const WithoutGil released;
                self.operation->wait();
            },
            "Waits until nothing is left to be built in the background.")
        .def(
            "tune_pending",
            [](const PyOperation& self, double seconds) {
                const WithoutGil released;
                return self.operation->tune_pending(std::chrono::duration<double>(seconds)).text();
            },
            nb::arg("seconds"),
            "Tunes shapes that calls had and wisdom lacks; returns what was found as a wisdom file.")
        .def(
            "sizes_of",
            [](const PyOperation& self, const Shapes& shapes, const nb::kwargs& given) {
                return dict_of(self.plan.sizes_of(shapes, sizes_of(given)));
            },
            nb::arg("shapes"), nb::arg("given"),
            "The sizes that tensors of these shapes have, by their names.")
        .def("__repr__", [](const PyOperation& self) { return "<kiln.Operation " + self.plan.name() + ">"; });
    module.def(
        "_stream_handle",
        [](const nb::object& stream) {
            return reinterpret_cast<std::uintptr_t>(stream_handle(stream.ptr()));
        },
        nb::arg("stream"));
    module.def("_operation", &make_operation, nb::arg("what"), nb::arg("service").none(),
               nb::arg("when_missing"), nb::arg("reproducible"), nb::arg("wisdom").none(), nb::arg("values"));
}

}  // namespace kiln::python
