// SPDX-License-Identifier: Apache-2.0
//
// Driver: one opened device behind the public Device, Buffer, Stream, Event and the service's
// kernels. Module: a loaded binary. Implemented by gpu_driver (for CUDA and HIP)
// and host_device.
#pragma once

#include <kiln/build.h>
#include <kiln/device.h>
#include <kiln/observe.h>
#include <kiln/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/tensor_map.h"

namespace kiln {

class Capture;

/// What a launch needs in addition to its arguments.
struct LaunchShape {
    Dim3 grid;
    Dim3 block;
    Dim3 cluster;  ///< {1,1,1}: none
    std::size_t dynamic_shared_bytes = 0;
    /// The kernel waits for what comes before it in the stream itself (griddepcontrol.wait), so that it may be
    /// started earlier. Devices that can't, start it after the one before.
    bool dependent = false;
    /// All blocks run at once, so that they may wait for each other.
    bool cooperative = false;
    /// The caller's, of which priority and access policy matter here; nullptr: none.
    const LaunchOptions* options = nullptr;

    bool has_options() const {
        return options != nullptr && (options->priority.has_value() || options->access_policy.has_value());
    }
};

/// What the driver knows of a loaded kernel.
struct FunctionInfo {
    std::optional<int> registers;
    std::optional<std::size_t> local_bytes;
    std::size_t static_shared_bytes = 0;
    int max_threads_per_block = 0;
    /// Size in bytes of each argument, where the driver can tell.
    std::optional<std::vector<std::size_t>> argument_bytes;
};

/// A variable of a loaded binary.
struct ModuleVariable {
    void* address = nullptr;  ///< on the device
    std::size_t bytes = 0;
};

/// A loaded binary with one of its kernels resolved. Unloads on destruction, quietly.
/// Thread-safe: launches may come from many threads. Owned by shared pointers: a graph keeps those that it
/// launches.
class Module : public std::enable_shared_from_this<Module> {
  public:
    virtual ~Module() = default;

    virtual const FunctionInfo& info() const = 0;
    /// Allows launches with up to this much dynamic shared memory. Only ever raises the mark.
    /// Throws DeviceError when static and dynamic together exceed the device.
    virtual void allow_dynamic_shared(std::size_t bytes) = 0;
    /// arguments: one pointer per argument. Throws DeviceError.
    virtual void launch(const LaunchShape& shape, void* const* arguments, void* stream) const = 0;
    /// nullopt where it has no meaning.
    virtual std::optional<int> blocks_per_multiprocessor(const LaunchShape& shape) const = 0;
    virtual void* function_handle() const = 0;
    virtual void* module_handle() const = 0;
    /// A __constant__ or __device__ variable, by the name that C++ has for it. Throws UsageError where there is none, naming
    /// those that there are; DeviceError.
    virtual ModuleVariable variable(const std::string& name) const = 0;
    /// Another kernel of the binary, which is the one that was loaded: of more_entries, by its place there. Both share its
    /// variables. Throws DeviceError.
    virtual std::shared_ptr<Module> other(const Binary& binary, std::size_t number) const = 0;
};

/// Captured launches, ready to run. Keeps their modules.
class DeviceGraph {
  public:
    virtual ~DeviceGraph() = default;
    /// Throws DeviceError.
    virtual void launch(void* stream) = 0;
};

class Driver {
  public:
    virtual ~Driver() = default;

    virtual const DeviceInfo& info() const = 0;
    /// The CUcontext; nullptr where the backend has none.
    virtual const void* context() const { return nullptr; }
    virtual std::size_t free_bytes() const = 0;

    /// What is loaded from now on has to be compiled for it, and tells it of its accesses. Before all use.
    /// Throws UsageError but on the host.
    virtual void observe(std::shared_ptr<AccessObserver> observer);

    /// Kernels that are loaded from now on run no code of their own before their first launch, which may be in a
    /// child process. Means something on the host only.
    virtual void load_at_launch() {}
    /// Buffers that are allocated from now on lie apart: an access beyond the pages of one of them, by less than some MiB, is
    /// a fault. Means something on the host only, and costs address space, no memory.
    virtual void separate_buffers() {}
    /// Launches between a call with a number and one with its negative run the threads of each block in another order than
    /// others do, one for each number, the same every time, and find shared memory poisoned. Numbers of calls that nest add up,
    /// and count for all threads. Means something on the host only. Thread-safe.
    virtual void other_thread_order(int /*number*/) {}

