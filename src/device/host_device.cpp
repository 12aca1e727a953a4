// SPDX-License-Identifier: Apache-2.0
//
// The host as a device: memory, events, and a pool of OS threads that its modules launch on.
#include <kiln/error.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "base/config.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/host_arch.h"
#include "device/capture.h"
#include "device/driver.h"
#include "device/host_executor.h"
#include "device/host_graph.h"
#include "device/host_module.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kBufferAlignment = 256;
constexpr std::size_t kMarginBytes = std::size_t{64} << 20;

unsigned worker_count() {
    const int chosen = config::host_threads();
    return chosen > 0 ? static_cast<unsigned>(chosen) : std::max(1u, std::thread::hardware_concurrency());
}

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const auto colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
    }
    return host_arch() + " processor";
}

// The number after `key` in lines of "key number" or "key: number kB".
std::optional<std::uint64_t> number_after(const std::optional<std::string>& text, std::string_view key) {
    if (!text) return std::nullopt;
    std::istringstream words(*text);
    for (std::string word; words >> word;) {
        std::uint64_t number = 0;
        if (word == key && words >> number) return number;
    }
    return std::nullopt;
}

std::optional<std::uint64_t> number_in(const char* path) {
    const auto text = read_text_if_exists(path);
    if (!text || text->empty() || (*text)[0] < '0' || (*text)[0] > '9') return std::nullopt;  // "max"
    return std::strtoull(text->c_str(), nullptr, 10);
}

std::size_t total_memory() {
    const auto machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return std::min(machine, number_in("/sys/fs/cgroup/memory.max").value_or(machine));
}

std::size_t available_memory() {
    const auto kilobytes = number_after(read_text_if_exists("/proc/meminfo"), "MemAvailable:");
    std::uint64_t available = kilobytes ? *kilobytes * 1024
                                        : static_cast<std::uint64_t>(::sysconf(_SC_AVPHYS_PAGES)) *
                                              static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    // A container may have less than the machine; what it holds as file cache can be given back.
    const auto most = number_in("/sys/fs/cgroup/memory.max"),
               used = number_in("/sys/fs/cgroup/memory.current");
    if (most && used) {
        const auto cache = number_after(read_text_if_exists("/sys/fs/cgroup/memory.stat"), "inactive_file");
        const std::uint64_t held = *used - std::min(*used, cache.value_or(0));
        available = std::min(available, *most - std::min(*most, held));
    }
    return available;
}

DeviceInfo describe() {
    DeviceInfo info;
    info.backend = Backend::host;
    info.name = processor_name();
    info.arch = host_arch();
    info.driver = formatted("fibers on {} threads", worker_count());
    info.memory_bytes = total_memory();
    info.limits = arch_limits(Backend::host, info.arch).value_or(Limits{});
    info.limits.multiprocessors = worker_count();
    const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE) > 0 ? ::sysconf(_SC_LEVEL3_CACHE_SIZE)
                                                            : ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    info.limits.l2_bytes = std::max(0L, cache);
    return info;
}

// The pool of this process. A child of fork() has none of its parent's threads, and locks of its pool may be held, so it
// gets a new one and the parent's is left alone.
class ExecutorOfProcess {
  public:
    explicit ExecutorOfProcess(unsigned workers) : state_(new State(workers)) {}
    ExecutorOfProcess(const ExecutorOfProcess&) = delete;
    ExecutorOfProcess& operator=(const ExecutorOfProcess&) = delete;
    ~ExecutorOfProcess() { end_state_of_this_process(state_); }

    HostExecutor& get() {
        return state_of_this_process(
                   state_, [](const State& parent) { return std::make_unique<State>(parent.workers); })
            .executor;
    }

  private:
    struct State {
        explicit State(unsigned count) : workers(count), executor(count) {}
        /// By getpid(): a child of fork_to_launch() is of the same generation, and has none of these threads either.
        bool is_of_this_process() const { return process == ::getpid(); }

