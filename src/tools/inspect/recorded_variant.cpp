// SPDX-License-Identifier: Apache-2.0
//
// Determines widths per line, then totals.
#include "inspect/recorded_variant.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "inspect/measured_sizes.h"

namespace kiln {
namespace {

enum class Memory { shared, global };

/// Whether an instruction of the target matches the access that was recorded for the source line.
bool does(std::string_view instruction, Memory memory, AccessKind kind) {
    const std::string_view word = instruction.substr(0, instruction.find('.'));
    const bool shared = memory == Memory::shared;
    switch (kind) {
        case AccessKind::load:
            return word == (shared ? "LDS" : "LDG");
        case AccessKind::store:
            return word == (shared ? "STS" : "STG");
        case AccessKind::atomic:
            return shared ? word == "ATOMS" : word == "ATOMG" || word == "RED" || word == "ATOM";
        case AccessKind::matrix_load:
            return word == "LDSM";
        case AccessKind::matrix_store:
            return word == "STSM";
        case AccessKind::async_copy:
            return word == "LDGSTS";
        default:
            break;  // of no site
    }
    return false;
}

std::string in_code(const std::string& instruction) { return instruction + " in the compiled code"; }

/// The compiled accesses of a site: those of its line and kind, and of its line in a header if both have one
/// that agrees. A backend's header may differ from the host's.
std::vector<const CompiledAccess*> accesses_of(const SourcePlace& place, Memory memory, AccessKind kind,
                                               const std::vector<CompiledAccess>& compiled) {
    std::vector<const CompiledAccess*> of_line, of_header;
    for (const CompiledAccess& access : compiled) {
        if (access.line != place.line || !does(access.instruction, memory, kind)) continue;
        of_line.push_back(&access);
        if (!place.inner.empty() && access.inner == place.inner) of_header.push_back(&access);
    }
    return of_header.empty() ? of_line : of_header;
}

/// The width of all of them, if it is one.
std::optional<int> only_width(const std::vector<const CompiledAccess*>& accesses) {
    if (accesses.empty()) return std::nullopt;
    const int bytes = accesses.front()->bytes;
    const bool is_one =
        std::ranges::all_of(accesses, [&](const CompiledAccess* access) { return access->bytes == bytes; });
    return is_one ? std::optional(bytes) : std::nullopt;
}

/// Whole pieces of memory, where the binary has no other accesses on the line; nullptr: it has.
template <class Site>
auto spanned_by(const Site& site, const std::vector<const CompiledAccess*>& accesses) {
    const auto width = only_width(accesses);
    const auto found =
        std::ranges::find_if(site.spanned, [&](const auto& cost) { return width && cost.bytes == *width; });
    return found == site.spanned.end() ? nullptr : &*found;
}

SharedLine believed_line(const SharedSite& site, const std::vector<CompiledAccess>& compiled) {
    SharedLine line{site, site.as_written, "as written"};
    const auto accesses = accesses_of(site.place, Memory::shared, site.kind, compiled);
    if (const WidthCost* const spanned = spanned_by(site, accesses); spanned != nullptr)
        return {site, *spanned, in_code(accesses.front()->instruction)};
    // For ldmatrix, each lane gives the address of a row of 16 bytes, however many matrices are loaded at
    // once.
    const bool is_matrix = site.kind == AccessKind::matrix_load || site.kind == AccessKind::matrix_store;
    bool known = false;
    std::string other;
    for (const CompiledAccess* const access : accesses) {
        const auto width = std::ranges::find(site.widths, access->bytes, &WidthCost::bytes);
        const bool as_written = is_matrix || access->bytes == site.as_written.bytes;
        if (!as_written && width == site.widths.end()) {
            other = access->instruction;
            continue;
        }
        const WidthCost& found = as_written ? site.as_written : *width;
        if (known && found.bytes <= line.believed.bytes) continue;
        known = true;
        line.believed = found;
        line.belief = in_code(access->instruction);
    }
    if (!known && !other.empty())
        line.belief += "; " + in_code(other) + ", to which the recording can't merge";
    return line;
}

constexpr double ScaledCounts::*const kCounts[] = {&ScaledCounts::shared_wavefronts,
                                                   &ScaledCounts::shared_ideal, &ScaledCounts::global_sectors,
                                                   &ScaledCounts::global_ideal, &ScaledCounts::loaded_bytes};

/// The average of a grid's blocks from sums over those recorded, among them the first and the last, which count once: with
/// the weight of any other, an empty block would take one in eight off the grid. The others stand for the rest.
class BlockAverage {
  public:
    BlockAverage(const Recording& recording, std::uint64_t blocks)
        : recorded_(static_cast<double>(std::max<std::uint64_t>(1, recording.blocks_recorded))),
          blocks_(static_cast<double>(blocks)),
          is_apart_(recording.blocks_recorded > 1 && blocks > 1 && recording.has_last_block) {}

