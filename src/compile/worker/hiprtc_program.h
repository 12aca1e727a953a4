// SPDX-License-Identifier: Apache-2.0
//
// One request to an open hipRTC. It prints, writes temporary files, does not stand two compiling threads, and
// aborts on what it does not know, so it lives in the worker alone.
#pragma once

#include <filesystem>

#include "compile/compile_protocol.h"
#include "compile/worker/hiprtc_api.h"

namespace kiln {

/// scratch: where the library keeps its temporary files; the log loses such names again.
CompileResponse answer(const HiprtcApi& api, const CompileRequest& request,
                       const std::filesystem::path& scratch);

}  // namespace kiln
