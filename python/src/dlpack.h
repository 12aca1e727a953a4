// SPDX-License-Identifier: Apache-2.0
//
// The C structures of DLPack 1.3 that Kiln reads: tensors as other libraries export them, and the table of functions with
// which a library gives a view of a tensor, and its current stream, without a call of Python. Layouts are those of
// https://dmlc.github.io/dlpack/latest/c_api.html.
#pragma once

#include <cstdint>

namespace kiln::python {

enum DlDevice : std::int32_t {
    kDlCpu = 1,
    kDlCuda = 2,
    kDlCudaHost = 3,
    kDlRocm = 10,
    kDlRocmHost = 11,
    kDlCudaManaged = 13,
};

enum DlCode : std::uint8_t {
    kDlInt = 0,
    kDlUint = 1,
    kDlFloat = 2,
    kDlBfloat = 4,
    kDlComplex = 5,
    kDlBool = 6
};

struct DlDataType {
    std::uint8_t code = 0;
    std::uint8_t bits = 0;
    std::uint16_t lanes = 1;

    bool operator==(const DlDataType&) const = default;
};

struct DlTensor {
    void* data;
    std::int32_t device_type;
    std::int32_t device_id;
    std::int32_t ndim;
    DlDataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements; null: row-major without gaps
    std::uint64_t byte_offset;
};

struct DlVersion {
    std::uint32_t major, minor;
};

/// In a capsule "dltensor".
struct DlManagedTensor {
    DlTensor tensor;
    void* manager;
    void (*deleter)(DlManagedTensor*);
};

constexpr std::uint64_t kDlReadOnly = 1;

/// In a capsule "dltensor_versioned".
struct DlManagedTensorVersioned {
    DlVersion version;
    void* manager;
    void (*deleter)(DlManagedTensorVersioned*);
    std::uint64_t flags;
    DlTensor tensor;
};

/// In a capsule "dlpack_exchange_api", the attribute __dlpack_c_exchange_api__ of an array's type. Functions return 0, or
/// -1 with a Python exception set.
struct DlExchangeApi {
    DlVersion version;
    DlExchangeApi* previous;
    int (*allocate)(DlTensor* prototype, DlManagedTensorVersioned** out, void* error_context,
                    void (*set_error)(void* error_context, const char* kind, const char* message));
    int (*managed_from_object)(void* object, DlManagedTensorVersioned** out);
    int (*object_from_managed)(DlManagedTensorVersioned* tensor, void** out);
    int (*view_of_object)(void* object, DlTensor* out);  // may be null
    int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};

}  // namespace kiln::python
