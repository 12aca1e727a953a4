// SPDX-License-Identifier: Apache-2.0
//
// Tensor maps by the CUDA driver.
#pragma once

#include "device/cuda_context.h"
#include "device/tensor_map.h"

namespace kiln::cuda {

/// Writes a CUtensorMap to `map`, 128 bytes at a multiple of kTensorMapAlignment. Elements are moved as the
/// driver's type of the same name and width; what is read outside the tensor is zero; lines of L2 are
/// promoted to 256 bytes where rows are that long, else to 128. Throws UsageError (check_tensor_map),
/// DeviceError from the driver.
void encode_tensor_map(const Context& context, const TensorMapLayout& layout, void* map);

}  // namespace kiln::cuda
