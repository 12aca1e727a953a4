// SPDX-License-Identifier: Apache-2.0
//
// Parses values of options: integers, choices, sizes in bytes; suggests the nearest name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::cli {

/// An integer written in decimal, between min and max. option: its name, for the message
/// ("--m"). Throws UsageError.
std::uint64_t parse_whole(std::string_view option, std::string_view text, std::uint64_t min,
                          std::uint64_t max);

/// A factor, such as 0.5 or -1e-3, finite as a float. Throws UsageError.
float parse_factor(std::string_view option, std::string_view text);

/// A number of seconds, such as 60 or 2.5, at most a week. Throws UsageError.
double parse_seconds(std::string_view option, std::string_view text);

/// "3/8": the part and the number of parts. Throws UsageError that names --shard.
std::pair<std::uint64_t, std::uint64_t> parse_shard(const std::string& text);

/// "500", "64KiB", "1.5 GiB", "2G": bytes, in powers of 1024. Throws UsageError.
std::uint64_t parse_size(std::string_view option, std::string_view text);

/// The position of text in choices. Throws UsageError that lists them and names the nearest.
std::size_t parse_choice(std::string_view option, std::string_view text,
                         const std::vector<std::string_view>& choices);

/// The candidate of which `text` is a likely misspelling; case, '_' and '-' are ignored. Empty when none is
/// near.
std::string nearest(std::string_view text, const std::vector<std::string>& candidates);

/// "16, 32 or 64"
std::string enumerate(const std::vector<std::string>& words, std::string_view last = " or ");

/// "8256 bytes", "12.5 MiB"
std::string bytes_text(double bytes);

}  // namespace kiln::cli
