// SPDX-License-Identifier: Apache-2.0
//
// Baselines as INI files: read with Boost.PropertyTree, written line by line, so that a diff of two files is
// readable.
#include <kiln/error.h>
#include <kiln/tools/regress.h>

#include <boost/property_tree/ini_parser.hpp>
#include <boost/property_tree/ptree.hpp>
#include <charconv>
#include <cmath>
#include <span>
#include <sstream>
#include <system_error>

#include "base/file.h"
#include "base/output_file.h"
#include "format/format.h"

namespace kiln {
namespace {

namespace pt = boost::property_tree;

constexpr std::uint64_t kMostBytes = 256 << 20;
constexpr std::string_view kInstruction = "instruction ";
constexpr std::string_view kSpeed = "speed ";
constexpr std::string_view kBracket = "\\x5d";  // as Code::text() would write it
constexpr const char* kRemedy =
    "; correct it, or delete the file and record it again with 'kiln regress --update'";

std::string decimal(double value) { return formatted("{:.4g}", value); }

/// A section's name ends at its first ], which code may have: that is in quotes, where an escape can stand for it.
std::string section_name(const std::string& variant) {
    std::string name;
    for (const char c : variant) c == ']' ? name += kBracket : name += c;
    return name;
}

std::string variant_of_section(std::string_view name) {
    std::string variant;
    while (!name.empty()) {
        const bool is_bracket = name.starts_with(kBracket);
        // Another escape stays, with what it escapes.
        const std::size_t length = is_bracket ? kBracket.size() : name.front() == '\\' ? 2 : 1;
        is_bracket ? variant += ']' : variant += name.substr(0, length);
        name.remove_prefix(std::min(length, name.size()));
    }
    return variant;
}

/// One section, with errors that name file, section and line's key.
class Reader {
  public:
    Reader(std::string file, std::string section) : file_(std::move(file)), section_(std::move(section)) {}

    Baseline read(const pt::ptree& tree) const {
        Baseline result;
        for (const auto& [key, node] : tree) take(result, key, node.data());
        if (result.ingredients.empty()) fail("has no ingredients");
        return result;
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw UsageError(file_ + ": [" + section_ + "] " + what + kRemedy);
    }

    template <class T>
    T number(const std::string& key, std::string_view text) const {
        T value{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size())
            fail(key + ": '" + std::string(text) + "' is no number");
        if constexpr (std::is_floating_point_v<T>)
            if (!std::isfinite(value)) fail(key + ": '" + std::string(text) + "' is no finite number");
        return value;
    }

    void take(Baseline& to, const std::string& key, const std::string& value) const {
        Resources& resources = to.resources;
        if (key == "ingredients")
            to.ingredients = value;
        else if (key == "compiler")
            to.compiler = value;
        else if (key == "registers")
            resources.registers = number<int>(key, value);
        else if (key == "accumulator_registers")
            resources.accumulator_registers = number<int>(key, value);
        else if (key == "scalar_registers")
            resources.scalar_registers = number<int>(key, value);
        else if (key == "static_shared_bytes")
            resources.static_shared_bytes = number<std::uint64_t>(key, value);
        else if (key == "stack_bytes")
            resources.stack_bytes = number<std::uint64_t>(key, value);
        else if (key == "spill_bytes")
            resources.spill_bytes = number<std::uint64_t>(key, value);
        else if (key == "binary_bytes")
            resources.binary_bytes = number<std::uint64_t>(key, value);
        else if (key == "random_result")
            to.random_result = value;
        else if (key == "integer_result")
            to.integer_result = value;
        else if (key == "worst")
            to.worst = number<double>(key, value);
        else if (key.starts_with(kInstruction))
            resources.instructions[key.substr(kInstruction.size())] = number<int>(key, value);
        else if (key.starts_with(kSpeed))
            to.speeds[key.substr(kSpeed.size())] = speed(key, value);
        else
            fail("has an unknown line '" + key + "'");
    }

