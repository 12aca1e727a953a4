// SPDX-License-Identifier: Apache-2.0
//
// What python/kiln/tools.py makes dataclasses of: running a template's problem, tuning, analysing, checking, reporting.
// Functions here return dictionaries and lists.
#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/run.h>
#include <kiln/tools/analyze.h>
#include <kiln/tools/report.h>
#include <kiln/tune.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "objects.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

template <class T>
nb::object or_none(const std::optional<T>& value) {
    return value ? nb::cast(*value) : nb::object(nb::none());
}

nb::list list_of(const std::vector<std::string>& texts) {
    nb::list result;
    for (const std::string& text : texts) result.append(nb::str(text.c_str()));
    return result;
}

/// Work that may take long: without the GIL, and ended by an interrupt where it can be.
template <class Work>
auto released(const Work& work) {
    const WithoutGil without;
    return work();
}

nb::object time_of(const std::optional<TimeSummary>& time) {
    if (!time) return nb::none();
    nb::dict result;
    result["min_ms"] = time->min_ms;
    result["median_ms"] = time->median_ms;
    result["max_ms"] = time->max_ms;
    result["iterations"] = time->iterations;
    return result;
}

nb::dict run(const PyVariant& variant, const nb::dict& sizes, bool test_sizes, bool time, std::uint64_t seed,
             const std::optional<int>& iterations) {
    RunOptions options;
    options.sizes = sizes_of(sizes);
    options.test_sizes = test_sizes;
    options.time = time;
    options.seed = seed;
    options.iterations = iterations;
    const RunResult found = released([&] { return Runner(*variant.service).run(variant.variant, options); });
    nb::dict result;
    result["variant"] = variant.variant.text();
    result["sizes"] = dict_of(found.problem.sizes);
    result["passed"] = found.pass();
    result["failures"] = list_of(found.failures());
    result["time"] = time_of(found.time);
    result["gflops"] = or_none(found.gflops());
    result["gbps"] = or_none(found.gbps());
    result["build"] = dict_of(found.build, found.origin);
    nb::list outputs;
    for (const OutputCheck& check : found.outputs_checked) {
        nb::dict one;
        one["tensor"] = check.tensor;
        one["elements"] = check.elements;
        one["checked"] = check.checked;
        one["wrong"] = check.wrong;
        one["not_finite"] = check.not_finite;
        one["max_abs_error"] = check.max_abs_error;
        one["worst"] = check.worst;
        outputs.append(one);
    }
    result["outputs"] = outputs;
    return result;
}

nb::dict tune_templates(const PyService& service, const std::vector<PyTemplate>& templates,
                        const nb::dict& values, const std::vector<nb::dict>& shapes, bool test_sizes,
                        double seconds, std::uint64_t seed) {
    TuneOptions options;
    options.fixed = values_of(values);
    for (const nb::dict& shape : shapes) options.shapes.push_back(sizes_of(shape));
    options.test_sizes = test_sizes;
    options.budget_seconds = seconds;
    options.seed = seed;
    std::stop_source stop;
    options.stop = stop.get_token();
    bool is_interrupted = false;
    options.on_progress = [&](const TuneProgress&) {
        const WithGil held;
        if (!is_interrupted && PyErr_CheckSignals() != 0) {
            is_interrupted = true;  // KeyboardInterrupt, raised when the search has ended
            stop.request_stop();
        }
        if (is_interrupted) PyErr_Clear();
    };
    std::vector<Template> competing;
    for (const PyTemplate& one : templates) competing.push_back(one.of.for_target(service.service->target()));
    const TuneReport found = released([&] { return tune(*service.service, competing, options); });
    if (is_interrupted) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        nb::raise_python_error();
    }
    nb::list all;
    for (const TunedShape& shape : found.shapes) {
        nb::dict one;
        one["sizes"] = dict_of(shape.sizes);
        nb::list best;
        for (const WisdomEntry& entry : shape.best) {
            nb::dict candidate;
            candidate["template"] = entry.template_name;
            candidate["values"] = dict_of(entry.values);
            candidate["median_ms"] = entry.median_ms;
            best.append(candidate);
        }
        one["best"] = best;
        one["left_out"] = list_of(shape.left_out);
        one["legal"] = shape.legal;
        one["timed"] = shape.timed;
        one["complete"] = shape.complete;
        nb::list failures;
        for (const TuneFailure& failure : shape.failures) {
            nb::dict failed;
            failed["variant"] = failure.variant;
            failed["reason"] = failure.reason;
            failed["wrong"] = failure.wrong;
            failures.append(failed);
        }
        one["failures"] = failures;
        one["default_ms"] = or_none(shape.default_ms);
        one["seconds"] = shape.seconds;
        all.append(one);
    }
    nb::dict result;
    result["shapes"] = all;
    result["wisdom"] = found.wisdom.text();
    result["seconds"] = found.seconds;
    return result;
}

