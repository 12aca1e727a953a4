// SPDX-License-Identifier: Apache-2.0
//
// Workspace from the application's own allocator: a pool that counts. Some kernels need scratch memory; an Operation gets it
// through two functions, so that the pool of a framework (PyTorch's, RMM's) can serve it. Here two reductions share a pool,
// which hands a block that one operation has given back to the next one on the same stream.
#include <kiln/kiln.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <mutex>
#include <span>
#include <vector>

namespace {

// Blocks are in stream order: one that was released on a stream may still be in use by what was queued there before, so
// that it is reused on that stream only. Thread-safe, since calls of operations are.
class Pool {
  public:
    struct Counts {
        int allocated = 0;  // blocks that the device was asked for
        int reused = 0;
        std::size_t bytes_in_use = 0, most_bytes_in_use = 0;
    };

    explicit Pool(const kiln::Device& device) : device_(device) {}

    // What Operation takes. The pool must outlive the operation.
    kiln::WorkspaceAllocator allocator() {
        return {[this](std::size_t bytes, kiln::StreamRef stream) { return allocate(bytes, stream); },
                [this](void* memory, std::size_t bytes, kiln::StreamRef) { release(memory, bytes); }};
    }
    Counts counts() const {
        const std::lock_guard lock(mutex_);
        return counts_;
    }

  private:
    struct Block {
        kiln::Buffer memory;
        void* stream;
        bool in_use;
    };

    // Buffers of a device are aligned to 256 bytes, which is what an operation asks for. An exception here is what the call
    // of the operation throws.
    void* allocate(std::size_t bytes, kiln::StreamRef stream) {
        const std::lock_guard lock(mutex_);
        counts_.bytes_in_use += bytes;
        counts_.most_bytes_in_use = std::max(counts_.most_bytes_in_use, counts_.bytes_in_use);
        for (Block& block : blocks_) {
            if (block.in_use || block.stream != stream.handle() || block.memory.size_bytes() < bytes)
                continue;
            block.in_use = true;
            ++counts_.reused;
            return block.memory.data();
        }
        blocks_.push_back({device_.allocate(bytes), stream.handle(), true});
        ++counts_.allocated;
        return blocks_.back().memory.data();
    }
    void release(void* memory, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        counts_.bytes_in_use -= bytes;
        for (Block& block : blocks_)
            if (block.memory.data() == memory) block.in_use = false;
    }

    const kiln::Device device_;
    mutable std::mutex mutex_;
    std::list<Block> blocks_;
    Counts counts_;
};

void print(const char* when, const Pool::Counts& counts) {
    std::printf("%-26s %d blocks allocated, %d reused, %zu bytes in use (at most %zu)\n", when,
                counts.allocated, counts.reused, counts.bytes_in_use, counts.most_bytes_in_use);
}

}  // namespace

int main() try {
    kiln::Service service;
    Pool pool(service.device());
    kiln::OperationOptions options;
    options.allocator = pool.allocator();

    // Ones: sums of them are exact in any order.
    const long long n = 300'000, rows = 3'000, columns = 100;
    const std::vector<float> ones(n, 1.0f);
    kiln::Buffer x = service.device().allocate(ones.size() * sizeof(float));
    x.copy_from(std::as_bytes(std::span(ones)));
    std::vector<float> sums(columns + 1);
    kiln::Buffer result = service.device().allocate(sums.size() * sizeof(float));
    result.fill(0x7fc00000);  // NaN

    const kiln::Stream& stream = service.stream();
    {
        const kiln::TypedOperation<void(long long, const float*, float*)> sum(service, "sum",
                                                                              {{"T", "float"}}, options);
        std::printf("%zu bytes of workspace: %s\n", sum.workspace_bytes({{"n", n}}),
                    sum.explain({{"n", n}}).choice.variant.text().c_str());
        sum(stream, n, x.as<float>(), result.as<float>());
        sum(stream, n, x.as<float>(), result.as<float>());  // the workspace is kept
        print("after two calls:", pool.counts());
    }
    const Pool::Counts between = pool.counts();
    {
        const kiln::TypedOperation<void(long long, const float*, float*)> sum(service, "sum",
                                                                              {{"T", "float"}}, options);
        sum(stream, n, x.as<float>(), result.as<float>());
        print("after another operation:", pool.counts());
        const kiln::Operation column_sum(service, "column_sum", {{"T", "float"}}, options);
        column_sum(stream, {{"rows", rows}, {"cols", columns}},
                   {{"x", x.data()}, {"sums", result.as<float>() + 1}});
    }  // what was queued may still run, and uses blocks that the pool has again
    stream.synchronize();
    const Pool::Counts end = pool.counts();
    print("at the end:", end);

    result.copy_to(std::as_writable_bytes(std::span(sums)));
    const bool right = sums[0] == static_cast<float>(n) &&
                       std::all_of(sums.begin() + 1, sums.end(), [&](float sum) { return sum == rows; });
    std::printf("the sums are %s\n", right ? "right" : "WRONG");
    const bool pooled =
        between.allocated > 0 && between.bytes_in_use == 0 && end.reused > 0 && end.bytes_in_use == 0;
    return right && pooled ? 0 : 1;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
