// SPDX-License-Identifier: Apache-2.0
//
// Variant::problem: sizes in the order of their lines, then what depends on them. The extents of its tensors alone, too.
#include <kiln/error.h>
#include <kiln/extents.h>
#include <kiln/template.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <sstream>
#include <utility>

#include "base/words.h"
#include "format/format.h"
#include "template/element_type.h"
#include "template/signature.h"
#include "template/size_limits.h"
#include "template/template_data.h"

namespace kiln {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Range {
    std::int64_t low, high;
};

template <class Integer>
constexpr Range range_of() {
    using Limits = std::numeric_limits<Integer>;
    return {static_cast<std::int64_t>(Limits::min()),
            std::cmp_greater(Limits::max(), kMost) ? kMost : static_cast<std::int64_t>(Limits::max())};
}

Range range_of(ArgumentFormat format) {
    switch (format) {
        case ArgumentFormat::i8:
            return range_of<std::int8_t>();
        case ArgumentFormat::u8:
            return range_of<std::uint8_t>();
        case ArgumentFormat::i16:
            return range_of<std::int16_t>();
        case ArgumentFormat::u16:
            return range_of<std::uint16_t>();
        case ArgumentFormat::i32:
            return range_of<std::int32_t>();
        case ArgumentFormat::u32:
            return range_of<std::uint32_t>();
        case ArgumentFormat::i64:
        case ArgumentFormat::u64:
            break;
        case ArgumentFormat::boolean:
            return {0, 1};
    }
    return range_of<std::int64_t>();
}

/// The integers between which an element of this type holds every one without rounding.
Range exact_range(std::string_view type) {
    if (type == "half") return {-2048, 2048};
    if (type == "bfloat16") return {-256, 256};
    if (type == "float") return {-(1 << 24), 1 << 24};
    if (type == "double") return {-(1LL << 53), 1LL << 53};
    Range range = range_of(*argument_format(type));
    if (type == "unsigned long long") range.low = 0;
    return range;
}

/// What a node of a folded expression is a product of; not one where it is anything else.
ExtentRule rule_of(const Expression& folded, const Node& node, const Signature& signature) {
    const auto operand = [&](std::size_t i) -> const Node& {
        return folded.nodes()[static_cast<std::size_t>(node.operands[i])];
    };
    switch (node.operation) {
        case Operator::constant:
            return {node.value >= 0, node.value, {}};
        case Operator::argument:
            return {true, 1, {signature.arguments[static_cast<std::size_t>(node.value)].name}};
        case Operator::select:
            if (operand(0).operation != Operator::constant) return {};
            return rule_of(folded, operand(operand(0).value != 0 ? 1 : 2), signature);
        case Operator::multiply: {
            ExtentRule left = rule_of(folded, operand(0), signature);
            const ExtentRule right = rule_of(folded, operand(1), signature);
            left.is_product = left.is_product && right.is_product &&
                              !__builtin_mul_overflow(left.factor, right.factor, &left.factor);
            left.sizes.insert(left.sizes.end(), right.sizes.begin(), right.sizes.end());
            return left.is_product ? left : ExtentRule{};
        }
        default:
            return {};
    }
}

/// Computes one problem of a variant.
class ProblemMaker {
  public:
    ProblemMaker(const VariantData& data, const Sizes& given, bool test)
        : data_(data),
          front_matter_(data.origin->content->front_matter),
          lines_(front_matter_.problem),
          given_(given),
          test_(test),
          slots_(front_matter_.signature.arguments.size()),
          environment_(data.origin->rules.environment(data.codes)) {
        for (std::int64_t& slot : slots_) arguments_.push_back(&slot);
        environment_.arguments = arguments_.data();
    }

    /// The author's promise of exact results is about the default functions, not about a caller's.
    bool has_default_code() const {
        return std::ranges::all_of(front_matter_.parameters, [&](const Parameter& parameter) {
            return parameter.kind != ParameterKind::code ||
                   data_.values.find(parameter.name)->second == parameter.default_value;
        });
    }

