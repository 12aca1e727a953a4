// SPDX-License-Identifier: Apache-2.0
//
// Two passes: the first finds the kernel and the template directories, and accepts any other option; the
// second knows the kernel's parameters and rejects anything else.
#include "cli/options.h"

#include <kiln/error.h>
#include <kiln/files.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "cli/command_line.h"
#include "cli/option_values.h"
#include "cli/parameter_options.h"

namespace kiln::cli {
namespace {

// No short options, so that "--bm -1" gives BM the value -1; no guessing from prefixes.
constexpr int kStyle = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                       po::command_line_style::long_allow_next;
constexpr std::uint64_t kMostConfigBytes = 1 << 20;
constexpr int kMaxExtent = std::numeric_limits<int>::max();
/// Options with the same names as in kiln run, and their older names in jit-gemm.
constexpr std::pair<const char*, const char*> kAliases[] = {
    {"iterations", "iters"}, {"warm-up", "warmup"}, {"check", "verify"}};

/// Options that a configuration file may set too.
// clang-format off
po::options_description product_options() {
    po::options_description what("Problem", kHelpWidth), where("Device", kHelpWidth),
        how("Measuring and checking", kHelpWidth), build("Building", kHelpWidth),
        choosing("Choice of the variant, without tile options", kHelpWidth), all(kHelpWidth);
    what.add_options()
        ("kernel", text("NAME"), "template to build (gemm_tiled; on a GPU and without tile options the best for the shape); see --list-kernels")
        ("dtype", text("TYPE"), "type of A and B: f16, bf16 or f32 (the template's own default)")
        ("out", text("TYPE"), "type of C, rounded once from FP32: f16, bf16 or f32 (f32)")
        ("layout", text("LAYOUT"), "nn, tn, nt or tt, as cuBLAS is called for row-major matrices: t first: B is stored n x k; t second: A is stored k x m (nn)")
        ("alpha", text("FACTOR"), "of A * B (1)")
        ("bias", text("WHERE"), "what is added to all elements of a column or a row: none, column or row (none)")
        ("residual", po::bool_switch(), "a matrix like C is added")
        ("beta", text("FACTOR"), "of that matrix (1)")
        ("activation", text("NAME"), "of the sum: none, relu, gelu or silu (none)")
        ("m", text("ROWS"), "rows of A and C (1024; on the host 512)")
        ("n", text("COLUMNS"), "columns of B and C (1024; on the host 512)")
        ("k", text("DEPTH"), "columns of A, rows of B (1024; on the host 512)")
        ("size", texts("NAME=N"), "another size that the template declares, such as batch=8; may be repeated");
    choosing.add_options()
        ("wisdom", text("FILE"), "wisdom file: the fastest known variants (KILN_WISDOM, else the user's own and the shipped)")
        ("tune", po::bool_switch(), "time variants for this shape first, and keep the best in the wisdom file")
        ("budget", text("SECONDS"), "for --tune (60)");
    add_target_options(where, "--list-devices");
    how.add_options()
        ("iterations", text("N"), "timed launches (20; on the host 3 to 20, in about two seconds)")
        ("iters", text("N"), "the same")
        ("warm-up", text("N"), "untimed launches before those, in addition to the checked one (5; on the host 0)")
        ("warmup", text("N"), "the same")
        ("cold-l2", po::bool_switch(), "read twice the L2 cache's size of other data before each timed launch")
        ("check", text("HOW"), "full, sample (a sample of the elements and Freivalds' test of all) or none (full up to 2^31 multiply-adds, else sample)")
        ("verify", text("HOW"), "the same")
        ("seed", text("N"), "of the random inputs and of the sample (1)")
        ("json", po::bool_switch(), "report as one JSON object on standard output");
    build.add_options()
        ("compile-only", po::bool_switch(), "compile, report, don't run; needs no device")
        ("explain-choice", po::bool_switch(), "print the chosen variant and the next four by estimated time, with the reason for each estimate, and exit")
        ("analyze", po::bool_switch(), "predict why the kernel is fast or slow for this shape, and exit; needs no device")
        ("emit", text("WHAT"), "write source, ptx, binary, log or key, and exit; needs no device")
        ("output", text("FILE"), "where --emit writes; - is standard output (-)");
    add_time_limit_option(how);
    add_cache_directory_option(build);
    add_no_cache_option(build);
    add_template_directory_option(build);
    all.add(what).add(choosing).add(where).add(how).add(build);
    return all;
}

/// Options that make sense on the command line only.
po::options_description command_line_options() {
    po::options_description options("Other", kHelpWidth);
    options.add_options()
        ("config", text("FILE"), "read options from FILE, lines of \"bm = 64\"; the command line wins")
        ("list-kernels", "list the templates that are found")
        ("list-devices", "list the devices of all backends, or why there are none")
        ("version", "print the version")
        ("help", "print this help; with --kernel NAME, that kernel's parameters");
    return options;
}
// clang-format on

std::vector<std::string> choices_of(const std::string& option) {
    if (option == "dtype" || option == "out") return {"f16", "bf16", "f32"};
    if (option == "layout") return {"nn", "nt", "tn", "tt"};
    if (option == "bias") return {"none", "column", "row"};
    if (option == "activation") return {"none", "relu", "gelu", "silu"};
    if (option == "check" || option == "verify") return {"full", "sample", "none", "freivalds"};
    if (option == "emit") return {"source", "ptx", "binary", "log", "key"};
    return {};
}

/// What is computed, but for the sizes.
constexpr const char* kProblemOptions[] = {"out", "layout", "alpha", "bias", "beta", "activation"};

class Parser {
  public:
    explicit Parser(const std::vector<std::string>& arguments) : arguments_(arguments) {
        all_.add(common_).add(command_line_);
    }

