// SPDX-License-Identifier: Apache-2.0
//
// kiln.Symbol: a __constant__ or __device__ variable of a kernel's module, copied from and to arrays in main memory.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "array.h"
#include "objects.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

struct PySymbol {
    ServicePtr service;  // before the symbol, so that it goes last
    AnySymbol symbol;
};

/// The bytes of an array in main memory, which must be as many as the variable has.
std::span<std::byte> bytes_of(const PySymbol& self, ArrayView& view, const nb::object& array,
                              bool is_written) {
    const std::string what = "the array for " + self.symbol.name();
    if (!view.read(array.ptr(), nullptr))
        throw nb::type_error((what + " is no array; it is a " +
                              nb::cast<std::string>(array.type().attr("__name__")) +
                              ", and NumPy arrays and others in main memory serve")
                                 .c_str());
    if (view.device_type != kDlCpu)
        throw nb::type_error((what + " is on " + view.device_text() +
                              "; it must be in main memory. An `input` line that names the variable takes "
                              "arrays of the device at each launch")
                                 .c_str());
    if (!view.is_contiguous())
        throw nb::type_error(
            (what + " has strides " + view.strides_text() + ", and must be contiguous").c_str());
    if (is_written && view.is_readonly) throw nb::type_error((what + " is read-only").c_str());
    std::size_t bytes = (view.dtype.bits * std::size_t{view.dtype.lanes} + 7) / 8;
    for (int i = 0; i < view.ndim; ++i) bytes *= static_cast<std::size_t>(view.shape[i]);
    if (bytes != self.symbol.size_bytes())
        throw UsageError(what + " has " + std::to_string(bytes) + " bytes (" + text(view.dtype) + ", shape " +
                         view.shape_text() + "), and the variable has " +
                         std::to_string(self.symbol.size_bytes()));
    return {static_cast<std::byte*>(view.data), bytes};
}

// The service's own is more than its handle: on the host it has none.
StreamRef stream_of(const PySymbol& self, const nb::object& stream) {
    void* const handle = stream_handle(stream.ptr());
    return handle == self.service->stream().handle() ? StreamRef(self.service->stream()) : StreamRef(handle);
}

void set(PySymbol& self, const nb::object& array, const nb::object& stream) {
    ArrayView view;
    const auto bytes = bytes_of(self, view, array, false);
    if (stream.is_none()) {
        const WithoutGil released;
        self.symbol.copy_from(bytes);
    } else {
        const StreamRef where = stream_of(self, stream);
        const WithoutGil released;
        self.symbol.copy_from_async(bytes, where);
    }
}

void get(const PySymbol& self, const nb::object& array, const nb::object& stream) {
    ArrayView view;
    const auto bytes = bytes_of(self, view, array, true);
    if (stream.is_none()) {
        const WithoutGil released;
        self.symbol.copy_to(bytes);
    } else {
        const StreamRef where = stream_of(self, stream);
        const WithoutGil released;
        self.symbol.copy_to_async(bytes, where);
    }
}

}  // namespace

void bind_symbol(nb::module_& module) {
    nb::class_<PySymbol>(module, "Symbol")
        .def_prop_ro("name", [](const PySymbol& self) { return self.symbol.name(); })
        .def_prop_ro("nbytes", [](const PySymbol& self) { return self.symbol.size_bytes(); })
        .def_prop_ro(
            "data", [](const PySymbol& self) { return reinterpret_cast<std::uintptr_t>(self.symbol.data()); })
        .def("set", &set, nb::arg("array"), nb::kw_only(), nb::arg("stream") = nb::none(),
             "Copies an array in main memory to the variable; with a stream as work of it, until which the "
             "array must live.")
        .def("get", &get, nb::arg("array"), nb::kw_only(), nb::arg("stream") = nb::none(),
             "Copies the variable into an array in main memory; with a stream as work of it.")
        .def("__repr__", [](const PySymbol& self) {
            return "<kiln.Symbol " + self.symbol.name() + ", " + std::to_string(self.symbol.size_bytes()) +
                   " bytes>";
        });
    nb::borrow<nb::class_<PyKernel>>(module.attr("Kernel"))
        .def(
            "symbol",
            [](const PyKernel& self, const std::string& name) {
                return PySymbol{self.service.get(), self.kernel.any_symbol(name)};
            },
            nb::arg("name"), "A __constant__ or __device__ variable, by the name that C++ has for it.");
}

}  // namespace kiln::python