        const unsigned workers;
        const pid_t process = ::getpid();
        HostExecutor executor;
    };

    std::atomic<State*> state_;
};

struct HostEvent {
    std::atomic<std::chrono::steady_clock::time_point> time{};
};

class HostDriver final : public Driver {
  public:
    HostDriver()
        : info_(describe()),
          order_(std::make_shared<ThreadOrder>(config::host_seed())),
          executor_(std::make_shared<ExecutorOfProcess>(worker_count())) {}

    const DeviceInfo& info() const override { return info_; }
    std::size_t free_bytes() const override { return available_memory(); }
    void observe(std::shared_ptr<AccessObserver> observer) override { observer_ = std::move(observer); }
    void load_at_launch() override { when_loaded_ = WhenLoaded::at_launch; }
    void separate_buffers() override { separate_ = true; }
    void other_thread_order(int number) override { order_->other(number); }

    void* allocate(std::size_t bytes) override;
    void release(void* memory) noexcept override;
    void* allocate_async(std::size_t bytes, void*) override { return allocate(bytes); }
    void release_async(void* memory, void*) noexcept override { release(memory); }
    void copy_to_device(void* destination, const void* source, std::size_t bytes) override {
        if (bytes != 0) std::memcpy(destination, source, bytes);
    }
    void copy_from_device(void* destination, const void* source, std::size_t bytes) override {
        if (bytes != 0) std::memcpy(destination, source, bytes);
    }
    void fill(void* destination, std::uint32_t word, std::size_t bytes) override {
        fill_words(destination, word, bytes);
    }
    // Work of a stream runs at once here.
    void queue_copy_to_device(void* destination, const void* source, std::size_t bytes, void*) override {
        copy_to_device(destination, source, bytes);
    }
    void queue_copy_from_device(void* destination, const void* source, std::size_t bytes, void*) override {
        copy_from_device(destination, source, bytes);
    }
    LaunchLock lock_launches(std::recursive_mutex&) override { return executor_->get().lock_launches(); }
    void queue_fill(void* destination, std::uint32_t word, std::size_t bytes, void* stream) override {
        if (HostGraph* const graph = recording(stream)) return graph->add_fill(destination, word, bytes);
        fill(destination, word, bytes);
    }

    void queue_copy_on_device(void* destination, const void* source, std::size_t bytes,
                              void* stream) override {
        if (HostGraph* const graph = recording(stream)) return graph->add_copy(destination, source, bytes);
        if (bytes != 0) std::memcpy(destination, source, bytes);
    }

    void* create_stream(int) override { return new HostStream; }
    void destroy_stream(void* stream) noexcept override { delete static_cast<HostStream*>(stream); }
    void synchronize(void*) override {}

    void* create_event() override { return new HostEvent; }
    void destroy_event(void* event) noexcept override { delete static_cast<HostEvent*>(event); }
    void record(void* event, void*) override {
        static_cast<HostEvent*>(event)->time = std::chrono::steady_clock::now();
    }
    void queue_wait(void*, void*) override {}
    void synchronize_event(void*) override {}
    double elapsed_ms(void* start, void* end) override;

    std::shared_ptr<Module> load(const Binary& binary) override {
        return std::make_shared<HostModule>(
            binary, info_, order_, [executor = executor_]() -> HostExecutor& { return executor->get(); },
            observer_, when_loaded_);
    }

    bool is_capturing(void*) override { return false; }  // by nobody but Kiln
    void begin_capture(void* stream) override {
        static_cast<HostStream*>(stream)->recording = std::make_unique<HostGraph>();
    }
    std::unique_ptr<DeviceGraph> end_capture(void* stream, Capture&) override {
        auto recorded = std::exchange(static_cast<HostStream*>(stream)->recording, nullptr);
        return recorded->is_empty() ? nullptr : std::move(recorded);
    }
    void encode_tensor_map(const TensorMapLayout& layout, void* map) override;

  private:
    void* allocate_apart(std::size_t bytes);

