// SPDX-License-Identifier: Apache-2.0
//
// Analyses made by hand, for reports: a tile whose loads conflict unless it is padded.
#pragma once

#include <kiln/tools/report.h>

#include <string>
#include <vector>

namespace kiln::test {

inline std::string sample_source() {
    return "// tile: a tile of shared memory, for tests\n"
           "//@ kernel tile\n"
           "//@ param PAD int in 0..8 = 0 \"extra elements per row\"\n"
           "#include \"kiln/device.h\"\n"
           "\n"
           "extern \"C\" __global__ void tile(int n, const float* a, float* c) {\n"
           "    __shared__ float tile[32][32 + PAD];\n"
           "    const int x = threadIdx.x, y = threadIdx.y;\n"
           "    if (x < n && y < n) tile[y][x] = a[y * n + x];\n"
           "    __syncthreads();\n"
           "    // Reads a column: with PAD=0 all lanes meet in one bank.\n"
           "    c[y * n + x] = tile[x][y];\n"
           "}\n";
}

/// A column of floats, `pitch` apart: 32 conflicts where the pitch is 32.
inline SharedLine sample_line(int line, AccessKind kind, unsigned pitch, std::uint64_t requests) {
    SharedLine shared;
    shared.site.place = {"tile.cu", line, ""};
    shared.site.kind = kind;
    shared.site.variable = "tile";
    for (std::uint32_t lane = 0; lane < 32; ++lane) shared.site.worst.emplace_back(lane * pitch * 4);
    const Wavefronts taken = wavefronts(shared.site.worst, 4, bank_model("sm_90a"),
                                        kind == AccessKind::store ? SharedAccess::store : SharedAccess::load);
    shared.site.as_written = {4, requests, requests * static_cast<std::uint64_t>(taken.actual),
                              requests * static_cast<std::uint64_t>(taken.ideal), taken.degree};
    shared.site.merged = shared.site.as_written;
    shared.site.widths = {shared.site.as_written};
    shared.believed = shared.site.as_written;
    shared.belief = "as written";
    return shared;
}

/// The tile with this pad, for an H200.
inline ReportItem sample_item(int pad) {
    ReportItem item;
    item.summary = "tile: a tile of shared memory, for tests";
    item.source_file = "tile.cu";
    item.source = sample_source();
    Analysis& analysis = item.analysis;
    analysis.variant = "tile T=float PAD=" + std::to_string(pad);
    analysis.arch = "sm_90a";
    analysis.problem.sizes = {{"n", 4096}};
    analysis.problem.flops = 2LL * 4096 * 4096 * 64;
    analysis.problem.bytes = 2LL * 4096 * 4096 * 4;
    analysis.grid = {16384, 1, 1};
    analysis.block = {32, 32, 1};
    analysis.chip = find_chip("sm_90a", "NVIDIA H200");
    analysis.chip_name = "NVIDIA H200";
    analysis.multiprocessors = 132;
    analysis.resources.registers = 40 + pad;
    analysis.resources.spill_bytes = 0;
    analysis.resources.binary_bytes = 9000;
    analysis.resources.instructions = {{"total", 210}};
    analysis.static_shared_bytes = 32 * static_cast<std::size_t>(32 + pad) * 4;
    analysis.limits.shared_bytes_per_block_optin = 232448;
    analysis.occupancy = occupancy({1024, *analysis.resources.registers, analysis.static_shared_bytes, 0},
                                   Backend::cuda, "sm_90a");
    analysis.waves = waves(analysis.grid.count(), *analysis.occupancy, 132);
    analysis.roofline = roofline(static_cast<double>(analysis.problem.flops),
                                 static_cast<double>(analysis.problem.bytes), Unit::fma_f32, 66.9, 4800);
    analysis.tile_intensity = 32;
    analysis.traffic = {static_cast<double>(analysis.problem.bytes), 4e8 + 1e7 * pad, 3.2e9};
    analysis.shared = {sample_line(9, AccessKind::store, 1, 128),
                       sample_line(12, AccessKind::load, 32U + static_cast<unsigned>(pad), 256)};
    Recording recording;
    for (const SharedLine& line : analysis.shared) {
        recording.shared.push_back(line.site);
        analysis.shared_wavefronts += 2048.0 * static_cast<double>(line.believed.wavefronts);
        analysis.shared_ideal += 2048.0 * static_cast<double>(line.believed.ideal);
    }
    GlobalSite load;
    load.place = {"tile.cu", 9, ""};
    load.bytes = 4;
    load.requests = load.merged_requests = 256;
    load.sectors = load.merged_sectors = 1024;
    load.ideal = load.merged_ideal = 1024;
    load.lane_bytes = 32768;
    recording.global = {load};
    recording.blocks = 16384;
    recording.blocks_recorded = 8;
    recording.elapsed_ms = 12;
    analysis.recording = recording;
    analysis.recorded_sizes = analysis.problem.sizes;
    analysis.global_sectors = analysis.global_ideal = 2048.0 * 1024;
    if (pad % 2 == 0)
        analysis.advice = {
            {Advice::Weight::warning, "Line 12 has a conflict; an odd pitch has none.", "PAD=1"},
            {Advice::Weight::hint, "Registers do not bind.", ""}};
    else
        analysis.advice = {{Advice::Weight::good, "No access to shared memory has a bank conflict.", ""}};
    return item;
}

}  // namespace kiln::test
