// SPDX-License-Identifier: Apache-2.0
//
// The ceilings that rows are compared with: bandwidth of a copy, throughput of cublasLt, and data sheets.
#include <kiln/error.h>
#include <kiln/occupancy.h>

#include <array>

#include "bench/bare_cuda.h"
#include "bench/benchmark.h"
#include "bench/cublas.h"
#include "bench/verified_launch.h"

namespace kiln::bench {
namespace {

constexpr double kFlopsPerUs = 1e6;  // of one TFLOP/s

/// Fractions of a wrong result would be meaningless.
void expect_right(const std::vector<std::string>& wrong) {
    if (!wrong.empty()) throw Error(wrong.front());
}

}  // namespace

const Ceilings& Benchmark::ceilings(BenchSuite& suite) {
    if (ceilings_) return *ceilings_;
    ceilings_.emplace();
    const Chip* const chip = find_chip(service_.target().arch, service_.device().info().name);
    const bool is_this = chip != nullptr && chip->name == service_.device().info().name;
    if (is_this) ceilings_->fma_flops_per_us = chip->fma_f32_tflops.value_or(0) * kFlopsPerUs;
    if (!on_gpu()) return *ceilings_;
    try {
        measure_copy();
    } catch (const std::exception& error) {
        if (options_.stop.stop_requested()) throw Stopped();
        suite.failures.push_back(std::string("the ceiling of copies is not measured: ") + error.what());
    }
    try {
        measure_matrix();
    } catch (const std::exception& error) {
        if (options_.stop.stop_requested()) throw Stopped();
        suite.notes.push_back(std::string("the ceiling of GEMMs is not measured: ") + error.what());
    }
    if (ceilings_->matrix_flops_per_us == 0 && is_this && chip->matrix_f16_tflops) {
        ceilings_->matrix_flops_per_us = *chip->matrix_f16_tflops * kFlopsPerUs;
        ceilings_->matrix_source = "data sheet";
    }
    return *ceilings_;
}

void Benchmark::measure_copy() {
    VerifiedLaunch copy(*this, service_.find("copy").variant(), {{"n", quick() ? 1 << 26 : 1 << 28}});
    expect_right(copy.verify());
    std::vector<Launch> contenders = {[&] { copy.launch(); }};
    std::vector<std::string> names = {"Kiln's copy"};
    std::optional<BareCuda> driver;
    if (on_cuda()) {
        driver.emplace(service_.device().info().ordinal);
        names.emplace_back("the driver's copy");
        contenders.emplace_back([&] {
            driver->copy(copy.tensor("y").data(), copy.tensor("x").data(),
                         copy.tensor("x").tensor().size_bytes(), stream().handle());
        });
    }
    if (driver) {
        copy.poison();
        contenders.back()();
        stream().synchronize();
        expect_right(copy.verify(copy.tensor("y"), "the driver"));
    }
    copy.done_verifying();
    const auto times = interleaved_us(contenders);
    for (std::size_t i = 0; i < times.size(); ++i) {
        const double rate = static_cast<double>(copy.problem().bytes) / spread_of(times[i]).median;
        if (rate <= ceilings_->copy_bytes_per_us) continue;
        ceilings_->copy_bytes_per_us = rate;
        ceilings_->copy_source = names[i];
    }
}

void Benchmark::measure_matrix() {
    if (!wants("cublas") || !problem_of("cublas").empty()) return;
    std::vector<std::array<std::int64_t, 3>> shapes = {{4096, 4096, 4096}};
    if (!quick()) shapes.push_back({8192, 8192, 4096});
    for (const auto& [m, n, k] : shapes) {
        const Sizes sizes = {{"m", m}, {"n", n}, {"k", k}};
        VerifiedLaunch kernel(*this, choose({"gemm_wgmma", "gemm_mma"}, {{"T", "half"}}, sizes).variant,
                              sizes);
        const LibraryProduct best = cublas_->best(product_plan(kernel), kernel.tensor("a").data(),
                                                  kernel.tensor("b").data(), kernel.tensor("c").data());
        best.launch();
        stream().synchronize();
        expect_right(kernel.verify(kernel.tensor("c"), "cublasLt"));
        kernel.done_verifying();
        const double rate = static_cast<double>(kernel.problem().flops) /
                            spread_of(interleaved_us({best.launch}).front()).median;
        if (rate <= ceilings_->matrix_flops_per_us) continue;
        ceilings_->matrix_flops_per_us = rate;
        ceilings_->matrix_source = "cublasLt at " + product_text(m, n, k);
    }
}

}  // namespace kiln::bench
