// SPDX-License-Identifier: Apache-2.0
//
// Record: what an application asked a Service for: variants, and the sizes that its operations were called with.
// ServiceOptions::record names the file; `kiln cache pack --for FILE` makes a seed pack of all that it needs.
#pragma once

#include <kiln/template.h>
#include <kiln/version.h>

#include <compare>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// A variant, or the fixed values of an operation, for one target.
struct RecordedValues {
    std::string template_name;                      ///< the template's name
    std::map<std::string, std::string> values;      ///< as Value::text() writes them
    std::string backend;                            ///< "cuda"
    std::string arch;                               ///< "sm_90a"
    std::vector<std::string> compile_options = {};  ///< ServiceOptions::compile_options
    bool debug = false;                             ///< ServiceOptions::debug

    auto operator<=>(const RecordedValues&) const = default;
};

/// Plain data. The file is JSON:
///     {"kiln_record": 1, "complete": true,
///      "variants": [{"template": "softmax", "backend": "cuda", "arch": "sm_90a", "values": {"T": "half"}}],
///      "operations": [{"template": "gemm_naive", ..., "values": {"T": "half"}, "shapes": [{"m": 1, "n": 2, "k": 3}]}]}
/// Where a service has such options, its items also have "compile_options": ["-DNAME=1"] and "debug": true.
struct Record {
    static constexpr std::size_t kMostVariants = 10'000;  ///< more are not kept
    static constexpr std::size_t kMostShapes = 50'000;    ///< of all operations together

    std::set<RecordedValues> variants;  ///< that were built
    std::map<RecordedValues, std::set<Sizes>>
        operations;          ///< template_name: of the one that names the operation
    std::size_t shapes = 0;  ///< of all operations; add() counts them
    bool complete = true;    ///< false: there was more than is kept

    /// False: it was there, or there is no room for it, and then `complete` is false.
    bool add(const RecordedValues& variant);
    /// Sizes that an operation was called with.
    bool add(const RecordedValues& operation, const Sizes& sizes);
    /// Adds all of the other one.
    void merge(const Record& other);

    /// The file.
    std::string text() const;
    /// Throws UsageError, naming `file`, for what is no such text.
    static Record parse(std::string_view text, const std::string& file);
    /// Throws the same, and where there is no such file that can be read.
    static Record load(const std::filesystem::path& file);
    /// Merges `seen` into a file, which need not exist: under a lock, and so that readers see the old file or the new
    /// one. Throws UsageError for a file that is no record or can't be written.
    static void store(const std::filesystem::path& file, const Record& seen);
};

}  // namespace KILN_ABI
}  // namespace kiln
