// SPDX-License-Identifier: Apache-2.0
//
// jit-bench: what building at run time costs, each figure beside its comparator in the same run: a warm
// start in a new process, the look-up of a built kernel, a launch call, a cold compile.
#include "jit_bench.h"

#include <cmath>
#include <cstdio>
#include <exception>

namespace kiln::bench {
namespace {

constexpr const char* kUsage =
    "jit-bench [--backend cuda|hip|host] [--device N] [--rounds N] [--json] [--check]\n"
    "  --rounds N  processes per figure that needs new ones, 3 to 1000 (15)\n"
    "  --json      one JSON object on standard output; the table goes to standard error\n"
    "  --check     exit status 1 when an aim is missed\n";

std::string text(const Spread& spread) {
    return rounded(spread.median) + " (" + rounded(spread.min) + " to " + rounded(spread.max) + ", " +
           std::to_string(spread.count) + "x)";
}

std::string result_text(const Figure& figure) {
    switch (figure.measure) {
        case Measure::median:
            return "";
        case Measure::difference:
            return std::string("+") + rounded(figure.value()) + " " + figure.unit;
        case Measure::ratio:
            return rounded(figure.value()) + "x";
    }
    return "";
}

std::string aim_text(const Figure& figure) {
    if (!figure.aim) return "";
    return std::string(*figure.met() ? "met" : "MISSED") + ": " +
           (figure.measure == Measure::difference ? "+" : "") + rounded(*figure.aim) +
           (figure.measure == Measure::ratio ? "x" : " " + figure.unit);
}

void print_table(const std::vector<Figure>& figures, const std::string& device, std::FILE* to) {
    Table table({device, "unit", "Kiln: median (min to max)", "bare: median (min to max)", "result", "aim"});
    for (const Figure& figure : figures) {
        table.add({figure.name, figure.unit, text(figure.kiln), figure.bare ? text(*figure.bare) : "-",
                   result_text(figure), aim_text(figure)});
        if (figure.bare) table.add({"  bare: " + figure.bare_name});
        for (const auto& [part, spread] : figure.parts)
            table.add({"  of which " + part, figure.unit, text(spread)});
    }
    std::fputs(table.text().c_str(), to);
}

Json to_json(const Figure& figure) {
    Json json{{"name", figure.name}, {"unit", figure.unit}, {"kiln", bench::to_json(figure.kiln)}};
    for (const auto& [part, spread] : figure.parts) json["parts"][part] = bench::to_json(spread);
    if (figure.bare) json["bare"] = {{"name", figure.bare_name}, {"time", bench::to_json(*figure.bare)}};
    json["measure"] = figure.measure == Measure::median       ? "median"
                      : figure.measure == Measure::difference ? "difference"
                                                              : "ratio";
    json["value"] = figure.value();
    json["aim"] = cli::or_null(figure.aim);
    json["met"] = cli::or_null(figure.met());
    return json;
}

int run(Arguments arguments) {
    if (arguments.flag("--help")) {
        std::fputs(kUsage, stdout);
        return 0;
    }
    const std::string backend = arguments.text("--backend", "auto");
    Setup setup;
    setup.device = arguments.number("--device", 0, 0, 1000);
    setup.rounds = arguments.number("--rounds", setup.rounds, 3, 1000);
    const bool json = arguments.flag("--json");
    const bool check = arguments.flag("--check");
    arguments.expect_no_more(kUsage);

    ServiceOptions options;
    options.cache.enabled = false;
    options.device = setup.device;
    if (backend != "auto") options.backend = parse_backend(backend);
    std::string device, arch;
    {
        const Service service(options);
        setup.backend = service.backend();
        device = service.device().info().name;
        arch = service.target().arch;
    }
    // The other processes first, while this one has no context on the device.
    std::vector<Figure> figures{warm_start(setup)};
    {
        options.backend = setup.backend;
        Service service(options);
        for (Figure& figure : hot_lookup(service)) figures.push_back(std::move(figure));
        figures.push_back(launch_call(service, setup.device));
    }
    for (Figure& figure : cold_compile(setup)) figures.push_back(std::move(figure));

    bool all_met = true;
    for (const Figure& figure : figures) all_met = all_met && figure.met().value_or(true);
    if (json) {
        Json report{
            {"program", "jit-bench"}, {"backend", name(setup.backend)}, {"device", device}, {"arch", arch}};
        report["figures"] = Json::array();
        for (const Figure& figure : figures) report["figures"].push_back(to_json(figure));
        report["all_met"] = all_met;
        std::fputs(cli::dumped(report).c_str(), stdout);
    }
    print_table(figures, device, json ? stderr : stdout);
    return check && !all_met ? 1 : 0;
}

}  // namespace

Variant default_tile(const Service& service) { return service.find("gemm_tiled").variant({{"PAD", 1}}); }

double Figure::value() const {
    switch (measure) {
        case Measure::median:
            return kiln.median;
        case Measure::difference:
            return kiln.median - bare->median;
        case Measure::ratio:
            return kiln.median / bare->median;
    }
    return std::nan("");
}

std::optional<bool> Figure::met() const {
    if (!aim) return std::nullopt;
    return measure == Measure::ratio ? value() <= *aim : value() < *aim;
}

}  // namespace kiln::bench

int main(int argc, char** argv) {
    try {
        if (argc > 1 && std::string_view(argv[1]) == "--child")
            return kiln::bench::run_child({argv + 1, argv + argc});
        return kiln::bench::run({argc, argv});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "jit-bench: %s\n", error.what());
        return dynamic_cast<const kiln::UsageError*>(&error) ? 2 : 4;
    }
}
