// SPDX-License-Identifier: Apache-2.0
//
// gemm-bench: GFLOP/s of the GEMM templates per type and shape, verified, with the ratio to gemm_naive
// in the same run. The kernels take turns on random data, with the L2 cache overwritten before each
// launch. --host-core: one core of the host backend on the FP16 64 x 64 x 32 tile.
#include <kiln/kiln.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "cli/dtype.h"
#include "cli/problem.h"
#include "cli/verify.h"
#include "support.h"

namespace kiln::bench {
namespace {

using cli::Dtype;
using cli::Matrix;
using cli::Shape;

constexpr const char* kUsage =
    "gemm-bench [--backend cuda|hip|host] [--device N] [--shape MxNxK] [--dtype f16|bf16|f32] [--rounds N]\n"
    "           [--host-core] [--json] [--check]\n"
    "  --shape      one shape instead of the usual ones\n"
    "  --dtype      one type instead of all three\n"
    "  --rounds N   timed launches of each kernel (20; on the host 3)\n"
    "  --host-core  the FP16 64x64x32 tile at 1024x1024x1024 on one thread of the host backend\n"
    "  --json       one JSON object on standard output; the table goes to standard error\n"
    "  --check      exit status 1 when an aim is missed\n";

constexpr double kAimOverNaive = 1.5;  // of the default tile, with PAD 1
constexpr double kAimHostCore = 4;     // GFLOP/s
constexpr double kWarmUpUs = 1e5;
constexpr std::uint64_t kSeed = 20261101;

/// One kernel of the comparison. The first is the baseline.
struct Candidate {
    const char* kernel;
    Values values;
    std::optional<double> aim;  ///< ratio to the baseline, at least
};

std::vector<Candidate> candidates(Dtype dtype) {
    std::vector<Candidate> list{
        {"gemm_naive", {}, {}},
        {"gemm_square", {}, {}},
        {"gemm_tiled", {}, kAimOverNaive},
        {"gemm_tiled", {{"PAD", 1}}, kAimOverNaive},
        {"gemm_tiled", {{"PAD", 4}, {"VEC", 4}}, {}},
    };
    // The widest access is 16 bytes: 8 elements of 2 bytes, 4 of 4.
    if (dtype == Dtype::f32)
        list.push_back({"gemm_tiled",
                        {{"BM", 128}, {"BN", 128}, {"BK", 16}, {"TM", 8}, {"TN", 8}, {"PAD", 4}, {"VEC", 4}},
                        {}});
    else
        list.push_back({"gemm_tiled",
                        {{"BM", 128}, {"BN", 128}, {"BK", 32}, {"TM", 8}, {"TN", 8}, {"PAD", 8}, {"VEC", 8}},
                        {}});
    return list;
}

struct Row {
    std::string variant;
    Dtype dtype;
    Shape shape;
    Spread ms;
    double max_error_over_bound = 0;
    bool right = false;
    std::optional<double> over_naive;
    std::optional<double> aim_over_naive;

    double gflops() const { return shape.flops() / ms.median / 1e6; }
    std::optional<bool> met() const {
        if (!aim_over_naive) return std::nullopt;
        return *over_naive >= *aim_over_naive;
    }
};

/// One problem in device memory. T: the type of A and B.
template <class T>
class Problem {
  public:
    Problem(Service& service, Dtype dtype, const Shape& shape)
        : service_(service),
          shape_(shape),
          dtype_(dtype),
          a_(Matrix::random(dtype, shape.m, shape.k, kSeed)),
          b_(Matrix::random(dtype, shape.k, shape.n, kSeed + 1)),
          c_(std::size_t(shape.m) * std::size_t(shape.n)),
          device_a_(service.device().allocate(a_.bytes().size())),
          device_b_(service.device().allocate(b_.bytes().size())),
          device_c_(service.device().allocate(c_.size() * sizeof(float))) {
        device_a_.copy_from(a_.bytes());
        device_b_.copy_from(b_.bytes());
    }