    /// "0.123 ms, 5.4 naive, 0.31 copy, 3be9..."; "-" for unknown values.
    Speed speed(const std::string& key, const std::string& value) const {
        std::istringstream words(value);
        std::string ms, naive, share;
        Speed result;
        if (!(words >> ms >> naive >> share >> result.ceiling >> result.ingredients) || !words.eof())
            fail(key + ": '" + value +
                 "' is not of the form MILLISECONDS TIMES_NAIVE SHARE CEILING INGREDIENTS");
        result.median_ms = number<double>(key, ms);
        if (naive != "-") result.times_naive = number<double>(key, naive);
        if (share != "-") result.share = number<double>(key, share);
        if (result.ceiling == "-") result.ceiling.clear();
        return result;
    }

    std::string file_, section_;
};

template <class T>
void line(std::string& text, const char* key, const std::optional<T>& value) {
    if (value) text += formatted("{} = {}\n", key, *value);
}

void line(std::string& text, const std::string& key, const std::string& value) {
    if (!value.empty()) text += key + " = " + value + "\n";
}

std::string section(const std::string& variant, const Baseline& of) {
    std::string text = "\n[" + section_name(variant) + "]\n";
    line(text, "ingredients", of.ingredients);
    line(text, "compiler", of.compiler);
    line(text, "registers", of.resources.registers);
    line(text, "accumulator_registers", of.resources.accumulator_registers);
    line(text, "scalar_registers", of.resources.scalar_registers);
    line(text, "static_shared_bytes", of.resources.static_shared_bytes);
    line(text, "stack_bytes", of.resources.stack_bytes);
    line(text, "spill_bytes", of.resources.spill_bytes);
    line(text, "binary_bytes", std::to_string(of.resources.binary_bytes));
    for (const auto& [name, count] : of.resources.instructions)
        line(text, std::string(kInstruction) + name, std::to_string(count));
    line(text, "random_result", of.random_result);
    line(text, "integer_result", of.integer_result);
    if (of.worst) line(text, "worst", decimal(*of.worst));
    for (const auto& [device, speed] : of.speeds)
        line(text, std::string(kSpeed) + device,
             decimal(speed.median_ms) + " " + (speed.times_naive ? decimal(*speed.times_naive) : "-") + " " +
                 (speed.share ? decimal(*speed.share) : "-") + " " +
                 (speed.ceiling.empty() ? "-" : speed.ceiling) + " " + speed.ingredients);
    return text;
}

}  // namespace

std::string Baselines::file_name(const ManifestTarget& target) {
    return std::string(name(target.backend)) + "-" + target.arch + ".ini";
}

Baselines Baselines::load(const std::filesystem::path& directory, const ManifestTarget& target) {
    const std::filesystem::path path = directory / file_name(target);
    Baselines result;
    std::optional<std::string> text;
    try {
        text = read_text_if_exists(path, kMostBytes);
    } catch (const std::system_error& error) {
        throw UsageError(std::string("the baselines can't be read: ") + error.what());
    }
    if (!text) return result;
    std::istringstream stream(*text);
    pt::ptree tree;
    try {
        pt::read_ini(stream, tree);
    } catch (const pt::ini_parser_error& error) {
        throw UsageError(formatted("{}:{}: {}{}", path.string(), error.line(), error.message(), kRemedy));
    }
    for (const auto& [variant, node] : tree)
        result.variants[variant_of_section(variant)] = Reader(path.string(), variant).read(node);
    return result;
}

void Baselines::save(const std::filesystem::path& directory, const ManifestTarget& target) const {
    std::string text =
        "; Baselines of " + std::string(name(target.backend)) + " " + target.arch +
        ", written by 'kiln regress --update'. A speed is its median in ms, how many times\n"
        "; faster than naive, its fraction of the ceiling, which ceiling, and what was measured.\n"
        "; Each holds strictly for the compiler that it names; what others may move is in docs/kernels.md.\n";
    for (const auto& [variant, baseline] : variants) text += section(variant, baseline);
    try {
        std::filesystem::create_directories(directory);
        write_output_file(directory / file_name(target), text);
    } catch (const std::system_error& error) {
        throw UsageError(std::string("the baselines can't be written: ") + error.what());
    }
}

}  // namespace kiln
