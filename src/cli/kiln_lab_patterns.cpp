// SPDX-License-Identifier: Apache-2.0
//
// The patterns of kiln lab banks, and their timing.
#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "cli/kiln_lab.h"
#include "cli/option_values.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr int kLargestStride = 256;  // in words; PITCH of lab_banks ends at 1024 bytes
constexpr int kRepeats = 64, kThreads = 256, kLaunches = 7;
constexpr unsigned kReads = 32;  // of lab_banks, per repetition

int stride_number(std::string_view text) {
    return static_cast<int>(parse_whole("--stride", text, 1, kLargestStride));
}

/// A column of [rows][columns + pad], `lanes_wide` bytes per lane.
LabPattern column(std::string name, std::string text, int width, int pitch, int rows) {
    LabPattern pattern;
    pattern.name = std::move(name);
    pattern.text = std::move(text);
    pattern.width = width;
    pattern.pitch = pitch;
    pattern.rows = rows;
    return pattern;
}

std::string with_pad(const std::string& name, int pad) { return formatted("{}+{}", name, pad); }

/// The word that lab_banks writes to an index.
std::uint32_t word_at(std::uint32_t index) { return index * 2654435761u + 40503u; }

std::uint32_t expected_sum(const LabPattern& pattern, int lane) {
    const std::uint32_t address = pattern.address(lane);
    std::uint32_t once = 0;
    if (pattern.width < 4) {
        once = word_at(address / 4) >> address % 4 * 8 & ((1u << pattern.width * 8) - 1);
    } else {
        for (int i = 0; i < pattern.width / 4; ++i) once += word_at(address / 4 + static_cast<unsigned>(i));
    }
    return kReads * kRepeats * once;
}

template <class T>
void read_back(const Buffer& buffer, std::vector<T>& values) {
    buffer.copy_to(std::as_writable_bytes(std::span(values)));
}

}  // namespace

std::uint32_t LabPattern::address(int lane) const {
    const int reader = lane / share, row = reader % rows;
    const int chunk = reader / rows ^ (row >> shift & mask);
    return static_cast<std::uint32_t>(row * pitch + chunk * width);
}

Wavefronts LabPattern::predicted(const BankModel& model) const {
    std::vector<std::optional<std::uint32_t>> addresses;
    for (int lane = 0; lane < model.lanes; ++lane) addresses.emplace_back(address(lane));
    return wavefronts(addresses, width, model);
}

std::vector<int> parse_strides(const std::string& text) {
    std::vector<int> strides;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view part = std::string_view(text).substr(begin, end - begin);
        const std::size_t dots = part.find("..");
        const int first = stride_number(part.substr(0, dots));
        const int last = dots == std::string_view::npos ? first : stride_number(part.substr(dots + 2));
        if (last < first)
            throw UsageError("--stride " + std::string(part) + ": a range goes upwards, such as 1..64.");
        for (int stride = first; stride <= last; ++stride) strides.push_back(stride);
        begin = end + 1;
    }
    return strides;
}

