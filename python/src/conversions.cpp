// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "objects.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

/// "float16" of "torch.float16", numpy.dtype("float16") and numpy.float16.
std::string type_text(nb::handle object) {
    for (const char* attribute : {"__name__", "name"})
        if (nb::hasattr(object, attribute)) {
            const nb::object name = object.attr(attribute);
            if (nb::isinstance<nb::str>(name)) return nb::cast<std::string>(name);
        }
    std::string text = nb::cast<std::string>(nb::str(object));
    return text.substr(text.rfind('.') + 1);
}

Value value_of(nb::handle object) {
    if (PyBool_Check(object.ptr())) return Value(object.ptr() == Py_True);
    if (PyLong_Check(object.ptr())) return Value(nb::cast<long long>(object));
    if (PyFloat_Check(object.ptr())) return Value(nb::cast<double>(object));
    if (nb::isinstance<nb::str>(object)) return Value(nb::cast<std::string>(object));
    return Value(type_text(object));
}

}  // namespace

std::filesystem::path path_of(nb::handle object) {
    PyObject* bytes = nullptr;
    if (PyUnicode_FSConverter(object.ptr(), &bytes) == 0) nb::raise_python_error();
    const nb::object owner = nb::steal(bytes);
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) != 0) nb::raise_python_error();
    return std::string(data, static_cast<std::size_t>(size));
}

Values values_of(const nb::dict& values) {
    Values result;
    for (auto [name, value] : values) result.insert_or_assign(nb::cast<std::string>(name), value_of(value));
    return result;
}

nb::dict dict_of(const Values& values) {
    nb::dict result;
    for (const auto& [name, value] : values) {
        const nb::str key(name.c_str());
        if (value.is_int())
            result[key] = value.as_int();
        else if (value.is_bool())
            result[key] = value.as_bool();
        else if (value.is_float())
            result[key] = value.as_float();
        else if (value.is_code())
            result[key] = value.as_code().body();
        else
            result[key] = value.as_type();
    }
    return result;
}

Sizes sizes_of(const nb::dict& sizes) {
    Sizes result;
    for (auto [name, value] : sizes) result[nb::cast<std::string>(name)] = nb::cast<std::int64_t>(value);
    return result;
}

nb::dict dict_of(const Sizes& sizes) {
    nb::dict result;
    for (const auto& [name, value] : sizes) result[name.c_str()] = value;
    return result;
}

nb::dict dict_of(const BuildInfo& info, Origin origin) {
    nb::dict result;
    result["origin"] = std::string(name(origin));
    result["key"] = info.key.digest;
    result["compiler"] = info.compiler;
    result["log"] = info.log;
    result["build_ms"] = info.build_ms;
    result["load_ms"] = info.load_ms;
    const auto or_none = [](const auto& value) { return value ? nb::cast(*value) : nb::object(nb::none()); };
    result["registers"] = or_none(info.registers);
    result["blocks_per_multiprocessor"] = or_none(info.blocks_per_multiprocessor);
    result["local_bytes"] = or_none(info.local_bytes);
    result["static_shared_bytes"] = info.static_shared_bytes;
    result["dynamic_shared_bytes"] = info.dynamic_shared_bytes;
    return result;
}

nb::tuple tuple_of(const Dim3& extents) { return nb::make_tuple(extents.x, extents.y, extents.z); }

nb::list arguments_of(const CallPlan& plan) {
    std::vector<std::string> sizes;
    for (const CallArgument& argument : plan.arguments())
        if (argument.kind == CallArgument::Kind::size) sizes.push_back(argument.name);
    nb::list result;
    for (const CallArgument& argument : plan.arguments()) {
        nb::dict one;
        one["name"] = argument.name;
        one["type"] = argument.type;
        one["dtype"] = argument.is_known_type ? nb::cast(text(argument.dtype)) : nb::object(nb::none());
        switch (argument.kind) {
            case CallArgument::Kind::size:
                one["kind"] = "size";
                one["is_told"] = argument.is_told;
                break;
            case CallArgument::Kind::integer:
            case CallArgument::Kind::real:
                one["kind"] = "scalar";
                break;
            case CallArgument::Kind::tensor: {
                constexpr const char* kRoles[] = {"input", "output", "inout", "scratch"};
                one["kind"] = kRoles[static_cast<int>(argument.role)];
                nb::list extents;
                for (const Extent extent : argument.extents) {
                    if (extent.kind == Extent::Kind::size)
                        extents.append(nb::str(sizes[static_cast<std::size_t>(extent.value)].c_str()));
                    else if (extent.kind == Extent::Kind::constant)
                        extents.append(extent.value);
                    else
                        extents.append(nb::none());
                }
                one["extents"] =
                    argument.has_extents ? nb::object(nb::tuple(extents)) : nb::object(nb::none());
                break;
            }
        }
        result.append(one);
    }
    return result;
}

ServicePtr service_or_default(const nb::object& service) {
    const nb::object chosen =
        service.is_none() ? nb::module_::import_("kiln._services").attr("default_service")() : service;
    return nb::cast<const PyService&>(chosen).service;
}

}  // namespace kiln::python