    Options parse() {
        const po::variables_map first = first_pass();
        if (first.count("help") == 0 && first.count("version") != 0) return just(Action::version, first);
        const TemplateSet templates(template_directories(first));
        const Template chosen =
            templates.find(optional_text(first, "kernel", has_problem(first) ? "gemm_naive" : "gemm_tiled"));
        const ParameterOptions parameters(chosen, names_of(all_));
        if (first.count("help") != 0) {
            Options options = just(Action::help, first);
            options.help = help(chosen, parameters);
            return options;
        }
        const po::variables_map given = second_pass(templates, chosen, parameters);
        Options options = convert(given);
        options.templates = templates;
        options.kernel = chosen.name();
        options.kernel_given = given.count("kernel") != 0;
        options.problem = problem(given);
        if (options.kernel_given) fit_problem(options.problem, chosen, templates);
        options.values = parameters.values(given);
        if (options.explain_choice && !options.values.empty())
            throw UsageError("--explain-choice is about values that are not given; leave --" +
                             option_name(options.values.begin()->first) + " out.");
        if (options.tune && !options.values.empty())
            throw UsageError("--tune looks for the best values; leave --" +
                             option_name(options.values.begin()->first) + " out.");
        if (given.count("list-kernels") != 0) options.action = Action::list_kernels;
        if (given.count("list-devices") != 0) options.action = Action::list_devices;
        return options;
    }

  private:
    static bool has_problem(const po::variables_map& given) {
        const auto is_given = [&](const char* option) { return given.count(option) != 0; };
        return std::ranges::any_of(kProblemOptions, is_given) || given["residual"].as<bool>();
    }

    /// The values of what is computed, for templates that have all of these parameters.
    static Values problem(const po::variables_map& given) {
        const auto has = [&](const char* option) { return given.count(option) != 0; };
        const auto choice = [&](const char* option, const std::vector<std::string_view>& choices) {
            return parse_choice(std::string("--") + option, given[option].as<std::string>(), choices);
        };
        const auto factor = [&](const char* option) {
            return parse_factor(std::string("--") + option, given[option].as<std::string>());
        };
        Values values;
        if (has("out")) {
            const auto type = static_cast<Dtype>(choice("out", {"f16", "bf16", "f32"}));
            if (type != Dtype::f32) values.emplace("OUT", std::string(type_name(type)));
        }
        if (has("layout")) {
            const auto layout = static_cast<int>(choice("layout", {"nn", "nt", "tn", "tt"}));
            values.emplace("TRANS_A", layout % 2 != 0);
            values.emplace("TRANS_B", layout / 2 != 0);
        }
        if (has("alpha")) values.emplace("ALPHA", factor("alpha"));
        if (has("bias")) values.emplace("BIAS", static_cast<int>(choice("bias", {"none", "column", "row"})));
        if (given["residual"].as<bool>()) values.emplace("RESIDUAL", true);
        if (has("beta")) values.emplace("BETA", factor("beta"));
        if (has("activation"))
            values.emplace("ACTIVATION",
                           static_cast<int>(choice("activation", {"none", "relu", "gelu", "silu"})));
        return values;
    }

