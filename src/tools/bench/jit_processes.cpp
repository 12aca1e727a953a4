// SPDX-License-Identifier: Apache-2.0
//
// Starts from a warm disk cache and first compiles, each in a new process, which reports what it measured.
#include <dlfcn.h>
#include <kiln/error.h>

#include <cstdlib>
#include <map>

#include "base/file.h"
#include "base/output_file.h"
#include "base/stopwatch.h"
#include "bench/bare_cuda.h"
#include "bench/child.h"
#include "bench/jit.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr int kWarmUpRounds = 2;  // for the files to be in the page cache
constexpr int kProcessRounds = 15, kQuickProcessRounds = 5;
constexpr int kColdProcesses = 3;
constexpr const char* kWarmStart = "start from a warm disk cache, new process";
constexpr double kMustMs = 1.5, kAimMs = 0.8;

// A GEMM of 1 x 1 matrices shows that the kernel works.
void expect_it_multiplies(Service& service, const Kernel<GemmFn>& gemm) {
    const half a(0.5F), b(0.25F);
    float c = 0;
    Buffer a_buffer = service.device().allocate(sizeof a), b_buffer = service.device().allocate(sizeof b),
           c_buffer = service.device().allocate(sizeof c);
    a_buffer.copy_from(std::as_bytes(std::span(&a, 1)));
    b_buffer.copy_from(std::as_bytes(std::span(&b, 1)));
    gemm(service.stream(), 1, 1, 1, a_buffer.as<half>(), b_buffer.as<half>(), c_buffer.as<float>());
    service.stream().synchronize();
    c_buffer.copy_to(std::as_writable_bytes(std::span(&c, 1)));
    if (c != 0.125F) throw Error(formatted("the kernel computed 0.5 * 0.25 = {:f}", c));
}

/// Milliseconds by name, from the lines of a child.
std::map<std::string, double> times_of(const ChildLines& lines) {
    std::map<std::string, double> times;
    for (const std::vector<std::string>& words : lines)
        if (words.size() == 2) times[words[0]] = std::atof(words[1].c_str()) / 1000;
    return times;
}

}  // namespace

int child_warm_kiln(ServiceOptions options, const std::string& cache_directory) {
    // As in an application that uses CUDA: the driver and the primary context are initialised.
    std::optional<BareCuda> application;
    if (options.backend == Backend::cuda) application.emplace(options.device);
    options.cache.directory = cache_directory;

    const Stopwatch total;
    Service service(options);
    const double constructed = total.elapsed_us();
    const Variant variant = default_tile(service);
    const double found = total.elapsed_us();
    const Kernel<GemmFn> gemm = service.build<GemmFn>(variant);
    const double built = total.elapsed_us();

    if (gemm.origin() != Origin::disk)
        throw Error("a start from a warm disk cache must find its kernel on the disk; it came from: " +
                    std::string(name(gemm.origin())));
    expect_it_multiplies(service, gemm);
    tell({"total", number_text(built)});
    tell({"constructing the Service", number_text(constructed)});
    tell({"finding the variant", number_text(found - constructed)});
    tell({"building", number_text(built - found)});
    tell({"loading, in building", number_text(gemm.info().load_ms * 1000)});
    return 0;
}

int child_warm_bare(Backend backend, int device, const std::string& binary_file, const std::string& entry) {
    if (backend == Backend::cuda) {
        const BareCuda driver(device);
        const auto cubin = read_bytes_if_exists(binary_file).value();
        const Stopwatch total;
        driver.load(cubin.data(), entry.c_str());
        tell({"total", number_text(total.elapsed_us())});
    } else {
        const Stopwatch total;
        void* const library = dlopen(binary_file.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr || dlsym(library, "kiln_host_kernel") == nullptr) throw Error(dlerror());
        tell({"total", number_text(total.elapsed_us())});
    }
    return 0;
}