    Problem make() {
        if (!lines_.undeclared.empty()) refuse_undeclared();
        check_given();
        check_sizes();
        for_tensors([&](const TensorArgument& argument, const TensorLine& line) {
            problem_.tensors.push_back(tensor(argument, line));
        });
        if (lines_.flops) problem_.flops = not_negative(*lines_.flops, "the number of operations");
        problem_.bytes =
            lines_.bytes ? not_negative(*lines_.bytes, "the number of bytes") : bytes_of_tensors();
        return std::move(problem_);
    }

    std::vector<TensorExtents> extents() {
        check_given();
        check_sizes();
        std::vector<TensorExtents> made;
        for_tensors([&](const TensorArgument& argument, const TensorLine& line) {
            made.push_back({argument.name, extents(argument, line)});
        });
        return made;
    }

    std::vector<TensorExtentRules> rules() const {
        std::vector<TensorExtentRules> made;
        for_tensors([&](const TensorArgument& argument, const TensorLine& line) {
            TensorExtentRules& rules = made.emplace_back(TensorExtentRules{argument.name, {}});
            for (const ExpressionPtr& extent : line.extents) {
                const Expression folded = extent->fold(environment_);
                rules.extents.push_back(rule_of(folded, folded.root(), front_matter_.signature));
            }
        });
        return made;
    }

    /// Throws VariantError for a size that is not as its line says.
    void check_sizes() {
        for (const SizeLine& line : lines_.size_lines) set_size(line);
    }

    /// For a reference, whose arguments have no lines: sizes of the tested template with the same names are
    /// known.
    std::vector<InputPattern> patterns() {
        for (std::size_t i = 0; i < slots_.size(); ++i)
            if (const auto given = given_.find(front_matter_.signature.arguments[i].name);
                given != given_.end())
                slots_[i] = given->second;
        std::vector<InputPattern> made;
        for (const DataLine& line : lines_.data_lines) {
            const std::string& name = front_matter_.signature.arguments[line.argument].name;
            const std::int64_t size = number(*line.size, "the size of the pattern of " + name);
            if (size < 0)
                refuse(formatted("the size of the pattern of {} can't be negative, and is {}{}", name, size,
                                 described(*line.size)));
            if (size == 0) continue;  // nothing contributes
            made.push_back({name, line.pattern, size});
        }
        return made;
    }

  private:
    [[noreturn]] void refuse(const std::string& message, const std::string& rule = {}) const {
        throw VariantError(front_matter_.kernel + ": " + message, rule);
    }

    [[noreturn]] void refuse_undeclared() const {
        for (const Signature::Argument& argument : front_matter_.signature.arguments)
            if (is_texture_or_surface(argument.type))
                refuse("its argument " + argument.name +
                       " is a texture or surface object, which only an application makes, so that no launch "
                       "can be prepared");
        refuse("no //@ line says what " + enumerate(lines_.undeclared) +
               (lines_.undeclared.size() == 1 ? " is" : " are") +
               ", so that no launch can be prepared: integers need a size line, pointers one of input, "
               "output, inout or scratch, and other values are better parameters");
    }

    /// Those that the variant has.
    template <class Visit>
    void for_tensors(const Visit& visit) const {
        for (std::size_t i = 0; i < lines_.tensors.size(); ++i)
            if (data_.places[lines_.tensor_lines[i].argument])
                visit(lines_.tensors[i], lines_.tensor_lines[i]);
    }

    std::vector<std::int64_t> extents(const TensorArgument& argument, const TensorLine& line) const {
        std::vector<std::int64_t> made;
        for (const ExpressionPtr& extent : line.extents)
            made.push_back(not_negative(*extent, "an extent of " + argument.name));
        return made;
    }

    void check_given() const {
        for (const auto& [name, value] : given_) {
            if (std::ranges::find(lines_.sizes, name, &SizeArgument::name) != lines_.sizes.end()) continue;
            std::vector<std::string> names;
            for (const SizeArgument& size : lines_.sizes) names.push_back(size.name);
            refuse("there is no size " + name + "; " +
                   (names.empty() ? "it has none at all" : "there are " + join(names)) +
                   did_you_mean(name, names));
        }
    }