nb::object place_of(const SourcePlace& place) {
    return place.line == 0 ? nb::object(nb::none()) : nb::cast(place.text());
}

nb::list problems_of(const Recording& recording) {
    nb::list result;
    for (const AccessProblem& problem : recording.problems) {
        nb::dict one;
        one["kind"] = std::string(name(problem.kind));
        one["text"] = problem.text();
        one["place"] = place_of(problem.place);
        one["other"] = problem.kind == ProblemKind::race ? place_of(problem.other) : nb::object(nb::none());
        one["variable"] = problem.variable;
        one["tensor"] = problem.tensor;
        one["block"] = tuple_of(problem.block);
        one["thread"] = problem.thread;
        one["count"] = problem.count;
        result.append(one);
    }
    return result;
}

AnalyzeOptions analyze_options(const nb::dict& sizes, bool test_sizes) {
    AnalyzeOptions options;
    options.sizes = sizes_of(sizes);
    options.test_sizes = test_sizes;
    return options;
}

nb::dict check(const PyVariant& variant, const nb::dict& sizes, std::int64_t most_blocks,
               double most_seconds) {
    if (most_blocks < 0)
        throw UsageError("most_blocks is " + std::to_string(most_blocks) + "; it has to be 1 or more");
    AnalyzeOptions options = analyze_options(sizes, true);
    options.most_blocks = static_cast<std::uint64_t>(most_blocks);
    options.most_ms = most_seconds * 1000;
    const Recording found =
        released([&] { return Analyzer(*variant.service).check(variant.variant, options); });
    nb::dict result;
    result["variant"] = variant.variant.text();
    result["blocks"] = found.blocks;
    result["blocks_checked"] = found.blocks_recorded;
    result["problems"] = problems_of(found);
    return result;
}

nb::object occupancy_of(const std::optional<Occupancy>& occupancy) {
    if (!occupancy) return nb::none();
    nb::dict result;
    result["blocks"] = occupancy->blocks;
    result["warps"] = occupancy->warps;
    result["most_warps"] = occupancy->most_warps;
    result["fraction"] = occupancy->fraction();
    nb::list binding;
    for (const OccupancyLimit limit : occupancy->binding) binding.append(std::string(name(limit)));
    result["binding"] = binding;
    return result;
}

nb::object roofline_of(const std::optional<Roofline>& roofline) {
    if (!roofline) return nb::none();
    nb::dict result;
    result["intensity"] = roofline->intensity;
    result["ridge"] = roofline->ridge;
    result["lower_bound_ms"] = roofline->floor_ms;
    result["memory_bound"] = roofline->memory_bound;
    result["attainable_tflops"] = roofline->attainable_tflops;
    return result;
}

