// SPDX-License-Identifier: Apache-2.0
//
// The checks of a plan are those of Variant::problem() and Variant::grid(), and those that TMA has for extents.
#include "export/c_kernel.h"

#include <kiln/error.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/arch_facts.h"
#include "base/words.h"
#include "export/c_expression.h"
#include "format/format.h"
#include "template/element_type.h"
#include "template/kernel_launch.h"

namespace kiln {
namespace {

constexpr std::size_t kWordsOfALine = 6;

/// As 64-bit words, which need no longer to compile and are aligned; what is behind the end is zero.
std::string words_text(const Bytes& bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    std::size_t word_count = 0;
    // One more than needed: PTX ends with a zero.
    for (std::size_t at = 0; at <= bytes.size(); at += 8) {
        std::uint64_t word = 0;
        for (std::size_t i = std::min<std::size_t>(8, bytes.size() - at); i > 0; --i)
            word = word << 8 | std::to_integer<std::uint64_t>(bytes[at + i - 1]);
        text += word_count++ % kWordsOfALine == 0 ? "\n    0x" : " 0x";
        bool leading = true;
        for (int shift = 60; shift >= 0; shift -= 4) {
            const auto digit = static_cast<unsigned>(word >> shift & 15);
            leading = leading && digit == 0 && shift > 0;
            if (!leading) text += kDigits[digit];
        }
        text += "ULL,";
    }
    return text;
}

/// cuTensorMapEncodeTiled's number of a type: those that TMA only moves go by their width.
int tensor_map_type(const TensorMapSpec& spec) {
    constexpr std::pair<const char*, int> kNamed[] = {{"half", 6},   {"bfloat16", 9}, {"float", 7},
                                                      {"double", 8}, {"int", 3},      {"long long", 5}};
    for (const auto& [name, number] : kNamed)
        if (spec.type == name) return number;
    switch (spec.element_bytes) {
        case 1:
            return 0;
        case 2:
            return 1;
        case 4:
            return 2;
        case 8:
            return 4;
        default:
            throw UsageError(
                formatted("the tensor map {} can't be exported: TMA moves elements of 1, 2, 4 or 8 bytes, "
                          "and {} has {}.",
                          spec.name, spec.type, spec.element_bytes));
    }
}

std::string extents_text(const Dim3& extents) {
    return formatted("{{{}u, {}u, {}u}}", extents.x, extents.y, extents.z);
}

std::string array_text(CExpressions& expressions, const std::vector<ExpressionPtr>& extents) {
    std::string text;
    for (std::size_t i = 0; i < extents.size(); ++i)
        text += formatted("    x[{}] = {};\n", i, expressions.text(*extents[i]));
    return text;
}

/// PTX may be made for less than sm_90, and comes without the wait that the overlap needs.
bool overlaps(const Variant& variant, const KernelLaunch& launch, BinaryKind kind) {
    const auto number = cuda_arch_number(variant.target()->arch);
    return launch.dependent && kind == BinaryKind::cubin && number && *number >= 90;
}

}  // namespace

std::string c_string(const std::string& text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\' || c == '?') quoted += '\\';  // a question mark may begin a trigraph
        quoted += c;
    }
    return quoted + '"';
}

std::string CKernels::arithmetic() const { return c_arithmetic(used_); }

std::string CKernels::named(const std::string& prefix, const std::string& text, std::string& definitions,
                            const std::string& head, const std::string& tail) {
    const auto [place, is_new] = names_.try_emplace(prefix + text, formatted("{}{}", prefix, names_.size()));
    if (is_new) definitions += head + place->second + tail + text;
    return place->second;
}

