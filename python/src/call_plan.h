// SPDX-License-Identifier: Apache-2.0
//
// CallPlan: how a call of Python becomes the arguments of a kernel. Made once per kernel:
//
//   argument   how it is given                                  what is checked
//   tensor     an array, by position or by name                 dtype, rank, extents, strides, device, writable
//   size       by name, or told by the arrays' extents          that it is what the arrays say
//   scalar     by position or by name                           its kind and range
//
// A plan knows how the template's extents follow from sizes (kiln/extents.h). An extent that is a size tells
// it, and one that is a product (kv_heads * group) tells the one that is still unknown; other extents
// (ceil_div(n, 64)) tell nothing. Once all sizes are known, every extent has to be what they make it. Those
// that are neither a size nor a constant are computed when a call comes with shapes that are new, and
// remembered.
#pragma once

#include <kiln/device.h>
#include <kiln/template.h>
#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "array.h"

namespace kiln::python {

constexpr std::size_t kMostCallArguments = ArrayViews::kMost;

/// One extent of a tensor.
struct Extent {
    enum class Kind : std::uint8_t { size, constant, computed };
    Kind kind = Kind::computed;
    std::int64_t value = 0;            ///< of a constant; of a size its place among the plan's sizes
    std::int64_t factor = 1;           ///< of a computed one that is a product
    std::vector<std::size_t> factors;  ///< the same: places of sizes; empty: it tells nothing
};

struct CallArgument {
    enum class Kind : std::uint8_t { size, integer, real, tensor };
    std::string name;
    std::string type;              ///< normalised: "int", "const half*"
    PyObject* interned = nullptr;  ///< the name; kept for ever
    Kind kind = Kind::tensor;
    DlDataType dtype;            ///< of a scalar, and of a tensor's elements
    bool is_known_type = false;  ///< else arrays of any dtype are taken
    bool is_written = false;     ///< the kernel may write to the tensor
    bool has_extents = false;    ///< else shapes are the caller's affair
    bool is_told = false;        ///< of a size: an extent is this size
    std::size_t size = 0;        ///< of a size: its place among the plan's sizes
    std::vector<Extent> extents;
    TensorRole role = TensorRole::input;
};

/// Values of one call, and pointers to them as launches take them.
struct CallArguments {
    std::array<std::uint64_t, kMostCallArguments> values;
    std::array<void*, kMostCallArguments> pointers;
    StreamRef stream{static_cast<void*>(nullptr)};
    void* workspace = nullptr;  ///< LaunchOptions::workspace
    std::size_t workspace_bytes = 0;
};

class CallPlan {
  public:
    /// variant: that is called. only: names of the arguments that are passed, in this order (Operation); empty: all.
    CallPlan(std::string name, const Variant& variant, const std::vector<std::string>& only, Backend backend,
             int device);

    const std::vector<CallArgument>& arguments() const { return arguments_; }
    const std::string& name() const { return name_; }

    /// Reads a call's arguments. own_stream: where work goes when neither the call nor the arrays' library
    /// names a stream. arrays: one more than there are arguments; kept by the caller until the launch is
    /// queued. Throws nanobind's exceptions that become TypeError and ValueError, and errors of Kiln.
    void read(CallArguments& call, ArrayViews& arrays, PyObject* args, PyObject* kwargs,
              StreamRef own_stream) const;

    /// The sizes that arrays of these shapes have; what `given` has is taken as it is.
    Sizes sizes_of(const std::map<std::string, std::vector<std::int64_t>>& shapes, const Sizes& given) const;

    /// Names of the sizes that these tensors tell, whatever their shapes are: those in products where the
    /// other factors are not 0.
    std::vector<std::string> told_by(const std::vector<std::string>& tensors) const;

    /// Of a size's place, in sets of them.
    static std::uint32_t bit_of(std::size_t size) { return std::uint32_t{1} << size; }

  private:
    using SizeValues = std::array<std::int64_t, kMostCallArguments>;

    void add_argument(const KernelArgument& declared, const Template& of);
    void find_extents();
    std::size_t place_of(PyObject* keyword) const;
    void read_array(const CallArgument& argument, ArrayView& array, PyObject* object, void* stream) const;
    void read_scalar(const CallArgument& argument, PyObject* object, std::uint64_t& value) const;
    void check_array(const CallArgument& argument, const ArrayView& array) const;
    void resolve(SizeValues& sizes, std::uint32_t& known, const ArrayViews& arrays) const;
    std::string key_of(const SizeValues& sizes, std::uint32_t known, const ArrayViews& arrays) const;
    void tell_factors(SizeValues& sizes, std::uint32_t& known, const ArrayViews& arrays) const;
    void check_computed(const SizeValues& sizes, const ArrayViews& arrays) const;
    [[noreturn]] void wrong_extent(const CallArgument& argument, const ArrayView& array, std::size_t axis,
                                   const std::string& expected) const;
    [[noreturn]] void fail_type(const CallArgument& argument, const std::string& what) const;
    [[noreturn]] void fail_value(const CallArgument& argument, const std::string& what) const;

    std::string name_;
    Variant variant_;
    Backend backend_;
    int device_;
    bool takes_workspace_;
    std::vector<CallArgument> arguments_;
    std::vector<std::size_t> sizes_;  ///< places of the sizes among the arguments
    bool has_computed_ = false;       ///< extents of kind computed

    struct Memory;
    std::shared_ptr<Memory> memory_;  ///< of shapes with computed extents
};

}  // namespace kiln::python