    /// Makes them values of this template's parameters.
    static void fit_problem(Values& problem, const Template& of, const TemplateSet& templates) {
        for (auto& [name, value] : problem) {
            const Parameter* const parameter = of.parameter(name);
            const std::string option = name.starts_with("TRANS") ? "layout" : option_name(name);
            if (parameter == nullptr) {
                const auto owners = kernels_with(templates, option_name(name));
                throw UsageError("--" + option + ": " + of.name() + " has no parameter " + name +
                                 (owners.empty() ? "." : "; " + enumerate(owners, " and ") + " have it."));
            }
            if (parameter->kind == ParameterKind::boolean && value.is_int()) {
                if (value.as_int() > 1)
                    throw UsageError("--" + option + ": " + of.name() + " has " + name +
                                     " for columns only.");
                value = value.as_int() == 1;
            }
        }
    }

    /// Parses known options and skips those that may be parameters.
    po::variables_map first_pass() {
        po::variables_map given;
        try {
            const po::parsed_options parsed =
                po::command_line_parser(arguments_).options(all_).style(kStyle).allow_unregistered().run();
            for (const auto& option : parsed.options)
                if (!option.unregistered && option.position_key == -1) check_value(option);
            po::store(parsed, given);
        } catch (const po::error& error) {
            throw UsageError(std::string(error.what()) + "; see --help.");
        }
        if (given.count("config") != 0) {
            config_ = given["config"].as<std::string>();
            config_text_ = read_config();
            std::istringstream file(config_text_);
            try {
                po::store(po::parse_config_file(file, common_, true), given);
            } catch (const po::error& error) {
                throw UsageError(config_ + ": " + error.what() + "; a line is \"option = value\".");
            }
        }
        return given;
    }

    po::variables_map second_pass(const TemplateSet& templates, const Template& chosen,
                                  const ParameterOptions& parameters) {
        po::options_description known, known_in_file;
        known.add(all_).add(parameters.description());
        known_in_file.add(common_).add(parameters.description());
        po::variables_map given;
        try {
            const po::parsed_options parsed =
                po::command_line_parser(arguments_).options(known).style(kStyle).run();
            for (const auto& option : parsed.options) {
                if (option.position_key != -1) throw UsageError(stray(option.value.front()));
                check_value(option);
            }
            po::store(parsed, given);
        } catch (const po::unknown_option& error) {
            throw UsageError(unknown(plain(error.get_option_name()), "--", names_of(known), templates, chosen,
                                     parameters));
        } catch (const po::error& error) {
            throw UsageError(std::string(error.what()) + "; see --help.");
        }
        if (config_.empty()) return given;
        std::istringstream file(config_text_);
        try {
            po::store(po::parse_config_file(file, known_in_file, false), given);
        } catch (const po::unknown_option& error) {
            throw UsageError(config_ + ": " +
                             unknown(plain(error.get_option_name()), "", names_of(known_in_file), templates,
                                     chosen, parameters));
        } catch (const po::error& error) {
            throw UsageError(config_ + ": " + error.what() + "; see --help.");
        }
        return given;
    }

    /// Both passes parse this text: a pipe, as in --config <(...), can be read only once.
    std::string read_config() const {
        try {
            return read_input(config_, kMostConfigBytes);
        } catch (const UsageError& error) {
            throw UsageError("--config: " + std::string(error.what()) +
                             " It should hold lines of \"option = value\".");
        }
    }

