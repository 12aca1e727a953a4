// SPDX-License-Identifier: Apache-2.0
//
// compile-bench: what compiling variants of a template with many headers costs, next to plain NVRTC, which gets the same text
// and the include directories. No GPU is needed.
//   cold      the first compile of a process with an empty cache
//   second    the next one, right behind it, which precompiles the headers
//   variants  the second one on, in the same process
//   many      so many variants by so many processes at once
// Rounds of both are interleaved, and medians are printed.
#include <kiln/kiln.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/process.h"
#include "base/stopwatch.h"
#include "compile/compiler.h"
#include "compile/nvrtc_api.h"
#include "compile/nvrtc_program.h"
#include "support.h"

namespace kiln::bench {
namespace {

constexpr const char* kUsage =
    "compile-bench [--rounds N] [--variants N] [--processes N] [--nvrtc FILE]\n"
    "  --rounds N     of each figure, 1 to 100 (5)\n"
    "  --variants N   to compile at once, 1 to 1000 (64)\n"
    "  --processes N  that compile them, 1 to 256 (16)\n"
    "  --nvrtc FILE   the library for plain NVRTC (KILN_NVRTC, else /usr/local/cuda/lib64/libnvrtc.so)\n";

constexpr const char* kArch = "sm_90a";

const std::string& own_text() {
    static const std::string text = R"(#include <cuda_fp16.h>
#include <cub/block/block_reduce.cuh>
#include <cooperative_groups.h>

extern "C" __global__ __launch_bounds__(THREADS) void scaled_sum(int n, const __half* x, float* sum) {
    using Reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    const auto block = cooperative_groups::this_thread_block();
    float mine = 0;
    for (int i = block.thread_rank(); i < n; i += THREADS) mine += __half2float(x[i]);
    mine = Reduce(storage).Sum(mine);
    if (block.thread_rank() == 0) *sum = SCALE * mine;
}
)";
    return text;
}

Template with_headers() {
    return Template::parse(
        "// scaled_sum: for compile-bench\n//@ kernel scaled_sum\n//@ param THREADS int in 64, 128, 256, 512 "
        "= 128\n"
        "//@ param SCALE int in 1..1000 = 1\n//@ block THREADS\n//@ grid 1\n" +
            own_text(),
        "scaled_sum.cu");
}

Values values(int number) {
    return {{"THREADS", std::int64_t{64} << number % 4}, {"SCALE", std::int64_t{1 + number}}};
}

class PlainNvrtc {
  public:
    explicit PlainNvrtc(const std::string& file) {
        std::string error;
        auto library = DynamicLibrary::open({file}, &error);
        if (!library) throw BuildError(error);
        api_ = NvrtcApi::open(std::move(library));
        for (const auto& directory : make_nvrtc_compiler()->include_directories())
            directories_.push_back("-I" + directory.string());
    }

    double compile_ms(int number) {
        const Stopwatch watch;
        const auto of = values(number);
        const std::string text = "constexpr int THREADS = " + of.at("THREADS").text() +
                                 ";\nconstexpr int SCALE = " + of.at("SCALE").text() + ";\n" + own_text();
        std::vector<std::string> options = {std::string("--gpu-architecture=") + kArch, "--std=c++20",
                                            "--generate-line-info", "--ptxas-options=-v", "--no-cache"};
        options.insert(options.end(), directories_.begin(), directories_.end());
        std::vector<const char*> pointers;
        for (const std::string& option : options) pointers.push_back(option.c_str());
        NvrtcProgram program = nullptr;
        std::size_t bytes = 0;
        const bool done = api_.create_program(&program, text.c_str(), "scaled_sum.cu", 0, nullptr, nullptr) ==
                              kNvrtcSuccess &&
                          api_.compile_program(program, static_cast<int>(pointers.size()), pointers.data()) ==
                              kNvrtcSuccess &&
                          api_.cubin_size(program, &bytes) == kNvrtcSuccess;
        std::string cubin(bytes, '\0');
        if (!done || api_.cubin(program, cubin.data()) != kNvrtcSuccess)
            throw BuildError("plain NVRTC does not compile the template");
        api_.destroy_program(&program);
        return watch.elapsed_ms();
    }

