// SPDX-License-Identifier: Apache-2.0
//
// What a calibration is a function of: the problem, the variant, and what the model makes of them. Extents and times are
// given by their binary logarithms, since ratios count.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tune/calibration_content.h"
#include "tune/model_launch.h"

namespace kiln {
namespace {

constexpr std::int64_t kLineBytes = 128;
constexpr double kLeast = 1e-9;

float logarithm(double value) { return static_cast<float>(std::log2(std::max(value, kLeast))); }
float logarithm(std::int64_t value) { return logarithm(static_cast<double>(value)); }
float number(std::int64_t value) { return static_cast<float>(value); }

/// Of a matrix: elements of a row, and the greatest power of two up to a line that its bytes are a multiple of.
struct Rows {
    double elements = 1, alignment = kLineBytes;
};

Rows rows_of(const Tensor& tensor) {
    if (tensor.extents.size() < 2) return {};
    const std::int64_t elements = tensor.extents.back();
    return {static_cast<double>(elements),
            static_cast<double>(
                std::gcd(kLineBytes, elements * static_cast<std::int64_t>(tensor.element_bytes)))};
}

/// Of the elements that the threads of a row have room for, those that the row has; 1 where it has as many, or more.
double share_of_row(const ModelFacts& facts) {
    const double capacity = static_cast<double>(facts.row_capacity);
    return capacity > 0 ? std::min(1.0, static_cast<double>(facts.row) / capacity) : 1;
}

}  // namespace

Model::Features Model::features_of(const Launch& launch, const Problem& problem, const Estimate& estimate) {
    const ModelFacts& facts = launch.facts;
    const ModelFacts::Tiles tiles = facts.tiles.value_or(ModelFacts::Tiles{});
    const double m = static_cast<double>(tiles.m), n = static_cast<double>(tiles.n);
    const double rows = static_cast<double>(tiles.rows), columns = static_cast<double>(tiles.columns);
    const double depth = static_cast<double>(std::max<std::int64_t>(tiles.depth, 1));

    Rows inputs[2], output;
    std::size_t matrices = 0;
    double read = 0, written = 0, scratch = 0;
    for (const Tensor& tensor : problem.tensors) {
        const auto bytes = static_cast<double>(tensor.size_bytes());
        if (tensor.role == TensorRole::scratch) {
            scratch += bytes;
        } else if (tensor.role == TensorRole::input) {
            read += bytes;
            if (matrices < 2 && tensor.extents.size() > 1) inputs[matrices++] = rows_of(tensor);
        } else {
            if (written == 0) output = rows_of(tensor);
            written += bytes;
        }
    }
    const double ms = std::max(estimate.ms, kLeast);
    return {logarithm(m),
            logarithm(n),
            logarithm(tiles.k),
            logarithm(tiles.batch),
            logarithm(rows),
            logarithm(columns),
            logarithm(depth),
            logarithm(launch.tiles),
            logarithm(launch.parts),
            logarithm(std::ceil(static_cast<double>(tiles.k) / depth / launch.parts)),
            logarithm(std::min(n / columns, 1.0)),
            logarithm(std::min(m / rows, 1.0)),
            number(facts.stages),
            number(facts.cluster_rows),
            number(facts.cluster_columns),
            number(std::max<std::int64_t>(facts.blocks, 1)),
            number(facts.pingpong ? 1 : 0),
            number(facts.staged_store ? 1 : 0),
            logarithm(facts.thread_rows * facts.thread_columns),
            number(facts.thread_width),
            logarithm(facts.warp_rows),
            logarithm(facts.warp_columns),
            number(facts.padding),
            logarithm(facts.access_elements),
            logarithm(facts.accesses),
            logarithm(facts.row_capacity),
            logarithm(facts.row),
            logarithm(launch.threads),
            logarithm(launch.blocks),
            logarithm(launch.shared_bytes + 1),
            logarithm(launch.element_bytes),
            logarithm(inputs[0].elements),
            logarithm(inputs[0].alignment),
            logarithm(inputs[1].elements),
            logarithm(inputs[1].alignment),
            logarithm(output.elements),
            logarithm(output.alignment),
            logarithm(row_alignment(problem)),
            logarithm(read),
            logarithm(written),
            logarithm(scratch + 1),
            logarithm(static_cast<double>(problem.flops) / std::max(read + written, 1.0)),
            logarithm(ms),
            logarithm(estimate.waves),
            static_cast<float>(estimate.waves / std::max(std::ceil(estimate.waves), 1.0)),
            static_cast<float>(estimate.resident),
            logarithm(estimate.compute_ms / ms),
            logarithm(estimate.traffic_ms / ms),
            logarithm(estimate.latency_ms / ms),
            logarithm(estimate.memory_ms / ms),
            logarithm(estimate.fixed_ms / ms),
            static_cast<float>(std::fmod(static_cast<double>(tiles.k), 64)),
            static_cast<float>(std::fmod(n, columns) / columns),
            number(facts.any_rows ? 1 : 0),
            logarithm(share_of_row(facts)),
            logarithm(facts.edge_tile),
            logarithm(whole_tiles(facts.edge_tile, facts.edge))};
}

double Model::factor_of(const Calibration& calibration, KernelKind kind, const Features& features) {
    return calibrated_factor(calibration.content_->trees[static_cast<std::size_t>(kind)], features);
}

}  // namespace kiln
