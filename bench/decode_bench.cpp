// SPDX-License-Identifier: Apache-2.0
//
// decode-bench: what launching costs in token-by-token generation. The same decode steps are launched one by
// one and replayed from a captured graph, for decode_paged and decode_persistent, results verified first. Two
// times each: that of the calls alone, which the CPU spends, and that until the last step has ended.
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

#include "run/guarded_tensor.h"
#include "run/launch_arguments.h"
#include "support.h"

namespace kiln::bench {
namespace {

constexpr const char* kUsage =
    "decode-bench [--backend cuda|hip|host] [--device N] [--batch N] [--length N] [--steps N] [--rounds N] "
    "[--json]\n"
    "  --batch      sequences, instead of the usual choices\n"
    "  --length     the most tokens of a sequence, likewise; lengths are random, from 1 on\n"
    "  --steps N    decode steps in a round, and in the graph (64; on the host 4)\n"
    "  --rounds N   rounds of each way, which take turns (20; on the host 3)\n"
    "  --json       one JSON object on standard output; the table goes to standard error\n";

constexpr std::uint64_t kSeed = 20261121;
constexpr double kWarmUpUs = 1e5;

/// Times of rounds, per step, in microseconds.
struct Way {
    std::vector<double> call_us;
    std::vector<double> step_us;

    /// queue: the calls for all steps of a round.
    void time(const Stream& stream, int steps, const std::function<void()>& queue) {
        stream.synchronize();
        const Stopwatch watch;
        queue();
        call_us.push_back(watch.elapsed_us() / steps);
        stream.synchronize();
        step_us.push_back(watch.elapsed_us() / steps);
    }
};

struct Row {
    std::string variant;
    Sizes sizes;
    int steps = 0;
    bool right = false;
    Way launched, replayed;
};

/// One kernel on one problem.
class Decode {
  public:
    Decode(Service& service, const Variant& variant, const Sizes& sizes)
        : service_(service), kernel_(service.build(variant)), problem_(variant.problem(sizes)) {
        for (const Tensor& tensor : problem_.tensors)
            tensors_.emplace_back(service.device(), tensor, Data::random, kSeed);
        arguments_ = std::make_unique<LaunchArguments>(variant, problem_, tensors_);
    }

    void measure(int steps, int rounds, Row& row) const {
        const Stream& stream = service_.stream();
        const auto launch_all = [&] {
            for (int step = 0; step < steps; ++step) kernel_.launch(stream, arguments_->pointers());
        };
        const Graph graph = Graph::capture(stream, launch_all);
        // The first replay uploads the graph; clocks rise with work.
        const Stopwatch watch;
        do {
            launch_all();
            graph.launch(stream);
            stream.synchronize();
        } while (service_.backend() != Backend::host && watch.elapsed_us() < kWarmUpUs);
        for (int round = 0; round < rounds; ++round) {
            row.launched.time(stream, steps, launch_all);
            row.replayed.time(stream, steps, [&] { graph.launch(stream); });
        }
    }

  private:
    Service& service_;
    AnyKernel kernel_;
    Problem problem_;
    std::vector<GuardedTensor> tensors_;
    std::unique_ptr<LaunchArguments> arguments_;
};

Row run_one(Service& service, const char* name, const Sizes& sizes, int steps, int rounds) {
    const Variant variant = service.find(name).variant();
    Row row{variant.text(), sizes, steps, false, {}, {}};
    RunOptions options;
    options.sizes = sizes;
    options.seed = kSeed;
    options.time = false;
    row.right = Runner(service).run(variant, options).pass();
    Decode(service, variant, sizes).measure(steps, rounds, row);
    return row;
}

Json to_json(const Way& way) {
    return {{"call_us", to_json(spread_of(way.call_us))}, {"step_us", to_json(spread_of(way.step_us))}};
}

double saved(const Row& row) {
    return spread_of(row.launched.step_us).median / spread_of(row.replayed.step_us).median;
}

Json to_json(const Row& row) {
    Json sizes = Json::object();
    for (const auto& [name, value] : row.sizes) sizes[name] = value;
    return {{"variant", row.variant},
            {"sizes", sizes},
            {"steps", row.steps},
            {"launched", to_json(row.launched)},
            {"replayed", to_json(row.replayed)},
            {"replay_speedup", saved(row)},
            {"pass", row.right}};
}

void print_table(const std::vector<Row>& rows, const std::string& device, std::FILE* to) {
    Table table({device, "batch", "length", "launched: us per call", "per step",
                 "replayed: us per step's call", "per step", "x", "result"});
    const auto median = [](const std::vector<double>& times) { return rounded(spread_of(times).median, 3); };
    for (const Row& row : rows)
        table.add({row.variant, std::to_string(row.sizes.at("batch")),
                   std::to_string(row.sizes.at("max_length")), median(row.launched.call_us),
                   median(row.launched.step_us), median(row.replayed.call_us), median(row.replayed.step_us),
                   rounded(saved(row), 3), row.right ? "right" : "WRONG"});
    std::fputs(table.text().c_str(), to);
}

int run(Arguments arguments) {
    if (arguments.flag("--help")) {
        std::fputs(kUsage, stdout);
        return 0;
    }
    ServiceOptions options;
    const std::string backend = arguments.text("--backend", "auto");
    if (backend != "auto") options.backend = parse_backend(backend);
    options.device = arguments.number("--device", 0, 0, 1000);
    const int batch = arguments.number("--batch", 0, 0, 1 << 20);
    const int length = arguments.number("--length", 0, 0, 1 << 20);
    int steps = arguments.number("--steps", 0, 0, 100000);
    int rounds = arguments.number("--rounds", 0, 0, 100000);
    const bool json = arguments.flag("--json");
    arguments.expect_no_more(kUsage);

    Service service(options);
    const bool on_host = service.backend() == Backend::host;
    if (steps == 0) steps = on_host ? 4 : 64;
    if (rounds == 0) rounds = on_host ? 3 : 20;
    std::vector<Sizes> problems = {{{"batch", 1}, {"max_length", 256}}};
    if (!on_host) {
        problems.push_back({{"batch", 4}, {"max_length", 2048}});
        problems.push_back({{"batch", 32}, {"max_length", 4096}});
    }
    if (batch != 0 || length != 0)
        problems = {{{"batch", batch != 0 ? batch : 1}, {"max_length", length != 0 ? length : 256}}};

    std::vector<Row> rows;
    bool all_right = true;
    for (const Sizes& sizes : problems) {
        for (const char* name : {"decode_paged", "decode_persistent"}) {
            rows.push_back(run_one(service, name, sizes, steps, rounds));
            all_right = all_right && rows.back().right;
        }
    }
    const std::string device = service.device().info().name;
    if (json) {
        Json report{{"program", "decode-bench"}, {"backend", name(service.backend())}, {"device", device}};
        report["arch"] = service.target().arch;
        report["rows"] = Json::array();
        for (const Row& row : rows) report["rows"].push_back(to_json(row));
        report["all_right"] = all_right;
        std::fputs(cli::dumped(report).c_str(), stdout);
    }
    print_table(rows, device, json ? stderr : stdout);
    return all_right ? 0 : 1;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
    try {
        return kiln::bench::run({argc, argv});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "decode-bench: %s\n", error.what());
        return dynamic_cast<const kiln::UsageError*>(&error) ? 2 : 4;
    }
}
