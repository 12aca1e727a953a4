// SPDX-License-Identifier: Apache-2.0
//
// Signature: what the caller of an operation passes, and how that becomes the arguments of one template's kernel,
// which may have them in another order, and scratch memory as well.
#pragma once

#include <kiln/operation.h>
#include <kiln/template.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln {

constexpr std::size_t kMostArguments = 32;  ///< of a kernel that an operation launches
constexpr std::size_t kMostSizes = 8;

/// The sizes of a shape in the order of the signature; the rest is zero.
using ShapeKey = std::array<std::int64_t, kMostSizes>;

class Signature {
  public:
    /// variant: any of the template that names the operation. Throws UsageError when it has too many arguments, or some
    /// that are neither sizes nor tensors.
    explicit Signature(const Variant& variant);

    const std::vector<OperationArgument>& arguments() const { return arguments_; }
    /// The sizes among the values that these pointers lead to.
    ShapeKey key(void* const* arguments) const noexcept {
        ShapeKey key{};
        for (std::size_t i = 0; i < size_count_; ++i) key[i] = read(sizes_[i], arguments);
        return key;
    }
    ShapeKey key(const Sizes& sizes) const;
    std::size_t size_count() const { return size_count_; }
    Sizes sizes(const ShapeKey& key) const;
    /// "m=64 n=64 k=128"
    std::string text(const ShapeKey& key) const;
    /// The place of a size in keys.
    std::optional<std::size_t> size_index(std::string_view name) const;
    std::optional<std::size_t> argument_index(std::string_view name) const;

  private:
    struct SizeArgumentPlace {
        std::size_t argument = 0;
        bool is_wide = false;  ///< 64 bits, else 32
        bool is_signed = true;
    };
    static std::int64_t read(const SizeArgumentPlace& place, void* const* arguments) noexcept {
        const void* const value = arguments[place.argument];
        if (place.is_wide) return *static_cast<const std::int64_t*>(value);
        return place.is_signed ? std::int64_t{*static_cast<const std::int32_t*>(value)}
                               : std::int64_t{*static_cast<const std::uint32_t*>(value)};
    }

    std::string name_;
    std::vector<OperationArgument> arguments_;
    std::array<SizeArgumentPlace, kMostSizes> sizes_;
    std::size_t size_count_ = 0;
};

/// Where one argument of a kernel comes from.
struct ArgumentSource {
    enum class Kind : std::uint8_t { passed, size, scratch };
    Kind kind = Kind::passed;
    std::uint8_t index = 0;  ///< of the signature's arguments, of the key, or of the scratch tensors
};

/// One scratch tensor of a variant, in bytes. Kernels leave what is to be zero as they found it.
struct ScratchPart {
    bool is_zero = false;
    std::size_t offset = 0;  ///< in the zero or in the other part of the workspace
};

/// How a variant is launched for one shape.
struct ArgumentPlan {
    std::vector<ArgumentSource> sources;  ///< one per argument of the kernel
    std::vector<ScratchPart> scratch;
    std::size_t zero_bytes = 0, plain_bytes = 0;  ///< of scratch
    std::size_t scratch_bytes() const { return zero_bytes + plain_bytes; }
    bool is_as_passed = false;  ///< the kernel's arguments are the signature's, in their order and types
    Dim3 grid;                  ///< of the first kernel
};

constexpr std::size_t kWorkspaceAlignment = 256;  // what cudaMalloc gives

/// Throws VariantError for sizes that the variant does not allow, and UsageError for arguments that the signature lacks.
ArgumentPlan argument_plan(const Signature& signature, const Variant& variant, const Sizes& sizes);

}  // namespace kiln
