// SPDX-License-Identifier: Apache-2.0
//
// What HIP has of its own among GPU devices (gpu_driver.h): a current device per thread instead of a context, code
// objects, limits that not every release tells. It has no clusters, opt-in shared memory or tensor maps.
// Compiled everywhere, run on no AMD device so far; tests/unit/gpu_driver_test.cpp runs it on a table of fakes.
#pragma once

#include <kiln/device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/driver.h"
#include "device/gpu_context.h"
#include "device/hip_api.h"

namespace kiln::hip {

/// HIP keeps a current device per thread; the device's context itself needs no reference.
class CurrentDevice {
  public:
    /// The device that was current before, and 1; 0: nothing has to be current again.
    using Previous = int;
    static constexpr const char* kEnterCall = Api::Call::set_device;

    CurrentDevice(const Api& api, const DeviceInfo& info, void*) : api_(api), ordinal_(info.ordinal) {
        Previous previous = 0;
        api_.check(enter(previous), kEnterCall);
        leave(previous);
    }
    const void* native() const { return nullptr; }

    /// always: sets it also where it is current, which tells whether the runtime is still there.
    Result enter(Previous& previous, bool always = false) const noexcept {
        int current = -1;
        const bool is_known = api_.get_device(&current) == kSuccess;
        if (is_known && current == ordinal_ && !always) return kSuccess;
        const Result result = api_.set_device(ordinal_);
        if (result == kSuccess && is_known && current != ordinal_) previous = current + 1;
        return result;
    }
    void leave(Previous previous) const noexcept {
        if (previous != 0) static_cast<void>(api_.set_device(previous - 1));
    }

  private:
    const Api& api_;
    int ordinal_;
};

struct Vendor {
    using Api = hip::Api;
    using Call = Api::Call;
    using DeviceAttribute = hip::DeviceAttribute;
    using DevicePointer = hip::DevicePointer;
    using DeviceContext = CurrentDevice;
    using Context = gpu::Context<Vendor>;
    using FillWord = int;

    static constexpr Backend kBackend = Backend::hip;
    static constexpr const char* kName = "HIP";
    static constexpr const char* kLibrary = "runtime";
    static constexpr const char* kOpenCall = Call::set_device;
    static constexpr const char* kSharedMemoryCall = Call::launch_kernel;
    static constexpr const char* kAttributeLaunchCall = Call::launch_kernel;
    /// A launch goes to whichever device is current in the thread.
    static constexpr bool kLaunchReportsOtherContext = false;

    static DevicePointer address(const void* memory) { return const_cast<void*>(memory); }

    // Devices.
    static int device_handle(const Api&, int ordinal) { return ordinal; }
    static std::string arch(const Api& api, int device) { return arch_name(api, device); }
    /// Not every release answers every question; the architecture's table stands in.
    static Limits limits_to_assume(const std::string& arch);
    static void ask(const Api& api, int device, DeviceAttribute which, std::int64_t& limit);
    static void ask_further(const Api& api, int device, Limits& limits);

    // Modules. Those that give no Result throw DeviceError.
    static ModuleHandle load(const Context& context, const Binary& binary);
    static void make_ready(const Context&, FunctionHandle) {}
    static std::optional<std::vector<std::size_t>> argument_bytes(const Api&, FunctionHandle) {
        return std::nullopt;
    }
    /// All local memory of a compute unit can be used without opting in.
    static Result opt_in_to_shared(const Api&, FunctionHandle, std::size_t) { return kSuccess; }

    // Launches.
    static bool needs_attributes(const CurrentDevice&, const LaunchShape& shape) {
        return shape.cluster != Dim3{} || shape.cooperative || shape.has_options();
    }
    /// A cooperative launch. Throws DeviceError: there are no clusters, or the runtime has no such launches; UsageError:
    /// launches have no options.
    static Result launch_with_attributes(const Context& context, FunctionHandle function,
                                         const std::string& entry, const LaunchShape& shape, void** arguments,
                                         StreamHandle stream);
    static const char* launch_hint(const LaunchShape& shape) {
        return std::uint64_t{shape.grid.x} * shape.block.x >> 32 == 0
                   ? ""
                   : "; HIP counts a grid in threads, of which each dimension has fewer than 2^32";
    }

    /// See Driver::native_stream_problem. The device is current.
    static std::string stream_problem(const Context& context, StreamHandle stream);

    static GraphExecHandle instantiate(const Context& context, GraphHandle captured);

    /// Throws UsageError: there are none.
    [[noreturn]] static void encode_tensor_map(const Context& context, const TensorMapLayout& layout,
                                               void* map);
};

}  // namespace kiln::hip