    std::vector<Row> run(std::vector<Candidate> kernels, int rounds, CacheFlusher& flusher) {
        using Fn = void(int, int, int, const T*, const T*, float*);
        std::vector<Row> rows;
        std::vector<Kernel<Fn>> built;
        for (Candidate& candidate : kernels) {
            candidate.values.emplace("T", std::string(cli::type_name(dtype_)));
            const Variant variant = service_.find(candidate.kernel).variant(candidate.values);
            built.push_back(service_.template build<Fn>(variant));
            rows.push_back({variant.text(), dtype_, shape_, {}, 0, false, {}, candidate.aim});
            // The aim is a GPU's: on the host every kernel reads the same caches.
            if (service_.backend() == Backend::host) rows.back().aim_over_naive.reset();
            verify(built.back(), rows.back());  // warms up, too
        }
        const Stream& stream = service_.stream();
        // Clocks rise with work, so there is some before anything is timed.
        for (const Stopwatch watch; watch.elapsed_us() < kWarmUpUs; stream.synchronize())
            for (const auto& kernel : built) launch(kernel);
        std::vector<std::vector<double>> times(built.size());
        for (int round = 0; round < rounds; ++round) {
            for (std::size_t i = 0; i < built.size(); ++i) {
                const auto ms = time_launches(
                    service_.device(), stream, 0, 1, [&] { launch(built[i]); },
                    [&] { flusher.flush(stream); });
                times[i].push_back(ms.front());
            }
        }
        for (std::size_t i = 0; i < rows.size(); ++i) {
            rows[i].ms = spread_of(times[i]);
            if (i > 0) rows[i].over_naive = rows[0].ms.median / rows[i].ms.median;
        }
        return rows;
    }

  private:
    template <class Fn>
    void launch(const Kernel<Fn>& kernel) const {
        kernel(service_.stream(), shape_.m, shape_.n, shape_.k, device_a_.as<T>(), device_b_.as<T>(),
               device_c_.as<float>());
    }
    template <class Fn>
    void verify(const Kernel<Fn>& kernel, Row& row) {
        device_c_.fill(0x7fc00000);  // NaN: what is not written shows
        launch(kernel);
        service_.stream().synchronize();
        device_c_.copy_to(std::as_writable_bytes(std::span(c_)));
        const cli::Verdict verdict = cli::verify_sample(a_, b_, c_, kSeed);
        row.max_error_over_bound = verdict.max_error_over_bound;
        row.right = verdict.pass();
    }

    Service& service_;
    Shape shape_;
    Dtype dtype_;
    Matrix a_, b_;
    std::vector<float> c_;
    Buffer device_a_, device_b_, device_c_;
};

std::vector<Row> run_problem(Service& service, Dtype dtype, const Shape& shape, int rounds,
                             CacheFlusher& flusher, const std::vector<Candidate>& kernels) {
    switch (dtype) {
        case Dtype::f16:
            return Problem<half>(service, dtype, shape).run(kernels, rounds, flusher);
        case Dtype::bf16:
            return Problem<bfloat16>(service, dtype, shape).run(kernels, rounds, flusher);
        case Dtype::f32:
            return Problem<float>(service, dtype, shape).run(kernels, rounds, flusher);
    }
    return {};
}

std::string text(const Shape& shape) {
    return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
}

Shape parse_shape(const std::string& text) {
    Shape shape;
    int end = 0;
    if (std::sscanf(text.c_str(), "%dx%dx%d%n", &shape.m, &shape.n, &shape.k, &end) != 3 ||
        std::size_t(end) != text.size() || shape.m < 1 || shape.n < 1 || shape.k < 1)
        throw UsageError("--shape '" + text +
                         "' is not MxNxK with whole numbers from 1, such as 1024x1024x1024");
    return shape;
}

Dtype parse_dtype(const std::string& text) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32})
        if (text == cli::name(dtype)) return dtype;
    throw UsageError("--dtype '" + text + "' is none of f16, bf16, f32");
}

Json to_json(const Row& row) {
    return {{"variant", row.variant},
            {"dtype", cli::name(row.dtype)},
            {"shape", {{"m", row.shape.m}, {"n", row.shape.n}, {"k", row.shape.k}}},
            {"time_ms", to_json(row.ms)},
            {"gflops", row.gflops()},
            {"ratio_to_naive", cli::or_null(row.over_naive)},
            {"aim_over_naive", cli::or_null(row.aim_over_naive)},
            {"met", cli::or_null(row.met())},
            {"max_error_over_bound", row.max_error_over_bound},
            {"pass", row.right}};
}

void print_table(const std::vector<Row>& rows, const std::string& device, std::FILE* to) {
    Table table({device, "type", "shape", "ms: median", "min", "max", "GFLOP/s", "x naive", "result", "aim"});
    for (const Row& row : rows) {
        std::string aim;
        if (const auto met = row.met())
            aim = (*met ? "met: " : "MISSED: ") + rounded(*row.aim_over_naive, 2) + "x";
        table.add({row.variant, std::string(cli::name(row.dtype)), text(row.shape), rounded(row.ms.median),
                   rounded(row.ms.min), rounded(row.ms.max), rounded(row.gflops()),
                   row.over_naive ? rounded(*row.over_naive, 3) : "", row.right ? "right" : "WRONG", aim});
    }
    std::fputs(table.text().c_str(), to);
}

struct Request {
    ServiceOptions service;
    std::vector<Shape> shapes;
    std::vector<Dtype> dtypes{Dtype::f16, Dtype::bf16, Dtype::f32};
    int rounds = 0;  ///< 0: as the backend suggests
    bool host_core = false;
    bool json = false;
    bool check = false;
};

