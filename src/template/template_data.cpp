// SPDX-License-Identifier: Apache-2.0
//
// Creates the shared data of templates and variants.
#include "template/template_data.h"

#include <kiln/error.h>

#include <algorithm>
#include <filesystem>

#include "base/digest.h"
#include "format/format.h"
#include "template/element_type.h"
#include "template/type_words.h"

namespace kiln {
namespace {

constexpr std::int64_t kLargestUnsigned = 4294967295;

/// The offset of the first byte that is NUL or no part of valid UTF-8; npos when there is none.
std::size_t first_bad_byte(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const std::size_t length = lead < 0x80   ? 1
                                   : lead < 0xC2 ? 0
                                   : lead < 0xE0 ? 2
                                   : lead < 0xF0 ? 3
                                   : lead < 0xF5 ? 4
                                                 : 0;
        if (lead == 0 || length == 0 || i + length > text.size()) return i;
        for (std::size_t k = 1; k < length; ++k)
            if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return i;
        const auto second = static_cast<unsigned char>(length > 1 ? text[i + 1] : 0);
        const bool too_long = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
        const bool no_character = (lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90);
        if (too_long || no_character) return i;
        i += length;
    }
    return std::string_view::npos;
}

std::string checked_text(std::string text, const std::string& file) {
    const std::size_t bad = first_bad_byte(text);
    if (bad != std::string_view::npos)
        throw TemplateError(file, 1, 1,
                            formatted("this is no text file in UTF-8: byte {}{}", bad,
                                      text[bad] == '\0' ? " is NUL" : " starts no valid character"));
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    // After the prologue it would be in the middle of the source.
    if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    return text;
}

std::vector<std::filesystem::path> absolute_directories(const std::vector<std::filesystem::path>& written,
                                                        const std::string& file) {
    std::vector<std::filesystem::path> directories;
    std::error_code error;
    for (const auto& directory : written)
        directories.push_back(
            std::filesystem::absolute(std::filesystem::path(file).parent_path() / directory, error)
                .lexically_normal());
    return directories;
}

/// Every field with its length before it, so that no two contents give the same digest.
std::string identity_of(const TemplateContent& content) {
    std::string fields;
    const auto add = [&](std::string_view field) { fields += formatted("{}:{}", field.size(), field); };
    add(content.file_name);
    add(content.text);
    for (const Header& header : content.includes.own_headers()) {
        add(header.name);
        add(header.text);
    }
    for (const auto& directory : content.include_directories) add(directory.string());
    return digest_hex(fields);
}

std::size_t mixed(std::size_t seed, std::int64_t value) {
    std::uint64_t x =
        seed ^ (static_cast<std::uint64_t>(value) + 0x9E3779B97F4A7C15u + (seed << 6) + (seed >> 2));
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

template <class Number>
std::vector<PointerArgument> pointers(const ProblemLines& lines, const VariantData& variant,
                                      const Number& number) {
    std::vector<PointerArgument> made;
    for (const TensorLine& line : lines.tensor_lines) {
        const auto place = variant.places[line.argument];
        if (!place) continue;
        const std::string_view element = *pointee((*variant.arguments)[*place].type);
        auto align = static_cast<std::size_t>(find_normalised_type(element)->bytes);
        if (line.align) align = std::max(align, static_cast<std::size_t>(number(line.align)));
        const bool is_mapped = std::ranges::any_of(variant.tensor_maps, [&](const TensorMapProgram& map) {
            return map.spec.rank > 0 && map.spec.pointer_argument == *place;
        });
        made.push_back({*place, is_mapped ? std::max(align, kTensorMapAddressBytes) : align});
    }
    return made;
}

std::vector<VariableProgram> variable_programs(const FrontMatter& front_matter, const VariantData& variant,
                                               const Environment& environment) {
    std::vector<VariableProgram> made;
    for (const ModuleVariableArgument& variable : front_matter.variables) {
        const auto place = variant.places[variable.argument];
        const auto& lines = front_matter.problem.tensor_lines;
        const auto line = std::ranges::find(lines, variable.argument, &TensorLine::argument);
        if (!place || line == lines.end()) continue;
        const std::string_view element = *pointee((*variant.arguments)[*place].type);
        VariableProgram program{
            variable.name, *place, static_cast<std::size_t>(find_normalised_type(element)->bytes), {}};
        for (const ExpressionPtr& extent : line->extents) program.extents.emplace_back(*extent, environment);
        made.push_back(std::move(program));
    }
    return made;
}

}  // namespace

TemplateContent::TemplateContent(std::string text_bytes, std::string file_in_messages,
                                 const HeaderFinder& find_header)
    : text(checked_text(std::move(text_bytes), file_in_messages)),
      file(std::move(file_in_messages)),
      file_name(std::filesystem::path(file).filename().string()),
      front_matter(parse_front_matter(text, file)),
      includes(text, file, find_header),
      include_directories(absolute_directories(front_matter.include_directories, file)),
      type_words(type_word_declarations(text, includes.own_headers())),
      identity(identity_of(*this)),
      identity_hash(std::hash<std::string>()(identity)) {
    for (const Rule& rule : front_matter.rules) constraints.push_back(rule.constraint);
}

TemplateData::TemplateData(std::shared_ptr<const TemplateContent> parsed, std::optional<Target> for_target)
    : content(std::move(parsed)),
      target(std::move(for_target)),
      limits(target ? target->limits : Limits{}),
      rules(content->front_matter, limits, target.has_value()) {}

void VariantMaker::set_arguments(VariantData& variant, const Environment& environment) {
    const FrontMatter& front_matter = origin_->content->front_matter;
    const Codes& codes = variant.codes;
    std::vector<bool> is_there(front_matter.signature.arguments.size(), true);
    Codes key;
    for (std::size_t i = 0; i < codes.size(); ++i)
        if (front_matter.parameters[i].kind == ParameterKind::type) key.push_back(codes[i]);
    for (const TensorLine& line : front_matter.problem.tensor_lines) {
        if (!line.condition) continue;
        Failure failure;
        is_there[line.argument] = line.condition->evaluate(environment, failure) != 0 && !failure;
        key.push_back(is_there[line.argument]);
    }
    PassedArguments& known = arguments_[key];
    if (!known.arguments) known = passed_arguments(codes, is_there);
    variant.arguments = known.arguments;
    variant.places = known.places;
}

VariantMaker::PassedArguments VariantMaker::passed_arguments(const Codes& codes,
                                                             const std::vector<bool>& is_there) const {
    const FrontMatter& front_matter = origin_->content->front_matter;
    TypeNames types;
    for (std::size_t i = 0; i < codes.size(); ++i)
        if (front_matter.parameters[i].kind == ParameterKind::type)
            types[front_matter.parameters[i].name] =
                element_types()[static_cast<std::size_t>(codes[i])].normalised;
    PassedArguments passed;
    std::vector<KernelArgument> made;
    for (std::size_t i = 0; i < is_there.size(); ++i) {
        const Signature::Argument& argument = front_matter.signature.arguments[i];
        std::string type = normalised_type(argument.type, types);
        // The last ones, made at launch: callers don't pass them.
        if (is_tensor_map(type)) break;
        passed.places.push_back(is_there[i] ? std::optional(made.size()) : std::nullopt);
        if (is_there[i]) made.push_back({argument.name, std::move(type)});
    }
    passed.arguments = std::make_shared<const std::vector<KernelArgument>>(std::move(made));
    return passed;
}

std::shared_ptr<const VariantData> VariantMaker::make(const Codes& codes) {
    const TemplateContent& content = *origin_->content;
    const FrontMatter& front_matter = content.front_matter;
    auto made = std::make_shared<VariantData>();
    made->origin = origin_;
    made->codes = codes;
    made->text = front_matter.kernel;
    made->hash = content.identity_hash;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const Parameter& parameter = front_matter.parameters[i];
        const auto given = code_.find(parameter.name);
        const auto& [name, value] =
            *made->values
                 .emplace(parameter.name, given != code_.end() ? given->second : decode(parameter, codes[i]))
                 .first;
        if (parameter.kind != ParameterKind::code || value != parameter.default_value)
            made->text.append(1, ' ').append(name).append(1, '=').append(value.text());
        made->hash = mixed(made->hash, codes[i]);
    }