    static std::string stray(const std::string& word) {
        return "unexpected argument '" + word +
               "': options start with two dashes and are written in full, as in --" +
               (word.starts_with("-h") ? "help" : "bm 64") + "; see --help.";
    }

    /// Which kernel has this option, or which option it is a misspelling of. dashes: the prefix of options
    /// here.
    static std::string unknown(const std::string& option, const std::string& dashes,
                               const std::vector<std::string>& known, const TemplateSet& templates,
                               const Template& chosen, const ParameterOptions& parameters) {
        const std::string written = dashes + option;
        if (const auto owners = kernels_with(templates, option); !owners.empty())
            return written + " is a parameter of " + enumerate(owners, " and ") +
                   ", and the kernel here is " + chosen.name() + ", which has " +
                   parameters.names_text(dashes) + ". Add " + dashes + "kernel" +
                   (dashes.empty() ? " = " : " ") + owners.front() + " or leave " + written + " out.";
        std::string message = "unknown option " + written + ".";
        if (const std::string near = nearest(option, known); !near.empty())
            return message + " Did you mean " + dashes + near + "?";
        return message + " See --help for the options, and --kernel NAME --help for a kernel's parameters.";
    }

    Options just(Action action, const po::variables_map& given) const {
        Options options;
        options.action = action;
        options.json = given["json"].as<bool>();
        return options;
    }

    Options convert(const po::variables_map& given) const {
        Options options;
        static_cast<CommonOptions&>(options) = common_options(given);
        const auto has = [&](const char* option) { return given.count(option) != 0; };
        const auto whole = [&](const char* option, std::uint64_t min, std::uint64_t max) {
            return parse_whole(std::string("--") + option, given[option].as<std::string>(), min, max);
        };
        const auto choice = [&](const char* option) {
            const std::vector<std::string> choices = choices_of(option);
            return parse_choice(std::string("--") + option, given[option].as<std::string>(),
                                {choices.begin(), choices.end()});
        };
        if (has("dtype")) options.dtype = static_cast<Dtype>(choice("dtype"));
        if (has("m")) options.m = static_cast<int>(whole("m", 0, kMaxExtent));
        if (has("n")) options.n = static_cast<int>(whole("n", 0, kMaxExtent));
        if (has("k")) options.k = static_cast<int>(whole("k", 0, kMaxExtent));
        if (has("size")) options.sizes = parse_sizes(given["size"].as<std::vector<std::string>>());
        for (const char* own : {"m", "n", "k"})
            if (options.sizes.contains(own))
                throw UsageError("--size " + std::string(own) + ": write --" + own + " N instead.");
        options.compile_only = given["compile-only"].as<bool>();
        options.analyze = given["analyze"].as<bool>();
        options.explain_choice = given["explain-choice"].as<bool>();
        options.tune = given["tune"].as<bool>();
        options.wisdom = optional_text(given, "wisdom", "");
        if (has("budget"))
            options.budget_seconds = parse_seconds("--budget", given["budget"].as<std::string>());
        if (has("budget") && !options.tune)
            throw UsageError("--budget is how long --tune may take; add --tune.");
        if (options.tune && (options.compile_only || options.analyze || has("emit")))
            throw UsageError("--tune times variants on the device; leave --" +
                             std::string(options.compile_only ? "compile-only"
                                         : options.analyze    ? "analyze"
                                                              : "emit") +
                             " out.");
        for (const auto& [option, alias] : kAliases)
            if (has(option) && has(alias))
                throw UsageError(std::string("--") + alias + " is the same as --" + option +
                                 "; leave one out.");
        for (const char* option : {"iterations", "iters"})
            if (has(option)) options.iterations = static_cast<int>(whole(option, 1, 1'000'000));
        for (const char* option : {"warm-up", "warmup"})
            if (has(option)) options.warm_up = static_cast<int>(whole(option, 0, 1'000'000));
        options.cold_l2 = given["cold-l2"].as<bool>();
        for (const char* option : {"check", "verify"})
            if (has(option)) options.check = static_cast<Check>(choice(option));
        if (options.check == Check::freivalds) options.check = Check::sample;  // the same, of a GEMM
        if (has("seed")) options.seed = whole("seed", 0, std::numeric_limits<std::uint64_t>::max());
        if (has("emit")) options.emit = static_cast<Emit>(choice("emit"));
        options.output = optional_text(given, "output", "");
        options.json = given["json"].as<bool>();

        if (options.compile_only || has("emit") || options.explain_choice)
            for (const char* run :
                 {"iterations", "iters", "warm-up", "warmup", "check", "verify", "seed", "cold-l2"})
                if (has(run) && !given[run].defaulted() &&  // a switch always has a value
                    !(options.tune && std::string_view(run) == "seed"))
                    throw UsageError("--" +
                                     std::string(options.compile_only ? "compile-only"
                                                 : has("emit")        ? "emit"
                                                                      : "explain-choice") +
                                     " does not run the kernel, and --" + run +
                                     " is about running it; leave one out.");
        if (options.analyze)
            for (const char* other : {"emit", "iterations", "iters", "warm-up", "warmup", "check", "verify"})
                if (has(other))
                    throw UsageError(
                        "--analyze neither runs the kernel on the device nor writes it; leave --" +
                        std::string(other) + " out.");
        if (options.analyze && (options.cold_l2 || options.compile_only))
            throw UsageError("--analyze neither times the kernel nor stops at compiling it; leave --" +
                             std::string(options.cold_l2 ? "cold-l2" : "compile-only") + " out.");
        if (options.explain_choice && (options.analyze || options.compile_only || has("emit")))
            throw UsageError("--explain-choice builds nothing; leave --" +
                             std::string(options.analyze        ? "analyze"
                                         : options.compile_only ? "compile-only"
                                                                : "emit") +
                             " out.");
        if (has("output") && !has("emit"))
            throw UsageError(
                "--output names the file that --emit writes; add --emit source, ptx, binary, log or key.");
        if (options.json && has("emit") && !has("output"))
            throw UsageError(
                "--json leaves nothing but one object on standard output; add --output FILE for what --emit "
                "writes.");
        return options;
    }

