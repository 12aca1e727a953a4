// SPDX-License-Identifier: Apache-2.0
//
// Analyzer: compiles for the target, records on the host, and joins the results. The builds for the target, for
// the host and of the naive variant run in parallel; recordings run one after another. They fork, so compilers run
// in processes of their own: one in this process could hold a lock that the child needs.
#include <kiln/error.h>
#include <kiln/tools/analyze.h>

#include <algorithm>
#include <future>
#include <tuple>
#include <utility>

#include "analysis/code_lines.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "inspect/advice.h"
#include "inspect/host_recorder.h"
#include "inspect/launch_extent.h"
#include "inspect/recorded_variant.h"
#include "inspect/resource_needs.h"
#include "inspect/text_format.h"

namespace kiln {
namespace {

/// The architecture whose bank model is used when the target is the host.
constexpr const char* kBanksOfHost = "sm_90a";
// Only the total of its sectors is used.
constexpr RecordBudget kNaiveBudget{2e5, 6e6};
#ifdef __SANITIZE_ADDRESS__
// GCC 12's AddressSanitizer knows nothing of fork(): the child of a recording would wait for ever for a lock of the
// allocator that another thread held.
constexpr auto kInBackground = std::launch::deferred;
#else
constexpr auto kInBackground = std::launch::async | std::launch::deferred;
#endif

struct CompiledVariant {
    Resources resources;
    std::vector<CompiledAccess> accesses;
};

/// The recording of a variant, or why there is none.
struct Recorded {
    std::optional<RecordedVariant> variant, naive;
    std::string reason;
};

void check_blocks(const AnalyzeOptions& options) {
    if (options.most_blocks == 0) throw UsageError("most_blocks is 0; it has to be 1 or more");
}

std::string_view without_suffix(std::string_view arch) {
    arch = arch.substr(0, arch.find(':'));
    if (arch.starts_with("sm_") && (arch.ends_with('a') || arch.ends_with('f'))) arch.remove_suffix(1);
    return arch;
}

const Chip* chosen_chip(const Service& service, const std::string& wanted) {
    const Target& target = service.target();
    if (wanted.empty()) {
        if (target.backend == Backend::host) return nullptr;
        return find_chip(target.arch, service.has_device() ? service.device().info().name : std::string());
    }
    std::vector<std::string> names;
    for (const Chip& chip : chips()) {
        names.push_back(chip.name);
        if (chip.name != wanted) continue;
        if (without_suffix(chip.arch) != without_suffix(target.arch))
            throw UsageError("chip '" + wanted + "' has the architecture " + chip.arch +
                             ", and the target is " + target.arch + ".");
        return &chip;
    }
    throw UsageError("there is no chip '" + wanted + "'" + did_you_mean(wanted, names) + "; known are " +
                     enumerate(names) + ".");
}

/// The arithmetic units that the machine code uses.
Unit unit_of(const Resources& resources) {
    const auto count = [&](std::initializer_list<const char*> names) {
        int sum = 0;
        for (const char* const name : names)
            if (const auto found = resources.instructions.find(name); found != resources.instructions.end())
                sum += found->second;
        return sum;
    };
    if (count({"HMMA", "HGMMA", "UTCHMMA", "v_mfma", "v_smfmac"}) > 0) return Unit::matrix_f16;
    const int f64 = count({"DFMA", "v_fma_f64"});
    const int f16 = count({"HFMA2", "v_pk_fma_f16"});
    const int f32 = count({"FFMA", "FFMA2", "v_fma_f32", "v_fmac_f32", "v_mac_f32", "v_pk_fma_f32",
                           "v_fma_mix_f32", "v_dot2_f32_f16"});
    if (f64 > f32 && f64 > f16) return Unit::fma_f64;
    return f16 > f32 ? Unit::fma_f16 : Unit::fma_f32;
}

std::optional<Roofline> roofline_of(const Problem& problem, const Chip* chip, Unit unit) {
    if (chip == nullptr || problem.flops <= 0 || problem.bytes <= 0) return std::nullopt;
    const auto tflops = chip->tflops(unit);
    if (!tflops || *tflops <= 0 || chip->memory_gbps <= 0) return std::nullopt;
    return roofline(static_cast<double>(problem.flops), static_cast<double>(problem.bytes), unit, *tflops,
                    chip->memory_gbps);
}

/// The problem to analyse. Where the template declares none, and no sizes are asked for, the reason and an empty one.
std::pair<Problem, std::string> problem_of(const Variant& variant, const AnalyzeOptions& options) {
    try {
        return {variant.problem(options.sizes, options.test_sizes), {}};
    } catch (const VariantError& error) {
        if (variant.origin().is_runnable() || !options.sizes.empty()) throw;
        return {{}, first_line(error.what())};
    }
}

/// The variant for a device with that many multiprocessors, since its grid may depend on them.
Variant with_multiprocessors(const Variant& variant, Target target, std::int64_t multiprocessors) {
    if (multiprocessors == 0 || target.limits.multiprocessors == multiprocessors) return variant;
    target.limits.multiprocessors = multiprocessors;
    return variant.origin().for_target(target).variant(variant.values());
}

/// As they are told when they are found.
std::vector<std::string> texts_of(const Recording& recording) {
    std::vector<std::string> texts;
    for (AccessProblem problem : recording.problems) {
        problem.count = 1;
        if (problem.kind != ProblemKind::uninitialised) texts.push_back(problem.text());
    }
    return texts;
}

}  // namespace

struct Analyzer::State {
    explicit State(Service& service) : target(service) {}