    double operator()(double all, double first, double last) const {
        if (!is_apart_) return all / recorded_;
        const double others = recorded_ > 2 ? std::max(0.0, all - first - last) / (recorded_ - 2) : first;
        return (others * (blocks_ - 2) + first + last) / blocks_;
    }

  private:
    double recorded_, blocks_;
    bool is_apart_;
};

ScaledCounts counts_of(const std::vector<SharedSite>& shared, const std::vector<GlobalSite>& global,
                       const std::vector<CompiledAccess>& compiled) {
    ScaledCounts counts;
    for (const SharedSite& site : shared) {
        const WidthCost believed = believed_line(site, compiled).believed;
        counts.shared_wavefronts += static_cast<double>(believed.wavefronts);
        counts.shared_ideal += static_cast<double>(believed.ideal);
    }
    for (const GlobalSite& site : global) {
        const GlobalCount believed = believed_global(site, compiled);
        counts.global_sectors += static_cast<double>(believed.sectors);
        counts.global_ideal += static_cast<double>(believed.ideal);
        if (site.kind != AccessKind::store && site.kind != AccessKind::matrix_store)
            counts.loaded_bytes += static_cast<double>(site.lane_bytes);
    }
    return counts;
}

/// Per block of a grid of so many, on average.
ScaledCounts block_counts(const Recording& recording, std::uint64_t blocks,
                          const std::vector<CompiledAccess>& compiled) {
    ScaledCounts counts = counts_of(recording.shared, recording.global, compiled);
    const ScaledCounts first = counts_of(recording.first_shared, recording.first_global, compiled),
                       last = counts_of(recording.last_shared, recording.last_global, compiled);
    const BlockAverage average(recording, blocks);
    for (const auto count : kCounts) counts.*count = average(counts.*count, first.*count, last.*count);
    return counts;
}

std::map<int, LineSectors> sectors_of(const std::vector<GlobalSite>& global,
                                      const std::vector<CompiledAccess>& compiled) {
    std::map<int, LineSectors> lines;
    for (const GlobalSite& site : global) {
        const GlobalCount believed = believed_global(site, compiled);
        LineSectors& line = lines[site.place.line];
        line.line = site.place.line;
        line.sectors += static_cast<double>(believed.sectors);
        line.ideal += static_cast<double>(believed.ideal);
    }
    return lines;
}

/// Per line and block, on average.
std::map<int, LineSectors> block_sectors(const Recording& recording, std::uint64_t blocks,
                                         const std::vector<CompiledAccess>& compiled) {
    std::map<int, LineSectors> lines = sectors_of(recording.global, compiled);
    std::map<int, LineSectors> first = sectors_of(recording.first_global, compiled),
                               last = sectors_of(recording.last_global, compiled);
    const BlockAverage average(recording, blocks);
    for (auto& [number, line] : lines) {
        line.sectors = average(line.sectors, first[number].sectors, last[number].sectors);
        line.ideal = average(line.ideal, first[number].ideal, last[number].ideal);
    }
    return lines;
}

/// Of each kernel; nothing of those with an empty grid.
std::vector<Recording> record_at_sizes(HostRecorder& recorder, const AnyKernel& kernel, const LaunchWork& at,
                                       const std::vector<RecorderOptions>& options) {
    std::vector<RecorderOptions> of_launches;
    for (std::size_t i = 0; i < options.size(); ++i)
        if (at.kernel_blocks[i] != 0) of_launches.push_back(options[i]);
    std::vector<Recording> launches = recorder.record_kernels(kernel, at.sizes, of_launches);
    std::vector<Recording> kernels;
    auto launch = launches.begin();
    for (const std::uint64_t blocks : at.kernel_blocks)
        kernels.push_back(blocks != 0 ? std::move(*launch++) : Recording{});
    return kernels;
}

BlockBytes bytes_of(const Recording& recording) {
    std::vector<std::uint64_t> blocks = recording.block_bytes;
    BlockBytes bytes;
    if (blocks.empty()) return bytes;
    bytes.most = static_cast<double>(std::ranges::max(blocks));
    if (recording.has_last_block && blocks.size() > 1) blocks.pop_back();  // it may be nearly empty
    for (const std::uint64_t block : blocks) bytes.mean += static_cast<double>(block);
    bytes.mean /= static_cast<double>(blocks.size());
    return bytes;
}

struct KernelRecording {
    const Recording& at;
    const Recording* less;  ///< null: `at` is all that there is
    std::uint64_t blocks;   ///< of the shape
    Scaling scaling;
};

/// For each kernel that was recorded and that the shape launches.
void for_each_kernel(const RecordedVariant& recorded, const LaunchWork& shape, const auto& use) {
    const RecordSizes& sizes = recorded.sizes;
    for (std::size_t i = 0; i < recorded.at.size(); ++i) {
        if (sizes.at.kernel_blocks[i] == 0 || shape.kernel_blocks[i] == 0) continue;
        RecordSizes of_kernel{sizes.at.of_kernel(i), std::nullopt};
        const bool has_less = sizes.less && sizes.less->kernel_blocks[i] != 0;
        if (has_less) of_kernel.less = sizes.less->of_kernel(i);
        const LaunchWork whole = shape.of_kernel(i);
        use(KernelRecording{recorded.at[i], has_less ? &recorded.less[i] : nullptr, whole.blocks,
                            Scaling(of_kernel, whole)});
    }
}

}  // namespace

RecordSizes chosen_sizes(HostRecorder& recorder, const AnyKernel& kernel, const LaunchWork& shape,
                         const RecordBudget& budget, const std::optional<Sizes>& record_at,
                         RecorderOptions& options) {
    const Variant& variant = kernel.variant();
    const bool has_flops = shape.block_work > 0;
    if (has_flops && record_at) return {launch_work(variant, *record_at), std::nullopt, shape};
    if (has_flops) return record_sizes(variant, shape, budget);
    if (record_at) {
        LaunchWork at = launch_work(variant, *record_at);
        const bool is_shape = at.sizes == shape.sizes;
        return not_scaled(std::move(at), is_shape ? "" : "these sizes were asked for");
    }
    const MeasureBlocks measure = [&](const LaunchWork& work) {
        // As many at all sizes, however long they take: those of different places in the grid can't be compared.
        constexpr std::uint64_t kFew = 4;
        RecorderOptions few = options;
        few.most_blocks = std::min(few.most_blocks, kFew);
        few.problems = false;
        std::vector<BlockBytes> bytes;
        for (const Recording& recording : record_at_sizes(
                 recorder, kernel, work, std::vector<RecorderOptions>(work.kernel_blocks.size(), few))) {
            bytes.push_back(bytes_of(recording));
            options.first_blocks |= recording.first_blocks;
        }
        return bytes;
    };
    return measured_sizes(variant, shape.sizes, budget, measure);
}

RecordedVariant record_variant(HostRecorder& recorder, const AnyKernel& kernel, const RecordSizes& sizes,
                               const RecorderOptions& options) {
    RecordedVariant result{sizes, {}, {}};
    std::vector<RecorderOptions> each(sizes.at.kernel_blocks.size(), options);
    if (sizes.less)
        for (RecorderOptions& one : each) one.most_ms = options.most_ms * 2 / 3;
    result.at = record_at_sizes(recorder, kernel, sizes.at, each);
    if (!sizes.less) return result;
    // The same number of blocks in both, so that those at the edges have the same weight.
    for (std::size_t i = 0; i < each.size(); ++i) {
        each[i].most_ms = options.most_ms / 3;
        each[i].most_blocks = std::max<std::uint64_t>(1, result.at[i].blocks_recorded);
        each[i].first_blocks = result.at[i].first_blocks;
        each[i].problems = false;
    }
    result.less = record_at_sizes(recorder, kernel, *sizes.less, each);
    return result;
}

Recording added_up(const std::vector<Recording>& recordings) {
    Recording sum = recordings.front();
    if (recordings.size() > 1) {  // each has a last block of its own
        sum.has_last_block = false;
        sum.first_shared.clear();
        sum.first_global.clear();
        sum.last_shared.clear();
        sum.last_global.clear();
    }
    for (const Recording& more : std::span(recordings).subspan(1)) {
        const auto append = [](auto& to, const auto& from) {
            to.insert(to.end(), from.begin(), from.end());
            std::ranges::stable_sort(to, {}, [](const auto& site) { return site.place; });
        };
        append(sum.shared, more.shared);
        append(sum.global, more.global);
        sum.problems.insert(sum.problems.end(), more.problems.begin(), more.problems.end());
        sum.block_bytes.insert(sum.block_bytes.end(), more.block_bytes.begin(), more.block_bytes.end());
        sum.blocks += more.blocks;
        sum.blocks_recorded += more.blocks_recorded;
        sum.first_blocks |= more.first_blocks;
        sum.elapsed_ms += more.elapsed_ms;
    }
    return sum;
}

std::vector<SharedLine> believed_lines(const Recording& recording,
                                       const std::vector<CompiledAccess>& compiled) {
    std::vector<SharedLine> lines;
    for (const SharedSite& site : recording.shared) lines.push_back(believed_line(site, compiled));
    return lines;
}

GlobalCount believed_global(const GlobalSite& site, const std::vector<CompiledAccess>& compiled) {
    const auto accesses = accesses_of(site.place, Memory::global, site.kind, compiled);
    if (const WidthSectors* const spanned = spanned_by(site, accesses); spanned != nullptr)
        return {spanned->sectors, spanned->ideal, true};
    const bool wider = std::ranges::any_of(
        accesses, [&](const CompiledAccess* access) { return access->bytes > site.bytes; });
    if (wider && site.merged_requests != 0 && site.merged_requests < site.requests)
        return {site.merged_sectors, site.merged_ideal, true};
    return {site.sectors, site.ideal, false};
}

ScaledCounts scaled_counts(const RecordedVariant& recorded, const LaunchWork& shape,
                           const std::vector<CompiledAccess>& compiled) {
    ScaledCounts counts;
    for_each_kernel(recorded, shape, [&](const KernelRecording& kernel) {
        const ScaledCounts at = block_counts(kernel.at, kernel.blocks, compiled);
        const ScaledCounts less =
            kernel.less != nullptr ? block_counts(*kernel.less, kernel.blocks, compiled) : at;
        for (const auto count : kCounts) counts.*count += kernel.scaling.whole_grid(at.*count, less.*count);
    });
    return counts;
}

std::vector<LineSectors> scaled_sectors(const RecordedVariant& recorded, const LaunchWork& shape,
                                        const std::vector<CompiledAccess>& compiled) {
    std::map<int, LineSectors> sums;
    for_each_kernel(recorded, shape, [&](const KernelRecording& kernel) {
        std::map<int, LineSectors> less;
        if (kernel.less != nullptr) less = block_sectors(*kernel.less, kernel.blocks, compiled);
        for (const auto& [number, line] : block_sectors(kernel.at, kernel.blocks, compiled)) {
            LineSectors& sum = sums[number];
            sum.line = number;
            sum.sectors += kernel.scaling.whole_grid(line.sectors, less[number].sectors);
            sum.ideal += kernel.scaling.whole_grid(line.ideal, less[number].ideal);
        }
    });
    std::vector<LineSectors> lines;
    for (const auto& [number, line] : sums) lines.push_back(line);
    return lines;
}

}  // namespace kiln
