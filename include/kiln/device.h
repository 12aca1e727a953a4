// SPDX-License-Identifier: Apache-2.0
//
// Devices and what lives on them: Device (a shared handle), Buffer, Stream, Event (move-only owners), and
// StreamRef, which also names a stream that the application made.
// The same classes serve CUDA, HIP and the host. Destructors never throw and tolerate a driver that
// has already shut down. Compiling does not need a device.
#pragma once

#include <kiln/types.h>
#include <kiln/version.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

class Driver;       // one opened device, internal
class DeviceGraph;  // captured launches, internal

inline namespace KILN_ABI {

class Event;
class StreamRef;

/// What a driver says of a device. Plain data.
struct DeviceInfo {
    Backend backend = Backend::host;  ///< that drives it
    int ordinal = 0;                  ///< its number in the backend, from 0
    std::string name;                 ///< "NVIDIA H200"
    std::string arch;                 ///< the default to compile for: "sm_90a"
    std::string driver;               ///< the driver's version, for people
    std::size_t memory_bytes = 0;     ///< of device memory; on the host of main memory
    Limits limits;                    ///< what rules of templates see as `device.*`
};

/// A range of device memory: what a Buffer owns, or a variable of a kernel's module (Kernel::symbol).
/// Not synchronised: one thread at a time.
class DeviceRange {
  public:
    void* data() const { return data_; }  ///< a device address
    /// As it was asked for; of a variable, as it was declared.
    std::size_t size_bytes() const { return bytes_; }
    /// data() as an address of T, for arguments of kernels.
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

    /// Blocking copies of source.size() or destination.size() bytes, `offset_bytes` behind the start.
    /// Throws UsageError when that is more than the range has, DeviceError from the driver.
    void copy_from(std::span<const std::byte> source, std::size_t offset_bytes = 0);
    /// From the device to `destination`; blocking, and throws, as copy_from().
    void copy_to(std::span<std::byte> destination, std::size_t offset_bytes = 0) const;
    /// Sets every 32-bit word, and the odd bytes at the end to its low-order bytes. Blocking.
    void fill(std::uint32_t word);

    /// The same as work of `stream`: they run after what was queued before and return at once. The host memory
    /// must live, and a destination must not be read, until the stream has got there; a copy of pageable memory
    /// may still wait, as with cuMemcpyAsync. A capture that the application began records them. Also throw
    /// UsageError for a stream of another device, and in Graph::capture.
    void copy_from_async(std::span<const std::byte> source, StreamRef stream, std::size_t offset_bytes = 0);
    /// copy_to() as work of `stream`: see copy_from_async().
    void copy_to_async(std::span<std::byte> destination, StreamRef stream,
                       std::size_t offset_bytes = 0) const;
    /// fill() as work of `stream`: see copy_from_async().
    void fill_async(std::uint32_t word, StreamRef stream);

  protected:
    DeviceRange() = default;
    DeviceRange(std::shared_ptr<Driver> driver, void* data, std::size_t bytes) noexcept
        : driver_(std::move(driver)), data_(data), bytes_(bytes) {}  ///< of memory that another object keeps
    DeviceRange(const DeviceRange&) = default;
    DeviceRange& operator=(const DeviceRange&) = default;
    ~DeviceRange() = default;

    std::shared_ptr<Driver> driver_;  ///< of the device; null: the range is empty
    void* data_ = nullptr;            ///< the first byte, on the device
    std::size_t bytes_ = 0;           ///< size
};

/// Device memory. Move-only; freed by the destructor. Not synchronised: one thread at a time.
class Buffer : public DeviceRange {
  public:
    Buffer() = default;
    /// Device::allocate() makes it. Aligned to 256 bytes at least. Throws DeviceError where there is not enough memory.
    Buffer(std::shared_ptr<Driver> driver, std::size_t bytes);
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();
};

namespace detail {

/// Gives a stream or an event back to the driver that made it.
struct DestroyHandle {
    std::shared_ptr<Driver> driver;
    void (Driver::*destroy)(void*) noexcept = nullptr;
    void operator()(void* handle) const noexcept;
};
using DriverHandle = std::unique_ptr<void, DestroyHandle>;

}  // namespace detail

/// What priorities streams and launches may have: the lower the number, the more urgent.
struct PriorityRange {
    int least = 0;     ///< and the usual one
    int greatest = 0;  ///< the lowest number; equal to `least` where there are no priorities
};

/// An in-order queue of work. Move-only. On the host backend a launch has ended when it returns.
class Stream {
  public:
    Stream() = default;
    /// Device::stream() makes it. priority: what is outside of Device::priorities() becomes the nearest one, as with CUDA
    /// and HIP. Throws DeviceError.
    explicit Stream(std::shared_ptr<Driver> driver, int priority = 0);

    /// Waits until all that was queued has ended. Throws DeviceError, also for what a kernel did wrong.
    void synchronize() const;
    void* handle() const { return handle_.get(); }  ///< CUstream, hipStream_t; on the host of no use
    /// The device that it belongs to; internal.
    const std::shared_ptr<Driver>& driver() const { return handle_.get_deleter().driver; }

  private:
    detail::DriverHandle handle_;
};

/// How L2 keeps what launches read and write in a range of memory: CUDA's access policy window.
struct AccessPolicyWindow {
    /// How long L2 keeps a line.
    enum class Property {
        normal,     ///< as usual
        streaming,  ///< it is the first to go
        persisting  ///< it is the last to go
    };

    const void* base = nullptr;  ///< where the range begins
    std::size_t bytes = 0;       ///< of the range
    float hit_ratio = 1;  ///< of the range's lines, 0 to 1: those that get `hit`; the others get `miss`
    Property hit = Property::persisting;  ///< of the lines that the ratio selects
    Property miss = Property::streaming;  ///< normal or streaming
};

/// What a caller wants of launches next to their stream: StreamRef::with. Results never depend on it.
struct LaunchOptions {
    /// CUDA: of the launch, within its stream's device; as Device::priorities(). Not set: its stream's. HIP has it for
    /// streams only (Device::stream).
    std::optional<int> priority;
    /// CUDA only.
    std::optional<AccessPolicyWindow> access_policy;
    /// Programmatic dependent launch: may it begin while the kernel before it in the stream still runs? Not set: where the
    /// template's `dependent` line says so. false: never. true: UsageError for a kernel that does not wait itself.
    std::optional<bool> dependent;
    /// Persistent kernels, whose grid is a number of blocks per multiprocessor, start as many as fill so many
    /// multiprocessors; others are as they are. 0: all of the device.
    int multiprocessors = 0;
    /// Operation only: scratch memory for this launch, aligned to 256 bytes, of Operation::workspace_bytes(); nullptr: the
    /// operation's own. Its content does not matter.
    void* workspace = nullptr;
    std::size_t workspace_bytes = 0;  ///< of `workspace`
};

/// Where work is queued: a Stream, or a stream of the application's own. A view that owns nothing and is cheap to
/// copy; the stream must live until the call that it is given to returns. What is queued runs in the stream's
/// order with the application's own work; Kiln never synchronises such a stream.
class StreamRef {
  public:
    /// A stream of Kiln.
    // NOLINTNEXTLINE(google-explicit-constructor): every call that takes a StreamRef takes a Stream.
    StreamRef(const Stream& stream) noexcept : driver_(stream.driver().get()), handle_(stream.handle()) {}
    /// A CUstream, cudaStream_t or hipStream_t of the device's primary context, which is the one that the CUDA
    /// and HIP runtimes use; nullptr is the legacy default stream. It is taken to belong to the device of the
    /// kernel, event or buffer that it is given to. The host has no such streams: there only the two default
    /// streams are accepted, and work runs at once.
    explicit StreamRef(void* native) noexcept : handle_(native), is_native_(true) {}
    explicit StreamRef(const Stream*) = delete;  // an address of an owner is no handle

    /// The default stream that waits for all blocking streams of its context: 0 as a stream, unless a program is compiled
    /// with --default-stream per-thread.
    static StreamRef legacy_default() noexcept { return StreamRef(static_cast<void*>(nullptr)); }
    /// The default stream of the calling thread.
    static StreamRef per_thread_default() noexcept {
        return StreamRef(reinterpret_cast<void*>(kPerThreadHandle));
    }

    /// The same stream for launches with these options, which the result refers to: they must live as long as it is used.
    /// kernel(stream.with(options), ...). The host has no priorities, caches or overlap to control, and takes no notice
    /// of these; HIP rejects what it lacks with a UsageError.
    StreamRef with(const LaunchOptions& options) const noexcept {
        StreamRef stream = *this;
        stream.options_ = &options;
        return stream;
    }
    /// Without options.
    StreamRef plain() const noexcept {
        StreamRef stream = *this;
        stream.options_ = nullptr;
        return stream;
    }
    const LaunchOptions* options() const { return options_; }  ///< nullptr: none

    /// What is queued from now on waits for the latest record() of `event`; the calling thread does not. Throws
    /// UsageError for an event or stream that is empty or of another device, and in Graph::capture; DeviceError.
    void wait(const Event& event) const;

    /// The CUstream, cudaStream_t or hipStream_t.
    void* handle() const { return handle_; }
    const Driver* driver() const {
        return driver_;
    }                                              ///< of a Stream; nullptr for a stream of the application
    bool is_native() const { return is_native_; }  ///< made from a handle

  private:
    static constexpr std::uintptr_t kPerThreadHandle = 2;  // CU_STREAM_PER_THREAD and hipStreamPerThread

    const Driver* driver_ = nullptr;
    void* handle_ = nullptr;
    const LaunchOptions* options_ = nullptr;
    bool is_native_ = false;
};

/// A point in a stream, with a time. Move-only.
class Event {
  public:
    Event() = default;
    /// Device::event() makes it. Throws DeviceError.
    explicit Event(std::shared_ptr<Driver> driver);

    /// Happens when `stream` has done what was queued before. Throws UsageError for a stream that is empty or of another
    /// device, and in Graph::capture; DeviceError.
    void record(StreamRef stream);
    /// Waits until the latest record() has happened. Throws DeviceError.
    void synchronize() const;
    /// Milliseconds from `start` to this event; both must have happened.
    double elapsed_ms_since(const Event& start) const;

  private:
    friend class StreamRef;

    const std::shared_ptr<Driver>& driver() const { return handle_.get_deleter().driver; }

    detail::DriverHandle handle_;
};

/// Launches captured once, to be replayed with one call: what a launch costs the CPU is paid at the capture.
/// Move-only; keeps the kernels that it launches. A replay uses the argument values of the capture, so the
/// buffers behind its pointers must live. One thread at a time.
class Graph {
  public:
    Graph() = default;
    Graph(Graph&& other) noexcept;
    Graph& operator=(Graph&& other) noexcept;
    ~Graph();

    /// Captures what `record` launches on `stream`; nothing of it runs meanwhile. Nothing else than launches
    /// may happen in it: allocating, copying, filling, waiting and recording events throw UsageError, and no
    /// buffer may be freed. Throws DeviceError, and what `record` throws, after ending the capture.
    static Graph capture(const Stream& stream, const std::function<void()>& record);
    /// Queues all of it; on the host it has ended when this returns. Throws DeviceError; UsageError for a
    /// graph without launches, another device's stream, or a capture in this thread.
    void launch(StreamRef stream) const;

  private:
    std::shared_ptr<Driver> driver_;
    std::shared_ptr<DeviceGraph> launches_;
};

/// The context of a CUDA device that work is done in. A value that owns nothing.
class ContextRef {
  public:
    /// The device's primary context, which the CUDA runtime and frameworks use.
    static ContextRef primary() noexcept { return ContextRef(); }
    /// The one that is current in the thread that opens the device.
    static ContextRef current() noexcept {
        ContextRef context;
        context.is_primary_ = false;
        return context;
    }
    /// A CUcontext, for a green context that of cuCtxFromGreenCtx. It must live as long as what is opened in it.
    explicit ContextRef(void* native) noexcept : native_(native), is_primary_(native == nullptr) {}

    void* native() const { return native_; }  ///< nullptr: primary or current
    /// It is primary().
    bool is_primary() const { return is_primary_; }

  private:
    ContextRef() = default;

    void* native_ = nullptr;
    bool is_primary_ = true;
};

/// One opened device. Copies share it; safe to use from many threads.
class Device {
  public:
    /// Throws DeviceError: no driver, no such device (the message lists what there is).
    /// With a context that is not the primary one, the device is the context's, whatever `ordinal` says; also throws
    /// UsageError where there is no such context. Calls leave current in a thread what was current before.
    static Device open(Backend backend, int ordinal = 0, ContextRef context = ContextRef::primary());
    /// What there is; empty where the driver or the hardware is missing. Never throws for that.
    /// `reason`, when given, receives one line on why the list is empty.
    static std::vector<DeviceInfo> list(Backend backend, std::string* reason = nullptr);
    /// The ordinal of the device that is current in this thread, as with cudaGetDevice and hipGetDevice; 0 where none is,
    /// and on the host. Throws DeviceError where there is no driver.
    static int current(Backend backend);

    /// As it was when the device was opened.
    const DeviceInfo& info() const;
    Target target() const;  ///< backend, default architecture, limits
    /// Device memory, not initialised. Throws DeviceError where there is not enough.
    Buffer allocate(std::size_t bytes) const { return Buffer(driver_, bytes); }
    /// A new stream, which does not wait for the legacy default stream. Throws DeviceError.
    Stream stream(int priority = 0) const { return Stream(driver_, priority); }
    /// The priorities that its streams and launches may have. Throws DeviceError.
    PriorityRange priorities() const;
    /// A new event. Throws DeviceError.
    Event event() const { return Event(driver_); }
    std::size_t free_bytes() const;  ///< memory that can be allocated now
    /// Whether work on this stream is being captured, by Kiln in this thread or by the application.
    bool is_capturing(StreamRef stream) const;
    /// The opened device; internal.
    const std::shared_ptr<Driver>& driver() const { return driver_; }

  private:
    explicit Device(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}

    std::shared_ptr<Driver> driver_;
};

}  // namespace KILN_ABI
}  // namespace kiln