    Service& target;
    std::unique_ptr<HostRecorder> recorder;

    HostRecorder& host() {
        if (!recorder) recorder = std::make_unique<HostRecorder>(target);
        return *recorder;
    }

    RecorderOptions recorder_options(const AnalyzeOptions& options) const {
        const Target& at = target.target();
        RecorderOptions result;
        result.banks = bank_model(at.backend == Backend::host ? kBanksOfHost : at.arch);
        result.warp_size = result.banks.lanes;
        result.most_blocks = options.most_blocks;
        result.most_ms = options.most_ms;
        return result;
    }

    CompiledVariant compile(const Variant& variant) {
        const Binary binary = target.compile_async(variant).get().binary;
        return {resources_of(binary), compiled_accesses(binary)};
    }

    /// The sizes of a problem as the naive variant knows them.
    void record_naive(const Variant& naive, std::future<AnyKernel> kernel, const Problem& problem,
                      const RecorderOptions& options, Recorded& result) {
        try {
            const LaunchWork shape = launch_work(naive, Runner::shared_sizes(naive, problem.sizes));
            RecorderOptions each = options;
            each.most_blocks = std::min<std::uint64_t>(options.most_blocks, 4);
            each.most_ms = options.most_ms / 4;
            each.problems = false;
            const AnyKernel built = kernel.get();
            const RecordSizes sizes = chosen_sizes(host(), built, shape, kNaiveBudget, std::nullopt, each);
            if (sizes.not_scaled.empty()) result.naive = record_variant(host(), built, sizes, each);
        } catch (const Error&) {
            // It can't be run or compiled here, so there is no comparison.
        }
    }

    Recorded record(const Variant& variant, const Problem& problem, const LaunchWork& shape,
                    const AnalyzeOptions& options) {
        Recorded result;
        try {
            const Variant on_host = host().on_host(variant);
            RecorderOptions recording = recorder_options(options);
            std::optional<Variant> naive;
            std::future<AnyKernel> naive_kernel;
            try {
                naive = host().naive(on_host);
            } catch (const Error&) {
                // The template does not exist, or has no such variant.
            }
            if (naive)
                naive_kernel =
                    std::async(kInBackground, [this, naive = *naive] { return host().build(naive); });
            const AnyKernel kernel = host().build(on_host);
            const RecordSizes sizes =
                chosen_sizes(host(), kernel, shape, RecordBudget(), options.record_sizes, recording);
            result.variant = record_variant(host(), kernel, sizes, recording);
            if (naive)
                record_naive(*naive, std::move(naive_kernel), problem, recorder_options(options), result);
        } catch (const Error& error) {
            result.reason = first_line(error.what());
        }
        return result;
    }

