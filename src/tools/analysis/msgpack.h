// SPDX-License-Identifier: Apache-2.0
//
// A cursor over MessagePack (github.com/msgpack/msgpack, spec.md), the format of AMD code objects' metadata.
// It builds no tree, never reads past the end, and limits the depth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kiln {

/// Every call moves past the value that it returns. A call that returns nothing puts the cursor into a failed
/// state, in which all later calls return nothing too.
class MsgpackCursor {
  public:
    explicit MsgpackCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

    /// How many pairs of key and value follow.
    std::optional<std::uint64_t> map();
    std::optional<std::uint64_t> array();
    std::optional<std::string_view> text();
    /// Of a positive integer.
    std::optional<std::uint64_t> number();
    /// Skips one value of any kind. False: there is none.
    bool skip() { return skip(0); }

    bool failed() const { return failed_; }

  private:
    bool skip(int depth);
    std::optional<std::uint8_t> head();
    /// A number of `count` bytes, the highest first.
    std::optional<std::uint64_t> big_endian(std::size_t count);
    std::optional<std::uint64_t> length(std::uint8_t fix_base, unsigned fix_most, std::uint8_t first_wide,
                                        std::size_t first_bytes, int wide_kinds);
    bool advance(std::uint64_t count);
    std::nullopt_t fail() {
        failed_ = true;
        return std::nullopt;
    }

    std::span<const std::byte> bytes_;
    bool failed_ = false;
};

}  // namespace kiln
