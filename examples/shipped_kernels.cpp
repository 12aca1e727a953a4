// SPDX-License-Identifier: Apache-2.0
//
// An application that ships its kernels. At the vendor's: compile ahead in the background and pack the cache
// into one file. At the customer's: a service on that file compiles nothing, and a callback sees where each
// kernel came from.
#include <kiln/kiln.h>

#include <cstdio>
#include <filesystem>
#include <vector>

namespace {

namespace fs = std::filesystem;

kiln::ServiceOptions with_cache(const fs::path& directory) {
    kiln::ServiceOptions options;
    options.cache.directory = directory;
    return options;
}

void pack_kernels(const fs::path& place, const fs::path& pack) {
    const auto options = with_cache(place / "vendor");
    kiln::Service kiln(options);
    std::vector<std::future<kiln::Compiled>> ahead;
    for (const auto& variant : kiln.find("gemm_naive").variants({{"T", "float"}, {"BY", 8}}))
        ahead.push_back(kiln.compile_async(variant));
    for (auto& kernel : ahead) kernel.get();  // rethrows what went wrong
    const auto packed = kiln::Cache(options.cache).pack(pack);
    std::printf("packed %llu kernels, %llu bytes\n", static_cast<unsigned long long>(packed.entries),
                static_cast<unsigned long long>(packed.bytes));
}

bool run_without_compiling(const fs::path& place, const fs::path& pack) {
    auto options = with_cache(place / "customer");
    options.cache.seed_packs = {pack};
    options.on_trace = [](const kiln::TraceEvent& event) {
        std::printf("%s (%s): %s\n", std::string(kiln::name(event.kind)).c_str(),
                    std::string(kiln::name(event.tier)).c_str(), std::string(event.variant).c_str());
    };
    kiln::Service kiln(options);
    const auto gemm = kiln.build(kiln.find("gemm_naive").variant({{"T", "float"}, {"BY", 8}}));
    return gemm.origin() == kiln::Origin::seed && kiln.counters().compiles == 0;
}

}  // namespace

// The argument: a directory to work in, which is emptied first.
int main(int argc, char** argv) try {
    const fs::path place = argc > 1 ? argv[1] : "shipped-kernels";
    fs::remove_all(place);
    fs::create_directories(place);
    pack_kernels(place, place / "kernels.pack");
    const bool shipped = run_without_compiling(place, place / "kernels.pack");
    return shipped ? 0 : 1;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
