// SPDX-License-Identifier: Apache-2.0
//
// export_c: the variants of a template are sorted into problems (exported_problem.h), a function each; then header and
// source are put together.
#include <kiln/error.h>
#include <kiln/tools/export.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "base/arch_facts.h"
#include "base/words.h"
#include "export/c_expression.h"
#include "export/c_kernel.h"
#include "export/c_runtime.h"
#include "export/exported_problem.h"
#include "format/format.h"
#include "template/template_data.h"

namespace kiln {
namespace {

/// In a comment of C.
std::string as_comment(std::string text) {
    for (const std::string_view mark : {"*/", "/*"})
        for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) text.insert(at + 1, " ");
    return text;
}

bool has_word(std::string_view text, std::string_view word) {
    const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size())
        if ((at == 0 || !is_part(text[at - 1])) &&
            (at + word.size() == text.size() || !is_part(text[at + word.size()])))
            return true;
    return false;
}

std::string or_void(const std::string& parameters) { return parameters.empty() ? "void" : parameters; }

/// Collects the two files.
class Exporter {
  public:
    Exporter(const Service& service, std::span<const ExportedVariant> variants, const Wisdom& wisdom)
        : of_(variants.front().variant.origin()),
          wisdom_(wisdom),
          prefix_("kiln_" + of_.name()),
          problems_(exported_problems(service, variants)) {
        for (const ExportedProblem& problem : problems_) arguments_.emplace_back(problem);
    }

    std::vector<ExportedFile> files() {
        for (const std::string_view own : {kCTypes, kCPlanHelpers, kCMapHelpers, kCDriver, kCContexts, kCRun})
            if (has_word(own, prefix_))
                throw UsageError(
                    formatted("{0} can't be exported: the exported code has a {1} of its own; give the "
                              "template another name.",
                              of_.name(), prefix_));
        for (std::size_t i = 0; i < problems_.size(); ++i) add_problem(i);
        return {{prefix_ + ".h", header(), {}}, {prefix_ + ".c", source(), functions()}};
    }

  private:
    /// All that are not static.
    std::vector<std::string> functions() const {
        std::vector<std::string> names = {prefix_ + "_error", prefix_ + "_unload"};
        for (std::size_t i = 0; i < problems_.size(); ++i) {
            const std::string& name = problems_[i].name;
            for (const std::string& one : {name, name + "_variant", name + "_load"}) names.push_back(one);
            if (!arguments_[i].scratch.empty()) names.push_back(name + "_scratch");
        }
        return names;
    }

    std::string target_names() const {
        std::vector<std::string> names;
        for (const auto& [target, index] : arch_index_) names.push_back(target);
        return join(names);
    }

