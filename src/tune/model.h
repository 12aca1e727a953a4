// SPDX-License-Identifier: Apache-2.0
//
// The analytic model: an estimate of a variant's time for a problem from what is known before it is compiled: the
// launch, the tile of a block, the architecture's peak rates. It is made to order variants, not to predict times.
#pragma once

#include <kiln/calibration.h>
#include <kiln/model.h>
#include <kiln/occupancy.h>
#include <kiln/service.h>
#include <kiln/template.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace kiln {

/// What kernels are modelled alike, and calibrated apart.
enum class KernelKind {
    plain,
    streamed,
    fma_registers,
    fma_async,
    mma_staged,
    mma_direct,
    wgmma_tma,
    wgmma_registers,
    fma_direct,
    fused,
    staged_rows,
    persistent_pipeline,
    streamed_strips
};
constexpr std::size_t kKernelKinds = 13;

/// A device, or the known facts about an architecture.
struct Machine {
    /// Its multiprocessors are known, since many a template computes its grid from them: those of the given target, else of
    /// the chip of that name, else of the first chip of the architecture, else 64.
    Target target;
    double memory_gbps = 0;
    double fma_tflops = 0, matrix_tflops = 0;

    /// device_name: empty where there is none; Calibration::usual says what it is calibrated by.
    Machine(const Target& target, const std::string& device_name);
    /// Read when it is first asked for; once.
    const Calibration& calibration() const;
    /// Why the user's is not used. Empty also before one is asked for.
    std::string calibration_problem() const;

  private:
    struct Lazy;
    std::shared_ptr<Lazy> lazy_;
};

/// A variant's estimated time, and what it is made of. Parts that overlap do not add up.
struct Estimate {
    double ms = 0;
    double compute_ms = 0;  ///< of the multiplications, all waves
    double traffic_ms = 0;  ///< from the L2 cache
    double latency_ms = 0;  ///< of copies that nothing hides
    double memory_ms = 0;   ///< of the problem's bytes
    double fixed_ms = 0;    ///< launch, prologues, stores of the results
    double waves = 0;       ///< how often the blocks' work fills the device: 1.5 is a wave and a half
    double resident = 1;    ///< blocks on a multiprocessor at a time
    double factor = 1;      ///< of the calibration, in `ms`
    KernelKind kind = KernelKind::plain;

    /// "bound by memory: compute 10 us, L2 8 us, memory 31 us, other 6 us; 1.5 waves"
    std::string text() const;
};

/// Estimates for variants, from what their templates say in `model` lines.
class Model {
  public:
    explicit Model(const Machine& machine) : machine_(machine) {}

    /// What a calibration is a function of, in addition to the kind of kernel.
    static constexpr std::size_t kFeatures = 57;
    using Features = std::array<float, kFeatures>;

    /// Of a problem of this variant; nullopt: its blocks do not fit a multiprocessor. On the host, all
    /// variants but those of GEMMs are estimated alike, and the result only says how far their values are from the
    /// defaults.
    std::optional<Estimate> estimate(const Variant& variant, const Problem& problem) const;
    /// In milliseconds.
    std::optional<double> ms(const Variant& variant, const Problem& problem) const {
        const std::optional<Estimate> found = estimate(variant, problem);
        return found ? std::optional(found->ms) : std::nullopt;
    }

    /// The estimate before it is calibrated, and its features; not for the host.
    std::optional<Estimate> uncalibrated(const Variant& variant, const Problem& problem,
                                         Features& features) const;
    /// Of such an estimate; 1 by an empty calibration.
    static double factor_of(const Calibration& calibration, KernelKind kind, const Features& features);

  private:
    struct Launch;
    struct Tiling;
    std::optional<Launch> launch_of(const Variant& variant, const Problem& problem) const;
    static Features features_of(const Launch& launch, const Problem& problem, const Estimate& estimate);
    Estimate tile(const Variant& variant, const Problem& problem, const Launch& launch) const;
    Estimate wgmma(const Variant& variant, const Problem& problem, const ModelFacts& facts,
                   const Tiling& tiling) const;
    double host_ms(const Variant& variant, const Launch& launch, const Tiling& tiling) const;
    Estimate plain(const Variant& variant, const Problem& problem, const Launch& launch) const;
    Estimate fused(const Variant& variant, const Problem& problem, const Launch& launch) const;
    Estimate streamed(const Variant& variant, const Problem& problem, const Launch& launch) const;
    Estimate staged_rows(const Variant& variant, const Problem& problem, const Launch& launch) const;
    double memory_ms(const Problem& problem) const;
    int blocks_at_once(const Variant& variant, int registers) const;

    const Machine& machine_;
};

}  // namespace kiln
