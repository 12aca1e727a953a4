// SPDX-License-Identifier: Apache-2.0
//
// kiln report: variants from the command line and from manifests, each analysed, on one page.
#include <kiln/device.h>
#include <kiln/error.h>
#include <kiln/manifest.h>
#include <kiln/run.h>
#include <kiln/tools/report.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <sstream>
#include <thread>
#include <tuple>

#include "cli/kiln_analyze.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kMostVariants = 100;

/// The options that affect the page, in the order in which it lists them. The locations of the cache and the
/// remote do not, and a remote's URL may contain a password.
constexpr const char* kShaping[] = {
    "manifest", "template-dir", "include-dir", "option",     "define",    "debug", "backend", "device",
    "arch",     "chip",         "size",        "test-sizes", "no-record", "time",  "title",   "output"};

/// A service for each target, made for the first variant that needs it.
class Targets {
  public:
    Targets(const Call& call, Warnings& warnings) : call_(call), warnings_(warnings) {}

    /// For a variant without its own target: the one of --backend and --arch, else the device's, else one
    /// that the template runs on.
    Service& of(const std::string& template_name, const std::optional<ManifestTarget>& target) {
        // Without --backend and --arch, templates may have different targets.
        const auto key =
            std::pair(target, target || !call_.options.arch.empty() ? std::string() : template_name);
        if (const auto found = by_name_.find(key); found != by_name_.end()) return *found->second;
        CommonOptions asked = call_.options;
        if (target) {
            asked.backend = target->backend;
            asked.arch = target->arch;
        }
        ServiceOptions setup = compile_options(call_, warnings_);
        setup.backend = asked.backend;
        setup.arch = asked.arch;
        const std::string note = choose_target(setup, asked, template_name);
        if (call_.flag("time")) need_device(setup, asked);
        for (const auto& [had, service] : services_)
            if (had == std::tuple(setup.backend, setup.arch, setup.compile_only))
                return *(by_name_[key] = service.get());
        services_.emplace_back(std::tuple(setup.backend, setup.arch, setup.compile_only), nullptr);
        services_.back().second = open_service(call_, warnings_, std::move(setup));
        call_.terminal.note(note);
        return *(by_name_[key] = services_.back().second.get());
    }

    std::size_t count() const { return services_.size(); }

  private:
    void need_device(ServiceOptions& setup, const CommonOptions& asked) const {
        if (asked.backend == Backend::host) setup.compile_only = false;
        if (!setup.compile_only) return;
        throw UsageError("--time measures on a device, and there is none here" +
                         (asked.arch.empty() ? std::string() : " of " + asked.arch) +
                         "; leave it out, or give --backend host.");
    }

    const Call& call_;
    Warnings& warnings_;
    std::vector<std::pair<std::tuple<std::optional<Backend>, std::string, bool>, std::unique_ptr<Service>>>
        services_;
    std::map<std::pair<std::optional<ManifestTarget>, std::string>, Service*> by_name_;
};

struct WantedVariant {
    Variant variant;
    Service* service;
};

/// NAME=CODE with blanks in the code: not all of its words assign a value.
bool is_one_value(const std::string& word) {
    std::istringstream parts(word);
    std::size_t assigned = 0, count = 0;
    bool assigns_first = false;
    for (std::string part; parts >> part; ++count) {
        const bool assigns = part.find('=') != std::string::npos;
        assigned += assigns ? 1 : 0;
        if (count == 0) assigns_first = assigns;
    }
    return assigns_first && assigned < count;
}

/// The words of each variant: a word without '=' begins the next one. A quoted word may contain several.
std::vector<std::vector<std::string>> grouped(const std::vector<std::string>& words) {
    std::vector<std::vector<std::string>> groups;
    for (const std::string& quoted : words) {
        if (is_one_value(quoted) && !groups.empty()) {
            groups.back().push_back(quoted);
            continue;
        }
        for (std::size_t begin = 0, end = 0; begin < quoted.size(); begin = end + 1) {
            end = std::min(quoted.find(' ', begin), quoted.size());
            if (end == begin) continue;
            std::string word = quoted.substr(begin, end - begin);
            const bool assigns = word.find('=') != std::string::npos;
            if (assigns && groups.empty())
                throw UsageError("'" + word +
                                 "' comes before any template; a variant is written TEMPLATE "
                                 "NAME=VALUE ..., as in gemm_tiled PAD=0 gemm_tiled PAD=2.");
            if (!assigns) groups.emplace_back();
            groups.back().push_back(std::move(word));
        }
    }
    return groups;
}

void add(std::vector<WantedVariant>& wanted, std::vector<Variant> variants, Service& service) {
    for (Variant& variant : variants) {
        const bool known = std::any_of(wanted.begin(), wanted.end(), [&](const WantedVariant& one) {
            return one.service == &service && one.variant == variant;
        });
        if (!known) wanted.push_back({std::move(variant), &service});
    }
    if (wanted.size() > kMostVariants)
        throw UsageError(formatted(
            "these are more than {} variants, too many for one page; name fewer values.", kMostVariants));
}