nb::dict dict_of_analysis(const Analysis& found) {
    nb::dict result;
    result["variant"] = found.variant;
    result["arch"] = found.arch;
    result["chip"] = found.chip_name;
    result["sizes"] = dict_of(found.problem.sizes);
    result["grid"] = tuple_of(found.grid);
    result["block"] = tuple_of(found.block);
    result["cluster"] = tuple_of(found.cluster);
    result["registers"] = or_none(found.resources.registers);
    result["spill_bytes"] = or_none(found.resources.spill_bytes);
    result["static_shared_bytes"] = found.static_shared_bytes;
    result["dynamic_shared_bytes"] = found.dynamic_shared_bytes;
    nb::dict instructions;
    for (const auto& [name, count] : found.resources.instructions) instructions[name.c_str()] = count;
    result["instructions"] = instructions;
    result["occupancy"] = occupancy_of(found.occupancy);
    result["waves"] = found.waves ? nb::cast(found.waves->waves) : nb::object(nb::none());
    result["roofline"] = roofline_of(found.roofline);
    result["bank_conflict_excess"] = found.excess();
    const bool is_scaled = found.not_scaled.empty();
    result["shared_wavefronts"] = is_scaled ? nb::cast(found.shared_wavefronts) : nb::object(nb::none());
    result["global_sectors"] = is_scaled ? nb::cast(found.global_sectors) : nb::object(nb::none());
    result["not_scaled"] = found.not_scaled;
    nb::list shared;
    for (const SharedLine& line : found.shared) {
        nb::dict one;
        one["place"] = place_of(line.site.place);
        one["access"] = std::string(name(line.site.kind));
        one["variable"] = line.site.variable;
        one["bytes"] = line.believed.bytes;
        one["wavefronts"] = line.believed.wavefronts;
        one["ideal"] = line.believed.ideal;
        one["degree"] = line.believed.degree;
        shared.append(one);
    }
    result["shared"] = shared;
    nb::list advice;
    for (const Advice& one : found.advice) {
        constexpr const char* kWeights[] = {"good", "hint", "warning"};
        nb::dict entry;
        entry["weight"] = kWeights[static_cast<int>(one.weight)];
        entry["text"] = one.text;
        entry["change"] = one.change;
        advice.append(entry);
    }
    result["advice"] = advice;
    return result;
}

nb::dict analyze(const PyVariant& variant, const nb::dict& sizes, bool test_sizes) {
    const AnalyzeOptions options = analyze_options(sizes, test_sizes);
    const Analysis found =
        released([&] { return Analyzer(*variant.service).analyze(variant.variant, options); });
    return dict_of_analysis(found);
}

std::string report(const std::vector<PyVariant>& variants, const nb::dict& sizes, bool test_sizes,
                   const std::string& title) {
    const AnalyzeOptions options = analyze_options(sizes, test_sizes);
    return released([&] {
        std::vector<ReportItem> items;
        for (const PyVariant& one : variants)
            items.push_back(
                ReportItem::of(one.variant, Analyzer(*one.service).analyze(one.variant, options)));
        ReportOptions page;
        page.title = title;
        page.version = std::string(version());
        return report_html(items, page);
    });
}

}  // namespace

void bind_tools(nb::module_& module) {
    module.def("_run", &run, nb::arg("variant"), nb::arg("sizes"), nb::arg("test_sizes"), nb::arg("time"),
               nb::arg("seed"), nb::arg("iterations").none());
    module.def("_tune", &tune_templates, nb::arg("service"), nb::arg("templates"), nb::arg("values"),
               nb::arg("shapes"), nb::arg("test_sizes"), nb::arg("seconds"), nb::arg("seed"));
    module.def("_check", &check, nb::arg("variant"), nb::arg("sizes"), nb::arg("most_blocks"),
               nb::arg("most_seconds"));
    module.def("_analyze", &analyze, nb::arg("variant"), nb::arg("sizes"), nb::arg("test_sizes"));
    module.def("_report", &report, nb::arg("variants"), nb::arg("sizes"), nb::arg("test_sizes"),
               nb::arg("title"));
    module.def(
        "_write_output", [](nb::handle file, const std::string& text) { write_output(path_of(file), text); },
        nb::arg("file"), nb::arg("text"));
    // Of one family: what kiln.tune() lets compete.
    const auto competing = [](const PyService& service, const std::string& family, const nb::dict& fixed) {
        const Template of = find_family(*service.service, family).for_target(service.service->target());
        std::vector<PyTemplate> result;
        for (Template& one : Chooser(*service.service, Wisdom()).candidates(of, values_of(fixed)))
            result.push_back({service.service, std::move(one)});
        return result;
    };
    module.def("_family", competing, nb::arg("service"), nb::arg("family"), nb::arg("fixed"));
}

}  // namespace kiln::python
