// SPDX-License-Identifier: Apache-2.0
//
// An application with a CUDA context and stream of its own: a GEMM and a reduction of its result run on that stream, in order
// with the application's own work; data comes by another stream, and an event orders the two. Then the application
// captures its stream into a graph, and replays the graph on other data. What can't happen in a capture (compiling,
// loading, allocating) is done before it, by prepare().
// Without an NVIDIA GPU the same is done with what every backend has, a stream and a graph of Kiln.
//
// An application has <cuda_runtime.h>. This one opens the driver at run time, so that it compiles without CUDA; a CUstream
// and a cudaStream_t are the same.
#include <dlfcn.h>
#include <kiln/kiln.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// The functions of the driver that this application calls. Every handle is a pointer.
struct Cuda {
    using Handle = void*;

    int (*init)(unsigned flags) = nullptr;
    int (*device)(int* device, int ordinal) = nullptr;
    int (*retain_primary_context)(Handle* context, int device) = nullptr;
    int (*set_current)(Handle context) = nullptr;
    int (*create_stream)(Handle* stream, unsigned flags) = nullptr;
    int (*destroy_stream)(Handle stream) = nullptr;
    int (*synchronize)(Handle stream) = nullptr;
    int (*begin_capture)(Handle stream, int mode) = nullptr;
    int (*end_capture)(Handle stream, Handle* graph) = nullptr;
    int (*instantiate)(Handle* ready, Handle graph, unsigned long long flags) = nullptr;
    int (*launch_graph)(Handle ready, Handle stream) = nullptr;
    int (*destroy_ready)(Handle ready) = nullptr;
    int (*destroy_graph)(Handle graph) = nullptr;

    // Makes the primary context of device 0 current, which is what cudaSetDevice(0) does. nullopt: no driver, or no GPU.
    static std::optional<Cuda> open() {
        void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
        if (library == nullptr) return std::nullopt;
        const auto resolve = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
            if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
        };
        Cuda cuda;
        resolve(cuda.init, "cuInit");
        resolve(cuda.device, "cuDeviceGet");
        resolve(cuda.retain_primary_context, "cuDevicePrimaryCtxRetain");
        resolve(cuda.set_current, "cuCtxSetCurrent");
        resolve(cuda.create_stream, "cuStreamCreate");
        resolve(cuda.destroy_stream, "cuStreamDestroy_v2");
        resolve(cuda.synchronize, "cuStreamSynchronize");
        resolve(cuda.begin_capture, "cuStreamBeginCapture_v2");
        resolve(cuda.end_capture, "cuStreamEndCapture");
        resolve(cuda.instantiate, "cuGraphInstantiateWithFlags");
        resolve(cuda.launch_graph, "cuGraphLaunch");
        resolve(cuda.destroy_ready, "cuGraphExecDestroy");
        resolve(cuda.destroy_graph, "cuGraphDestroy");
        int device = 0;
        if (cuda.init(0) != 0 || cuda.device(&device, 0) != 0) return std::nullopt;
        Handle context = nullptr;
        check(cuda.retain_primary_context(&context, device), "cuDevicePrimaryCtxRetain");
        check(cuda.set_current(context), "cuCtxSetCurrent");
        return cuda;
    }

    static void check(int result, const char* call) {
        if (result != 0)
            throw std::runtime_error(std::string(call) + " failed with " + std::to_string(result));
    }
};

using Owned = std::unique_ptr<void, int (*)(Cuda::Handle)>;

// C = A * B, and the sum of all elements of C. Of small integers, so that every order of additions gives the same result.
class Work {
  public:
    explicit Work(kiln::Service& service)
        : gemm_(service, "gemm", {{"T", "half"}}),
          sum_(service, "sum", {{"T", "float"}}),
          a_(service.device().allocate(kM * kK * sizeof(kiln::half))),
          b_(service.device().allocate(kK * kN * sizeof(kiln::half))),
          c_(service.device().allocate(kM * kN * sizeof(float))),
          total_(service.device().allocate(sizeof(float))),
          copies_(service.device().stream()),
          copied_(service.device().event()) {}

    // Everything that queue() will need on this stream: kernels are chosen, compiled and loaded, workspace is allocated.
    void prepare(kiln::StreamRef stream) const {
        const kiln::Sizes gemm_sizes = {{"m", kM}, {"n", kN}, {"k", kK}}, sum_sizes = {{"n", kM * kN}};
        gemm_.prepare(std::span(&gemm_sizes, 1), stream);
        sum_.prepare(std::span(&sum_sizes, 1), stream);
    }

    // New data, copied on a stream of Kiln's; `stream` waits for that, and the calling thread does not.
    void fill(unsigned seed, kiln::StreamRef stream) {
        std::mt19937 random(seed);
        host_a_ = integers(kM * kK, random);
        host_b_ = integers(kK * kN, random);
        a_.copy_from_async(std::as_bytes(std::span(host_a_)), copies_);
        b_.copy_from_async(std::as_bytes(std::span(host_b_)), copies_);
        total_.fill_async(0x7fc00000, copies_);  // NaN: a launch that does not happen is found
        copied_.record(copies_);
        stream.wait(copied_);
    }