    void set_size(const SizeLine& line) {
        const std::string& name = front_matter_.signature.arguments[line.argument].name;
        const auto found = given_.find(name);
        const ExpressionPtr& expression = test_ && line.test ? line.test : line.normal;
        const bool is_given = found != given_.end();
        const std::int64_t value = is_given ? found->second : number(*expression, "the default of " + name);
        const Range range = range_of(line.format);
        if (value < 0 || value > range.high) {
            std::string message = formatted("the size {} = {}", name, value);
            message += value < 0 ? " can't be negative"
                                 : formatted(" does not fit its argument, {}, which holds at most {}",
                                             (*data_.arguments)[line.argument].type, range.high);
            refuse(message + (is_given ? "" : described(*expression)));
        }
        if (line.multiple) check_multiple(line, name, value);
        if (line.most) check_most(line, name, value);
        // Read back through the argument's own width, as from a launch.
        static_assert(std::endian::native == std::endian::little);
        std::memcpy(&slots_[line.argument], &value, sizeof value);
        problem_.sizes.emplace(name, value);
    }

    void check_multiple(const SizeLine& line, const std::string& name, std::int64_t value) const {
        const std::int64_t multiple = number(*line.multiple, "the multiple of " + name);
        const std::string must = formatted("the size {} = {} must be a multiple of ", name, value);
        if (multiple < 1)
            refuse(formatted("{}{}, but that is {}{}", must, line.multiple->text(), multiple,
                             described(*line.multiple)));
        if (value % multiple == 0) return;
        std::vector<std::string> nearest;
        const std::int64_t below = value - value % multiple;
        if (below > 0) nearest.push_back(std::to_string(below));
        if (below <= range_of(line.format).high - multiple)
            nearest.push_back(std::to_string(below + multiple));
        refuse(formatted("{}{}{}", must, multiple,
                         nearest.empty() ? "" : "; the nearest is " + join(nearest, " or ")));
    }

    void check_most(const SizeLine& line, const std::string& name, std::int64_t value) const {
        const std::int64_t most = number(*line.most, "the limit of " + name);
        if (value > most)
            refuse(
                formatted("the size {} = {} must be at most {}{}", name, value, most, described(*line.most)));
    }

    /// "; it is m / 2, where m = 1"
    std::string described(const Expression& expression) const {
        const std::string values = describe_values(expression, front_matter_.parameters, environment_);
        return values.empty() ? "" : "; it is " + expression.text() + ", where " + values;
    }

    std::int64_t number(const Expression& expression, const std::string& what) const {
        Failure failure;
        const std::int64_t value = expression.evaluate(environment_, failure);
        if (!failure) return value;
        const std::string values = describe_values(expression, front_matter_.parameters, environment_);
        refuse(what + ", " + expression.text() + ", can't be computed, since " + failure.text() +
                   (values.empty() ? "" : "; here " + values),
               expression.text());
    }

    std::int64_t not_negative(const Expression& expression, const std::string& what) const {
        const std::int64_t value = number(expression, what);
        if (value < 0)
            refuse(formatted("{} can't be negative, and is {}{}", what, value, described(expression)),
                   expression.text());
        return value;
    }

    Tensor tensor(const TensorArgument& argument, const TensorLine& line) const {
        Tensor made;
        const std::size_t place = *data_.places[line.argument];
        made.name = argument.name;
        made.type = *pointee((*data_.arguments)[place].type);
        made.element_bytes = static_cast<std::size_t>(find_normalised_type(made.type)->bytes);
        made.align_bytes = std::ranges::find(data_.pointers, place, &PointerArgument::argument)->align_bytes;
        made.role = argument.role;
        made.fill = argument.fill;
        made.reference = argument.reference;
        made.exact = argument.exact && has_default_code();
        made.any_order = argument.any_order;
        made.extents = extents(argument, line);
        std::int64_t count = 0;
        try {
            count = made.count();
            (void)made.size_bytes();
        } catch (const VariantError& error) {
            refuse(std::string(error.what()).append(extents_text(line)));
        }
        if (line.low) {
            made.low = number(*line.low, "the least value of " + made.name);
            made.high = number(*line.high, "the largest value of " + made.name);
        }
        if (made.fill == Fill::permutation && count > 0) made.high = count - 1;
        if (made.fill == Fill::offsets) made.high = not_negative(*line.high, "the last of " + made.name);
        if (made.fill == Fill::offsets && count < 2 && made.high > 0)
            refuse(formatted("{} has {}, so there is no sequence that the {} rows belong to", made.name,
                             counted(static_cast<std::uint64_t>(count), "element", "elements"), made.high));
        if (line.high || made.fill == Fill::permutation) check_range(made, count);
        return made;
    }

