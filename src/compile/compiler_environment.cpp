// SPDX-License-Identifier: Apache-2.0
//
// The table. It was made from the names that NVRTC 12.4, 12.9, 13.0 and 13.5, comgr and hipRTC 5.2, Clang and LLVM 14
// and 15, GCC 12 and binutils 2.40 give to getenv, found in their code and by recording the calls of compiles. The
// first matching row decides.
#include "compile/compiler_environment.h"

#include <algorithm>

#include "base/config.h"

namespace kiln {
namespace {

using enum VariableTreatment;

struct Row {
    std::string_view pattern;  ///< a name, or the beginning of names and a star
    VariableTreatment treatment;
};

// Names of code and of what the loader does in addition, for every compiler. What LD_LIBRARY_PATH leads to is in the
// identity.
constexpr Row kLoader[] = {
    {"LD_LIBRARY_PATH", harmless},
    {"LD_*", withheld},  // PRELOAD, AUDIT, DEBUG, PROFILE, RUN_PATH and so on
    {"GLIBC_TUNABLES", withheld},
    {"GCONV_PATH", withheld},
};

// Of LLVM in every compiler that has it.
constexpr Row kLlvm[] = {
    {"AS_SECURE_LOG_FILE", withheld},  // writes a file
    {"LLVM_*", withheld},
    {"LLD_*", withheld},
};

constexpr Row kNvrtc[] = {
    {"NVRTC_DISABLE_CONCURRENT_NVVM", harmless},
    {"NVRTC_INTERNAL_GLOBAL_LOCK", harmless},
    {"NVRTC_DISABLE_PCH", harmless},
    {"NVRTC_PCH_HEAP_SIZE", harmless},
    {"LIBNVVM_DISABLE_CONCURRENT_API", harmless},
    {"NVRTC_APPEND_FLAGS", withheld},  // options, which may name files
    {"NVRTCWIZ", withheld},
    {"EDG_*", withheld},  // directories
    {"DUMP_KNOBS_TO_FILE", withheld},
    {"LLVM_OVERRIDE_PRODUCER", ingredient},
    {"NV_NVVM_*", ingredient},
    {"NVVM_*", ingredient},
    {"LIBNVVM_*", ingredient},
    {"NVRTC_*", ingredient},
    {"NVPTX_*", ingredient},
    {"PTXAS_*", ingredient},
    {"CAN_FINALIZE_DEBUG", ingredient},
    {"FINALIZER_*", ingredient},
    {"NV_PIECEMEAL_PROFILER_*", ingredient},
};

constexpr Row kHiprtc[] = {
    {"HIPRTC_*", withheld},
    {"AMD_COMGR_*", withheld},
    {"AMD_OCL_*", withheld},
    // The device libraries are within libamd_comgr, unless one of these points to others.
    {"ROCM_PATH", withheld},
    {"HIP_*", withheld},
    {"DEVICE_LIB_PATH", withheld},
    {"CPATH", withheld},
    {"C_INCLUDE_PATH", withheld},
    {"CPLUS_INCLUDE_PATH", withheld},
    {"OBJC_INCLUDE_PATH", withheld},
    {"OBJCPLUS_INCLUDE_PATH", withheld},
    {"NCC_*", withheld},
    {"COMPILER_PATH", withheld},
    {"LIBRARY_PATH", withheld},
    {"GCC_EXEC_PREFIX", withheld},
    {"CCC_OVERRIDE_OPTIONS", withheld},
    {"SOURCE_DATE_EPOCH", withheld},
    {"SDKROOT", withheld},
    {"RC_DEBUG_*", withheld},
    {"QA_OVERRIDE_GCC3_OPTIONS", withheld},
};

constexpr Row kHost[] = {
    {"CPATH", withheld},
    {"C_INCLUDE_PATH", withheld},
    {"CPLUS_INCLUDE_PATH", withheld},
    {"OBJC_INCLUDE_PATH", withheld},
    {"OBJCPLUS_INCLUDE_PATH", withheld},
    {"LIBRARY_PATH", withheld},
    {"LPATH", withheld},
    {"COMPILER_PATH", withheld},
    {"GCC_EXEC_PREFIX", withheld},
    {"GCC_COMPARE_DEBUG", withheld},
    {"GCC_EXTRA_DIAGNOSTIC_OUTPUT", withheld},
    {"GCC_NOAPPORT", withheld},
    {"GCC_COLORS", withheld},
    {"GCC_URLS", withheld},
    {"GCC_ROOT", withheld},  // GCC puts these in place of parts of its paths
    {"G++_ROOT", withheld},
    {"BINUTILS_ROOT", withheld},
    {"DEB_BUILD_OPTIONS", withheld},
    {"COLLECT_*", withheld},
    {"OFFLOAD_TARGET_*", withheld},
    {"CXX_MODULE_MAPPER", withheld},
    {"DEPENDENCIES_OUTPUT", withheld},
    {"SUNPRO_DEPENDENCIES", withheld},
    {"SOURCE_DATE_EPOCH", withheld},
    {"MAKEFLAGS", withheld},
    {"GNUTARGET", withheld},
    {"LDEMULATION", withheld},
    {"LIBCTF_DEBUG", withheld},
    {"CCC_OVERRIDE_OPTIONS", withheld},
    {"QA_OVERRIDE_GCC3_OPTIONS", withheld},
    {"CC_PRINT_*", withheld},
    {"CC_LOG_DIAGNOSTICS*", withheld},
    {"CLANG_*", withheld},
    {"FORCE_CLANG_DIAGNOSTICS_CRASH", withheld},
    {"RC_DEBUG_*", withheld},
    {"SDKROOT", withheld},
    {"ROCM_PATH", withheld},
    {"HIP_*", withheld},
    // Wrappers of compilers that choose the compiler, or build with the options, in these.
    {"CCACHE_COMPILER*", ingredient},
    {"CCACHE_PATH", ingredient},
    {"CCACHE_PREFIX*", ingredient},
    {"NIX_CFLAGS_*", ingredient},
    {"NIX_LDFLAGS*", ingredient},
    {"NIX_CXX*", ingredient},
    {"NIX_CC_*", ingredient},
    {"NIX_BINTOOLS_*", ingredient},
    {"NIX_HARDENING_*", ingredient},
    {"NIX_ENFORCE_*", ingredient},
};

bool fits(std::string_view pattern, std::string_view name) {
    const auto star = pattern.find('*');
    if (star == std::string_view::npos) return name == pattern;
    const auto head = pattern.substr(0, star), tail = pattern.substr(star + 1);
    return name.size() >= head.size() + tail.size() && name.starts_with(head) && name.ends_with(tail);
}

template <std::size_t size>
const Row* find(const Row (&rows)[size], std::string_view name) {
    const auto row = std::find_if(rows, rows + size, [&](const Row& one) { return fits(one.pattern, name); });
    return row == rows + size ? nullptr : row;
}

const Row* find(CompilerKind kind, std::string_view name) {
    if (const Row* row = find(kLoader, name)) return row;
    const Row* own = kind == CompilerKind::nvrtc    ? find(kNvrtc, name)
                     : kind == CompilerKind::hiprtc ? find(kHiprtc, name)
                                                    : find(kHost, name);
    return own != nullptr ? own : find(kLlvm, name);
}

}  // namespace

VariableTreatment treatment_of(CompilerKind kind, std::string_view name) {
    const Row* row = find(kind, name);
    return row == nullptr ? harmless : row->treatment;
}

CompilerEnvironment compiler_environment(CompilerKind kind) {
    CompilerEnvironment found;
    for (auto& [name, value] : config::environment()) {
        switch (treatment_of(kind, name)) {
            case ingredient:
                found.ingredients.emplace_back(std::move(name), std::move(value));
                break;
            case withheld:
                found.withheld.push_back(std::move(name));
                break;
            case harmless:
                break;
        }
    }
    std::sort(found.ingredients.begin(), found.ingredients.end());
    std::sort(found.withheld.begin(), found.withheld.end());
    return found;
}

std::string environment_note(const std::vector<Variable>& variables) {
    std::string text;
    for (const auto& [name, value] : variables)
        text += " " + name + " is set to \"" + value +
                "\" in the environment, and this compiler reads it; unset it if that is not meant.";
    return text;
}

BuildError with_note(const BuildError& error, const std::vector<Variable>& variables) {
    std::string message = error.what();
    if (!error.log().empty()) message.resize(message.size() - error.log().size() - 1);
    return BuildError(message + environment_note(variables), error.log());
}

std::string search_environment() {
    std::string text;
    for (const std::string_view wanted : {"PATH", "LD_LIBRARY_PATH", "HOME"}) {
        for (const auto& [name, value] : config::environment())
            if (name == wanted) text += name + "=" + value + "\n";
    }
    return text;
}

}  // namespace kiln
