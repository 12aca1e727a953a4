// SPDX-License-Identifier: Apache-2.0
//
// Resolves NVRTC's functions.
#include "compile/nvrtc_api.h"

#include <kiln/error.h>

#include <string>
#include <utility>

#include "format/format.h"

namespace kiln {

NvrtcApi NvrtcApi::open(DynamicLibrary library) {
    NvrtcApi api;
    api.library = std::move(library);
    const auto resolve = [&](auto*& function, const char* name) {
        if (!api.library.resolve(function, name))
            throw BuildError("The NVRTC library " + api.library.path().string() + " has no function " + name +
                             ". NVRTC of CUDA 11.2 or newer is needed.");
    };
    resolve(api.error_string, "nvrtcGetErrorString");
    resolve(api.query_version, "nvrtcVersion");
    resolve(api.supported_arch_count, "nvrtcGetNumSupportedArchs");
    resolve(api.supported_archs, "nvrtcGetSupportedArchs");
    resolve(api.create_program, "nvrtcCreateProgram");
    resolve(api.destroy_program, "nvrtcDestroyProgram");
    resolve(api.compile_program, "nvrtcCompileProgram");
    resolve(api.add_name_expression, "nvrtcAddNameExpression");
    resolve(api.lowered_name, "nvrtcGetLoweredName");
    resolve(api.log_size, "nvrtcGetProgramLogSize");
    resolve(api.log, "nvrtcGetProgramLog");
    resolve(api.ptx_size, "nvrtcGetPTXSize");
    resolve(api.ptx, "nvrtcGetPTX");
    resolve(api.cubin_size, "nvrtcGetCUBINSize");
    resolve(api.cubin, "nvrtcGetCUBIN");
    api.library.resolve(api.ltoir_size, "nvrtcGetLTOIRSize");
    api.library.resolve(api.ltoir, "nvrtcGetLTOIR");
    if (const NvrtcResult result = api.query_version(&api.major, &api.minor); result != kNvrtcSuccess)
        throw BuildError("The NVRTC library " + api.library.path().string() +
                         " does not report its version: " + api.error_string(result) + ".");

    const std::string version = formatted("{}.{}", api.major, api.minor);
    api.builtins = DynamicLibrary::open(
        {(api.library.path().parent_path() / ("libnvrtc-builtins.so." + version)).string()});
    api.library.keep_forever();
    api.builtins.keep_forever();
    return api;
}

}  // namespace kiln
