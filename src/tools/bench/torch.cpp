// SPDX-License-Identifier: Apache-2.0
//
// The script is an argument (python3 -c), so that standard input is free for requests.
#include "bench/torch.h"

#include <kiln/error.h>

#include <cstdlib>
#include <system_error>

#include "base/words.h"
#include "bench/benchmark.h"
#include "bench/helper/sources.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr std::string_view kEnd = "end\n";

bool is_whole(const std::string& output) {
    return output == kEnd || output.ends_with("\n" + std::string(kEnd));
}

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

}  // namespace

TorchProcess::TorchProcess(TorchSetup setup, Limit limit) : setup_(std::move(setup)) {
    try {
        start(limit);
    } catch (const Stopped&) {
        throw;
    } catch (const Error& error) {
        problem_ = error.what();
    }
}

void TorchProcess::start(Limit limit) {
    ProcessSetup process;
    process.arguments = {"python3",
                         "-c",
                         std::string(kTorchBench),
                         std::to_string(setup_.device),
                         setup_.quick ? "quick" : "full",
                         std::to_string(setup_.flush_bytes)};
    process.environment = setup_.environment;
    try {
        child_ = std::make_unique<ChildProcess>(process);
    } catch (const std::system_error& error) {
        throw Error(error.what());
    }
    for (const std::vector<std::string>& words : ask("", limit)) {
        if (words.size() == 2 && words[0] == "unavailable") problem_ = words[1];
        if (words.size() == 3 && words[0] == "version") versions_[words[1]] = words[2];
    }
    if (problem_.empty() && versions_.empty()) problem_ = "its process reported no version";
}

TorchProcess::Lines TorchProcess::ask(const std::string& question, Limit limit) {
    ProcessResult& result = child_->result();
    result.output.clear();
    ChildProcess::Exchange exchange;
    exchange.input = question;
    exchange.last = false;
    exchange.timeout = limit;
    exchange.stop = setup_.stop;
    exchange.enough = [](ProcessResult& so_far) { return is_whole(so_far.output); };
    if (!child_->exchange(exchange) && !is_whole(result.output)) {
        if (result.stopped) throw Stopped();
        const std::string how = "its process " + result.how_it_ended(limit);
        const std::string last = last_line(result.error);
        child_.reset();
        throw Error(how + (last.empty() ? "" : ": " + last));
    }
    Lines lines;
    for (const std::string& line : split(result.output, '\n'))
        if (!line.empty()) lines.push_back(split(line, '\t'));
    return lines;
}

std::vector<TorchImplementation> TorchProcess::prepare(const std::string& problem, Limit limit) {
    if (!child_ || !child_->running()) start(limit);
    std::vector<TorchImplementation> ways;
    for (const std::vector<std::string>& words : ask("prepare " + problem + "\n", limit)) {
        if (words.size() == 2 && words[0] == "error") throw Error(words[1]);
        if (words.size() != 4 || words[0] != "way") continue;
        TorchImplementation& way = ways.emplace_back();
        way.name = words[1];
        (words[2] == "error" ? way.error : way.detail) = words[3];
        way.right = words[2] == "RIGHT";
    }
    return ways;
}

void TorchProcess::compile_ahead(const std::vector<std::string>& problems, Limit limit) {
    if (problems.empty()) return;
    if (!child_ || !child_->running()) start(limit);
    for (const std::vector<std::string>& words : ask("compile " + join(problems, "|") + "\n", limit))
        if (words.size() == 2 && words[0] == "error") throw Error(words[1]);
}

std::vector<double> TorchProcess::times_us(std::size_t way, int count, Limit limit) {
    if (!child_) throw Error("its process has ended");
    std::vector<double> times;
    for (const std::vector<std::string>& words : ask(formatted("time {} {}\n", way, count), limit)) {
        if (words.size() == 2 && words[0] == "error") throw Error(words[1]);
        if (words[0] != "times") continue;
        for (std::size_t i = 1; i < words.size(); ++i) times.push_back(std::atof(words[i].c_str()));
    }
    if (times.size() != static_cast<std::size_t>(count))
        throw Error(formatted("its process reported {} times instead of {}", times.size(), count));
    return times;
}

}  // namespace kiln::bench