  private:
    NvrtcApi api_;
    std::vector<std::string> directories_;
};

ServiceOptions options(const std::filesystem::path& cache, int workers) {
    ServiceOptions result;
    result.backend = Backend::cuda;
    result.arch = kArch;
    result.compile_only = true;
    result.cache.directory = cache;
    result.workers = workers;
    return result;
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

/// Of this program, in a new process: the milliseconds that it prints, one a line.
class Self {
  public:
    Self(std::string program, std::string library)
        : program_(std::move(program)), library_(std::move(library)) {}

    ProcessRequest request(const std::string& part, int first, int count, const std::string& cache) const {
        ProcessRequest request;
        request.arguments = {program_,
                             "--part",
                             part,
                             "--first",
                             std::to_string(first),
                             "--count",
                             std::to_string(count),
                             "--nvrtc",
                             library_,
                             "--cache",
                             cache};
        request.timeout = std::chrono::minutes(10);
        return request;
    }
    std::vector<double> run(const std::string& part, int first, int count) const {
        const TemporaryDirectory cache;
        const ProcessResult result = run_process(request(part, first, count, cache.path().string()));
        if (!result.succeeded()) throw BuildError(part + ": " + result.error);
        std::vector<double> ms;
        for (const char* at = result.output.c_str(); *at != '\0';) {
            char* end = nullptr;
            ms.push_back(std::strtod(at, &end));
            at = *end == '\n' ? end + 1 : end;
        }
        return ms;
    }

  private:
    const std::string program_, library_;
};

// A child: compiles these variants one after the other.
int compile_part(const std::string& part, int first, int count, const std::string& library,
                 const std::string& cache) {
    std::optional<PlainNvrtc> plain;
    std::optional<Service> service;
    for (int number = first; number < first + count; ++number) {
        const Stopwatch watch;
        if (part == "plain") {
            if (!plain) plain.emplace(library);
            static_cast<void>(plain->compile_ms(number));
        } else {
            if (!service) service.emplace(options(cache, 1));
            static_cast<void>(service->compile(with_headers().variant(values(number))));
        }
        std::printf("%.3f\n", watch.elapsed_ms());
    }
    return 0;
}

double many_plain_ms(const Self& self, int variants, int processes) {
    const Stopwatch watch;
    std::vector<std::future<void>> all;
    for (int i = 0; i < processes; ++i) {
        const int first = variants * i / processes, end = variants * (i + 1) / processes;
        if (first == end) continue;
        all.push_back(std::async(std::launch::async, [&self, first, end] {
            static_cast<void>(self.run("plain", first, end - first));
        }));
    }
    for (auto& one : all) one.get();
    return watch.elapsed_ms();
}

double many_kiln_ms(int variants, int processes) {
    const TemporaryDirectory cache;
    const Stopwatch watch;
    Service service(options(cache.path(), processes));
    const Template of = with_headers();
    std::vector<std::future<Compiled>> all;
    for (int number = 0; number < variants; ++number)
        all.push_back(service.compile_async(of.variant(values(number))));
    for (auto& one : all) static_cast<void>(one.get());
    return watch.elapsed_ms();
}

void compare(const char* what, double plain, double kiln, const char* must) {
    std::printf("%-40s plain NVRTC %8.0f ms   Kiln %8.0f ms   %5.2f of it, %4.2f times as fast   must: %s\n",
                what, plain, kiln, kiln / plain, plain / kiln, must);
    std::fflush(stdout);
}

int run(int argc, char** argv) {
    Arguments arguments(argc, argv);
    const char* const chosen = std::getenv("KILN_NVRTC");
    const std::string library =
        arguments.text("--nvrtc", chosen != nullptr ? chosen : "/usr/local/cuda/lib64/libnvrtc.so");
    const std::string part = arguments.text("--part", "");
    const std::string cache = arguments.text("--cache", "");
    const int first = arguments.number("--first", 0, 0, 1000),
              count = arguments.number("--count", 1, 1, 1000);
    const int rounds = arguments.number("--rounds", 5, 1, 100);
    const int variants = arguments.number("--variants", 64, 1, 1000);
    const int processes = arguments.number("--processes", 16, 1, 256);
    arguments.expect_no_more(kUsage);
    if (!part.empty()) return compile_part(part, first, count, library, cache);

    const Self self((own_directory() / "compile-bench").string(), library);
    constexpr int kInAProcess = 5;
    std::vector<double> cold[2], second[2], later[2];
    for (int round = 0; round < rounds; ++round) {
        for (const bool is_kiln : {round % 2 == 0, round % 2 != 0}) {
            const auto ms = self.run(is_kiln ? "kiln" : "plain", round * kInAProcess, kInAProcess);
            cold[is_kiln].push_back(ms.front());
            second[is_kiln].push_back(ms[1]);
            later[is_kiln].insert(later[is_kiln].end(), ms.begin() + 1, ms.end());
        }
    }
    compare("first variant, new process, empty cache", median(cold[0]), median(cold[1]),
            "1.03 of it at most");
    compare("second variant, right behind the first", median(second[0]), median(second[1]), "-");
    compare("second variant on, same process", median(later[0]), median(later[1]), "3 times as fast, aim 5");
    std::vector<double> many[2];
    for (int round = 0; round < std::max(1, rounds / 2); ++round) {
        many[0].push_back(many_plain_ms(self, variants, processes));
        many[1].push_back(many_kiln_ms(variants, processes));
    }
    const std::string what =
        std::to_string(variants) + " variants by " + std::to_string(processes) + " processes";
    compare(what.c_str(), median(many[0]), median(many[1]), "a third of it, aim a fifth");
    return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
    try {
        return kiln::bench::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "compile-bench: %s\n", error.what());
        return 1;
    }
}
