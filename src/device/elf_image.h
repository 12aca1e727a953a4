// SPDX-License-Identifier: Apache-2.0
//
// A look at a device binary before it is handed to a driver. Drivers take an address without a length
// and trust the offsets they find there, so a cut-off file would be read past its end.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kiln {

/// Empty when the bytes are a 64-bit ELF file whose header tables and sections all lie within them;
/// else what is wrong, as the end of a sentence: "has 12 bytes, too few for an ELF header".
std::string elf_image_problem(std::span<const std::byte> bytes);

}  // namespace kiln