    const Environment environment = origin_->rules.environment(made->codes);
    const auto number = [&](const ExpressionPtr& expression) {
        Failure never;  // the implicit rules have seen to it
        return expression->evaluate(environment, never);
    };
    const auto extents = [&](const std::vector<ExpressionPtr>& expressions) {
        unsigned xyz[3] = {1, 1, 1};
        for (std::size_t i = 0; i < expressions.size(); ++i)
            xyz[i] = static_cast<unsigned>(number(expressions[i]));
        return Dim3{xyz[0], xyz[1], xyz[2]};
    };
    set_arguments(*made, environment);
    const auto set_launch = [&](const LaunchLines& lines, LaunchData& launch) {
        launch.block = extents(lines.block);
        launch.cluster = extents(lines.cluster);
        if (lines.dynamic_shared)
            launch.dynamic_shared_bytes = static_cast<std::size_t>(number(lines.dynamic_shared));
        if (lines.static_shared)
            launch.static_shared_bytes = static_cast<std::size_t>(number(lines.static_shared));
        if (lines.dependent) launch.dependent = number(lines.dependent) != 0;
        launch.cooperative = lines.cooperative;
        for (const ExpressionPtr& extent : lines.grid) launch.grid.emplace_back(*extent, environment);
    };
    set_launch(front_matter, *made);
    for (std::size_t i = 1; i < front_matter.kernels.size(); ++i)
        set_launch(front_matter.kernels[i].launch, made->others.emplace_back());
    if (front_matter.opt_level) made->opt_level = static_cast<int>(number(front_matter.opt_level));
    made->tensor_maps = tensor_map_programs(front_matter, *made, environment);
    made->variables = variable_programs(front_matter, *made, environment);
    made->pointers = pointers(front_matter.problem, *made, number);
    made->largest_grid = {kLargestUnsigned, kLargestUnsigned, kLargestUnsigned};
    if (origin_->target)
        made->largest_grid = {std::min(kLargestUnsigned, origin_->limits.grid_x),
                              std::min(kLargestUnsigned, origin_->limits.grid_y),
                              std::min(kLargestUnsigned, origin_->limits.grid_z)};
    return made;
}

}  // namespace kiln