std::string CKernels::plan(const Variant& variant) {
    const VariantData& data = VariantAccess::data(variant);
    const FrontMatter& front_matter = data.origin->content->front_matter;
    const ProblemLines& lines = front_matter.problem;
    CExpressions expressions(data);
    std::string text;
    const std::string otherwise = ") return KILN_BAD_ARGUMENT;\n";
    for (const SizeLine& line : lines.size_lines) {
        const auto check = [&](const ExpressionPtr& limit, std::string_view function) {
            if (limit == nullptr) return;
            text += formatted("    x[0] = {};\n    if ({}({}, a->value[{}], x[0], bad){}",
                              expressions.text(*limit), function,
                              c_string(front_matter.signature.arguments[line.argument].name), line.argument,
                              otherwise);
        };
        check(line.multiple, "kiln_multiple");
        check(line.most, "kiln_most");
    }
    auto pointer = data.pointers.begin();
    for (std::size_t i = 0; i < lines.tensors.size(); ++i) {
        const TensorLine& line = lines.tensor_lines[i];
        if (!data.places[line.argument]) continue;
        const std::string type = (*data.arguments)[*data.places[line.argument]].type;
        std::string element = type.substr(0, type.size() - 1);  // without its *
        if (element.starts_with("const ")) element.erase(0, 6);
        const auto* const known = find_normalised_type(element);
        text += formatted("{}    if (kiln_tensor(launch, {}, {}, x, {}, {}, {}u, bad){}",
                          array_text(expressions, line.extents), line.argument,
                          c_string(lines.tensors[i].name), line.extents.size(),
                          known != nullptr ? known->bytes : 1, pointer++->align_bytes, otherwise);
    }
    std::string is_empty;
    for (std::size_t kernel = 0; kernel < kernel_count(variant); ++kernel) {
        const KernelLaunch launch = kernel_launch(variant, kernel);
        const auto& grid = launch_lines(front_matter, kernel).grid;
        const std::string number = std::to_string(kernel);
        for (std::size_t axis = 0; axis < grid.size(); ++axis)
            text += formatted("    x[0] = {};\n    if (kiln_extent(launch, {}, {}, {}, x[0], bad, {}){}",
                              expressions.text(*grid[axis]), number, c_string(launch.name), axis,
                              c_integer(data.largest_grid[axis]), otherwise);
        const unsigned cluster[3] = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
        for (std::size_t axis = 0; axis < 3; ++axis)
            if (cluster[axis] != 1)
                text += formatted("    if (kiln_cluster(launch, {}, {}, {}u){}", number, axis, cluster[axis],
                                  otherwise);
        is_empty +=
            (kernel == 0 ? "kiln_is_empty(launch->grid[" : " && kiln_is_empty(launch->grid[") + number + "])";
    }
    if (!data.tensor_maps.empty()) text += "    if (" + is_empty + ") return 0;\n";
    const std::string maps = data.tensor_maps.empty() ? ""
                                                      : named("kiln_maps_", map_rows(variant), maps_,
                                                              "static const struct kiln_map ", "[] = ");
    for (std::size_t i = 0; i < data.tensor_maps.size(); ++i)
        if (data.tensor_maps[i].spec.rank > 0)
            text +=
                formatted("{}    if (kiln_map_extents(launch, {}, &{}[{}], x, bad){}",
                          array_text(expressions, lines.tensor_map_lines[i].extents), i, maps, i, otherwise);
    used_.insert(expressions.used().begin(), expressions.used().end());
    return "(const struct kiln_arguments* a, const struct kiln_device* d, struct kiln_launch* launch) {\n"
           "    kiln_i64 x[5];\n    int bad = 0;\n    (void)a;\n    (void)d;\n" +
           text + "    return 0;\n}\n\n";
}

std::string CKernels::map_rows(const Variant& variant) const {
    const VariantData& data = VariantAccess::data(variant);
    const auto& lines = data.origin->content->front_matter.problem.tensor_map_lines;
    std::string text = "{\n";
    for (std::size_t map = 0; map < data.tensor_maps.size(); ++map) {
        const TensorMapSpec& spec = data.tensor_maps[map].spec;
        const int swizzle = spec.swizzle_bytes == 128  ? 3
                            : spec.swizzle_bytes == 64 ? 2
                            : spec.swizzle_bytes == 32 ? 1
                                                       : 0;
        text +=
            formatted("    {{{}, {}, {}, {}, {}, {}, {{", c_string(spec.tensor), lines[map].pointer_argument,
                      spec.rank == 0 ? 0 : tensor_map_type(spec), spec.rank, spec.element_bytes, swizzle);
        for (int i = 0; i < static_cast<int>(kMostTensorMapExtents); ++i)
            text += formatted("{}{}u", i == 0 ? "" : ", ",
                              i < spec.rank ? spec.box[static_cast<std::size_t>(spec.rank - 1 - i)] : 1);
        text += "}},\n";
    }
    return text + "};\n\n";
}

std::string CKernels::entry_rows(const ExportedVariant& exported) {
    const Variant& variant = exported.variant;
    std::string text = "{\n";
    for (std::size_t kernel = 0; kernel < kernel_count(variant); ++kernel) {
        const KernelLaunch launch = kernel_launch(variant, kernel);
        std::vector<std::string> places;
        for (const std::size_t place : launch.arguments) places.push_back(std::to_string(place));
        const std::string order = places.empty() ? "NULL"
                                                 : named("kiln_order_", join(places) + "};\n\n", entries_,
                                                         "static const int ", "[] = {");
        const std::string& name =
            kernel == 0 ? exported.binary.entry : exported.binary.more_entries.at(kernel - 1);
        text +=
            formatted("    {{{}, {}, {}, {}u, {}, {}, {}}},\n", c_string(name), extents_text(launch.block),
                      extents_text(launch.cluster), launch.dynamic_shared_bytes,
                      overlaps(variant, launch, exported.binary.kind) ? "1" : "0", order, places.size());
    }
    return text + "};\n\n";
}

void CKernels::add(const ExportedVariant& exported) {
    const Variant& variant = exported.variant;
    const std::size_t maps = VariantAccess::data(variant).tensor_maps.size();
    const std::string binary = named("kiln_binary_", words_text(exported.binary.bytes) + "\n};\n\n",
                                     binaries_, "static const kiln_u64 ", "[] = {");
    const std::string body = plan(variant);
    const std::string plan_name = named("kiln_plan_", body, plans_, "static int ", "");
    const std::string map_name =
        maps == 0 ? "NULL"
                  : named("kiln_maps_", map_rows(variant), maps_, "static const struct kiln_map ", "[] = ");
    const std::string entries =
        named("kiln_entries_", entry_rows(exported), entries_, "static const struct kiln_entry ", "[] = ");
    const std::size_t entry_count = kernel_count(variant);
    rows_ += formatted("    {{{}, {}, {}, {}, {}, {}, {}}},\n", c_string(variant.text()), binary, entries,
                       entry_count, plan_name, map_name, maps);
    most_entries_ = std::max(most_entries_, entry_count);
    most_maps_ = std::max(most_maps_, maps);
    backends_.insert(variant.target()->backend);
    ++count_;
}

}  // namespace kiln
