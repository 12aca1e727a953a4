// SPDX-License-Identifier: Apache-2.0
//
// cache-bench: what the tiers of the cache cost, each figure next to its comparator in the same run: a hit on
// disk, in a seed pack and on a Redis server, many processes that want one kernel at once, and compiling
// ahead in several processes.
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <kiln/kiln.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <random>
#include <thread>

#include "base/digest.h"
#include "base/file.h"
#include "base/process.h"
#include "cache/build_key.h"
#include "cache/disk_cache.h"
#include "cache/entry.h"
#include "cache/remote_cache.h"
#include "cache/seed_pack.h"
#include "support.h"

namespace kiln::bench {
namespace {

constexpr const char* kUsage =
    "cache-bench [--rounds N] [--processes N] [--variants N] [--backend cuda|host] [--json] [--check]\n"
    "  --rounds N     hits per figure, 3 to 100000 (2001)\n"
    "  --processes N  that want one kernel at once (16)\n"
    "  --variants N   to compile ahead, 1 to 75 (64)\n"
    "  --backend B    what compiles: cuda needs NVRTC and no GPU (cuda where NVRTC is, else host)\n"
    "  --check        exit status 1 when an aim is missed\n";

struct Figure {
    std::string name;
    std::string unit;
    Spread kiln;
    std::string bare_name;
    Spread bare;
    double value = 0;      ///< what is held to the aim
    std::string relation;  ///< "us", "x"
    double aim = 0;
    bool at_least = false;
    std::vector<std::pair<std::string, Spread>> parts = {};

    bool met() const { return at_least ? value >= aim : value <= aim; }
};

Spread times(int rounds, const std::function<void()>& body) {
    std::vector<double> samples;
    for (int round = -rounds / 10 - 1; round < rounds; ++round) {
        const Stopwatch watch;
        body();
        if (round >= 0) samples.push_back(watch.elapsed_us());
    }
    return spread_of(std::move(samples));
}

// The sample of 100,000 bytes does not compress, and its key is that of a real template.
struct Sample {
    BuildKey key;
    Bytes entry;

