// SPDX-License-Identifier: Apache-2.0
//
// The objects that Python holds: handles of the library's classes, each with the service that it needs.
#pragma once

#include <kiln/kernel.h>
#include <kiln/operation.h>
#include <kiln/service.h>
#include <nanobind/nanobind.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "call_plan.h"
#include "gil.h"

namespace kiln::python {

/// A service that was opened in Python.
struct OpenService : Service {
    using Service::Service;
    std::weak_ptr<nanobind::dict> operations;  ///< of its handles
};

using ServicePtr = std::shared_ptr<OpenService>;

/// A service, and the operations that python/kiln/operations.py has made for it, which end with the last
/// handle. Operations hold the service alone, so that they do not keep themselves. Made, copied and destroyed
/// with the GIL.
class ServiceHandle {
  public:
    ServiceHandle(ServicePtr service);

    Service& operator*() const { return *service_; }
    Service* operator->() const { return service_.get(); }
    const ServicePtr& get() const { return service_; }
    const nanobind::dict& operations() const { return *operations_; }

  private:
    ServicePtr service_;
    std::shared_ptr<nanobind::dict> operations_;
};

struct PyService {
    ServiceHandle service;
};

struct PyTemplate {
    ServiceHandle service;
    Template of;
};

struct PyVariant {
    ServiceHandle service;
    Variant variant;
};

struct PyKernel {
    ServiceHandle service;  // before the kernel, so that it goes last
    AnyKernel kernel;
    CallPlan plan;
};

/// Waits for threads of its own, which may call back into Python.
struct DeleteWithoutGil {
    void operator()(Operation* operation) const {
        if (!Py_IsInitialized()) {
            delete operation;
            return;
        }
        const WithoutGil released;
        delete operation;
    }
};

struct PyOperation {
    ServicePtr service;
    std::unique_ptr<Operation, DeleteWithoutGil> operation;
    CallPlan plan;
};

/// Of keyword arguments or a dictionary: integers (__index__), booleans, floats (__float__), strings, names
/// of types; also dtypes of NumPy and PyTorch, and numbers in arrays without dimensions. Throws TypeError for
/// others, and ValueError for integers beyond 64 bits; both name the parameter.
Values values_of(const nanobind::dict& values);
nanobind::dict dict_of(const Values& values);
/// Of integers. Throws as values_of.
Sizes sizes_of(const nanobind::dict& sizes);
nanobind::dict dict_of(const Sizes& sizes);
/// {"registers": 32, ...}
nanobind::dict dict_of(const BuildInfo& info, Origin origin);
nanobind::tuple tuple_of(const Dim3& extents);

/// Name, type and extents of each argument; of extents the name of a size, a number, or None where it is computed.
nanobind::list arguments_of(const CallPlan& plan);
/// Of tensors, by their names.
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// A string of Python as UTF-8. Throws TypeError for other objects, ValueError for lone surrogates; what:
/// names it.
std::string text_of(nanobind::handle string, const std::string& what);
/// Of a string, bytes or an object with __fspath__; else throws TypeError.
std::filesystem::path path_of(nanobind::handle object);

/// The service, or the default one of python/kiln/_services.py where it is None. Throws TypeError for other
/// objects.
ServiceHandle service_or_default(const nanobind::object& service);

void bind_service(nanobind::module_& module);
void bind_template(nanobind::module_& module);
void bind_kernel(nanobind::module_& module);
/// After bind_kernel().
void bind_symbol(nanobind::module_& module);
void bind_operation(nanobind::module_& module);
void bind_tools(nanobind::module_& module);

}  // namespace kiln::python