    // The launches, queued on the application's stream or recorded in its capture.
    void queue(kiln::StreamRef stream) const {
        gemm_(stream, kM, kN, kK, a_.as<kiln::half>(), b_.as<kiln::half>(), c_.as<float>());
        sum_(stream, kM * kN, c_.as<float>(), total_.as<float>());
    }

    // Call it when the stream has got there.
    bool is_right(const char* what) const {
        float expected = 0, found = 0;
        for (int row = 0; row < kM; ++row)
            for (int i = 0; i < kK; ++i)
                for (int column = 0; column < kN; ++column)
                    expected += float(host_a_[row * kK + i]) * float(host_b_[i * kN + column]);
        total_.copy_to(std::as_writable_bytes(std::span(&found, 1)));
        std::printf("%s: the sum of A * B is %g, %s\n", what, found, found == expected ? "right" : "WRONG");
        return found == expected;
    }

  private:
    static constexpr int kM = 96, kN = 80, kK = 64;

    static std::vector<kiln::half> integers(int count, std::mt19937& random) {
        std::vector<kiln::half> values;
        for (int i = 0; i < count; ++i) values.emplace_back(static_cast<float>(random() % 3));
        return values;
    }

    kiln::TypedOperation<void(int m, int n, int k, const kiln::half* a, const kiln::half* b, float* c)> gemm_;
    kiln::TypedOperation<void(long long n, const float* x, float* sum)> sum_;
    kiln::Buffer a_, b_, c_, total_;
    std::vector<kiln::half> host_a_, host_b_;  // they live until the copies have ended
    kiln::Stream copies_;
    kiln::Event copied_;
};

bool on_own_stream(const Cuda& cuda, Work& work) {
    Cuda::Handle handle = nullptr;
    Cuda::check(cuda.create_stream(&handle, 1), "cuStreamCreate");  // cudaStreamCreateWithFlags(&handle, 1)
    const Owned stream(handle, cuda.destroy_stream);
    const kiln::StreamRef ref(stream.get());  // what Kiln takes; the stream stays the application's

    work.prepare(ref);
    work.fill(1, ref);
    work.queue(ref);
    Cuda::check(cuda.synchronize(stream.get()), "cuStreamSynchronize");
    bool right = work.is_right("on a CUstream");

    Cuda::Handle captured = nullptr, instance = nullptr;
    Cuda::check(cuda.begin_capture(stream.get(), 1), "cuStreamBeginCapture");  // 1: of this thread
    try {
        work.queue(ref);
    } catch (...) {  // a capture must be ended, or the stream can't be used again
        cuda.end_capture(stream.get(), &captured);
        if (captured != nullptr) cuda.destroy_graph(captured);
        throw;
    }
    Cuda::check(cuda.end_capture(stream.get(), &captured), "cuStreamEndCapture");
    const Owned graph(captured, cuda.destroy_graph);
    Cuda::check(cuda.instantiate(&instance, graph.get(), 0), "cuGraphInstantiate");
    const Owned ready(instance, cuda.destroy_ready);  // destroyed before `work`, which keeps the kernels
    for (const unsigned seed : {2U, 3U}) {
        work.fill(seed, ref);
        Cuda::check(cuda.launch_graph(ready.get(), stream.get()), "cuGraphLaunch");
        Cuda::check(cuda.synchronize(stream.get()), "cuStreamSynchronize");
        right &= work.is_right("replayed from the application's graph");
    }
    return right;
}

bool on_kilns_stream(const kiln::Device& device, Work& work) {
    const kiln::Stream stream = device.stream();
    work.prepare(stream);
    work.fill(1, stream);
    work.queue(stream);
    stream.synchronize();
    bool right = work.is_right("on a stream of Kiln");

    const kiln::Graph graph = kiln::Graph::capture(stream, [&] { work.queue(stream); });
    for (const unsigned seed : {2U, 3U}) {
        work.fill(seed, stream);
        graph.launch(stream);
        stream.synchronize();
        right &= work.is_right("replayed from a graph of Kiln");
    }
    return right;
}

// What launches may have next to their stream; results do not depend on it.
bool with_options(const kiln::Device& device, Work& work) {
    const kiln::Stream urgent = device.stream(device.priorities().greatest);
    kiln::LaunchOptions options;
    options.multiprocessors = 4;  // persistent kernels leave the others to other work
    options.dependent = false;    // no programmatic dependent launch
    work.fill(4, urgent);
    work.queue(kiln::StreamRef(urgent).with(options));
    urgent.synchronize();
    return work.is_right("on an urgent stream and four multiprocessors");
}

}  // namespace

int main() try {
    const std::optional<Cuda> cuda = Cuda::open();
    kiln::ServiceOptions options;
    if (cuda) options.context = kiln::ContextRef::current();  // where the application works
    kiln::Service service(options);
    Work work(service);
    bool right = cuda ? on_own_stream(*cuda, work) : on_kilns_stream(service.device(), work);
    right &= with_options(service.device(), work);
    return right ? 0 : 1;
} catch (const std::exception& error) {  // kiln::Error is one
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
