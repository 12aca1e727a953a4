// SPDX-License-Identifier: Apache-2.0
//
// nvcc is searched in CUDA_HOME, PATH and /usr/local/cuda.
#include "bench/cub.h"

#include <kiln/error.h>

#include "base/config.h"
#include "base/process.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr std::chrono::minutes kCompileLimit{4};

std::filesystem::path find_nvcc() {
    std::vector<std::filesystem::path> directories;
    for (const std::filesystem::path& home : config::cuda_homes()) directories.push_back(home / "bin");
    for (const std::filesystem::path& directory : config::executable_path()) directories.push_back(directory);
    directories.emplace_back("/usr/local/cuda/bin");
    for (const std::filesystem::path& directory : directories) {
        std::error_code error;
        if (std::filesystem::exists(directory / "nvcc", error)) return directory / "nvcc";
    }
    return {};
}

/// CUB_VERSION: 200801 is 2.8.1.
std::string version_text(int version) {
    return formatted("{}.{}.{}", version / 100000, version / 100 % 1000, version % 100);
}

/// Returns what went wrong.
std::string compile(const std::filesystem::path& nvcc, const std::string& arch,
                    const std::filesystem::path& source, const std::filesystem::path& library,
                    std::chrono::milliseconds limit, const std::stop_token& stop) {
    ProcessRequest request;
    request.arguments = {nvcc.string(), "-O3",   "-std=c++17", "-arch=" + arch,  "-shared",
                         "-Xcompiler",  "-fPIC", "-o",         library.string(), source.string()};
    request.timeout = limit;
    request.stop = stop;
    const ProcessResult result = run_process(request);
    if (result.succeeded()) return {};
    const std::string how = result.started ? result.how_it_ended(request.timeout) : result.start_error;
    return nvcc.string() + " " + how + (result.error.empty() ? "" : ": " + result.error.substr(0, 2000));
}

}  // namespace

std::string nvcc_problem() {
    return find_nvcc().empty() ? "there is no nvcc in CUDA_HOME, PATH or /usr/local/cuda to compile it with"
                               : "";
}

CubFunction::CubFunction(Benchmark& bench, std::string_view source, const char* symbol)
    : bench_(bench), symbol_(symbol) {
    problem_ = bench.problem_of("cub");
    if (problem_.empty()) {
        const std::filesystem::path file = directory_.path() / "helper.cu";
        write_text(file, source);
        compiled_ =
            std::async(std::launch::async, compile, find_nvcc(), bench.service().target().arch, file,
                       directory_.path() / "helper.so", bench.at_most(kCompileLimit), bench.options().stop);
    }
}

CubFunction::~CubFunction() { wait(); }  // it writes into the directory

void CubFunction::wait() const {
    if (compiled_.valid()) compiled_.wait();
}

Launch CubFunction::prepare(const void* input, long long count, void* output, std::string& problem) {
    if (compiled_.valid()) {
        problem_ = compiled_.get();
        if (problem_.empty()) {
            library_ = DynamicLibrary::open({(directory_.path() / "helper.so").string()}, &problem_);
            library_.keep_forever();  // the CUDA runtime in it is unloaded with the process
            if (library_ && !library_.resolve(function_, symbol_))
                problem_ = std::string("the helper has no ") + symbol_;
            int (*version)() = nullptr;
            if (library_ && library_.resolve(version, "kiln_cub_version"))
                bench_.add_version("CUB", version_text(version()));
        }
    }
    problem = problem_;
    if (function_ == nullptr) return {};
    void* const stream = bench_.stream().handle();
    const auto checked = [symbol = symbol_](int status) {
        if (status != 0)
            throw DeviceError(formatted("{} failed with code {}", symbol, status), symbol, status);
    };
    std::size_t bytes = 0;
    checked(function_(input, count, output, nullptr, &bytes, stream));
    temporary_ = bench_.service().device().allocate(std::max<std::size_t>(bytes, 256));
    return
        [=, this]() mutable { checked(function_(input, count, output, temporary_.data(), &bytes, stream)); };
}

}  // namespace kiln::bench
