// SPDX-License-Identifier: Apache-2.0
//
// What a compiled kernel uses, read from its binary and the compiler's log. Needs neither a device nor a
// vendor's program.
#pragma once

#include <kiln/build.h>
#include <kiln/version.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace kiln {
inline namespace KILN_ABI {

/// What a kernel needs of a multiprocessor, and which instructions it has. What is not set could not be read.
struct Resources {
    std::optional<int> registers;              ///< per thread; AMD: VGPRs, on gfx90a and later AGPRs included
    std::optional<int> accumulator_registers;  ///< AMD: AGPRs, where the compiler tells them
    std::optional<int> scalar_registers;       ///< AMD: SGPRs
    std::optional<std::uint64_t> static_shared_bytes;  ///< per block
    std::optional<std::uint64_t> stack_bytes;          ///< per thread: local arrays and spills
    /// Per thread. NVIDIA: bytes of spill stores and loads, known from the log alone; AMD: 4 per register,
    /// vector or scalar.
    std::optional<std::uint64_t> spill_bytes;
    std::uint64_t binary_bytes = 0;  ///< of the whole binary
    /// Instructions of the kernel worth guarding, with how often they stand in the code (not how often they
    /// run). Those that do not occur are absent; "total" is all but padding and NOPs; all are absent when the
    /// code can't be read.
    /// NVIDIA, as nvdisasm names them: FFMA FFMA2 DFMA HFMA2 MUFU; HMMA IMMA DMMA QMMA, HGMMA IGMMA BGMMA
    /// QGMMA, UTCHMMA UTCIMMA UTCQMMA; LDS STS LDG STG with .U8 .S8 .U16 .S16 .64 .128 (LDG, STG also .256),
    /// plain for 4 bytes; LDSM STSM ATOMS SYNCS LDGSTS UTMALDG UTMASTG UBLKCP LDL STL BAR SHFL, of any width.
    /// AMD (GFX9 and GFX10), as LLVM names them: v_mfma, v_smfmac, v_accvgpr_read, v_accvgpr_write of any
    /// shape; v_fma_f32 v_fmac_f32 v_mac_f32 v_pk_fma_f16 v_pk_fma_f32 v_fma_mix_f32 v_dot2_f32_f16;
    /// ds_read_b128 and the other widths of ds_read, ds_read2, ds_write;
    /// {global,flat,scratch,buffer}_{load,store}_dword[x2,x3, x4]; s_barrier.
    std::map<std::string, int> instructions;
};

/// Reads a cubin or a code object; of a shared object of the host, and of PTX, only binary_bytes is known.
/// Throws nothing for bytes that it does not understand: what can't be read is not set. Thread-safe.
Resources resources_of(const Binary& binary);

}  // namespace KILN_ABI
}  // namespace kiln