    virtual void* allocate(std::size_t bytes) = 0;
    virtual void release(void* memory) noexcept = 0;
    virtual void copy_to_device(void* destination, const void* source, std::size_t bytes) = 0;
    virtual void copy_from_device(void* destination, const void* source, std::size_t bytes) = 0;
    virtual void fill(void* destination, std::uint32_t word, std::size_t bytes) = 0;
    /// One thread at a time holds it: where launches are queued, the kernel's mutex, of_kernel; on the host, where they run at
    /// once, the one mutex that all of them take.
    using LaunchLock = std::unique_lock<std::recursive_mutex>;
    virtual LaunchLock lock_launches(std::recursive_mutex& of_kernel) { return LaunchLock(of_kernel); }

    // The same as work of a stream, of any owner.
    virtual void queue_copy_to_device(void* destination, const void* source, std::size_t bytes,
                                      void* stream) = 0;
    virtual void queue_copy_from_device(void* destination, const void* source, std::size_t bytes,
                                        void* stream) = 0;
    // Recorded by a capture.
    virtual void queue_fill(void* destination, std::uint32_t word, std::size_t bytes, void* stream) = 0;
    /// From device memory to device memory.
    virtual void queue_copy_on_device(void* destination, const void* source, std::size_t bytes,
                                      void* stream) = 0;

    /// Memory for work that is queued on this stream from now on, and its end for work that was queued there before;
    /// release() ends it as well, for all streams. Devices without memory pools do it as allocate() and release() do.
    virtual void* allocate_async(std::size_t bytes, void* stream) = 0;
    virtual void release_async(void* memory, void* stream) noexcept = 0;

    /// What keeps kernels of this device from using the `bytes` at `memory`, said of the pointer: "is memory of the
    /// host". Empty: nothing is known to. Costs some driver calls.
    virtual std::string pointer_problem(const void*, std::size_t) const { return {}; }
    /// The same of a stream that an application made.
    virtual std::string native_stream_problem(void*) const { return {}; }

    virtual PriorityRange priorities() const { return {}; }
    virtual void* create_stream(int priority) = 0;
    virtual void destroy_stream(void* stream) noexcept = 0;
    virtual void synchronize(void* stream) = 0;

    virtual void* create_event() = 0;
    virtual void destroy_event(void* event) noexcept = 0;
    virtual void record(void* event, void* stream) = 0;
    virtual void queue_wait(void* stream, void* event) = 0;
    virtual void synchronize_event(void* event) = 0;
    virtual double elapsed_ms(void* start, void* end) = 0;

    /// Loads a binary and resolves its kernel. Throws DeviceError; a binary that the driver rejects
    /// gives one with the driver's code.
    virtual std::shared_ptr<Module> load(const Binary& binary) = 0;

    /// Whether the stream is being captured: work queued on it is recorded and does not run.
    virtual bool is_capturing(void* stream) = 0;
    /// From here to end_capture, launches on this stream are captured and do not run.
    virtual void begin_capture(void* stream) = 0;
    /// nullptr: nothing was launched. The capture has ended also when this throws.
    virtual std::unique_ptr<DeviceGraph> end_capture(void* stream, Capture& capture) = 0;

    /// Writes what a kernel's kiln::TensorMap argument holds to `map`: kTensorMapBytes at a multiple of
    /// kTensorMapAlignment. Throws UsageError for a layout that TMA can't have, DeviceError.
    virtual void encode_tensor_map(const TensorMapLayout& layout, void* map) = 0;
};

/// A device that was opened twice, by two services perhaps, has two drivers and one context, unless the application
/// gave it another one.
inline bool is_same_device(const Driver* one, const Driver& other) {
    return one == &other ||
           (one != nullptr && one->info().backend == other.info().backend &&
            one->info().ordinal == other.info().ordinal && one->context() == other.context());
}

/// What keeps this stream from taking work of a device, said of it: "belongs to another device"; nullptr: nothing.
const char* stream_problem(const StreamRef& stream, const Driver& driver);

// For each backend. list: empty with a reason instead of throwing. open, current (Device::current): throw DeviceError.
std::vector<DeviceInfo> list_cuda_devices(std::string* reason);
int current_cuda_device();
std::shared_ptr<Driver> open_cuda_device(int ordinal, ContextRef context = ContextRef::primary());
std::vector<DeviceInfo> list_hip_devices(std::string* reason);
int current_hip_device();
std::shared_ptr<Driver> open_hip_device(int ordinal);
std::vector<DeviceInfo> list_host_devices(std::string* reason);
std::shared_ptr<Driver> open_host_device(int ordinal);

/// The limits of an architecture where there is no device to ask. nullopt for one not in the table;
/// the suffix of a CUDA name is ignored ("sm_90a" is looked up as 90).
std::optional<Limits> arch_limits(Backend backend, const std::string& arch);
/// The architectures of that table, for messages.
std::vector<std::string> known_archs(Backend backend);

}  // namespace kiln
