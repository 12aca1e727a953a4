// SPDX-License-Identifier: Apache-2.0
#include "base/renamed_parameters.h"

#include <algorithm>

#include "base/words.h"

namespace kiln {
namespace {

constexpr RenamedParameter kRenamed[] = {
    {"GROUP", "RASTER_GROUP",
     "gemm_fp32 gemm_mma gemm_mma_batched gemm_wgmma gemm_wgmma_any transpose_tiled "},
    {"ACROSS", "RASTER_ALONG_M", "gemm_mma "},
    {"SPLIT", "SPLIT_K", "gemm_fp32 gemm_skinny gemm_wgmma "},
    {"CLUSTER", "CLUSTER_M", "gemm_wgmma "},
    {"BLOCKS", "BLOCKS_PER_SM", "gemm_wgmma decode_mma decode_persistent "},
    {"ROWS", "BM", "gemm_skinny "},
    {"WARPS", "MIN_WARPS", "gemm_tiled "},
    {"OPT", "OPT_LEVEL", "gemm_fp32 "},
    {"SIZE", "MFMA_SIZE", "gemm_mfma "},
    {"DEPENDENT", "PDL", "gemm_skinny layer_norm softmax sum_shuffle "},
    {"STASH", "SMEM_ITEMS", "layer_norm softmax "},
    {"AGAIN", "RECOMPUTE", "softmax "},
    {"SLICES", "SPLIT_ROWS", "column_sum column_sum_reference "},
    {"STREAM", "L1_NO_ALLOCATE", "column_sum histogram sum_shuffle "},
    {"LANES", "COUNTERS_PER_BIN", "histogram "},
    {"HEAD", "HEAD_DIM",
     "attention attention_mma attention_naive attention_wgmma attention_lse_reference "
     "attention_mma_reference attention_reference decode_mma decode_naive decode_paged decode_persistent "
     "decode_mma_reference decode_reference "},
    {"GROUP", "GQA_GROUP",
     "decode_mma decode_naive decode_paged decode_persistent decode_mma_reference decode_reference "},
    {"PAGE", "PAGE_SIZE",
     "decode_mma decode_naive decode_paged decode_persistent decode_mma_reference decode_reference "},
    {"SPAN", "PARTITION_SIZE", "decode_persistent "},
};

bool has_word(std::string_view words, std::string_view word) {
    for (std::size_t end = 0; (end = words.find(' ')) != words.npos; words.remove_prefix(end + 1))
        if (words.substr(0, end) == word) return true;
    return false;
}

}  // namespace

std::span<const RenamedParameter> renamed_parameters() { return kRenamed; }

std::string_view current_parameter_name(std::string_view template_name, std::string_view name) {
    const auto renamed = std::ranges::find_if(kRenamed, [&](const RenamedParameter& one) {
        return one.old_name == name && has_word(one.templates, template_name);
    });
    return renamed == std::end(kRenamed) ? name : renamed->new_name;
}

std::string parameter_hint(std::string_view template_name, std::string_view name,
                           const std::vector<std::string>& known) {
    const std::string current(current_parameter_name(template_name, name));
    if (current == name || std::ranges::find(known, current) == known.end()) return did_you_mean(name, known);
    return "; " + std::string(name) + " is now " + current;
}

}  // namespace kiln
