// SPDX-License-Identifier: Apache-2.0
//
// An application that is shipped without a compiler, in three steps (shipped_kernels.sh plays them):
//
//     shipped_kernels record app.json templates                           a run that records what it asks for
//     kiln cache pack app.pack --for app.json --template-dir templates    compiles all of that into one file
//     shipped_kernels run app.pack templates                              the same run, from the pack alone
//
// The first two are done by the developer, the second also for GPUs that are not there (--arch sm_80,sm_90a). The last one
// is the customer's: it never starts a compiler, and none need be there. What is not in the pack is a BuildError.
#include <kiln/kiln.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace {

// What the application does, the same in both runs: y = 3 x + y by a template of its own, then the sum of y.
bool compute(kiln::Service& service) {
    const int n = 100'000;
    const std::vector<float> ones(n, 1.0f);
    kiln::Buffer x = service.device().allocate(n * sizeof(float));
    kiln::Buffer y = service.device().allocate(n * sizeof(float));
    kiln::Buffer total = service.device().allocate(sizeof(float));
    x.copy_from(std::as_bytes(std::span(ones)));
    y.copy_from(std::as_bytes(std::span(ones)));

    using SaxpyFn = void(int n, float a, const float* x, float* y);
    const auto saxpy = service.build<SaxpyFn>(service.find("saxpy").variant({{"THREADS", 128}}));
    kiln::OperationOptions same;
    same.reproducible =
        true;  // the same variants, and so the same bits, at the developer's and the customer's
    using SumFn = void(long long n, const float* x, float* sum);
    const kiln::TypedOperation<SumFn> sum(service, "sum", {{"T", "float"}}, same);
    saxpy(service.stream(), n, 3.0f, x.as<float>(), y.as<float>());
    sum(service.stream(), n, y.as<float>(), total.as<float>());
    service.stream().synchronize();

    float found = 0;
    total.copy_to(std::as_writable_bytes(std::span(&found, 1)));
    std::printf("%d times 3 * 1 + 1 is %.0f on %s\n", n, found, service.device().info().name.c_str());
    return found == 4.0f * n;
}

bool record(const std::string& file, kiln::ServiceOptions options) {
    options.record = file;  // written when the service is destroyed
    kiln::Service service(options);
    return compute(service);
}

bool run_shipped(const std::string& pack, kiln::ServiceOptions options) {
    options.cached_only = true;
    options.cache.seed_packs = {pack};
    options.on_trace = [](const kiln::TraceEvent& event) {
        std::printf("%s (%s): %s\n", std::string(kiln::name(event.kind)).c_str(),
                    std::string(kiln::name(event.tier)).c_str(), std::string(event.variant).c_str());
    };
    kiln::Service service(options);
    return compute(service) && service.counters().compiles == 0 && service.counters().seed_hits > 0;
}

}  // namespace

int main(int argc, char** argv) try {
    const std::string mode = argc == 4 ? argv[1] : "";
    if (mode != "record" && mode != "run") {
        std::fprintf(stderr, "usage: %s record APP.JSON TEMPLATES\n       %s run APP.PACK TEMPLATES\n",
                     argv[0], argv[0]);
        return 2;
    }
    kiln::ServiceOptions options;
    options.template_directories = {argv[3]};  // the pack has binaries; templates say how they are launched
    const bool right = mode == "record" ? record(argv[2], options) : run_shipped(argv[2], options);
    return right ? 0 : 1;
} catch (const kiln::BuildError& error) {
    std::fprintf(stderr, "not in the pack, or it could not be compiled: %s\n", error.what());
    return 3;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