// The whole call, and the compiler's part of it.
int child_cold(ServiceOptions options) {
    options.cache.enabled = false;
    Service service(options);
    for (const int pad : {1, 0, 2, 4, 8}) {
        const Variant variant = service.find("gemm_tiled").variant({{"PAD", pad}});
        const Stopwatch total;
        const Binary binary = service.compile(variant).binary;
        tell({number_text(total.elapsed_ms()), number_text(binary.compile_ms)});
    }
    return 0;
}

void measure_warm_start(Benchmark& bench, BenchSuite& suite) {
    const Backend backend = bench.service().backend();
    const std::string backend_name(name(backend));
    const std::string device = std::to_string(bench.service().options().device);
    std::map<std::string, std::vector<double>> parts;
    if (!bench.measures(suite, "starts", kWarmStart)) return;
    bench.row(suite, kWarmStart, [&](BenchRow& row) {
        row.unit = "ms";
        const TemporaryDirectory directory;
        const std::string cache = (directory.path() / "cache").string();
        const std::string binary_file = (directory.path() / "binary").string();
        const bool has_bare = backend != Backend::hip;
        ServiceOptions options = bench.service().options();
        options.cache = {};
        options.cache.directory = cache;
        Service service(options);
        const Variant variant = default_tile(service);
        const Binary binary = service.compile(variant).binary;
        if (!service.cache_problem().empty()) throw Error(service.cache_problem());
        write_output_file(binary_file, std::span(binary.bytes.data(), binary.bytes.size()));
        row.variant = variant.text();

        std::vector<double> bare;
        const int rounds =
            bench.options().rounds.value_or(bench.quick() ? kQuickProcessRounds : kProcessRounds);
        for (int round = -kWarmUpRounds; round < rounds; ++round) {
            const auto ours = times_of(start_service_child(bench, {"warm-kiln", cache}));
            std::map<std::string, double> other;
            if (has_bare)
                other = times_of(start_child(bench.options(),
                                             {"warm-bare", backend_name, device, binary_file, binary.entry}));
            if (round < 0) continue;
            for (const auto& [part, ms] : ours) parts[part].push_back(ms);
            if (has_bare) bare.push_back(other.at("total"));
        }
        row.kiln = spread_of(parts.at("total"));
        row.verified = true;  // each process runs a GEMM
        if (has_bare)
            add_bare(row, "bare load",
                     backend == Backend::cuda ? "load the same cubin, get and load its function"
                                              : "dlopen of the same shared object",
                     bare);
        if (!bench.on_cuda()) return;
        row.most_must = kMustMs;
        row.most_aim = kAimMs;
    });
    for (const auto& part : parts) {
        if (part.first == "total") continue;
        BenchRow row;
        row.problem = "of a start from a warm disk cache: " + part.first;
        row.unit = "ms";
        row.kiln = spread_of(part.second);
        bench.add_row(suite, std::move(row));
    }
}

void measure_cold_compile(Benchmark& bench, BenchSuite& suite) {
    std::vector<double> first, first_inside, later, later_inside;
    const auto row_of = [&](const char* what, const std::vector<double>& whole,
                            const std::vector<double>& inside) {
        if (!bench.measures(suite, "starts", what)) return;
        bench.row(suite, what, [&](BenchRow& row) {
            row.unit = "ms";
            if (whole.empty()) {
                for (int process = 0; process < (bench.quick() ? 1 : kColdProcesses); ++process) {
                    const ChildLines lines = start_service_child(bench, {"cold"});
                    for (std::size_t i = 0; i < lines.size(); ++i) {
                        (i == 0 ? first : later).push_back(std::atof(lines[i].at(0).c_str()));
                        (i == 0 ? first_inside : later_inside).push_back(std::atof(lines[i].at(1).c_str()));
                    }
                }
            }
            if (whole.empty()) throw Error("the process reported no measurement");
            row.kiln = spread_of(whole);
            add_bare(row, "compiler", "the compiler's own time in these calls", inside);
        });
    };
    row_of("cold: first compile of a process", first, first_inside);
    row_of("cold: later compiles", later, later_inside);
}

}  // namespace kiln::bench
