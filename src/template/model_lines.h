// SPDX-License-Identifier: Apache-2.0
//
// `model KEY VALUE...`: what the tuner's model needs to know about a template. Nothing else depends on these
// lines.
#pragma once

#include <kiln/model.h>

#include <array>
#include <span>

#include "template/problem_lines.h"

namespace kiln {

/// The expressions of the lines. Null, or empty: no such line, or not given there.
struct ModelLines {
    Engine engine = Engine::fma;
    Copies copies = Copies::registers;
    std::vector<ExpressionPtr> tile, product;  ///< 2 or 3 of a tile, 3 or 4 of the whole problem
    std::vector<ExpressionPtr> thread, warp, cluster, access;
    ExpressionPtr stages, blocks, pingpong, staged_store, padding, any_rows, staged_rows, row_capacity, row,
        side_capacity, side, edge_tile, edge, step_tile, step, parts;
    bool has_strips = false;  ///< edge_tile is of a strip
    ModelSearch search;
};

/// `scope`: with everything that `grid` may use. Throws TemplateError.
ModelLines parse_model_lines(std::span<Directive> lines, const Scope& scope);

/// Throws VariantError for an expression that can't be computed. environment: with arguments, of these sizes.
ModelFacts model_facts(const ModelLines& lines, const Environment& environment,
                       const std::vector<Parameter>& parameters, const std::string& kernel);

}  // namespace kiln
