// SPDX-License-Identifier: Apache-2.0
//
// LaunchPlan: all that a call with a known shape needs. Immutable.
#pragma once

#include <kiln/kernel.h>
#include <kiln/wisdom.h>

#include "operation/signature.h"
#include "service/loaded_kernel.h"

namespace kiln {

struct LaunchPlan {
    AnyKernel handle;  ///< keeps it
    const LoadedKernel* kernel = nullptr;
    ArgumentPlan arguments;
    bool is_substitute = false;  ///< the best variant is another one
};

}  // namespace kiln
