// SPDX-License-Identifier: Apache-2.0
//
// A child process is the program that runs the benchmark, with other arguments.
#include "bench/child.h"

#include <kiln/error.h>

#include <charconv>
#include <cstdio>
#include <sstream>

#include "base/process.h"

namespace kiln {
namespace bench {

ChildLines start_child(const BenchOptions& options, const std::vector<std::string>& words,
                       std::vector<std::pair<std::string, std::string>> environment) {
    if (options.child.empty()) throw Error("there is no program to start as a child process");
    ProcessRequest request;
    request.arguments = options.child;
    request.arguments.insert(request.arguments.end(), words.begin(), words.end());
    request.environment = std::move(environment);
    request.timeout = std::chrono::minutes(3);
    request.stop = options.stop;
    const ProcessResult result = run_process(request);
    if (!result.succeeded())
        throw Error("the measuring process '" + words.front() + "' " +
                    (result.started ? result.how_it_ended(request.timeout) : result.start_error) + ": " +
                    result.error);
    ChildLines lines;
    std::istringstream output(result.output);
    for (std::string line; std::getline(output, line);) {
        std::istringstream text(line);
        lines.emplace_back();
        for (std::string word; std::getline(text, word, '\t');) lines.back().push_back(word);
    }
    return lines;
}

ChildLines start_service_child(Benchmark& bench, std::vector<std::string> words,
                               std::vector<std::pair<std::string, std::string>> environment) {
    const ServiceOptions& service = bench.options().service;
    for (const std::string& word :
         {std::string(name(bench.service().backend())), std::to_string(service.device), service.arch})
        words.push_back(word);
    for (const std::filesystem::path& directory : service.template_directories)
        words.push_back(directory.string());
    return start_child(bench.options(), words, std::move(environment));
}

void tell(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += (line.empty() ? "" : "\t") + word;
    std::fputs((line + "\n").c_str(), stdout);
}

std::string number_text(double value) {
    char text[40];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace bench

inline namespace KILN_ABI {

int run_bench_child(std::span<const std::string> arguments) {
    const auto word = [&](std::size_t i) -> const std::string& {
        if (i >= arguments.size()) throw UsageError("a measuring process lacks its arguments");
        return arguments[i];
    };
    const auto number = [&](std::size_t i) {
        int value = 0;
        const std::string& text = word(i);
        const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
        if (read.ec != std::errc() || read.ptr != text.data() + text.size())
            throw UsageError("'" + text + "' is not a number that a measuring process accepts");
        return value;
    };
    // What start_service_child() adds, from the i-th on.
    const auto service = [&](std::size_t i) {
        ServiceOptions options;
        options.backend = parse_backend(word(i));
        options.device = number(i + 1);
        options.arch = word(i + 2);
        for (i += 3; i < arguments.size(); ++i) options.template_directories.emplace_back(word(i));
        return options;
    };
    const std::string& what = word(0);
    if (what == "openblas") return bench::child_openblas();
    if (what == "host") return bench::child_host(service(5), number(1), number(2), word(3), number(4) != 0);
    if (what == "warm-kiln") return bench::child_warm_kiln(service(2), word(1));
    if (what == "warm-bare")
        return bench::child_warm_bare(parse_backend(word(1)), number(2), word(3), word(4));
    if (what == "cold") return bench::child_cold(service(1));
    throw UsageError("unknown kind of measuring process: " + what);
}

}  // namespace KILN_ABI
}  // namespace kiln