std::vector<LabPattern> lab_patterns(const std::vector<int>& strides) {
    std::vector<LabPattern> patterns;
    for (const int stride : strides)
        patterns.push_back(column(formatted("stride-{}", stride),
                                  formatted("float, lane l reads word {} l", stride), 4, 4 * stride, 64));
    patterns.push_back(column("broadcast", "float, all lanes read one word", 4, 0, 64));
    patterns.push_back(column("row", "float [32][32], a row: tile[r][l]", 4, 4, 64));
    for (const int pad : {0, 1, 2, 4, 8})
        patterns.push_back(column(with_pad("column", pad),
                                  formatted("float [32][32+{}], a column: tile[l][c]", pad), 4,
                                  4 * (32 + pad), 32));
    LabPattern swizzled = column("column-swizzle", "float [32][32], a column, word ^ row", 4, 128, 32);
    swizzled.mask = 31;
    patterns.push_back(swizzled);

    patterns.push_back(column("byte-row", "bytes, a row", 1, 1, 64));
    patterns.push_back(column("half-row", "half, a row", 2, 2, 64));
    for (const int pad : {0, 1, 2, 4, 8})
        patterns.push_back(column(with_pad("half-column", pad), formatted("half [32][32+{}], a column", pad),
                                  2, 2 * (32 + pad), 32));
    for (const int pad : {0, 1, 2, 8})
        patterns.push_back(column(with_pad("half2-column", pad),
                                  formatted("half [64][64+{}], a column of half2", pad), 4, 2 * (64 + pad),
                                  64));

    patterns.push_back(column("8-byte-row", "8 bytes per lane, a row", 8, 8, 64));
    patterns.push_back(column("16-byte-row", "16 bytes per lane, a row", 16, 16, 64));
    for (const int pad : {0, 2, 4})
        patterns.push_back(column(with_pad("8-byte-column", pad),
                                  formatted("float [32][32+{}], a column, 8 bytes per lane", pad), 8,
                                  4 * (32 + pad), 32));
    for (const int pad : {0, 1, 4, 8})
        patterns.push_back(column(with_pad("16-byte-column", pad),
                                  formatted("float [32][32+{}], a column, 16 bytes per lane", pad), 16,
                                  4 * (32 + pad), 32));
    for (const int width : {8, 16}) {
        const std::string bytes = std::to_string(width);
        LabPattern pairs = column(bytes + "-byte-pairs", bytes + " bytes, lanes 2i and 2i+1 read the same",
                                  width, width, 64);
        pairs.share = 2;
        patterns.push_back(pairs);
        patterns.push_back(
            column(bytes + "-byte-broadcast", bytes + " bytes, all lanes read the same", width, 0, 64));
    }

    for (const int pad : {0, 1, 8})
        patterns.push_back(column(with_pad("ldmatrix", pad),
                                  formatted("half [16][64+{}], 16-byte rows as ldmatrix reads them", pad), 16,
                                  2 * (64 + pad), 16));
    LabPattern wide =
        column("ldmatrix-swizzle-64", "half [16][64], the same, chunk ^ (row & 7)", 16, 128, 16);
    wide.mask = 7;
    patterns.push_back(wide);
    LabPattern narrow =
        column("ldmatrix-swizzle-32", "half [16][32], the same, chunk ^ (row >> 1 & 3)", 16, 64, 16);
    narrow.shift = 1;
    narrow.mask = 3;
    patterns.push_back(narrow);
    return patterns;
}

LabTime measure(Service& service, const LabPattern& pattern, const BankModel& model) {
    using LabFn = void(int repeats, int blocks, std::uint32_t* checksum, float* cycles);
    const Variant variant = service.find("lab_banks")
                                .variant({{"WIDTH", pattern.width},
                                          {"PITCH", pattern.pitch},
                                          {"ROWS", pattern.rows},
                                          {"SHARE", pattern.share},
                                          {"SHIFT", pattern.shift},
                                          {"MASK", pattern.mask},
                                          {"LANES", model.lanes},
                                          {"THREADS", kThreads}});
    const auto kernel = service.build<LabFn>(variant);
    const Buffer checksum = service.device().allocate(kThreads * sizeof(std::uint32_t));
    const Buffer cycles = service.device().allocate(sizeof(float));
    LabTime result;
    std::vector<std::uint32_t> sums(kThreads);
    for (int i = 0; i < kLaunches; ++i) {
        kernel(service.stream(), kRepeats, 1, checksum.as<std::uint32_t>(), cycles.as<float>());
        service.stream().synchronize();
        std::vector<float> each(1);
        read_back(cycles, each);
        result.cycles = i == 0 ? double(each[0]) : std::min(result.cycles, double(each[0]));
        read_back(checksum, sums);
        for (int thread = 0; thread < kThreads; ++thread)
            if (sums[static_cast<std::size_t>(thread)] != expected_sum(pattern, thread % model.lanes))
                result.verified = false;
    }
    return result;
}

}  // namespace kiln::cli
