// SPDX-License-Identifier: Apache-2.0
//
// Children over posix_spawn, with their output in files.
#include "stampede.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/dynamic_library.h"
#include "redis_server.h"

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool within(double limit_seconds, const std::function<bool()>& condition) {
    for (const double end = now_seconds() + limit_seconds; !condition();) {
        if (now_seconds() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
}

/// input: the file descriptor that becomes its standard input; -1: /dev/null.
pid_t spawn(std::vector<std::string> arguments, int input, const fs::path& output, const fs::path& error) {
    std::vector<char*> pointers;
    for (auto& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    if (input >= 0)
        ::posix_spawn_file_actions_adddup2(&actions, input, 0);
    else
        ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
    ::posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), kNew, 0600);
    ::posix_spawn_file_actions_addopen(&actions, 2, error.c_str(), kNew, 0600);
    pid_t process = 0;
    const int failure =
        ::posix_spawn(&process, arguments[0].c_str(), &actions, nullptr, pointers.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) throw std::runtime_error("can't start " + arguments[0]);
    return process;
}

WorkerReport read_report(const std::string& text) {
    WorkerReport report;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        if (word == "variant") {
            int number = 0, correct = 0;
            std::string bytes, hash;
            words >> number >> bytes >> hash >> correct;
            report.binaries[number] = bytes + " bytes, hash " + hash;
            report.correct += correct;
        } else if (word == "counter") {
            std::string name;
            words >> name;
            words >> report.counters[name];
        } else if (word == "seconds") {
            words >> report.seconds;
        }
    }
    return report;
}

}  // namespace

fs::path NotedCompiler::real_compiler() {
    if (const char* chosen = std::getenv("KILN_HOST_CXX"); chosen != nullptr && *chosen != 0)
        return fs::path(chosen).has_parent_path() ? chosen : find_program(chosen);
    for (const char* name : {"c++", "g++", "clang++"}) {
        if (const std::string path = find_program(name); !path.empty()) return path;
    }
    return {};
}

NotedCompiler::NotedCompiler(const fs::path& directory, const std::string& signal)
    // In a folder that nothing else is written to, so that what Kiln asks it is asked once.
    : program_(directory / "compiler" / "noted-c++"),
      notes_(directory / "compiles"),
      hit_(directory / "hit") {
    fs::create_directories(program_.parent_path());
    const auto quoted = [](const fs::path& path) { return "'" + path.string() + "'"; };
    std::string script =
        "#!/bin/sh\nreal=" + quoted(real_compiler()) + "\n" +
        "case \" $* \" in *' -### '*) ;; *' -o '*) false ;; esac && exec \"$real\" \"$@\"\n" +
        "echo $PPID >> " + quoted(notes_) + "\n";
    // Only one process can make a directory. By the time of the signal all others wait for that one.
    if (!signal.empty())
        script += "if mkdir " + quoted(hit_) + " 2> /dev/null; then echo $PPID > " +
                  quoted(hit_ / "process") + "; sleep 1; kill -" + signal + " $PPID; fi\n";
    write_text(program_, script + "exec \"$real\" \"$@\"\n");
    ::chmod(program_.c_str(), 0700);
}

int NotedCompiler::compiles() const {
    const auto text = read_text_if_exists(notes_).value_or("");
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

std::optional<pid_t> NotedCompiler::hit() const {
    const auto text = read_text_if_exists(hit_ / "process").value_or("");
    return text.ends_with('\n') ? std::optional<pid_t>(std::stoi(text)) : std::nullopt;
}

void Stampede::add(const fs::path& cache, const std::string& remote, int variants, int first) {
    if (!gate_) {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
        gate_read_ = FileDescriptor(ends[0]);
        gate_ = FileDescriptor(ends[1]);
    }
    Worker worker;
    const std::string name = "worker-" + std::to_string(workers_.size());
    worker.output = directory_ / (name + ".out");
    worker.error = directory_ / (name + ".err");
    worker.process = spawn({(own_directory() / "stampede_worker").string(), cache.string(), remote,
                            std::to_string(variants), std::to_string(first)},
                           gate_read_.value(), worker.output, worker.error);
    workers_.push_back(worker);
}

void Stampede::start() {
    for (const Worker& worker : workers_) {
        if (!within(120, [&] { return read_text_if_exists(worker.output) == "ready\n"; }))
            throw std::runtime_error("a worker is not ready: " +
                                     read_text_if_exists(worker.error).value_or(""));
    }
    started_ = now_seconds();
    gate_.reset();
}

void Stampede::reap() {
    for (Worker& worker : workers_) {
        if (!worker.ended && ::waitpid(worker.process, &worker.status, WNOHANG) == worker.process)
            worker.ended = true;
    }
}

bool Stampede::wait_for_all_but(std::size_t others) {
    return within(400, [&] {
        reap();
        const auto running =
            std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return !w.ended; });
        return static_cast<std::size_t>(running) <= others;
    });
}

std::vector<WorkerReport> Stampede::reports() const {
    std::vector<WorkerReport> reports;
    for (const Worker& worker : workers_) {
        WorkerReport report = read_report(read_text_if_exists(worker.output).value_or(""));
        report.ended_well = worker.ended && WIFEXITED(worker.status) && WEXITSTATUS(worker.status) == 0;
        report.signal = worker.ended && WIFSIGNALED(worker.status) ? WTERMSIG(worker.status) : 0;
        report.error = read_text_if_exists(worker.error).value_or("");
        reports.push_back(std::move(report));
    }
    return reports;
}

double Stampede::seconds() const { return now_seconds() - started_; }

Stampede::~Stampede() {
    for (const Worker& worker : workers_) {
        if (worker.ended) continue;
        ::kill(worker.process, SIGKILL);
        ::waitpid(worker.process, nullptr, 0);
    }
}

}  // namespace kiln::test
