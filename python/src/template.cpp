// SPDX-License-Identifier: Apache-2.0
//
// kiln.Template and kiln.Variant
#include <kiln/service.h>
#include <kiln/template.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <utility>

#include "objects.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

using HeaderDict = std::map<std::string, std::string>;

/// A string with a line break is a template's text. A path object, or a string that ends in .cu, is a file; any other string
/// the name of a template that the service knows.
Template open(const Service& service, const nb::object& source, const std::string& file,
              const HeaderDict& headers) {
    if (nb::isinstance<PyTemplate>(source))
        return nb::cast<const PyTemplate&>(source).of.for_target(service.target());
    if (!nb::isinstance<nb::str>(source)) return Template::load(path_of(source)).for_target(service.target());
    const std::string text = text_of(source, "the template's source");
    if (text.find('\n') != std::string::npos) {
        std::vector<Header> list;
        for (const auto& [name, content] : headers) list.push_back({name, content});
        return service.parse(text, file, std::move(list));
    }
    if (text.ends_with(".cu")) return Template::load(text).for_target(service.target());
    return service.find(text);
}

nb::list parameters_of(const Template& of) {
    nb::list result;
    for (const Parameter& parameter : of.parameters()) {
        nb::dict one;
        one["name"] = parameter.name;
        one["kind"] = std::string(name(parameter.kind));
        one["allowed"] = parameter.allowed_text();
        one["default"] = parameter.default_text();
        one["text"] = parameter.text;
        result.append(one);
    }
    return result;
}

/// Values as Python has them, of whichever types they are given.
nb::dict plain_values(const nb::dict& values) { return dict_of(values_of(values)); }

nb::dict problem_of(const Variant& variant, const Sizes& sizes, bool test) {
    const Problem problem = variant.problem(sizes, test);
    nb::dict result;
    result["sizes"] = dict_of(problem.sizes);
    nb::list tensors;
    for (const Tensor& tensor : problem.tensors) {
        nb::dict one;
        one["name"] = tensor.name;
        one["type"] = tensor.type;
        const auto dtype = dtype_of(tensor.type);
        one["dtype"] = dtype ? nb::cast(text(*dtype)) : nb::object(nb::none());
        nb::list shape;
        for (const std::int64_t extent : tensor.extents) shape.append(extent);
        one["shape"] = nb::tuple(shape);
        one["role"] = std::string(name(tensor.role));
        tensors.append(one);
    }
    result["tensors"] = tensors;
    result["flops"] = problem.flops;
    result["bytes"] = problem.bytes;
    return result;
}

CallPlan plan_of(const PyVariant& self) {
    return CallPlan(self.variant.template_name(), self.variant, {}, self.service->backend(),
                    self.service->has_device() ? self.service->device().info().ordinal : 0);
}

PyKernel build(const PyVariant& self, bool in_worker) {
    AnyKernel kernel;
    {
        const WithoutGil released;
        if (in_worker) self.service->compile_async(self.variant).get();
        kernel = self.service->build(self.variant);
    }
    return PyKernel{self.service, kernel, plan_of(self)};
}

}  // namespace

void bind_template(nb::module_& module) {
    module.def("_plain_values", &plain_values, nb::arg("values"));
    nb::class_<PyTemplate>(module, "Template")
        .def(
            "__init__",
            [](PyTemplate* self, const nb::object& source, const nb::object& service, const std::string& file,
               const HeaderDict& headers) {
                ServiceHandle owner = service_or_default(service);
                Template of = open(*owner, source, file, headers);
                new (self) PyTemplate{std::move(owner), std::move(of)};
            },
            nb::arg("source"), nb::kw_only(), nb::arg("service") = nb::none(),
            nb::arg("file") = "template.cu", nb::arg("headers") = HeaderDict(),
            "A template from its text, from a .cu file, or by the name of a built-in one.")
        .def(
            "variant",
            [](const PyTemplate& self, const nb::kwargs& values) {
                return PyVariant{self.service, self.of.variant(values_of(values))};
            },
            "A variant with these values, defaults for the rest.")
        .def(
            "variants",
            [](const PyTemplate& self, const nb::kwargs& fixed) {
                const Values values = values_of(fixed);
                std::vector<Variant> found;
                {
                    const WithoutGil released;
                    found = self.of.variants(values);
                }
                std::vector<PyVariant> result;
                for (Variant& one : found) result.push_back({self.service, std::move(one)});
                return result;
            },
            "Every legal variant that has these values.")
        .def_prop_ro("name", [](const PyTemplate& self) { return self.of.name(); })
        .def_prop_ro("summary", [](const PyTemplate& self) { return self.of.summary(); })
        .def_prop_ro("file", [](const PyTemplate& self) { return self.of.file(); })
        .def_prop_ro("parameters", [](const PyTemplate& self) { return parameters_of(self.of); })
        .def_prop_ro("service", [](const PyTemplate& self) { return PyService{self.service}; })
        .def("__repr__", [](const PyTemplate& self) { return "<kiln.Template " + self.of.name() + ">"; });

    nb::class_<PyVariant>(module, "Variant")
        .def_prop_ro("template",
                     [](const PyVariant& self) {
                         return PyTemplate{self.service, self.variant.origin()};
                     })
        .def_prop_ro("service", [](const PyVariant& self) { return PyService{self.service}; })
        .def_prop_ro("values", [](const PyVariant& self) { return dict_of(self.variant.values()); })
        .def_prop_ro("text", [](const PyVariant& self) { return self.variant.text(); })
        .def_prop_ro("block", [](const PyVariant& self) { return tuple_of(self.variant.block()); })
        .def_prop_ro("arguments",
                     [](const PyVariant& self) {
                         nb::list result;
                         for (const KernelArgument& argument : self.variant.arguments())
                             result.append(nb::make_tuple(argument.name, argument.type));
                         return result;
                     })
        .def_prop_ro("_signature", [](const PyVariant& self) { return arguments_of(plan_of(self)); })
        .def(
            "sizes_of",
            [](const PyVariant& self, const Shapes& shapes, const nb::kwargs& given) {
                return dict_of(plan_of(self).sizes_of(shapes, sizes_of(given)));
            },
            nb::arg("shapes"), nb::arg("given"),
            "The sizes that tensors of these shapes have, by their names.")
        .def(
            "_told_by",
            [](const PyVariant& self, const std::vector<std::string>& tensors) {
                return plan_of(self).told_by(tensors);
            },
            nb::arg("tensors"), "The sizes that shapes of these tensors tell.")
        .def(
            "build", [](const PyVariant& self) { return build(self, false); },
            "A callable kernel: from memory, from the cache, or compiled.")
        .def("_build_in_worker", [](const PyVariant& self) { return build(self, true); })
        .def(
            "source",
            [](const PyVariant& self) {
                const WithoutGil released;
                return self.service->source(self.variant).text;
            },
            "What the compiler is given.")
        .def(
            "problem",
            [](const PyVariant& self, bool test, const nb::kwargs& sizes) {
                return problem_of(self.variant, sizes_of(sizes), test);
            },
            nb::arg("test") = false, nb::arg("sizes"),
            "Sizes and tensors of a launch; sizes that are not given have their defaults.")
        .def("__eq__",
             [](const PyVariant& self, const nb::object& other) {
                 return nb::isinstance<PyVariant>(other) &&
                        nb::cast<const PyVariant&>(other).variant == self.variant;
             })
        .def("__hash__", [](const PyVariant& self) { return self.variant.hash() >> 1; })
        .def("__repr__", [](const PyVariant& self) { return "<kiln.Variant " + self.variant.text() + ">"; });
}

}  // namespace kiln::python