Request parse(Arguments& arguments) {
    Request request;
    request.host_core = arguments.flag("--host-core");
    const std::string backend = arguments.text("--backend", request.host_core ? "host" : "auto");
    if (backend != "auto") request.service.backend = parse_backend(backend);
    if (request.host_core && request.service.backend != Backend::host)
        throw UsageError("--host-core measures the host backend, not " + backend);
    request.service.device = arguments.number("--device", 0, 0, 1000);
    if (const std::string shape = arguments.text("--shape", ""); !shape.empty())
        request.shapes = {parse_shape(shape)};
    if (const std::string dtype = arguments.text("--dtype", ""); !dtype.empty())
        request.dtypes = {parse_dtype(dtype)};
    request.rounds = arguments.number("--rounds", 0, 0, 100000);
    request.json = arguments.flag("--json");
    request.check = arguments.flag("--check");
    arguments.expect_no_more(kUsage);
    return request;
}

/// One core, one kernel: GFLOP/s against the aim. Gives false when the aim is missed.
bool report_host_core(const Row& row, const std::string& device, bool json) {
    const bool met = row.gflops() >= kAimHostCore;
    if (json) {
        Json report = to_json(row);
        report.erase("ratio_to_naive");
        report.erase("aim_over_naive");
        report["gflops_per_core"] = row.gflops();
        report["aim_gflops_per_core"] = kAimHostCore;
        report["met"] = met;
        report["device"] = device;
        std::fputs(cli::dumped(report).c_str(), stdout);
    }
    std::fprintf(
        json ? stderr : stdout,
        "%s\n%s, %s, one thread of the host backend (%s)\n%s GFLOP/s per core (median of %d; %s to %s), "
        "%s; the aim is %s: %s\n",
        row.variant.c_str(), text(row.shape).c_str(), std::string(cli::name(row.dtype)).c_str(),
        device.c_str(), rounded(row.gflops(), 3).c_str(), row.ms.count,
        rounded(row.shape.flops() / row.ms.max / 1e6, 3).c_str(),
        rounded(row.shape.flops() / row.ms.min / 1e6, 3).c_str(), row.right ? "right" : "WRONG",
        rounded(kAimHostCore, 2).c_str(), met ? "met" : "MISSED");
    return met;
}

int run(Arguments arguments) {
    if (arguments.flag("--help")) {
        std::fputs(kUsage, stdout);
        return 0;
    }
    Request request = parse(arguments);
    if (request.host_core) setenv("KILN_HOST_THREADS", "1", 1);  // before the service reads it
    Service service(request.service);
    const bool on_host = service.backend() == Backend::host;
    const std::string device = service.device().info().name;
    if (request.rounds == 0) request.rounds = request.host_core ? 7 : on_host ? 3 : 20;
    CacheFlusher flusher(service);

    if (request.host_core) {
        const Shape shape = request.shapes.empty() ? Shape{1024, 1024, 1024} : request.shapes.front();
        const Row row = run_problem(service, Dtype::f16, shape, request.rounds, flusher,
                                    {{"gemm_tiled", {{"PAD", 1}}, {}}})
                            .front();
        const bool met = report_host_core(row, device, request.json);
        return !row.right || (request.check && !met) ? 1 : 0;
    }

    if (request.shapes.empty())
        request.shapes = on_host
                             ? std::vector<Shape>{{512, 512, 512}, {509, 513, 519}}
                             : std::vector<Shape>{{1024, 1024, 1024}, {2048, 1024, 4096}, {1009, 1013, 1019}};
    std::vector<Row> rows;
    for (const Dtype dtype : request.dtypes)
        for (const Shape& shape : request.shapes)
            for (Row& row : run_problem(service, dtype, shape, request.rounds, flusher, candidates(dtype)))
                rows.push_back(std::move(row));

    bool all_right = true, all_met = true;
    for (const Row& row : rows) {
        all_right = all_right && row.right;
        all_met = all_met && row.met().value_or(true);
    }
    if (request.json) {
        Json report{{"program", "gemm-bench"}, {"backend", name(service.backend())}, {"device", device}};
        report["arch"] = service.target().arch;
        report["rows"] = Json::array();
        for (const Row& row : rows) report["rows"].push_back(to_json(row));
        report["all_right"] = all_right;
        report["all_met"] = all_met;
        std::fputs(cli::dumped(report).c_str(), stdout);
    }
    print_table(rows, device, request.json ? stderr : stdout);
    return !all_right || (request.check && !all_met) ? 1 : 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
    try {
        return kiln::bench::run({argc, argv});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gemm-bench: %s\n", error.what());
        return dynamic_cast<const kiln::UsageError*>(&error) ? 2 : 4;
    }
}
