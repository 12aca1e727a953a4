// SPDX-License-Identifier: Apache-2.0
//
// What is read of a compiled kernel: bytes as a cubin, its table of lines included, and as a code object, a log, and
// metadata that is reached only through a sound file.
#include <kiln/tools/resources.h>

#include "analysis/amd_code.h"
#include "analysis/code_lines.h"
#include "analysis/msgpack.h"
#include "analysis/ptxas_log.h"
#include "analysis/sass.h"
#include "fuzz.h"

using namespace kiln;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::vector<std::byte> bytes = fuzz::copy_of(data, size);
    const std::string log(fuzz::text_of(data, size));
    for (const BinaryKind kind : {BinaryKind::cubin, BinaryKind::code_object}) {
        Binary binary;
        binary.kind = kind;
        binary.entry = "kernel";
        binary.bytes = std::vector<std::byte>(bytes);
        KILN_FUZZ_CHECK(resources_of(binary).binary_bytes == size);
        for (const CompiledAccess& access : compiled_accesses(binary))
            KILN_FUZZ_CHECK(access.count > 0 && std::size_t(access.count) <= size / 16 && access.bytes > 0);
        binary.log = log;
        const Resources found = resources_of(binary);
        KILN_FUZZ_CHECK(!found.registers || *found.registers >= 0);
    }
    MsgpackCursor cursor(bytes);
    while (cursor.skip()) continue;
    KILN_FUZZ_CHECK(cursor.failed());
    for (const char* arch : {"gfx90a", "gfx942", "gfx1030"})
        if (const auto counts = count_amd(bytes, arch))
            for (const auto& [name, count] : *counts)
                KILN_FUZZ_CHECK(count > 0 && std::size_t(count) <= size / 4);
    for (const SassAccess& access : sass_accesses(bytes)) KILN_FUZZ_CHECK(access.offset + 16 <= size);
    for (const auto& [name, count] : count_sass(bytes, 90))
        KILN_FUZZ_CHECK(count > 0 && std::size_t(count) <= size / 16);
    return 0;
}
