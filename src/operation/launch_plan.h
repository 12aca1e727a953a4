// SPDX-License-Identifier: Apache-2.0
//
// LaunchPlan: all that a call with a known shape needs. Immutable.
#pragma once

#include <kiln/kernel.h>
#include <kiln/wisdom.h>

#include "operation/signature.h"

namespace kiln {

struct LaunchPlan {
    AnyKernel kernel;
    ArgumentPlan arguments;
    bool is_substitute = false;  ///< the best variant is another one
};

}  // namespace kiln
