// SPDX-License-Identifier: Apache-2.0
//
// The //@ lines that say what a launch works on: size, input, output, inout, scratch, flops, bytes, naive,
// tensormap and data, parsed and checked against the kernel's arguments. They are evaluated in problem.cpp and
// tensor_maps.cpp.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "template/directives.h"
#include "template/expression.h"
#include "template/expression_parser.h"

namespace kiln {

/// A condition that every variant must meet: the author's (`require`), or one that follows from how the
/// kernel is launched ("a block has at least one thread").
struct Rule {
    Constraint constraint;
    ExpressionPtr expression;
};

/// In addition to the public descriptions: the argument's index, and the expressions.
struct SizeLine {
    std::size_t argument;
    ArgumentFormat format;
    ExpressionPtr normal, test;  ///< test is null when the line gives none
    ExpressionPtr multiple;      ///< null: any
    ExpressionPtr most;          ///< null: what the argument holds
};

struct TensorLine {
    std::size_t argument;
    std::vector<ExpressionPtr> extents;
    ExpressionPtr align;      ///< of its address, in bytes; null: what its elements need
    ExpressionPtr low, high;  ///< of Fill::range; high also of Fill::offsets
    ExpressionPtr condition;  ///< null: always there
};

struct TensorMapLine {
    std::size_t argument, pointer_argument;
    std::vector<ExpressionPtr> extents, box;
    ExpressionPtr swizzle;    ///< null: none
    ExpressionPtr condition;  ///< null: always there
};

struct DataLine {
    std::size_t argument;
    Pattern pattern;
    ExpressionPtr size;
};

struct ProblemLines {
    std::vector<SizeArgument> sizes;      ///< in the order of the kernel's arguments, as all but size_lines
    std::vector<SizeLine> size_lines;     ///< in the order of the lines, which is that of evaluation
    std::vector<TensorArgument> tensors;  ///< its elements and those of tensor_lines belong together
    std::vector<TensorLine> tensor_lines;
    std::vector<TensorMapArgument> tensor_maps;  ///< as above
    std::vector<TensorMapLine> tensor_map_lines;
    std::vector<Rule> rules;           ///< that follow from alignments and tensor maps
    std::vector<DataLine> data_lines;  ///< of a reference
    ExpressionPtr flops, bytes;        ///< null when there is no such line
    std::string naive;
    std::vector<std::string> undeclared;  ///< "float alpha": arguments that no line describes
};

/// `lines`: of these directives, in the order of the file. `scope`: with everything that `grid` may use.
/// Throws TemplateError.
ProblemLines parse_problem_lines(const std::vector<Directive*>& lines, const std::string& kernel,
                                 Location kernel_location, const Scope& scope, const std::string& file);

/// "half" of "const half*"; nullopt if it is not a pointer, or a pointer to pointers.
std::optional<std::string_view> pointee(std::string_view normalised_type);

/// Whether this argument is made at launch and not passed by callers.
bool is_tensor_map(std::string_view normalised_type);

}  // namespace kiln