    Sample() {
        ServiceOptions options;
        options.backend = Backend::host;
        options.cache.enabled = false;
        Service service(options);
        const Variant variant = service.find("gemm_tiled").variant({{"PAD", 1}});
        key = make_build_key(service.target(), "a compiler", {"-O3"}, service.source(variant));
        Binary binary;
        binary.entry = "gemm_tiled";
        binary.compile_ms = 100;
        std::mt19937_64 random(1);
        std::vector<std::byte> bytes(100'000);
        for (auto& byte : bytes) byte = static_cast<std::byte>(random());
        binary.bytes = std::move(bytes);
        entry = encode_entry(key, binary);
    }
};

void expect_hit(const Lookup& lookup) {
    if (!lookup.binary || lookup.binary->bytes.size() != 100'000) throw Error("no hit: " + lookup.rejected);
}

Figure disk_hit(const Sample& sample, const std::filesystem::path& directory, int rounds) {
    DiskCache disk({directory});
    if (!disk.store(sample.key.digest, sample.entry).stored) throw Error(disk.problem());
    const auto file = disk.entry_path(sample.key.digest);
    const auto read_plainly = [&] {
        const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status;
        if (!fd || ::fstat(fd.value(), &status) != 0) throw Error("can't open " + file.string());
        std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
        if (::read(fd.value(), bytes.data(), bytes.size()) != status.st_size) throw Error("can't read");
        return bytes;
    };
    Figure figure{"disk hit, 100 KB", "us", {}, "open, fstat, read of the same file", {}, 0, "us", 200};
    figure.kiln = times(rounds, [&] { expect_hit(disk.find(sample.key)); });
    figure.bare = times(rounds, [&] { keep(read_plainly()); });
    figure.value = figure.kiln.median;
    const Bytes bytes(read_plainly());
    figure.parts = {{"checksum", times(rounds,
                                       [&] {
                                           keep(checksum({bytes.data(), bytes.size()}));
                                       })},
                    {"digest of the key text", times(rounds, [&] { keep(digest_hex(sample.key.text)); })},
                    {"decode, checksum included", times(rounds, [&] {
                         std::string reason;
                         keep(decode_entry(bytes, reason));
                     })}};
    return figure;
}

Figure seed_hit(const Sample& sample, const std::filesystem::path& directory, const Spread& disk,
                int rounds) {
    const auto file = directory / "sample.pack";
    write_pack(file, {sample.key.digest}, [&](const std::string&) { return sample.entry; });
    const SeedPack pack(file, {});
    Figure figure{"seed pack hit, 100 KB", "us", {}, "the disk hit above", disk, 0, "x", 1};
    figure.kiln = times(rounds, [&] { expect_hit(pack.find(sample.key)); });
    figure.value = figure.kiln.median / disk.median;
    return figure;
}

// A server of this program's own, ended with it.
class RedisServer {
  public:
    explicit RedisServer(std::string socket) : socket_(std::move(socket)) {
        port_ = 20000 + static_cast<int>(::getpid() % 20000);
        thread_ = std::jthread([this](const std::stop_token& stop) {
            ProcessRequest request;
            request.arguments = {"redis-server",
                                 "--port",
                                 std::to_string(port_),
                                 "--bind",
                                 "127.0.0.1",
                                 "--save",
                                 "",
                                 "--appendonly",
                                 "no",
                                 "--dir",
                                 socket_,
                                 "--loglevel",
                                 "warning"};
            request.timeout = std::chrono::hours(1);
            request.stop = stop;
            result_ = run_process(request);
            ended_ = true;
        });
    }
    bool wait_until_ready() const {
        for (int i = 0; i < 100 && !ended_; ++i) {
            try {
                RemoteCache(options()).ping();
                return true;
            } catch (const CacheError&) {
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
        }
        return false;
    }
    int port() const { return port_; }
    RemoteOptions options() const {
        RemoteOptions options;
        options.url = "redis://127.0.0.1:" + std::to_string(port_);
        return options;
    }

  private:
    std::string socket_;
    int port_ = 0;
    std::atomic<bool> ended_{false};
    ProcessResult result_;
    std::jthread thread_;
};

std::optional<Figure> remote_hit(const Sample& sample, const std::filesystem::path& directory, int rounds) {
    const RedisServer server(directory.string());
    if (!server.wait_until_ready()) {
        std::fputs("cache-bench: no redis-server here; the remote hit is left out\n", stderr);
        return std::nullopt;
    }
    RemoteCache remote(server.options());
    remote.put(sample.key.digest, sample.entry);
    const std::unique_ptr<redisContext, decltype(&redisFree)> context(
        redisConnect("127.0.0.1", server.port()), redisFree);
    const std::string key = "kiln:1:entry:" + sample.key.digest;
    const auto fetch_plainly = [&] {
        const std::unique_ptr<void, decltype(&freeReplyObject)> reply(
            redisCommand(context.get(), "GET %s", key.c_str()), freeReplyObject);
        const auto* answer = static_cast<redisReply*>(reply.get());
        if (answer == nullptr || static_cast<std::size_t>(answer->len) != sample.entry.size())
            throw Error("the plain GET did not give the entry");
    };
    Figure figure{
        "remote hit on loopback, 100 KB", "us", {}, "hiredis' own GET of the same bytes", {}, 0, "us", 2000};
    figure.kiln = times(rounds, [&] { expect_hit(remote.find(sample.key)); });
    figure.bare = times(rounds, fetch_plainly);
    figure.value = figure.kiln.median;
    return figure;
}

ServiceOptions compiling(Backend backend, const std::filesystem::path& cache) {
    ServiceOptions options;
    options.backend = backend;
    options.arch = backend == Backend::cuda ? "sm_90a" : "";
    options.compile_only = backend == Backend::cuda;
    options.cache.directory = cache;
    return options;
}

// One process of a stampede: builds the default tile, prints how often it compiled.
int stampede_child(Backend backend, const std::string& cache) {
    Service service(compiling(backend, cache));
    service.compile(service.find("gemm_tiled").variant({{"PAD", 1}}));
    std::printf("%llu\n", static_cast<unsigned long long>(service.counters().compiles));
    return 0;
}

// Milliseconds from the start of `count` processes to the end of the last one; all compiles are added up.
double stampede_ms(int count, Backend backend, const std::filesystem::path& cache, int& compiles) {
    std::atomic<int> compiled = 0;
    const Stopwatch watch;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < count; ++i)
            threads.emplace_back([&] {
                ProcessRequest request;
                request.arguments = {"/proc/self/exe", "--child", std::string(name(backend)), cache.string()};
                request.timeout = std::chrono::minutes(5);
                const auto result = run_process(request);
                if (result.succeeded()) compiled += std::stoi(result.output);
            });
    }
    compiles = compiled;
    return watch.elapsed_ms();
}

Figure stampede(int processes, Backend backend, const std::filesystem::path& directory) {
    constexpr int kRounds = 5;
    std::vector<double> many, one;
    for (int round = 0; round < kRounds; ++round) {
        const auto place = directory / ("stampede" + std::to_string(round));
        int compiles = 0;
        many.push_back(stampede_ms(processes, backend, place / "many", compiles));
        if (compiles != 1) throw Error("the stampede compiled " + std::to_string(compiles) + " times");
        one.push_back(stampede_ms(1, backend, place / "one", compiles));
    }
    Figure figure{std::to_string(processes) + " processes, one new kernel",
                  "ms",
                  spread_of(many),
                  "one process",
                  spread_of(one),
                  0,
                  "x",
                  2};
    figure.value = figure.kiln.median / figure.bare.median;
    return figure;
}

Figure warm(int count, Backend backend, const std::filesystem::path& directory) {
    constexpr int kRounds = 3;
    std::vector<double> pooled, serial;
    int workers = 0;
    for (int round = 0; round < kRounds; ++round) {
        const auto place = directory / ("warm" + std::to_string(round));
        for (const bool in_pool : {true, false}) {
            Service service(compiling(backend, place / (in_pool ? "pool" : "serial")));
            auto variants = service.find("gemm_tiled").variants({{"T", "half"}, {"BK", 32}, {"VEC", 1}});
            if (static_cast<int>(variants.size()) < count) throw Error("there are not so many variants");
            variants.resize(static_cast<std::size_t>(count), variants.front());
            workers = static_cast<int>(std::thread::hardware_concurrency());
            const Stopwatch watch;
            std::vector<std::future<Compiled>> futures;
            for (const auto& variant : variants) {
                if (in_pool)
                    futures.push_back(service.compile_async(variant));
                else
                    service.compile(variant);
            }
            for (auto& future : futures) future.get();
            (in_pool ? pooled : serial).push_back(watch.elapsed_ms() / 1000);
        }
    }
    Figure figure{
        "compiling " + std::to_string(count) + " variants ahead, " + std::to_string(workers) + " workers",
        "s",
        spread_of(pooled),
        "one after the other",
        spread_of(serial),
        0,
        "x",
        1.8,
        true};
    figure.value = figure.bare.median / figure.kiln.median;
    return figure;
}

bool has_nvrtc() {
    try {
        ServiceOptions options = compiling(Backend::cuda, "");
        options.cache.enabled = false;
        const Service service(options);
        (void)service.key(service.find("gemm_naive").variant());
        return true;
    } catch (const Error&) {
        return false;
    }
}

std::string text(const Spread& spread) {
    return rounded(spread.median) + " (" + rounded(spread.min) + " to " + rounded(spread.max) + ", " +
           std::to_string(spread.count) + "x)";
}

void print_table(const std::vector<Figure>& figures, std::FILE* to) {
    Table table({"", "unit", "Kiln: median (min to max)", "bare: median (min to max)", "result", "aim"});
    for (const Figure& figure : figures) {
        table.add({figure.name, figure.unit, text(figure.kiln), text(figure.bare),
                   rounded(figure.value) + " " + figure.relation,
                   std::string(figure.met() ? "met" : "MISSED") +
                       (figure.at_least ? ": at least " : ": at most ") + rounded(figure.aim) + " " +
                       figure.relation});
        table.add({"  bare: " + figure.bare_name});
        for (const auto& [part, spread] : figure.parts)
            table.add({"  of which " + part, figure.unit, text(spread)});
    }
    std::fputs(table.text().c_str(), to);
}

Json to_json(const Figure& figure) {
    Json json{{"name", figure.name},
              {"unit", figure.unit},
              {"kiln", bench::to_json(figure.kiln)},
              {"bare", {{"name", figure.bare_name}, {"time", bench::to_json(figure.bare)}}},
              {"value", figure.value},
              {"relation", figure.relation},
              {"aim", figure.aim},
              {"met", figure.met()}};
    for (const auto& [part, spread] : figure.parts) json["parts"][part] = bench::to_json(spread);
    return json;
}

int run(Arguments arguments) {
    if (arguments.flag("--help")) {
        std::fputs(kUsage, stdout);
        return 0;
    }
    const int rounds = arguments.number("--rounds", 2001, 3, 100000);
    const int processes = arguments.number("--processes", 16, 2, 256);
    const int variants = arguments.number("--variants", 64, 1, 75);
    const Backend backend = parse_backend(arguments.text("--backend", has_nvrtc() ? "cuda" : "host"));
    const bool json = arguments.flag("--json");
    const bool check = arguments.flag("--check");
    arguments.expect_no_more(kUsage);

    const TemporaryDirectory directory;
    const Sample sample;
    std::vector<Figure> figures{disk_hit(sample, directory.path() / "disk", rounds)};
    figures.push_back(seed_hit(sample, directory.path(), Spread(figures[0].kiln), rounds));
    if (auto figure = remote_hit(sample, directory.path(), rounds)) figures.push_back(std::move(*figure));
    figures.push_back(stampede(processes, backend, directory.path()));
    figures.push_back(warm(variants, backend, directory.path()));

    bool all_met = true;
    for (const Figure& figure : figures) all_met = all_met && figure.met();
    if (json) {
        Json report{{"program", "cache-bench"}, {"backend", name(backend)}, {"all_met", all_met}};
        for (const Figure& figure : figures) report["figures"].push_back(to_json(figure));
        std::fputs(cli::dumped(report).c_str(), stdout);
    }
    print_table(figures, json ? stderr : stdout);
    return check && !all_met ? 1 : 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
    try {
        if (argc == 4 && std::strcmp(argv[1], "--child") == 0)
            return kiln::bench::stampede_child(kiln::parse_backend(argv[2]), argv[3]);
        return kiln::bench::run(kiln::bench::Arguments(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "cache-bench: %s\n", error.what());
        return 2;
    }
}
