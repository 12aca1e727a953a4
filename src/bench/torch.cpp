// SPDX-License-Identifier: Apache-2.0
//
// The script is an argument (python3 -c), so that standard input is free for the problems.
#include "bench/torch.h"

#include <kiln/error.h>

#include <cstdio>
#include <cstdlib>

#include "base/process.h"
#include "bench/helper/sources.h"

namespace kiln::bench {
namespace {

constexpr std::chrono::minutes kLimit{5};

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

std::string last_line(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

/// Bytes read and written per microsecond by PyTorch's copy; 0: not measured.
double copy_rate(const TorchFigures& figures, const std::string& problem, double bytes) {
    const auto found = figures.by_problem.find(problem);
    if (found == figures.by_problem.end() || found->second.front().us.median <= 0) return 0;
    return bytes / found->second.front().us.median;
}

}  // namespace

TorchFigures parse_torch(const std::string& output, std::string& version, std::string& unavailable) {
    TorchFigures figures;
    for (const std::string& line : split(output, '\n')) {
        const std::vector<std::string> words = split(line, '\t');
        if (words.size() == 2 && words[0] == "unavailable")
            unavailable = words[1];
        else if (words.size() == 1 && words[0].starts_with("PyTorch "))
            version = words[0];
        if (words.size() < 4) continue;
        TorchFigure figure;
        figure.name = words[1];
        if (words[2] == "error") {
            figure.error = words[3];
        } else if (words.size() == 8) {
            figure.us = {std::atof(words[2].c_str()), std::atof(words[3].c_str()),
                         std::atof(words[4].c_str()), std::atoi(words[5].c_str())};
            figure.right = words[6] == "RIGHT";
            figure.detail = words[7];
        } else {
            figure.error = "its line can't be understood: " + line;
        }
        figures.by_problem[words[0]].push_back(std::move(figure));
    }
    return figures;
}

namespace {

struct TorchAnswer {
    TorchFigures figures;
    std::string version;
    std::string problem;  ///< not empty: there are no figures
    std::string end;      ///< how its process ended, where that was before its time
};

TorchAnswer ask_torch(Workbench& bench, const std::vector<std::string>& problems) {
    const DeviceInfo& device = bench.service().device().info();
    ProcessRequest request;
    request.arguments = {"python3",
                         "-c",
                         std::string(kTorchBench),
                         std::to_string(device.ordinal),
                         bench.quick() ? "quick" : "full",
                         std::to_string(CacheFlusher::buffer_bytes(device))};
    for (const std::string& problem : problems) request.input += problem + "\n";
    request.timeout = kLimit;
    request.stop = bench.options().stop;
    const ProcessResult result = run_process(request);
    if (result.stopped) throw Stopped();
    TorchAnswer answer;
    answer.figures = parse_torch(result.output, answer.version, answer.problem);
    if (!result.succeeded() && result.started)
        answer.end = "its process " + result.how_it_ended(request.timeout) + ": " + last_line(result.error);
    if (!result.started)
        answer.problem = "python3 did not start: " + result.start_error;
    else if (answer.problem.empty() && answer.version.empty())
        answer.problem = answer.end.empty() ? "its process said nothing" : answer.end;
    return answer;
}

}  // namespace

std::string torch_problem(Workbench& bench) { return ask_torch(bench, {}).problem; }

TorchFigures measure_torch(Workbench& bench, BenchSuite& suite, std::vector<std::string> problems) {
    if (!bench.wants("torch") || problems.empty()) return {};
    if (!bench.on_cuda()) {
        bench.missing(suite, "torch", "it needs a CUDA device");
        return {};
    }
    bench.begin(suite, "PyTorch");
    const long long copied_words = bench.quick() ? 1 << 26 : 1 << 28;
    const std::string copy = "copy " + std::to_string(copied_words);
    problems.insert(problems.begin(), copy);
    TorchAnswer answer = ask_torch(bench, problems);
    if (!answer.problem.empty()) {
        bench.missing(suite, "torch", answer.problem);
        return {};
    }
    std::string note = answer.version;
    const double rate = copy_rate(answer.figures, copy, 8.0 * static_cast<double>(copied_words));
    const double ours = bench.ceilings(suite).copy_bytes_per_us;
    char text[160];
    if (rate > 0) {
        std::snprintf(text, sizeof text,
                      ", in a process of its own; its copy moves %.0f GB/s, that of this process %.0f",
                      rate / 1000, ours / 1000);
        note += text;
    }
    if (!answer.end.empty()) note += "; " + answer.end;
    suite.notes.push_back(note);
    return std::move(answer.figures);
}

void add_torch(BenchRow& row, const TorchFigures& figures, const std::string& problem, std::string_view name,
               std::optional<double> must, std::optional<double> aim) {
    const auto found = figures.by_problem.find(problem);
    if (found == figures.by_problem.end()) return;
    for (const TorchFigure& figure : found->second) {
        if (!figure.error.empty()) {
            row.notes.push_back(figure.name + " failed: " + figure.error);
            continue;
        }
        BenchComparison comparison;
        comparison.with = figure.name;
        comparison.detail = figure.detail;
        comparison.time = figure.us;
        comparison.ratio = figure.us.median / row.kiln->median;
        comparison.verified = figure.right;
        if (figure.name == name) {
            comparison.must = must;
            comparison.aim = aim;
        }
        row.comparisons.push_back(std::move(comparison));
    }
}

}  // namespace kiln::bench