void add_manifest(std::vector<WantedVariant>& wanted, const Manifest& manifest, Targets& targets) {
    for (const ManifestLine& line : manifest.lines) {
        std::vector<std::optional<ManifestTarget>> of_line(line.targets.begin(), line.targets.end());
        if (of_line.empty()) of_line.emplace_back(std::nullopt);
        for (const auto& target : of_line) {
            try {
                Service& service = targets.of(line.template_name, target);
                add(wanted, line.variants(service.find(line.template_name), manifest.file), service);
            } catch (const UsageError& error) {  // an unknown template, a bad architecture
                throw TemplateError(manifest.file, line.line, 1, error.what());
            }
        }
    }
}

std::vector<WantedVariant> wanted_variants(const Call& call, Targets& targets) {
    std::vector<WantedVariant> wanted;
    for (const std::vector<std::string>& group : grouped(call.words)) {
        Service& service = targets.of(group[0], std::nullopt);
        add(wanted, chosen_variants(service.find(group[0]), std::span(group).subspan(1)), service);
    }
    if (call.has("manifest"))
        for (const std::string& file : call.given["manifest"].as<std::vector<std::string>>())
            add_manifest(wanted, Manifest::load(file), targets);
    if (wanted.empty())
        throw UsageError(
            "kiln report needs a variant: kiln report TEMPLATE [NAME=VALUE]..., or --manifest FILE.");
    return wanted;
}

/// For a POSIX shell.
std::string quoted(const std::string& word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

/// The command that creates the page again, in any directory.
std::string command_of(const Call& call, const Targets& targets, const std::string& arch) {
    std::string command = "kiln report";
    for (const std::string& word : call.words) command += " " + quoted(word);
    for (const char* const option : kShaping) {
        const std::string name = " --" + std::string(option);
        if (!call.has(option)) {
            // The target came from the machine, not from the command line.
            const bool chosen = std::string_view(option) == "arch" && targets.count() == 1 && !arch.empty();
            if (chosen && call.options.backend != Backend::host) command += name + " " + quoted(arch);
            continue;
        }
        const boost::any& value = call.given[option].value();
        if (const auto* const flag = boost::any_cast<bool>(&value)) {
            if (*flag) command += name;
        } else if (const auto* const text = boost::any_cast<std::string>(&value)) {
            command += name + " " + quoted(*text);
        } else if (const auto* const texts = boost::any_cast<std::vector<std::string>>(&value)) {
            for (const std::string& one : *texts) command += name + " " + quoted(one);
        }
    }
    return command;
}

std::string machine_text(const std::vector<WantedVariant>& wanted) {
    utsname system{};
    std::string text;
    if (uname(&system) == 0) text = std::string(system.sysname) + " " + system.machine + ", ";
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    text += formatted("{}{}", cores, cores == 1 ? " core" : " cores");
    for (const WantedVariant& one : wanted) {
        if (!one.service->has_device() || one.service->backend() == Backend::host) continue;
        return text + ", " + one.service->device().info().name;
    }
    return text;
}

std::string now_text() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[40];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
    return text;
}

std::optional<double> measured_ms(const WantedVariant& wanted, const AnalyzeOptions& options) {
    RunOptions run;
    run.sizes = options.sizes;
    run.test_sizes = options.test_sizes;
    run.check = Check::none;
    const RunResult result = Runner(*wanted.service).run(wanted.variant, run);
    return result.time ? std::optional(result.time->median_ms) : std::nullopt;
}

Output page_output(const Call& call) {
    if (!call.has("output"))
        throw UsageError("no output file is given; add --output FILE, or --output - for standard output.");
    Output output("--output", call.value("output"));
    output.check_json(call.options.json);
    output.check_replaces("report", {"<meta name=\"generator\" content=\"Kiln "});
    return output;
}

}  // namespace

int report(const Call& call) {
    const Output output = page_output(call);
    const AnalyzeOptions options = analyze_options(call);

    Warnings warnings(call.terminal);
    Targets targets(call, warnings);
    const std::vector<WantedVariant> wanted = wanted_variants(call, targets);
    std::map<Service*, std::unique_ptr<Analyzer>> analyzers;
    std::vector<ReportItem> items;
    for (const WantedVariant& one : wanted) {
        auto& analyzer = analyzers[one.service];
        if (!analyzer) analyzer = std::make_unique<Analyzer>(*one.service);
        const Progress progress(call.terminal, formatted("analysing {} of {}: {}", items.size() + 1,
                                                         wanted.size(), one.variant.text()));
        items.push_back(ReportItem::of(one.variant, analyzer->analyze(one.variant, options)));
        if (call.flag("time")) items.back().measured_ms = measured_ms(one, options);
    }

    ReportOptions about;
    if (call.has("title")) about.title = call.value("title");
    about.command = command_of(call, targets, wanted[0].service->target().arch);
    about.machine = machine_text(wanted);
    about.made = now_text();
    about.version = std::string(version());
    const std::string page = report_html(items, about);
    output.write(page);
    if (output.is_standard_output()) return kPassed;
    Json variants = Json::array();
    for (std::size_t i = 0; i < wanted.size(); ++i)
        variants.push_back({{"variant", wanted[i].variant.text()},
                            {"backend", name(wanted[i].service->backend())},
                            {"arch", wanted[i].service->target().arch},
                            {"measured_ms", or_null(items[i].measured_ms)}});
    call.print({{"output", call.value("output")}, {"bytes", page.size()}, {"variants", variants}},
               line("report", call.value("output") + ", " + bytes_text(static_cast<double>(page.size()))) +
                   line("variants", std::to_string(wanted.size())));
    return kPassed;
}

}  // namespace kiln::cli