    const DeviceInfo info_;
    const std::shared_ptr<ThreadOrder> order_;  ///< the modules' too
    const std::shared_ptr<ExecutorOfProcess> executor_;
    std::shared_ptr<AccessObserver> observer_;
    WhenLoaded when_loaded_ = WhenLoaded::at_once;
    bool separate_ = false;
    // Or had. A child of fork() that frees memory takes the lock only then; of its parent's it may wait for ever.
    std::atomic<bool> has_apart_{false};
    std::mutex apart_mutex_;
    std::map<void*, std::size_t> apart_;  // what allocate_apart() gave, and its bytes
};

// Far from all else. Where kernels are observed, the memory around it is there once it is used, so that accesses beyond
// the buffer harm nothing, and are reported; else they are faults. nullptr: there is no room.
void* HostDriver::allocate_apart(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t middle = (bytes + page - 1) / page * page, whole = middle + 2 * kMarginBytes;
    constexpr int kUsable = PROT_READ | PROT_WRITE;
    void* const start = ::mmap(nullptr, whole, observer_ ? kUsable : PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    void* const memory = static_cast<std::byte*>(start) + kMarginBytes;
    if (!observer_ && ::mprotect(memory, middle, kUsable) != 0) {
        ::munmap(start, whole);
        return nullptr;
    }
    has_apart_ = true;
    const std::lock_guard lock(apart_mutex_);
    apart_.emplace(memory, whole);
    return memory;
}

void HostDriver::release(void* memory) noexcept {
    if (has_apart_) {
        const std::lock_guard lock(apart_mutex_);
        if (const auto found = apart_.find(memory); found != apart_.end()) {
            ::munmap(static_cast<std::byte*>(memory) - kMarginBytes, found->second);
            apart_.erase(found);
            return;
        }
    }
    std::free(memory);
}

void* HostDriver::allocate(std::size_t bytes) {
    const std::size_t available = available_memory();
    void* memory = nullptr;
    // The system would promise more than it has, and end the process when it is used.
    if (bytes <= available && (observer_ || separate_)) memory = allocate_apart(bytes);
    if (bytes <= available && memory == nullptr)
        memory = std::aligned_alloc(kBufferAlignment, (bytes / kBufferAlignment + 1) * kBufferAlignment);
    if (memory == nullptr) {
        throw DeviceError(formatted("The host device can't allocate {} bytes: {} of its {} are available.",
                                    bytes, available, info_.memory_bytes),
                          "allocate");
    }
    return memory;
}

void HostDriver::encode_tensor_map(const TensorMapLayout& layout, void* map) {
    check_tensor_map(layout);
    auto* const plain = new (map) kiln_host::TensorMap{};
    plain->base = layout.base;
    plain->rank = static_cast<unsigned>(layout.rank);
    plain->element_bytes = static_cast<unsigned>(layout.element_bytes);
    for (int i = 0; i < layout.rank; ++i) {
        plain->extents[i] = layout.extents[i];
        plain->stride_bytes[i] = layout.stride_bytes[i];
        plain->box[i] = layout.box[i];
    }
    plain->swizzle_bytes = layout.swizzle_bytes;
}

double HostDriver::elapsed_ms(void* start, void* end) {
    const auto from = static_cast<HostEvent*>(start)->time.load(),
               to = static_cast<HostEvent*>(end)->time.load();
    const std::chrono::steady_clock::time_point never{};
    if (from == never || to == never)
        throw DeviceError("The time between two events was asked for before both were recorded.",
                          "elapsed_ms");
    return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

std::vector<DeviceInfo> list_host_devices(std::string* reason) {
    if (reason != nullptr) reason->clear();
    return {describe()};
}

std::shared_ptr<Driver> open_host_device(int ordinal) {
    if (ordinal != 0)
        throw DeviceError(formatted("There is no host device {}; the host is device 0.", ordinal));
    return std::make_shared<HostDriver>();
}

}  // namespace kiln
