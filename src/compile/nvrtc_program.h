// SPDX-License-Identifier: Apache-2.0
//
// One request to an open NVRTC: the same code in this process and in a worker, so that the bytes are the
// same.
#pragma once

#include "compile/compile_protocol.h"
#include "compile/nvrtc_api.h"
#include "compile/precompiled_headers.h"

namespace kiln {

/// Thread-safe, as NVRTC is. Headers are passed in memory, and nothing is read from disk. precompiled: of this library in
/// this process.
CompileResponse answer(const NvrtcApi& api, const CompileRequest& request, PrecompiledHeaders& precompiled);

/// Precompiles the headers of a request that was answered with CompileResponse::precompiles.
void precompile(const NvrtcApi& api, const CompileRequest& request, PrecompiledHeaders& precompiled);

}  // namespace kiln