    std::string extents_text(const TensorLine& line) const {
        std::vector<std::string> values;
        for (const ExpressionPtr& extent : line.extents) {
            std::istringstream described(describe_values(*extent, front_matter_.parameters, environment_));
            for (std::string value; std::getline(described >> std::ws, value, ',');)
                if (std::ranges::find(values, value) == values.end()) values.push_back(value);
        }
        return values.empty() ? "" : "; here " + join(values);
    }

    void check_range(const Tensor& tensor, std::int64_t count) const {
        const std::string range = formatted("{} to {}", tensor.low, tensor.high);
        // Where there are no elements, there need be no values for them.
        if (tensor.low > tensor.high && count > 0)
            refuse("the values of " + tensor.name + " are in " + range + ", which is empty");
        const Range exact = exact_range(tensor.type);
        if (tensor.low < exact.low || tensor.high > exact.high)
            refuse(formatted(
                "the values of {} are {}, but {} holds integers without rounding from {} to {} only",
                tensor.name, range, tensor.type, exact.low, exact.high));
    }

    std::int64_t bytes_of_tensors() const {
        std::uint64_t sum = 0;
        for (const Tensor& tensor : problem_.tensors)
            if (tensor.role != TensorRole::scratch && __builtin_add_overflow(sum, tensor.size_bytes(), &sum))
                sum = std::numeric_limits<std::uint64_t>::max();
        if (sum > static_cast<std::uint64_t>(kMost)) refuse("the tensors have more bytes than 64 bits count");
        return static_cast<std::int64_t>(sum);
    }

    const VariantData& data_;
    const FrontMatter& front_matter_;
    const ProblemLines& lines_;
    const Sizes& given_;
    bool test_;
    std::vector<std::int64_t> slots_;  ///< by argument
    std::vector<void*> arguments_;
    Environment environment_;
    Problem problem_;
};

}  // namespace

std::int64_t Tensor::count() const {
    // A zero among the extents makes the product 0, whatever the others are.
    if (std::ranges::find(extents, 0) != extents.end()) return 0;
    std::int64_t product = 1;
    for (const std::int64_t extent : extents) {
        if (extent < 0)
            throw VariantError(formatted("an extent of {} can't be negative, and is {}", name, extent));
        if (__builtin_mul_overflow(product, extent, &product))
            throw VariantError(name + " has more elements than 64 bits count");
    }
    return product;
}

std::uint64_t Tensor::size_bytes() const {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(count()), element_bytes, &bytes) ||
        bytes > static_cast<std::uint64_t>(kMost))
        throw VariantError(name + " has a size that does not fit 64 bits");
    return bytes;
}

void check_sizes(const Variant& variant, const Sizes& sizes) {
    ProblemMaker(VariantAccess::data(variant), sizes, false).check_sizes();
}

Problem Variant::problem(const Sizes& given, bool test) const {
    return ProblemMaker(*data_, given, test).make();
}

inline namespace KILN_ABI {

std::vector<TensorExtentRules> tensor_extent_rules(const Variant& variant) {
    return ProblemMaker(VariantAccess::data(variant), {}, false).rules();
}

std::vector<TensorExtents> tensor_extents(const Variant& variant, const Sizes& sizes) {
    return ProblemMaker(VariantAccess::data(variant), sizes, false).extents();
}

}  // namespace KILN_ABI

std::vector<InputPattern> Variant::input_patterns(const Sizes& sizes) const {
    return ProblemMaker(*data_, sizes, false).patterns();
}

inline namespace KILN_ABI {

std::string_view name(TensorRole role) {
    switch (role) {
        case TensorRole::input:
            return "input";
        case TensorRole::output:
            return "output";
        case TensorRole::inout:
            return "inout";
        case TensorRole::scratch:
            return "scratch";
    }
    return "unknown";
}

}  // namespace KILN_ABI
}  // namespace kiln
