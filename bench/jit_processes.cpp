// SPDX-License-Identifier: Apache-2.0
//
// Warm starts and cold compiles, each in a new process: this program again, as "--child ...", which
// prints what it measured as a line of JSON.
#include <dlfcn.h>
#include <kiln/error.h>

#include <cstdio>
#include <fstream>

#include "bare_cuda.h"
#include "base/file.h"
#include "base/process.h"
#include "jit_bench.h"

namespace kiln::bench {
namespace {

constexpr int kWarmUpRounds = 2;  // for the files to be in the page cache
constexpr int kColdProcesses = 3;

Json start_child(std::vector<std::string> arguments) {
    ProcessRequest request;
    request.arguments = {"/proc/self/exe", "--child"};
    request.arguments.insert(request.arguments.end(), arguments.begin(), arguments.end());
    request.timeout = std::chrono::minutes(2);
    const ProcessResult result = run_process(request);
    if (!result.succeeded())
        throw Error("the measuring process '" + arguments.front() + "' " +
                    (result.started ? result.how_it_ended(request.timeout) : result.start_error) + ": " +
                    result.error);
    return Json::parse(result.output);
}

void print(const Json& json) { std::fputs((json.dump() + "\n").c_str(), stdout); }

// One product of 1 x 1 matrices shows that what was measured ends in a kernel that works.
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
    if (c != 0.125F) throw Error("the kernel computed 0.5 * 0.25 = " + std::to_string(c));
}

int warm_kiln(Backend backend, int device, const std::string& cache_directory) {
    // As in an application that uses CUDA: the driver is up, and so is the primary context.
    std::optional<BareCuda> application;
    if (backend == Backend::cuda) application.emplace(device);

    const Stopwatch total;
    ServiceOptions options;
    options.backend = backend;
    options.device = device;
    options.cache.directory = cache_directory;
    Service service(options);
    const double constructed = total.elapsed_us();
    const Variant variant = default_tile(service);
    const double found = total.elapsed_us();
    const Kernel<GemmFn> gemm = service.build<GemmFn>(variant);
    const double built = total.elapsed_us();

    if (gemm.origin() != Origin::disk)
        throw Error("a warm start must find its kernel on the disk; it came from: " +
                    std::string(name(gemm.origin())));
    expect_it_multiplies(service, gemm);
    print({{"total", built},
           {"construct", constructed},
           {"find and variant", found - constructed},
           {"build", built - found},
           {"build: load", gemm.info().load_ms * 1000}});
    return 0;
}

int warm_bare(Backend backend, int device, const std::string& binary_file, const std::string& entry) {
    if (backend == Backend::cuda) {
        const BareCuda driver(device);
        const auto cubin = read_bytes_if_exists(binary_file).value();
        const Stopwatch total;
        driver.load(cubin.data(), entry.c_str());
        print({{"total", total.elapsed_us()}});
    } else {
        const Stopwatch total;
        void* const library = dlopen(binary_file.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr || dlsym(library, "kiln_host_kernel") == nullptr) throw Error(dlerror());
        print({{"total", total.elapsed_us()}});
    }
    return 0;
}

// The whole call and, inside it, what the compiler itself took.
int cold(Backend backend, int device) {
    ServiceOptions options;
    options.backend = backend;
    options.device = device;
    options.cache.enabled = false;
    Service service(options);
    Json times = Json::array();
    for (const int pad : {1, 0, 2, 4, 8}) {
        const Variant variant = service.find("gemm_tiled").variant({{"PAD", pad}});
        const Stopwatch total;
        const Binary binary = service.compile(variant).binary;
        times.push_back({total.elapsed_us() / 1000, binary.compile_ms});
    }
    print(times);
    return 0;
}

}  // namespace

Figure warm_start(const Setup& setup) {
    const TemporaryDirectory directory;
    const std::string cache = (directory.path() / "cache").string();
    const std::string binary_file = (directory.path() / "binary").string();
    const std::string backend(name(setup.backend)), device = std::to_string(setup.device);
    const bool has_bare = setup.backend != Backend::hip;
    std::string entry;
    {
        ServiceOptions options;
        options.backend = setup.backend;
        options.device = setup.device;
        options.cache.directory = cache;
        Service service(options);
        const Binary binary = service.compile(default_tile(service)).binary;
        if (!service.cache_problem().empty()) throw Error(service.cache_problem());
        write_atomically(binary_file, binary.bytes);
        entry = binary.entry;
    }

    std::vector<double> kiln, bare;
    const std::string part_names[] = {"construct", "find and variant", "build", "build: load"};
    std::vector<std::vector<double>> parts(std::size(part_names));
    for (int round = -kWarmUpRounds; round < setup.rounds; ++round) {
        const Json ours = start_child({"warm-kiln", backend, device, cache});
        const Json other =
            has_bare ? start_child({"warm-bare", backend, device, binary_file, entry}) : Json();
        if (round < 0) continue;
        kiln.push_back(ours["total"]);
        if (has_bare) bare.push_back(other["total"]);
        for (std::size_t i = 0; i < parts.size(); ++i) parts[i].push_back(ours[part_names[i]]);
    }
    Figure figure;
    figure.name = "warm start, new process";
    figure.unit = "us";
    figure.kiln = spread_of(kiln);
    for (std::size_t i = 0; i < parts.size(); ++i)
        figure.parts.emplace_back(part_names[i], spread_of(parts[i]));
    if (has_bare) {
        figure.bare_name = setup.backend == Backend::cuda ? "load the same cubin, get and load its function"
                                                          : "dlopen of the same shared object";
        figure.bare = spread_of(bare);
        figure.measure = Measure::difference;
        figure.aim = 1000;
    }
    return figure;
}

std::vector<Figure> cold_compile(const Setup& setup) {
    std::vector<double> first, first_inside, later, later_inside;
    for (int process = 0; process < kColdProcesses; ++process) {
        const Json times =
            start_child({"cold", std::string(name(setup.backend)), std::to_string(setup.device)});
        for (std::size_t i = 0; i < times.size(); ++i) {
            (i == 0 ? first : later).push_back(times[i][0]);
            (i == 0 ? first_inside : later_inside).push_back(times[i][1]);
        }
    }
    const auto figure = [](const char* what, std::vector<double> whole, std::vector<double> inside) {
        Figure result;
        result.name = what;
        result.unit = "ms";
        result.kiln = spread_of(std::move(whole));
        result.bare_name = "the compiler's own time in these calls";
        result.bare = spread_of(std::move(inside));
        result.measure = Measure::difference;
        return result;
    };
    return {figure("first compile of a process", first, first_inside),
            figure("later compiles", later, later_inside)};
}

int run_child(const std::vector<std::string>& arguments) {
    const std::string& what = arguments.at(1);
    const Backend backend = parse_backend(arguments.at(2));
    const int device = std::stoi(arguments.at(3));
    if (what == "warm-kiln") return warm_kiln(backend, device, arguments.at(4));
    if (what == "warm-bare") return warm_bare(backend, device, arguments.at(4), arguments.at(5));
    if (what == "cold") return cold(backend, device);
    throw UsageError("unknown kind of measuring process: " + what);
}

}  // namespace kiln::bench
