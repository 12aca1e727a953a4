// SPDX-License-Identifier: Apache-2.0
//
// Template: a parsed .cu file with its front matter. Variant: a template with validated values.
// Both are cheap handles on immutable shared data: copy them freely, use them from any thread.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>
#include <kiln/version.h>

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

struct TemplateData;
struct VariantData;
struct VariantAccess;

inline namespace KILN_ABI {

/// What a template calls by the name of a parameter of kind `code`: the body of a function in C++, or a compiled function
/// as LTO-IR, which is linked with the template's own. A handle: copies share the text, and are safe in any thread.
class Code {
  public:
    /// "return x > 0 ? x : 0;"
    explicit Code(std::string body);
    /// What nvcc -dlto or NVRTC --dlink-time-opt made: LTO-IR, or a fatbin with it. symbol: of the function in it, which has the
    /// arguments and the result that the parameter declares: "relu" of an extern "C" function, else the mangled name.
    /// For CUDA. body: the same in C++, for references and other backends; they reject code that has none.
    static Code ltoir(std::string bytes, std::string symbol, std::string body = {});

    /// As it was given.
    const std::string& body() const { return data_->body; }
    /// It has LTO-IR.
    bool is_ltoir() const { return !data_->digest.empty(); }
    /// Of the function in it; empty without LTO-IR.
    const std::string& symbol() const { return data_->symbol; }
    /// The LTO-IR; empty without it. Lives as long as any copy.
    const std::string& ltoir() const { return data_->ltoir; }
    /// The BLAKE2b-256 of the LTO-IR in hexadecimal digits; empty without it.
    const std::string& digest() const { return data_->digest; }
    /// In one line of ASCII, as it is written on command lines and in files: in quotes, with the escapes of C++. LTO-IR, which
    /// can't be read back, is "@ltoir:relu:0123456789abcdef".
    std::string text() const;

    /// The same text and LTO-IR.
    bool operator==(const Code& other) const { return data_ == other.data_ || *data_ == *other.data_; }

  private:
    struct Data {
        std::string body, symbol, ltoir, digest;

        bool operator==(const Data&) const = default;
    };

    std::shared_ptr<const Data> data_;
};

/// The value of a parameter: an integer, a boolean, the name of a type, a finite float, or code.
class Value {
  public:
    /// An integer.
    Value(int value) : value_(std::int64_t{value}) {}
    /// An integer.
    Value(long value) : value_(std::int64_t{value}) {}
    /// An integer.
    Value(long long value) : value_(std::int64_t{value}) {}
    /// A boolean.
    Value(bool value) : value_(value) {}
    /// A finite float.
    Value(float value) : value_(value) {}
    /// A finite float, rounded to it. One that is out of the range of float is kept as text, for the error.
    Value(double value);
    /// The name of a type, or any other value as text, which is read as the parameter's kind.
    Value(const char* type_name) : value_(std::string(type_name)) {}
    /// The same.
    Value(std::string type_name) : value_(std::move(type_name)) {}
    /// Code, which may also be given as text.
    Value(Code code) : value_(std::move(code)) {}

    /// as_int() may be asked.
    bool is_int() const { return value_.index() == 0; }
    /// as_bool() may be asked.
    bool is_bool() const { return value_.index() == 1; }
    /// as_type() may be asked.
    bool is_type() const { return value_.index() == 2; }
    /// as_float() may be asked.
    bool is_float() const { return value_.index() == 3; }
    /// as_code() may be asked.
    bool is_code() const { return value_.index() == 4; }
    /// Throws std::bad_variant_access when the kind is another.
    std::int64_t as_int() const { return std::get<0>(value_); }
    /// Likewise.
    bool as_bool() const { return std::get<1>(value_); }
    /// Likewise.
    const std::string& as_type() const { return std::get<2>(value_); }
    /// Likewise.
    float as_float() const { return std::get<3>(value_); }
    /// Likewise.
    const Code& as_code() const { return std::get<4>(value_); }
    /// "64", "true", "half", "0.5", "\"return x;\"": a float in the fewest digits that give it back, code in quotes.
    std::string text() const;

    bool operator==(const Value&) const = default;

  private:
    std::variant<std::int64_t, bool, std::string, float, Code> value_;
};

/// Values by the name of their parameter.
using Values = std::map<std::string, Value, std::less<>>;

/// What values a parameter has: `int`, `bool`, `type`, `float` and `code` in a `param` line.
enum class ParameterKind { integer, boolean, type, real, code };
/// As in a `param` line: "int", "bool", "type", "float" or "code". Null-terminated.
std::string_view name(ParameterKind kind);

/// A named choice of a template: `//@ param BM int in 16, 32, 64 = 64 "rows of C per block"`.
struct Parameter {
    std::string name;                             ///< in upper case: "BM"
    ParameterKind kind = ParameterKind::integer;  ///< of all of its values
    std::vector<Value> allowed;  ///< the list, in its order; empty for a range, any finite float, and code
    std::int64_t min = 0;        ///< of a range, inclusive
    std::int64_t max = 0;        ///< the same
    Value default_value = 0;     ///< where every other parameter has its default, too
    std::string
        default_expression;  ///< as written ("16 / sizeof(T)"); empty: default_value, whatever the others are
    std::vector<std::string> default_uses;  ///< the parameters that default_expression names
    std::string signature;                  ///< of code: "(float x, int row, int column)"
    std::string result;  ///< of code: the type that it returns, "auto" where none is declared
    std::string text;    ///< the author's words; may be empty
    int line = 0;        ///< of its `param` line, from 1

    /// "16, 32, 64" or "1..8", for messages and help.
    std::string allowed_text() const;
    /// "64" or "16 / sizeof(T)", likewise.
    std::string default_text() const;
    /// The value is of its kind, and in its list or range.
    bool allows(const Value& value) const;
    /// Reads a value written by a person. Throws VariantError naming the parameter, the text and the
    /// nearest allowed value.
    Value parse(std::string_view text) const;
};

/// What follows from the parameters, computed once for the source, where it is a constexpr, and for the other lines:
/// `//@ let THREADS = BM / TM * (BN / TN)`.
struct Constant {
    std::string name;        ///< in upper case
    bool is_bool = false;    ///< else an integer: int where the value fits, long long where it does not
    std::string expression;  ///< as written
    std::vector<std::string> uses;  ///< the parameters that it depends on, itself or through other constants
    std::string text;               ///< the author's words; may be empty
    int line = 0;                   ///< from 1
};

/// A rule between parameters and the device: `//@ require BM % TM == 0 "BM must be a multiple of TM"`.
struct Constraint {
    std::string expression;  ///< as written: "BM % TM == 0"
    std::string text;        ///< the author's words; may be empty
    int line = 0;            ///< from 1
    int column = 0;          ///< of the expression, from 1
};

/// One argument of the kernel, as its declaration writes it after the values were put in.
struct KernelArgument {
    std::string name;  ///< "m"
    std::string type;  ///< normalised: "int", "const half*", "float*"
};

/// An integer argument of the kernel that says how large a problem is:
/// `//@ size m = 1024 test 97 "rows of A and C"`. Its defaults may depend on parameters and on the
/// integer arguments declared before it.
struct SizeArgument {
    std::string name;           ///< of the argument
    std::string default_text;   ///< the expression, as written: "1024"
    std::string test_text;      ///< the same for tests; may be empty: the default
    std::string multiple_text;  ///< what it must be a multiple of; empty: 1
    std::string most_text;      ///< what it must not exceed; empty: what the argument holds
    std::string text;           ///< the author's words; may be empty
    int line = 0;               ///< from 1
};

/// What a kernel does with the memory behind one of its pointers.
enum class TensorRole {
    input,   ///< reads
    output,  ///< writes every element
    inout,   ///< reads and writes
    scratch  ///< uses as it likes
};
/// The line that declares it: "input", "output", "inout" or "scratch". Null-terminated.
std::string_view name(TensorRole role);

/// What an input holds.
enum class Fill {
    uniform,      ///< floating-point: [-1, 1); 8-bit integers: all their values; others need a range
    range,        ///< integers from low to high, inclusive
    permutation,  ///< 0 to count - 1, each once
    offsets,  ///< from 0, never falling, to high: where count - 1 packed sequences begin and the last ends
    zero
};

/// What an input holds with Data::contributions, so that a result tells whether anything that belongs in it is
/// missing. The reference says it, by a line `//@ data a factor k`, since its bound must be smaller than the least
/// contribution.
enum class Pattern {
    none,  ///< as its Fill says
    factor,  ///< of sums of `size` products of two: integers so small that every order of additions is exact in float
    term,   ///< of sums of `size` terms: the same, and positive
    peaks,  ///< rows of [-1, 1) with 16 to 64 elements that are `size` higher; each column has its turn
    key,    ///< rows of signs, about 16 rows of each `size` alike
    query,  ///< rows that agree with those 16 keys and with no others
    shifted_peaks  ///< peaks in rows shifted by -128, 128 and 0, alternately: of what no shift of a row changes
};

/// A line `//@ data x PATTERN SIZE` of a reference, for given sizes.
struct InputPattern {
    std::string tensor;               ///< its name
    Pattern pattern = Pattern::none;  ///< what it holds
    std::int64_t size = 0;            ///< of the pattern, computed
};

/// The memory behind a pointer argument: `//@ input a [m, k] "the left operand"`. Row-major: the last
/// extent is contiguous.
struct TensorArgument {
    std::string name;                     ///< of the argument
    TensorRole role = TensorRole::input;  ///< what the kernel does with it
    Fill fill = Fill::uniform;  ///< of an input, inout, or scratch that is zero: others are not filled
    std::string fill_text;      ///< as written: "in 0..n - 1"; empty where there is none
    std::string extents_text;   ///< "m, k"
    std::string align_text;  ///< "16": what its address must be a multiple of; empty: what its elements need
    std::string reference;   ///< of an output or inout: the template that computes it; empty: none
    bool exact = false;      ///< of integer types, or with small integers as inputs, it has no rounding error
    bool any_order =
        false;  ///< its floating-point terms are added in another order by each launch, as by atomic operations
    std::string condition_text;  ///< "BIAS": which variants have the argument; empty: all
    std::string text;            ///< the author's words; may be empty
    int line = 0;                ///< from 1
};

/// A TensorArgument for given values and sizes.
struct Tensor {
    std::string name;                     ///< of the argument
    std::string type;                     ///< of an element, normalised: "half", "unsigned int"
    std::size_t element_bytes = 0;        ///< of one element
    std::size_t align_bytes = 1;          ///< of its address: declared, or what TMA or its elements need
    std::vector<std::int64_t> extents;    ///< outermost first; row-major, without gaps
    TensorRole role = TensorRole::input;  ///< what the kernel does with it
    Fill fill = Fill::uniform;            ///< of an input, inout, or scratch that is zero
    std::int64_t low = 0;                 ///< of Fill::range
    std::int64_t high = 0;                ///< of Fill::range and Fill::offsets, inclusive
    Pattern pattern = Pattern::none;      ///< with Data::contributions
    std::int64_t pattern_size = 0;        ///< of the pattern
    std::string reference;                ///< TensorArgument::reference
    bool exact = false;                   ///< TensorArgument::exact
    bool any_order = false;               ///< TensorArgument::any_order

    /// Elements. Throws VariantError when the number does not fit; those of Variant::problem() fit.
    std::int64_t count() const;
    std::uint64_t size_bytes() const;  ///< of them; the same
};

/// One launch of a variant, with everything it needs, as its template declares it.
struct Problem {
    Sizes sizes;                  ///< every integer argument
    std::vector<Tensor> tensors;  ///< every pointer argument that the variant has, in the kernel's order
    std::int64_t flops = 0;       ///< of the mathematics, not of the kernel; 0: not declared
    std::int64_t bytes = 0;       ///< read and written at least once: declared, or those of all but scratch
};

/// The box of a tensor that a TMA instruction moves:
/// `//@ tensormap a_map = a [m, k] box [BM, BK] swizzle 128`. The argument, a kiln::TensorMap, is made at
/// each launch from the pointer `a`; callers do not pass it.
struct TensorMapArgument {
    std::string name;            ///< of the argument
    std::string tensor;          ///< the pointer argument
    std::string condition_text;  ///< which variants make it; empty: all whose tensor is there
    int line = 0;                ///< from 1
};

class Variant;
struct ModelFacts;
struct ModelSearch;

/// A parsed .cu file. A handle: copies share what was parsed, and are safe in any thread.
class Template {
  public:
    /// Parses a template. file: the name in messages (a path is fine; only its last part reaches
    /// the compilers and the key). headers: what its `#include "..."` lines may name, transitively.
    /// Throws TemplateError.
    static Template parse(std::string text, std::string file, std::vector<Header> headers = {});

    /// Reads and parses a file; its `#include "..."` lines are resolved against its directory, then
    /// against the built-in prelude. Throws TemplateError.
    static Template load(const std::filesystem::path& path);

    /// The same template whose variants are also held to this target (device rules, limits,
    /// `backend` and `arch` lines).
    Template for_target(const Target& target) const;

    const std::string& name() const;                   ///< of the first kernel
    const std::string& summary() const;                ///< one line
    const std::string& file() const;                   ///< as it was named when it was parsed
    const std::vector<Parameter>& parameters() const;  ///< in their order
    /// nullptr when there is no such parameter.
    const Parameter* parameter(std::string_view name) const;
    const std::vector<Constant>& constants() const;      ///< in their order
    const std::vector<Constraint>& constraints() const;  ///< the `require` lines, in their order
    const std::vector<Backend>& backends() const;        ///< where it may run; all of them by default
    /// As the template names them; they restrict the backends whose architectures they are.
    const std::vector<std::string>& archs() const;
    /// Whether its `backend` and `arch` lines allow this; an empty arch: some of the backend's.
    bool runs_on(Backend backend, std::string_view arch) const;
    const std::vector<SizeArgument>& sizes() const;             ///< in the order of the kernel's arguments
    const std::vector<TensorArgument>& tensors() const;         ///< the same
    const std::vector<TensorMapArgument>& tensor_maps() const;  ///< the same
    const std::string& flops() const;      ///< the expression, as written; empty: not declared
    const std::string& bytes() const;      ///< the same
    const std::string& naive() const;      ///< the template that this one is measured against; may be empty
    const std::string& dependent() const;  ///< when launches may overlap, the expression; empty: never
    const std::vector<std::string>& dependent_uses() const;  ///< the parameters that decide it
    const std::string& opt_level() const;                    ///< of ptxas, the expression; empty: its own
    /// What the tuner's model may vary (kiln/model.h); nothing without `model` lines.
    const ModelSearch& model_search() const;
    /// Every argument is declared: a problem can be made, run and timed.
    bool is_runnable() const;
    /// It computes expected results for other templates: its first arguments are
    /// (long long count, const long long* which, double* expected, double* bound).
    bool is_reference() const;
    /// Of a reference: parameters that its bound depends on, and its results do not (`bound` lines).
    const std::vector<std::string>& bound_parameters() const;
    const std::optional<Target>& target() const;  ///< for_target(); not set: none

    /// A variant with these values, defaults for the rest. Throws VariantError: an unknown
    /// parameter, a value outside its list, a violated rule, or more than the target allows.
    Variant variant(const Values& values = {}) const;

    /// The default of a parameter where others have these values, and their defaults if they are not given; what is
    /// given for itself does not count. Throws VariantError: as variant(), and for a default that can't be
    /// computed or is not among the parameter's values.
    Value default_of(std::string_view parameter, const Values& given = {}) const;

    /// Every legal variant that agrees with `fixed`, in the order of the parameters' lists.
    /// A range enumerates all its integers. Throws VariantError: more than a million.
    std::vector<Variant> variants(const Values& fixed = {}) const;
    /// The first of them, without making the others; nullopt: there is none, or none was found in half a second.
    std::optional<Variant> first_variant(const Values& fixed = {}) const;
    /// How many there are, without making any; nullopt: they can't be counted in half a second.
    std::optional<std::uint64_t> variant_count(const Values& fixed = {}) const;

  private:
    friend class Variant;
    explicit Template(std::shared_ptr<const TemplateData> data) : data_(std::move(data)) {}

    std::shared_ptr<const TemplateData> data_;
};

/// How one of a variant's kernels is launched.
struct VariantKernel {
    std::string name;                      ///< without the arguments of a C++ template
    Dim3 block;                            ///< threads of a block
    Dim3 cluster;                          ///< {1,1,1}: none
    std::size_t dynamic_shared_bytes = 0;  ///< given at launch
    std::size_t static_shared_bytes = 0;   ///< as `shared static` declares it
    bool dependent = false;                ///< it may begin before the kernel before it has ended
    std::vector<std::string> arguments;    ///< their names
    bool cooperative = false;              ///< all of its blocks run at once
};

/// A template with validated values. A handle on immutable data: copies are cheap, and safe in any thread.
class Variant {
  public:
    Template origin() const;                          ///< the template it was made from
    const std::string& template_name() const;         ///< origin().name()
    const Values& values() const;                     ///< all of the template's
    const Value& value(std::string_view name) const;  ///< throws UsageError when there is none
    Values constants() const;                         ///< what the template's constants are for these values
    const std::optional<Target>& target() const;      ///< what it was validated against

    /// "gemm_tiled BM=64 BN=64 ...": all values in the order of the template, but code that is the default.
    const std::string& text() const;
    /// The specialised source with every header it may include, for this backend. real_path: lines name the template's
    /// file by its absolute path (ServiceOptions::debug).
    Source source(Backend backend, bool real_path = false) const;

    /// All of them, in the order in which a launch of the variant launches them. What follows is of the first.
    std::vector<VariantKernel> kernels() const;
    Dim3 block() const;                        ///< threads of a block
    Dim3 cluster() const;                      ///< {1,1,1}: none
    std::size_t dynamic_shared_bytes() const;  ///< to be given at launch
    std::size_t static_shared_bytes() const;   ///< as declared by `shared static`
    bool dependent() const;                    ///< launches may begin before the one before them has ended
    int opt_level() const;                     ///< of ptxas, 0 to 3
    /// What callers pass: those of all kernels, each name once, but for tensor maps, and tensors that this variant does not have.
    const std::vector<KernelArgument>& arguments() const;

    /// The grid of the first kernel for these launch arguments, which are passed like the driver's void**: one pointer
    /// per argument, to a value of the declared type. An extent of 0 makes an empty launch, which does
    /// nothing. Throws VariantError when one is negative or does not fit 32 bits. Takes about 15 ns for a product of two ceil_div.
    Dim3 grid(void* const* arguments) const;
    /// The same where a launch is to use no more than so many multiprocessors: `device.multiprocessors` is at most that
    /// in the template's expression, which takes longer to evaluate this way.
    Dim3 grid(void* const* arguments, int multiprocessors) const;
    /// The grid of each of kernels(), likewise; a kernel whose grid is empty is left out of the launch.
    std::vector<Dim3> grids(void* const* arguments) const;

    /// What a launch with these sizes needs; sizes that are not given have their defaults, or with `test`
    /// the small ones that tests use. Throws VariantError: a template that is not runnable (naming the
    /// arguments that lack a declaration), an unknown size, one that is negative or does not fit the
    /// argument, an extent that is negative or overflows.
    Problem problem(const Sizes& given = {}, bool test = false) const;
    /// Of a reference: what its inputs hold with Data::contributions. sizes: of the tested template. Throws
    /// VariantError for a size that it has not, or that is not positive.
    std::vector<InputPattern> input_patterns(const Sizes& sizes) const;

    /// What the template's `model` lines (kiln/model.h) are for these sizes; those that are not given count as 0. Throws
    /// VariantError for an expression that overflows or divides by zero.
    ModelFacts model(const Sizes& sizes) const;

    std::size_t hash() const;  ///< of template identity and values; computed once
    /// Of the same template (its text and headers) with the same values; the targets do not count.
    bool operator==(const Variant& other) const;

  private:
    friend class Template;
    friend struct kiln::VariantAccess;  // of the library's own layers
    explicit Variant(std::shared_ptr<const VariantData> data) : data_(std::move(data)) {}

    std::shared_ptr<const VariantData> data_;
};

}  // namespace KILN_ABI
}  // namespace kiln