    std::string header() const {
        std::string guard = prefix_ + "_h";
        for (char& c : guard) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        std::string text = "/* " + of_.name() + ": " + as_comment(of_.summary()) +
                           ".\n * Made by `kiln export` for " + target_names() +
                           R"(. Compile the source with it, and link with
 * -lpthread and -ldl where the C library has them apart; the driver is opened at run time.
 *
 * Each launch is queued on kiln_stream, a CUstream, cudaStream_t or hipStream_t, whose context must be current in the
 * calling thread. Functions may be called from any thread. They return 0; or a negative number: -1 for an argument that
 * is wrong, -2 without a driver, a device or a current context, -3 without a binary for the device; or the driver's
 * error. The first launch of a kernel loads it: load it before a stream is captured. */
)";
        text +=
            "#ifndef " + guard + "\n#define " + guard +
            "\n\n#include <stdbool.h>\n#include <stddef.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
        for (std::size_t i = 0; i < problems_.size(); ++i) {
            const ExportedProblem& problem = problems_[i];
            std::vector<std::string> values;
            for (const auto& [name, value] : problem.values) values.push_back(name + "=" + value);
            text += "/* " + of_.name() + (values.empty() ? "" : " " + as_comment(join(values, " "))) + ".\n" +
                    argument_notes(i) + " */\nint " + problem.name + "(" + arguments_[i].all() + ");\n";
            if (!arguments_[i].scratch.empty())
                text +=
                    "/* The memory that a launch with these sizes needs for its scratch arguments. */\nint " +
                    problem.name + "_scratch(" + arguments_[i].integers_with_scratch() + ");\n";
            text += "/* The variant that a launch with these sizes takes; NULL: none. */\nconst char* " +
                    problem.name + "_variant(" + or_void(arguments_[i].integers()) + ");\n" +
                    "/* Loads all of its kernels in the current context. */\nint " + problem.name +
                    "_load(void);\n\n";
        }
        text += "/* What the last call of this thread that failed had to say. */\nconst char* " + prefix_ +
                "_error(void);\n/* Unloads all kernels of the current context, before it is destroyed; no "
                "launch may be "
                "in flight. */\nvoid " +
                prefix_ + "_unload(void);\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
        return text;
    }

    /// Types and extents of tensors.
    std::string argument_notes(std::size_t problem) const {
        const ExportedArguments& arguments = arguments_[problem];
        std::string text;
        for (std::size_t i = 0; i < arguments.names.size(); ++i) {
            const auto tensor = std::ranges::find(of_.tensors(), arguments.names[i], &TensorArgument::name);
            if (!arguments.is_passed[i] || tensor == of_.tensors().end()) continue;
            text += " *   " + std::string(name(tensor->role)) + " " + arguments.declared_types[i] + " " +
                    tensor->name + " [" + tensor->extents_text + "]" +
                    (tensor->role == TensorRole::scratch && tensor->fill == Fill::zero
                         ? ", zero before the first launch; launches leave it so"
                         : "") +
                    "\n";
        }
        return text;
    }

    int arch_of(const ExportedVariant& one) {
        const Target& target = *one.variant.target();
        const auto [place, is_new] =
            arch_index_.try_emplace(target.arch, static_cast<int>(arch_index_.size()));
        if (is_new) {
            const bool is_cuda = target.backend == Backend::cuda;
            const char last = target.arch.back();
            archs_ +=
                formatted("    {{{}, {}{}, {}, {}}},\n", c_string(target.arch),
                          is_cuda ? "KILN_CUDA, " : "KILN_HIP, ", cuda_arch_number(target.arch).value_or(0),
                          is_cuda && (last == 'a' || last == 'f') ? std::string("'") + last + "'" : "0",
                          one.binary.kind == BinaryKind::ptx ? "1" : "0");
        }
        return place->second;
    }

    /// What an entry names for the target and with the code of `one`, since wisdom holds for any; what it leaves out has its
    /// default. nullopt: nothing of this template and architecture, or nothing that is legal.
    std::optional<Variant> variant_of(const WisdomEntry& entry, const Variant& one) const {
        if (entry.template_name != of_.name() || entry.arch != one.target()->arch) return std::nullopt;
        const Template of = one.origin();
        Values values;
        for (const Parameter& parameter : of.parameters())
            if (parameter.kind == ParameterKind::code)
                values.emplace(parameter.name, one.value(parameter.name));
        try {
            for (const auto& [name, value] : entry.values) {
                const Parameter* const parameter = of.parameter(name);
                if (parameter == nullptr) return std::nullopt;
                values.emplace(name, parameter->parse(value.text()));
            }
            return of.variant(values);
        } catch (const VariantError&) {
            return std::nullopt;
        }
    }

    /// The sizes for which wisdom says that one of these is the fastest, and which.
    std::string known_rows(const ExportedProblem& problem, std::size_t begin, std::size_t end,
                           std::size_t first_kernel, const ExportedArguments& arguments,
                           std::size_t& count) const {
        std::map<Sizes, std::pair<double, std::size_t>> best;
        for (const WisdomEntry& entry : wisdom_.entries()) {
            const std::optional<Variant> named = variant_of(entry, problem.variants[begin]->variant);
            if (!named) continue;
            for (std::size_t i = begin; i < end; ++i) {
                if (problem.variants[i]->variant != *named) continue;
                const auto [place, is_new] =
                    best.try_emplace(entry.sizes, entry.median_ms, first_kernel + i - begin);
                if (!is_new && entry.median_ms < place->second.first)
                    place->second = {entry.median_ms, first_kernel + i - begin};
            }
        }
        std::string text;
        for (const auto& [sizes, kernel] : best) {
            std::vector<std::string> words;
            for (const std::size_t size : arguments.sizes) {
                const auto found = sizes.find(arguments.names[size]);
                if (found != sizes.end()) words.push_back(c_integer(found->second));
            }
            if (words.size() != arguments.sizes.size() || words.empty()) continue;
            text += formatted("    {{{{{}}}, {}}},\n", join(words), kernel.second);
            ++count;
        }
        return text;
    }

    void add_problem(std::size_t index) {
        const ExportedProblem& problem = problems_[index];
        const ExportedArguments& arguments = arguments_[index];
        const std::string number = std::to_string(index);
        std::string groups;
        std::size_t group_count = 0;
        for (std::size_t begin = 0, end = 0; begin < problem.variants.size(); begin = end, ++group_count) {
            const std::string& arch = problem.variants[begin]->variant.target()->arch;
            const std::size_t first = kernels_.count();
            for (end = begin;
                 end < problem.variants.size() && problem.variants[end]->variant.target()->arch == arch;
                 ++end)
                kernels_.add(*problem.variants[end]);
            std::size_t known_count = 0;
            const std::string known = known_rows(problem, begin, end, first, arguments, known_count);
            const std::string known_name = formatted("kiln_known_{}_{}", number, group_count);
            if (known_count > 0)
                tables_ += "static const struct kiln_known " + known_name + "[] = {\n" + known + "};\n";
            groups += formatted("    {{{}, {}, {}, {}, {}}},\n", arch_of(*problem.variants[begin]), first,
                                end - begin, known_count > 0 ? known_name : "NULL", known_count);
        }
        std::vector<std::string> names, sizes;
        for (const std::string& name : arguments.names) names.push_back(c_string(name));
        for (const std::size_t size : arguments.sizes) sizes.push_back(std::to_string(size));
        tables_ += "static const struct kiln_group kiln_groups_" + number + "[] = {\n" + groups +
                   "};\nstatic const char* const kiln_names_" + number + "[] = {" + join(names) +
                   "};\nstatic const int kiln_sizes_" + number + "[] = {" +
                   (sizes.empty() ? "0" : join(sizes)) + "};\n";
        rows_ += formatted("    {{{}, {}, kiln_names_{}, {}, kiln_sizes_{}, kiln_groups_{}, {}}},\n",
                           c_string(problem.name), names.size(), number, sizes.size(), number, number,
                           group_count);
        functions_ += functions(index);
    }

    /// Variables for what callers do not pass.
    static std::string null_pointers(const ExportedArguments& arguments) {
        std::string text;
        for (std::size_t i = 0; i < arguments.names.size(); ++i)
            if (!arguments.is_passed[i]) text += "    " + arguments.declared(i) + " = NULL;\n";
        return text;
    }

    /// The statements that fill `a`; with_pointers: of a launch.
    static std::string filled(const ExportedArguments& arguments, const std::string& problem,
                              bool with_pointers, const std::string& failure) {
        std::string text = "    struct kiln_arguments kiln_a;\n    memset(&kiln_a, 0, sizeof kiln_a);\n";
        for (std::size_t i = 0; i < arguments.names.size(); ++i) {
            const std::string& name = arguments.names[i];
            const std::string place = formatted("[{}] = ", i);
            if (arguments.types[i].ends_with('*')) {
                if (with_pointers && arguments.is_passed[i])
                    text += "    kiln_a.pointer" + place + name + ";\n";
                continue;
            }
            if (!is_c_integer(arguments.types[i])) continue;
            if (arguments.types[i] == "unsigned long long")
                text += "    if (" + name +
                        " > 9223372036854775807ULL) {\n        kiln_fail(KILN_BAD_ARGUMENT, \"" + problem +
                        ": the size " + name + " is %llu; it is too large\", " + name +
                        ");\n        return " + failure + ";\n    }\n";
            text += "    kiln_a.value" + place + "(kiln_i64)" + name + ";\n";
        }
        return text;
    }

    std::string functions(std::size_t index) const {
        const ExportedProblem& problem = problems_[index];
        const ExportedArguments& arguments = arguments_[index];
        const std::string place = formatted("&kiln_problems[{}]", index);
        std::string text = formatted("int {}({}) {{\n    void* kiln_passed[{}];\n{}{}", problem.name,
                                     arguments.all(), arguments.names.size(), null_pointers(arguments),
                                     filled(arguments, problem.name, true, "KILN_BAD_ARGUMENT"));
        for (std::size_t i = 0; i < arguments.names.size(); ++i)
            text += formatted("    kiln_passed[{}] = &{};\n", i, arguments.names[i]);
        text += "    return kiln_run(" + place + ", &kiln_a, kiln_passed, kiln_stream);\n}\n\n";
        const std::string choice =
            "    struct kiln_device kiln_d;\n    struct kiln_launch kiln_l;\n    int kiln_status;\n";
        const std::string chosen =
            "    if ((kiln_status = kiln_current_device(&kiln_d)) == 0)\n        kiln_status = "
            "kiln_choose(" +
            place + ", &kiln_a, &kiln_d, &kiln_l);\n";
        if (!arguments.scratch.empty()) {
            text += "int " + problem.name + "_scratch(" + arguments.integers_with_scratch() + ") {\n" +
                    choice + filled(arguments, problem.name, false, "KILN_BAD_ARGUMENT") + chosen +
                    "    if (kiln_status < 0) return kiln_status;\n";
            for (const std::size_t i : arguments.scratch)
                text += formatted("    *{}_bytes = (size_t)kiln_l.bytes[{}];\n", arguments.names[i], i);
            text += "    return 0;\n}\n\n";
        }
        text += "const char* " + problem.name + "_variant(" + or_void(arguments.integers()) + ") {\n" +
                choice + filled(arguments, problem.name, false, "NULL") + chosen +
                "    return kiln_status < 0 ? NULL : kiln_kernels[kiln_status].text;\n}\n\n";
        return text + "int " + problem.name + "_load(void) { return kiln_load_problem(" + place + "); }\n\n";
    }

    std::string source() const {
        std::size_t most_arguments = 1, most_sizes = 1;
        for (const ExportedArguments& arguments : arguments_) {
            most_arguments = std::max(most_arguments, arguments.names.size());
            most_sizes = std::max(most_sizes, arguments.sizes.size());
        }
        const auto define = [](const char* name, std::size_t value) {
            return formatted("#define {} {}\n", name, value);
        };
        const bool has_cuda = kernels_.has(Backend::cuda), has_hip = kernels_.has(Backend::hip);
        std::string text = "/* " + of_.name() +
                           ", made by `kiln export`. C11 or C++17, POSIX. */\n#include \"" + prefix_ +
                           ".h\"\n\n#include <dlfcn.h>\n#include <pthread.h>\n#include <stdarg.h>\n#include "
                           "<stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n";
        text += define("KILN_HAS_CUDA", has_cuda ? 1 : 0) + define("KILN_HAS_HIP", has_hip ? 1 : 0) +
                define("KILN_ARGUMENTS", most_arguments) + define("KILN_SIZES", most_sizes) +
                define("KILN_KERNELS", kernels_.count()) + define("KILN_MAPS", kernels_.most_maps()) +
                define("KILN_ENTRIES", kernels_.most_entries()) + "\n";
        text += kCTypes;
        text += kernels_.arithmetic() + "\n";
        text += helpers(kCPlanHelpers, kernels_.plans());
        if (kernels_.most_maps() > 0) text += kCMapHelpers;
        text += kernels_.maps() + kernels_.plans() + kernels_.entries() + kernels_.binaries();
        text += "static const struct kiln_arch kiln_archs[] = {\n" + archs_ + "};\n";
        text += "static const struct kiln_kernel kiln_kernels[] = {\n" + kernels_.rows() + "};\n";
        text += tables_ + "static const struct kiln_problem kiln_problems[] = {\n" + rows_ + "};\n\n";
        text += kCDriver;
        if (has_cuda) text += kCCuda;
        if (has_hip) text += kCHip;
        text += kCContexts;
        text += kCRun;
        return text + functions_ + "const char* " + prefix_ +
               "_error(void) { return kiln_message; }\n\nvoid " + prefix_ +
               "_unload(void) { kiln_unload_current(); }\n";
    }

    /// Those of the functions that are called: others would be warned of.
    static std::string helpers(std::string_view all, const std::string& callers) {
        std::string text;
        while (!all.empty()) {
            const std::size_t end = all.find("\n}\n\n") + 4;
            const std::string_view one = all.substr(0, end);
            const std::size_t name = one.find("kiln_");
            if (callers.find(one.substr(name, one.find('(') - name + 1)) != std::string::npos) text += one;
            all.remove_prefix(end);
        }
        return text;
    }

    const Template of_;
    const Wisdom& wisdom_;
    const std::string prefix_;
    const std::vector<ExportedProblem> problems_;
    std::vector<ExportedArguments> arguments_;
    CKernels kernels_;
    std::map<std::string, int> arch_index_;
    std::string archs_, tables_, rows_, functions_;
};

}  // namespace

inline namespace KILN_ABI {

std::vector<ExportedFile> export_c(const Service& service, std::span<const ExportedVariant> variants,
                                   const Wisdom& wisdom) {
    if (variants.empty()) throw UsageError("there is no variant to export.");
    for (const ExportedVariant& one : variants) {
        if (one.variant.template_name() != variants.front().variant.template_name())
            throw UsageError("variants of " + variants.front().variant.template_name() + " and of " +
                             one.variant.template_name() + " can't be exported to one file.");
        if (!VariantAccess::data(one.variant).variables.empty())
            throw UsageError(
                one.variant.template_name() +
                " can't be exported: its launches copy tensors to variables of its module, which "
                "exported functions do not.");
        if (std::ranges::any_of(one.variant.kernels(), &VariantKernel::cooperative))
            throw UsageError(
                one.variant.template_name() +
                " can't be exported: its launches are cooperative, and those of exported functions "
                "are not.");
        if (!one.variant.target() || one.variant.target()->backend == Backend::host)
            throw UsageError(one.variant.text() +
                             " can't be exported for the host: kernels of CUDA and HIP can.");
    }
    return Exporter(service, variants, wisdom).files();
}

}  // namespace KILN_ABI
}  // namespace kiln