    std::string help(const Template& chosen, const ParameterOptions& parameters) const {
        std::ostringstream text;
        text << "Usage: jit-gemm [--kernel NAME] [OPTION]...\n"
                "Builds a GEMM kernel from its template, computes C = A * B on random matrices, "
                "verifies\n"
                "the result and reports. Defaults are in parentheses.\n\n"
             << "Parameters of " << chosen.name() << ":\n"
             << parameters.description();
        if (const Parameter* const type = chosen.parameter(kTypeParameter))
            if (const auto dtype = dtype_of(type->default_value.text()))
                text << "  T is set by --dtype (" << name(*dtype) << ")\n";
        text << common_ << "\n"
             << command_line_
             << "\nExit status: 0 passed; 1 wrong result; 2 usage or an illegal variant; 3 compile error;\n"
                "4 device or launch error.\n";
        return text.str();
    }

    const std::vector<std::string>& arguments_;
    std::string config_;  // empty: none
    std::string config_text_;
    const po::options_description common_ = product_options();
    const po::options_description command_line_ = command_line_options();
    po::options_description all_{kHelpWidth};
};

}  // namespace

std::string_view name(Emit emit) {
    constexpr std::string_view kNames[] = {"source", "ptx", "binary", "log", "key"};
    return kNames[static_cast<int>(emit)];
}

Options parse_options(const std::vector<std::string>& arguments) { return Parser(arguments).parse(); }

std::vector<JitGemmOption> jit_gemm_options(const Template& chosen) {
    po::options_description known = product_options();
    known.add(command_line_options());
    const ParameterOptions parameters(chosen, names_of(known));
    std::vector<JitGemmOption> found;
    const auto add = [&](const po::options_description& options) {
        for (const auto& option : options.options())
            found.push_back({option->long_name(), option->semantic()->max_tokens() != 0,
                             choices_of(option->long_name())});
    };
    add(known);
    const std::size_t own = found.size();
    add(parameters.description());
    for (std::size_t i = own; i < found.size(); ++i) found[i].values = parameters.allowed(found[i].name);
    return found;
}

}  // namespace kiln::cli
