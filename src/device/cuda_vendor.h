// SPDX-License-Identifier: Apache-2.0
//
// What CUDA has of its own among GPU devices (gpu_driver.h): the primary context, cubins and PTX, launch attributes
// (clusters, programmatic dependent launch), opt-in shared memory, tensor maps.
#pragma once

#include <kiln/device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda_api.h"
#include "device/driver.h"
#include "device/gpu_context.h"

namespace kiln::cuda {

/// One reference to a device's primary context: the context that the CUDA runtime and other libraries in the process
/// use as well, so their memory and streams work with Kiln's and the other way round. Or a context of the
/// application's, which it does not own.
class DeviceContext {
  public:
    /// What was current before, where it has to be again.
    using Previous = ContextHandle;
    static constexpr const char* kEnterCall = Api::Call::context_set_current;

    /// given: nullptr for the primary context, which is retained. Throws DeviceError.
    DeviceContext(const Api& api, const DeviceInfo& info, void* given);
    ~DeviceContext() {
        ContextHandle previous = nullptr;
        if (!is_primary_ || enter(previous, true) != kSuccess) return;
        leave(previous);
        static_cast<void>(api_.primary_context_release(device_));
    }
    DeviceContext(const DeviceContext&) = delete;
    DeviceContext& operator=(const DeviceContext&) = delete;

    bool has_clusters() const { return has_clusters_; }
    /// Whether a kernel may be started while the one before it still runs: compute capability 9.0 like clusters.
    bool can_overlap() const { return has_clusters_ && api_.launch_kernel_ex != nullptr; }
    const void* native() const { return context_; }

    /// always: sets it also where it is current, which tells whether the driver is still there.
    Result enter(Previous& previous, bool always = false) const noexcept {
        ContextHandle current = nullptr;
        const bool is_current = api_.context_get_current(&current) == kSuccess && current == context_;
        if (is_current && !always) return kSuccess;
        const Result result = api_.context_set_current(context_);
        if (result == kSuccess && !is_current) previous = current;
        return result;
    }
    void leave(Previous previous) const noexcept {
        if (previous != nullptr) static_cast<void>(api_.context_set_current(previous));
    }

  private:
    const Api& api_;
    DeviceHandle device_ = 0;
    ContextHandle context_ = nullptr;
    bool is_primary_ = true;
    bool has_clusters_ = false;
};

/// The ordinal of the device of a context of the application's; of the one that is current for nullptr, which then is
/// replaced by it. Throws UsageError: nothing is current, or the driver does not know the context.
int device_of_context(const Api& api, void*& native);

struct Vendor {
    using Api = cuda::Api;
    using Call = Api::Call;
    using DeviceAttribute = cuda::DeviceAttribute;
    using DevicePointer = cuda::DevicePointer;
    using DeviceContext = cuda::DeviceContext;
    using Context = gpu::Context<Vendor>;
    using FillWord = unsigned;

    static constexpr Backend kBackend = Backend::cuda;
    static constexpr const char* kName = "CUDA";
    static constexpr const char* kLibrary = "driver";
    static constexpr const char* kOpenCall = Call::device_get;
    static constexpr const char* kSharedMemoryCall = Call::function_set_attribute;
    static constexpr const char* kAttributeLaunchCall = Call::launch_kernel_ex;
    /// A launch fails and does nothing where another context is current in the thread.
    static constexpr bool kLaunchReportsOtherContext = true;

    static DevicePointer address(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }

    // Devices.
    static DeviceHandle device_handle(const Api& api, int ordinal);
    static std::string arch(const Api& api, DeviceHandle device);
    static Limits limits_to_assume(const std::string&) { return {}; }
    /// Throws DeviceError when the driver does not answer.
    static void ask(const Api& api, DeviceHandle device, DeviceAttribute which, std::int64_t& limit);
    static void ask_further(const Api& api, DeviceHandle device, Limits& limits);

    // Modules. Those that give no Result throw DeviceError.
    static ModuleHandle load(const Context& context, const Binary& binary);
    static void make_ready(const Context& context, FunctionHandle function);
    static std::optional<std::vector<std::size_t>> argument_bytes(const Api& api, FunctionHandle function);
    static Result opt_in_to_shared(const Api& api, FunctionHandle function, std::size_t bytes) {
        return api.function_set_attribute(function, kFunctionMaxDynamicSharedBytes, static_cast<int>(bytes));
    }

    // Launches.
    static bool needs_attributes(const cuda::DeviceContext& device, const LaunchShape& shape) {
        return shape.cluster != Dim3{} || (shape.dependent && device.can_overlap()) || shape.cooperative ||
               shape.has_options();
    }
    /// Throws DeviceError where the device or the driver has no clusters, UsageError where the driver has no attributes.
    static Result launch_with_attributes(const Context& context, FunctionHandle function,
                                         const std::string& entry, const LaunchShape& shape, void** arguments,
                                         StreamHandle stream);
    static bool is_other_context(Result result) {
        return result == kErrorInvalidContext || result == kErrorInvalidHandle;
    }
    static const char* launch_hint(const LaunchShape&) { return ""; }

    /// See Driver::native_stream_problem. The context is current.
    static std::string stream_problem(const Context& context, StreamHandle stream);

    static GraphExecHandle instantiate(const Context& context, GraphHandle captured);

    /// Writes a CUtensorMap to `map`, 128 bytes at a multiple of kTensorMapAlignment. Elements are moved as the
    /// driver's type of the same name and width; what is read outside the tensor is zero; lines of L2 are
    /// promoted to 256 bytes where rows are that long, else to 128. Throws UsageError (check_tensor_map),
    /// DeviceError from the driver.
    static void encode_tensor_map(const Context& context, const TensorMapLayout& layout, void* map);
};

}  // namespace kiln::cuda