    std::optional<LayoutSearch> search_layout(const Variant& variant, const Analysis& analysis,
                                              const RecordedVariant& recorded,
                                              const AnalyzeOptions& options) {
        // A layout can't remove an excess that is not due to bank conflicts.
        const bool in_banks = std::ranges::any_of(analysis.shared, [](const SharedLine& line) {
            return line.believed.wavefronts > line.believed.ideal && line.believed.degree > 1;
        });
        if (analysis.excess() <= kExcessWorthTelling || !in_banks) return std::nullopt;
        const LaunchWork& small = recorded.sizes.less ? *recorded.sizes.less : recorded.sizes.at;
        RecorderOptions recording = recorder_options(options);
        recording.first_blocks = recorded.at.front().first_blocks;
        return find_layout(target, host(), variant, analysis.problem.sizes, small.sizes,
                           analysis.static_shared_bytes + analysis.dynamic_shared_bytes, recording);
    }
};

Analyzer::Analyzer(Service& target) : state_(std::make_unique<State>(target)) {}
Analyzer::~Analyzer() = default;

Analysis Analyzer::analyze(const Variant& given, const AnalyzeOptions& options) {
    check_blocks(options);
    const Stopwatch watch;
    Service& service = state_->target;
    const Target& target = service.target();

    Analysis analysis;
    analysis.chip = chosen_chip(service, options.chip);
    if (analysis.chip != nullptr) analysis.chip_name = analysis.chip->name;
    analysis.limits = target.limits;
    analysis.multiprocessors = target.limits.multiprocessors;
    if (analysis.chip != nullptr && (!options.chip.empty() || analysis.multiprocessors == 0))
        analysis.multiprocessors = analysis.chip->multiprocessors;

    const Variant variant = with_multiprocessors(given, target, analysis.multiprocessors);
    analysis.variant = variant.text();
    analysis.arch = target.arch;
    std::string no_problem;
    std::tie(analysis.problem, no_problem) = problem_of(variant, options);
    const bool has_problem = no_problem.empty();
    analysis.grid = has_problem ? grid_of(variant, analysis.problem) : Dim3{0, 0, 0};
    analysis.block = variant.block();
    analysis.cluster = variant.cluster();
    analysis.traffic.bytes_at_least = static_cast<double>(analysis.problem.bytes);
    const LaunchWork shape = has_problem ? launch_work(variant, analysis.problem.sizes) : LaunchWork{};

    auto compiling = std::async(kInBackground, [&] { return state_->compile(given); });
    Recorded recorded;
    if (options.record && has_problem) recorded = state_->record(given, analysis.problem, shape, options);
    if (options.record && !has_problem) recorded.reason = no_problem;
    CompiledVariant compiled = compiling.get();

    analysis.resources = std::move(compiled.resources);
    analysis.compiled = std::move(compiled.accesses);
    analysis.static_shared_bytes =
        analysis.resources.static_shared_bytes.value_or(variant.static_shared_bytes());
    analysis.dynamic_shared_bytes = variant.dynamic_shared_bytes();
    analysis.occupancy = occupancy_of(variant, analysis.resources, target);
    if (has_problem && analysis.occupancy && analysis.occupancy->blocks > 0 && analysis.multiprocessors > 0)
        analysis.waves = waves(analysis.grid.count(), *analysis.occupancy, analysis.multiprocessors);
    analysis.roofline = roofline_of(analysis.problem, analysis.chip, unit_of(analysis.resources));

    std::optional<LayoutSearch> layout;
    std::vector<LineSectors> sectors;
    if (recorded.variant) {
        analysis.recording = added_up(recorded.variant->at);
        analysis.recorded_sizes = recorded.variant->sizes.at.sizes;
        analysis.shared = believed_lines(*analysis.recording, analysis.compiled);
        analysis.not_scaled = recorded.variant->sizes.not_scaled;
        const LaunchWork& scaled_to = recorded.variant->sizes.shape;
        const ScaledCounts counts = scaled_counts(*recorded.variant, scaled_to, analysis.compiled);
        analysis.shared_wavefronts = counts.shared_wavefronts;
        analysis.shared_ideal = counts.shared_ideal;
        analysis.global_sectors = counts.global_sectors;
        analysis.global_ideal = counts.global_ideal;
        constexpr double kSectorBytes = 32;
        // TMA copies are not made by threads, so they are not recorded; and what is not scaled is of other sizes.
        const bool has_totals = variant.origin().tensor_maps().empty() && analysis.not_scaled.empty();
        if (has_totals) analysis.traffic.tiled_bytes = counts.global_sectors * kSectorBytes;
        if (has_totals && !analysis.shared.empty() && analysis.problem.flops > 0 && counts.loaded_bytes > 0)
            analysis.tile_intensity = static_cast<double>(analysis.problem.flops) / counts.loaded_bytes;
        if (recorded.naive && analysis.not_scaled.empty())
            analysis.traffic.naive_bytes =
                kSectorBytes * scaled_counts(*recorded.naive, recorded.naive->sizes.shape, {}).global_sectors;
        sectors = scaled_sectors(*recorded.variant, scaled_to, analysis.compiled);
        layout = state_->search_layout(given, analysis, *recorded.variant, options);
    }
    analysis.advice =
        advise({variant, target, analysis, recorded.reason, std::move(layout), std::move(sectors)});
    analysis.elapsed_ms = watch.elapsed_ms();
    return analysis;
}

Recording Analyzer::check(const Variant& variant, const AnalyzeOptions& options) {
    check_blocks(options);
    HostRecorder& host = state_->host();
    const Variant on_host = host.on_host(variant);
    const Problem problem = on_host.problem(options.record_sizes.value_or(options.sizes), true);
    const AnyKernel kernel = host.build(on_host);
    RecorderOptions recorder = state_->recorder_options(options);
    Recording recording = host.record(kernel, problem.sizes, recorder);
    constexpr std::size_t kWidest = 16;
    const bool is_aligned = std::ranges::all_of(problem.tensors, [](const Tensor& tensor) {
        return tensor.role == TensorRole::scratch || tensor.align_bytes % kWidest == 0;
    });
    if (recording.blocks_recorded == 0) return recording;
    // Once more in a few blocks: with threads in another order, and with tensors that are aligned as declared and no better.
    constexpr std::uint64_t kFewBlocks = 4;
    recorder.most_blocks = std::min(recorder.most_blocks, kFewBlocks);
    recorder.first_blocks = recording.first_blocks;
    add_new_problems(
        host.record_again(kernel, problem.sizes, recorder, is_aligned ? 0 : 1, texts_of(recording)),
        recording);
    return recording;
}

}  // namespace kiln
