// SPDX-License-Identifier: Apache-2.0
//
// Recognises kernels that compute C = A * B by their declaration.
#include <kiln/error.h>
#include <kiln/run.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::int64_t kExtent = 1024, kTestExtent = 67;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
/// The templates whose expected values are those of GemmCheck where is_plain().
constexpr std::string_view kGemmReferences[] = {"gemm_reference", "gemm_epilogue_reference"};

/// Both operands are row-major, and C is their product as it is.
bool is_plain(const Variant& variant) {
    const std::pair<std::string_view, std::string_view> kPlain[] = {
        {"TRANS_A", "false"}, {"TRANS_B", "false"}, {"ALPHA", "1"}, {"ACTIVATION", "0"}};
    return std::ranges::all_of(kPlain, [&](const auto& one) {
        const auto found = variant.values().find(one.first);
        return found == variant.values().end() || found->second.text() == one.second;
    });
}

/// The element type of A and B if the arguments are those of a GEMM; else empty.
std::string operand_type(const Variant& variant) {
    const auto& arguments = variant.arguments();
    if (arguments.size() != 6) return {};
    for (const char* type : {"half", "bfloat16", "float"}) {
        const std::string input = "const " + std::string(type) + "*";
        const std::array<std::string, 6> expected = {"int", "int", "int", input, input, "float*"};
        if (std::ranges::equal(arguments, expected, {}, &KernelArgument::type)) return type;
    }
    return {};
}

/// Where the sizes m, n and k are among the arguments: by their names where these are m, n and k, in whatever order, else the
/// first, the second and the third. nullopt: a name contradicts that, such as the first one of (k, rows, columns).
std::optional<std::array<std::size_t, 3>> size_places(const std::vector<KernelArgument>& arguments) {
    constexpr std::string_view kNames[] = {"m", "n", "k"};
    std::array<std::size_t, 3> places{}, in_order = {0, 1, 2};
    std::size_t named = 0;
    bool is_in_order = true;
    for (std::size_t i = 0; i < 3; ++i) {
        const auto name = std::ranges::find(kNames, arguments[i].name);
        if (name == std::end(kNames)) continue;
        const auto size = static_cast<std::size_t>(name - kNames);
        places[size] = i;
        is_in_order = is_in_order && size == i;
        ++named;
    }
    // And an operand b before an operand a.
    if (arguments[3].name == "b" && arguments[4].name == "a") return std::nullopt;
    if (named == 3) return places;
    if (!is_in_order) return std::nullopt;
    return in_order;
}

std::int64_t saturating_product(std::initializer_list<std::int64_t> factors) {
    std::int64_t product = 1;
    for (const std::int64_t factor : factors)
        if (__builtin_mul_overflow(product, factor, &product)) return kMost;
    return product;
}

/// With Data::contributions, each product of an element of A and one of B is an integer that is visible in
/// the result.
Problem with_patterns(Problem problem, std::int64_t k) {
    for (std::size_t i = 0; i < 2 && k > 0; ++i) {
        problem.tensors[i].pattern = Pattern::factor;
        problem.tensors[i].pattern_size = k;
    }
    return problem;
}

/// The problem of a template that declares none.
Problem undeclared(const Variant& variant, const std::string& type, const std::array<std::size_t, 3>& places,
                   const Sizes& given, bool test) {
    const auto& arguments = variant.arguments();
    Problem problem;
    std::array<std::int64_t, 3> extents{};
    for (std::size_t i = 0; i < 3; ++i) {
        const auto size = given.find(arguments[i].name);
        extents[i] = size != given.end() ? size->second : test ? kTestExtent : kExtent;
        if (extents[i] < 0 || extents[i] > std::numeric_limits<int>::max())
            throw VariantError(formatted("{}: the size {} = {} is not between 0 and 2147483647",
                                         variant.template_name(), arguments[i].name, extents[i]));
        problem.sizes.emplace(arguments[i].name, extents[i]);
    }
    for (const auto& [name, value] : given)
        if (!problem.sizes.contains(name))
            throw VariantError(variant.template_name() + ": there is no size " + name + "; there are " +
                               arguments[0].name + ", " + arguments[1].name + " and " + arguments[2].name);
    const std::int64_t m = extents[places[0]], n = extents[places[1]], k = extents[places[2]];
    const std::size_t element = type == "float" ? 4 : 2;
    const auto add = [&](const std::string& name, const std::string& of, std::size_t bytes, std::int64_t rows,
                         std::int64_t columns, TensorRole role) {
        Tensor tensor;
        tensor.name = name;
        tensor.type = of;
        tensor.element_bytes = bytes;
        tensor.extents = {rows, columns};
        tensor.role = role;
        problem.tensors.push_back(std::move(tensor));
    };
    add(arguments[3].name, type, element, m, k, TensorRole::input);
    add(arguments[4].name, type, element, k, n, TensorRole::input);
    add(arguments[5].name, "float", sizeof(float), m, n, TensorRole::output);
    const auto operands = static_cast<std::int64_t>(element);
    for (const auto& [rows, columns, bytes] : {std::array{m, k, operands}, {k, n, operands}, {m, n, 4}})
        if (__builtin_add_overflow(problem.bytes, saturating_product({rows, columns, bytes}), &problem.bytes))
            problem.bytes = kMost;
    problem.flops = saturating_product({2, m, n, k});
    return with_patterns(std::move(problem), k);
}

}  // namespace

inline namespace KILN_ABI {

std::optional<Problem> gemm_problem(const Variant& variant, const Sizes& given, bool test) {
    const std::string type = operand_type(variant);
    if (type.empty() || !is_plain(variant)) return std::nullopt;
    const auto& arguments = variant.arguments();
    const auto places = size_places(arguments);
    if (!places) return std::nullopt;
    Sizes sizes;
    for (const auto& [name, value] : given) {
        const std::size_t place = std::string_view("mnk").find(name);
        sizes.emplace(
            name.size() == 1 && place != std::string_view::npos ? arguments[(*places)[place]].name : name,
            value);
    }
    if (!variant.origin().is_runnable()) return undeclared(variant, type, *places, sizes, test);
    Problem problem = variant.problem(sizes, test);
    const auto size = [&](std::size_t which) { return problem.sizes.at(arguments[(*places)[which]].name); };
    const std::int64_t m = size(0), n = size(1), k = size(2);
    const std::array<std::vector<std::int64_t>, 3> extents = {{{m, k}, {k, n}, {m, n}}};
    for (std::size_t i = 0; i < 3; ++i) {
        const Tensor& tensor = problem.tensors[i];
        if (tensor.extents != extents[i] || tensor.fill != Fill::uniform ||
            tensor.role != (i < 2 ? TensorRole::input : TensorRole::output))
            return std::nullopt;
    }
    if (!problem.tensors[2].reference.empty() &&
        std::ranges::find(kGemmReferences, problem.tensors[2].reference) == std::end(kGemmReferences))
        return std::nullopt;
    problem.tensors[2].reference.clear();
    return with_patterns(std::move(problem), k);
}

}  // namespace KILN_ABI
}  // namespace kiln
