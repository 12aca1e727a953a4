// SPDX-License-Identifier: Apache-2.0
//
// kiln::PipelineState: where a thread is in a pipeline of STAGES stages of shared memory, whether mbarriers
// (kiln/tma.h), cp.async groups or barriers of the block say when a stage is full or empty.
//
//   PipelineState<STAGES> state;          the first stage, phase 0
//   tiles + state.index * kStageBytes     this stage
//   state.advance();                      the next one; after the last stage the first, in the other phase
#pragma once

#include "kiln/device.h"

namespace kiln {

template <unsigned STAGES>
struct PipelineState {
    unsigned index = 0;  ///< of the stage
    unsigned phase = 0;  ///< of its mbarriers, modulo 2: even and odd rounds through the stages differ

    __device__ __forceinline__ void advance() {
        if (++index < STAGES) return;
        index = 0;
        phase ^= 1u;
    }
    __device__ __forceinline__ void advance(unsigned stages) {
        index += stages;
        phase ^= index / STAGES & 1u;
        index %= STAGES;
    }
};

}  // namespace kiln
