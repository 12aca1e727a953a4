// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "objects.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

constexpr const char* kWanted = "a number, a bool, a string or a type";

/// repr(object) and its type, for messages. Python's own error is dropped.
std::string described(nb::handle object) {
    PyErr_Clear();
    constexpr std::size_t kMost = 80;
    const nb::object repr = nb::steal(PyObject_ASCII(object.ptr()));
    if (!repr.is_valid()) PyErr_Clear();
    std::string text = repr.is_valid() ? nb::cast<std::string>(repr) : "?";
    if (text.size() > kMost) text = text.substr(0, kMost) + "...";
    return text + " of the type " + nb::cast<std::string>(nb::str(nb::inst_name(object)));
}

[[noreturn]] void fail_type(const std::string& name, nb::handle object, const char* wanted) {
    throw nb::type_error((name + " is " + described(object) + ", and has to be " + wanted).c_str());
}

/// The integer of an object with __index__.
long long integer_of(const std::string& name, nb::handle object) {
    const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
    if (!index.is_valid()) fail_type(name, object, "an integer");
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0)
        throw nb::value_error((name + " is " + described(index) + ", which does not fit 64 bits").c_str());
    return value;
}

/// "float16" of numpy.float16, numpy.dtype("float16") and torch.float16; empty for what is neither a type nor
/// a dtype.
std::string type_text(nb::handle object) {
    if (PyType_Check(object.ptr()) != 0) return nb::cast<std::string>(object.attr("__name__"));
    if (is_of(object, "numpy", "dtype")) return nb::cast<std::string>(object.attr("name"));
    if (!is_of(object, "torch", "dtype")) return {};
    const std::string text = nb::cast<std::string>(nb::str(object));
    return text.substr(text.rfind('.') + 1);
}

/// Of NumPy's scalars, and of arrays without dimensions, what Python has for them; else the object itself.
nb::object without_array(const std::string& name, nb::handle object) {
    if (!nb::hasattr(object, "ndim") || !nb::hasattr(object, "item")) return nb::borrow(object);
    if (!nb::object(object.attr("ndim")).equal(nb::int_(0)) || is_masked(object))
        fail_type(name, object, kWanted);
    return object.attr("item")();
}

Value value_of(const std::string& name, nb::handle given) {
    if (std::string type = type_text(given); !type.empty()) return Value(std::move(type));
    const nb::object object = without_array(name, given);
    if (PyBool_Check(object.ptr())) return Value(object.ptr() == Py_True);
    if (nb::isinstance<nb::str>(object)) return Value(text_of(object, name));
    if (PyIndex_Check(object.ptr()) != 0) return Value(integer_of(name, object));
    if (PyFloat_Check(object.ptr()) == 0 && !nb::hasattr(object, "__float__"))
        fail_type(name, given, kWanted);
    const double value = PyFloat_AsDouble(object.ptr());
    if (PyErr_Occurred() != nullptr) fail_type(name, given, "a number that a float can hold");
    return Value(value);
}

}  // namespace

std::string text_of(nb::handle string, const std::string& what) {
    if (!nb::isinstance<nb::str>(string)) fail_type(what, string, "a string");
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(string.ptr(), &size);
    if (text == nullptr) {
        PyErr_Clear();
        throw nb::value_error((what + " has lone surrogates, which are no characters").c_str());
    }
    return {text, static_cast<std::size_t>(size)};
}

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
    for (auto [key, value] : values) {
        const std::string name = text_of(key, "the name of a parameter");
        result.insert_or_assign(name, value_of(name, value));
    }
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
    for (auto [key, value] : sizes) {
        const std::string name = text_of(key, "the name of a size");
        result[name] = integer_of("the size '" + name + "'", value);
    }
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
                for (const Extent& extent : argument.extents) {
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

ServiceHandle service_or_default(const nb::object& service) {
    const nb::object chosen =
        service.is_none() ? nb::module_::import_("kiln._services").attr("default_service")() : service;
    if (!nb::isinstance<PyService>(chosen)) fail_type("service", chosen, "a kiln.Service");
    return nb::cast<const PyService&>(chosen).service;
}

}  // namespace kiln::python
