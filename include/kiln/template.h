// SPDX-License-Identifier: Apache-2.0
//
// Template: a parsed .cu file with its front matter. Variant: a template with validated values.
// Both are cheap handles on immutable shared data: copy them freely, use them from any thread.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kiln {

/// The value of a parameter: an integer, a truth value, or the name of a type.
class Value {
  public:
    Value(int value) : value_(std::int64_t{value}) {}
    Value(long value) : value_(std::int64_t{value}) {}
    Value(long long value) : value_(std::int64_t{value}) {}
    Value(bool value) : value_(value) {}
    Value(const char* type_name) : value_(std::string(type_name)) {}
    Value(std::string type_name) : value_(std::move(type_name)) {}

    bool is_int() const { return value_.index() == 0; }
    bool is_bool() const { return value_.index() == 1; }
    bool is_type() const { return value_.index() == 2; }
    /// Throws std::bad_variant_access when the kind is another.
    std::int64_t as_int() const { return std::get<0>(value_); }
    bool as_bool() const { return std::get<1>(value_); }
    const std::string& as_type() const { return std::get<2>(value_); }
    /// "64", "true", "half".
    std::string text() const;

    bool operator==(const Value&) const = default;

  private:
    std::variant<std::int64_t, bool, std::string> value_;
};

using Values = std::map<std::string, Value, std::less<>>;

enum class ParameterKind { integer, boolean, type };

/// A named choice of a template: `//@ param BM int in 16, 32, 64 = 64 "rows of C per block"`.
struct Parameter {
    std::string name;
    ParameterKind kind = ParameterKind::integer;
    std::vector<Value> allowed;  ///< the list, in its order; empty for a range
    std::int64_t min = 0;        ///< of a range, inclusive
    std::int64_t max = 0;
    Value default_value = 0;
    std::string text;
    int line = 0;

    /// "16, 32, 64" or "1..8", for messages and help.
    std::string allowed_text() const;
    bool allows(const Value& value) const;
    /// Reads a value written by a person. Throws VariantError naming the parameter, the text and the
    /// nearest allowed value.
    Value parse(std::string_view text) const;
};

/// A rule between parameters and the device: `//@ require BM % TM == 0 "BM must be a multiple of TM"`.
struct Constraint {
    std::string expression;
    std::string text;  ///< the author's words; may be empty
    int line = 0;
    int column = 0;
};

/// One argument of the kernel, as its declaration writes it after the values were put in.
struct KernelArgument {
    std::string name;  ///< "m"
    std::string type;  ///< normalised: "int", "const half*", "float*"
};

class Variant;
struct TemplateData;
struct VariantData;

class Template {
  public:
    /// Parses a template. file: the name in messages (a path is fine; only its last part reaches
    /// the compilers and the key). headers: what its #include "..." lines may name, transitively.
    /// Throws TemplateError.
    static Template parse(std::string text, std::string file, std::vector<Header> headers = {});

    /// Reads and parses a file; its #include "..." lines are resolved against its directory, then
    /// against the built-in prelude. Throws TemplateError.
    static Template load(const std::filesystem::path& path);

    /// The same template whose variants are also held to this target (device rules, limits,
    /// `backend` and `arch` lines).
    Template for_target(const Target& target) const;

    const std::string& name() const;     ///< of the kernel
    const std::string& summary() const;  ///< one line
    const std::string& file() const;
    const std::vector<Parameter>& parameters() const;
    /// nullptr when there is no such parameter.
    const Parameter* parameter(std::string_view name) const;
    const std::vector<Constraint>& constraints() const;
    const std::vector<Backend>& backends() const;   ///< where it may run; all of them by default
    const std::vector<std::string>& archs() const;  ///< where it may run; empty: anywhere
    const std::optional<Target>& target() const;

    /// A variant with these values, defaults for the rest. Throws VariantError: an unknown
    /// parameter, a value outside its list, a violated rule, or more than the target allows.
    Variant variant(const Values& values = {}) const;

    /// Every legal variant that agrees with `fixed`, in the order of the parameters' lists.
    /// A range enumerates all its integers.
    std::vector<Variant> variants(const Values& fixed = {}) const;

  private:
    friend class Variant;
    explicit Template(std::shared_ptr<const TemplateData> data) : data_(std::move(data)) {}

    std::shared_ptr<const TemplateData> data_;
};

class Variant {
  public:
    Template origin() const;  ///< the template it was made from
    const std::string& template_name() const;
    const Values& values() const;
    const Value& value(std::string_view name) const;  ///< throws UsageError when there is none
    const std::optional<Target>& target() const;      ///< what it was validated against

    /// "gemm_tiled BM=64 BN=64 ...": all values in the order of the template.
    const std::string& text() const;
    /// The specialised source with every header it may include, for this backend.
    Source source(Backend backend) const;

    Dim3 block() const;
    Dim3 cluster() const;                      ///< {1,1,1}: none
    std::size_t dynamic_shared_bytes() const;  ///< to be given at launch
    std::size_t static_shared_bytes() const;   ///< as declared by `shared static`
    const std::vector<KernelArgument>& arguments() const;

    /// The grid for these launch arguments, which are passed like the driver's void**: one pointer
    /// per argument, to a value of the declared type. Throws VariantError when the grid is empty or
    /// does not fit 32 bits. Takes about 15 ns for a product of two ceil_div.
    Dim3 grid(void* const* arguments) const;

    std::size_t hash() const;  ///< of template identity and values; computed once
    bool operator==(const Variant& other) const;

  private:
    friend class Template;
    explicit Variant(std::shared_ptr<const VariantData> data) : data_(std::move(data)) {}

    std::shared_ptr<const VariantData> data_;
};

}  // namespace kiln
