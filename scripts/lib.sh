# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Shared by the scripts beside it; sourced with the repository's root as the current directory.
# Offers: say, missing_packages, nvrtc_wheels, cutlass_wheel, python_modules, has_python_modules, has_python,
# has_nvidia_gpu, find_nvrtc, use_local_nvrtc, find_llvm_14, skip_status, forget_copied, configure,
# build.

# Programs that scripts/setup --tests put here since the system has them under another name.
PATH=$PATH:$PWD/.deps/bin

# What build and test commands are started through.
wrapper=()

say() { printf '%s\n' "$*" >&2; }

# The packages of this list that are not installed, one per line.
missing_packages() {
    local name
    for name in "$@"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s\n' "$name"
    done
}

# The wheels that NVRTC, nvJitLink, and the headers that templates may include, are taken from where there is no toolkit: releases
# that Kiln was tested with (docs/install.md).
nvrtc_wheels=('nvidia-cuda-nvrtc>=13.0,<13.6' 'nvidia-cuda-runtime>=13.0,<13.6' 'nvidia-cuda-crt>=13.0,<13.6'
    'nvidia-cuda-cccl>=13.0,<13.6' 'nvidia-nvjitlink>=13.0,<13.6')

# Where the tests take CUTLASS's headers from, which are unpacked to .deps/cutlass/include.
cutlass_wheel='nvidia-cutlass==4.2.0.0'

# What the package for Python is built and tested with: modules of pip, in .deps/python.
python_modules=('nanobind>=3.1,<4' 'numpy>=1.24' 'pytest>=7' 'mypy>=1.8')
has_python_modules() { PYTHONPATH=.deps/python python3 -c 'import mypy, nanobind, numpy, pytest' >/dev/null 2>&1; }
# Python 3.11 and its headers.
has_python() {
    python3 -c 'import os, sys, sysconfig
sys.exit(sys.version_info < (3, 11) or not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' >/dev/null 2>&1
}

# A driver without a toolkit is what most images of machines with GPUs have.
has_nvidia_gpu() { [ -e /dev/nvidiactl ] || command -v nvidia-smi >/dev/null; }

# Where a system-wide NVRTC lies: a toolkit, or a library that the loader knows. Empty: nowhere.
find_nvrtc() {
    local candidate
    for candidate in "${KILN_NVRTC:-}" "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnvrtc.so.1? \
        /usr/local/cuda*/lib64/libnvrtc.so.1? /usr/lib/*-linux-gnu/libnvrtc.so.1?; do
        if [ -e "$candidate" ]; then printf '%s\n' "$candidate"; return; fi
    done
    ldconfig -p 2>/dev/null | sed -n 's/.*libnvrtc\.so\.[0-9.]* .*=> //p' | head -n 1
}

# An NVRTC that setup took from its wheel is used where there is no other.
use_local_nvrtc() {
    local candidate
    [ -z "$(find_nvrtc)" ] || return 0
    for candidate in .deps/nvrtc/nvidia/*/lib/libnvrtc.so.1?; do
        if [ -e "$candidate" ]; then KILN_NVRTC=$PWD/$candidate; export KILN_NVRTC; return 0; fi
    done
}

# The program of LLVM 14 of this name: what clang-format and clang-tidy say differs from version to version.
find_llvm_14() {
    local program
    for program in "$1-14" "$1"; do
        if "$program" --version 2>/dev/null | grep 'version 14\.' >/dev/null; then printf '%s\n' "$program"; return; fi
    done
    say "NOT CHECKED: there is no $1 14 here (package $1-14)"
    return 1
}

# Of a check that this machine can't do because something is missing: 77, skipped, or 1 where KILN_REQUIRE names it.
skip_status() {
    case ,${KILN_REQUIRE:-}, in *",$1,"*) echo 1 ;; *) echo 77 ;; esac
}

# forget_copied DIRECTORY: of a tree that was copied or moved, a build directory is still that of the other place, which CMake would
# configure and build. It begins again.
forget_copied() {
    local made_as
    made_as=$(sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' "$1/CMakeCache.txt" 2>/dev/null) || return 0
    if [ -z "$made_as" ] || [ "$made_as" -ef "$1" ]; then return 0; fi
    say "$1/ was made as $made_as and then copied or moved: it is configured again"
    rm -rf "$1/CMakeCache.txt" "$1/CMakeFiles" "$1/build.ninja"
}

# configure DIRECTORY [OPTION...]: quiet unless it fails.
configure() {
    local directory=$1 log batch=()
    shift
    forget_copied "$directory"
    # The fewer processors there are, the less is gained by many small units. What a folder has stays.
    [ "$(nproc)" -gt 4 ] || [ -f "$directory/CMakeCache.txt" ] || batch=(-DKILN_BATCH=16)
    log=$(mktemp)
    if ! cmake -G Ninja -S . -B "$directory" ${batch[@]+"${batch[@]}"} "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        say "Configuring $directory failed; what CMake said is above."
        return 1
    fi
    rm -f "$log"
}

# build DIRECTORY [TARGET...]: quiet unless it fails or stderr is a terminal.
build() {
    local directory=$1 log target arguments=()
    shift
    for target in "$@"; do arguments+=(--target "$target"); done
    if [ -t 2 ]; then
        ${wrapper[@]+"${wrapper[@]}"} cmake --build "$directory" "${arguments[@]}" >&2
        return
    fi
    log=$(mktemp)
    if ! ${wrapper[@]+"${wrapper[@]}"} cmake --build "$directory" "${arguments[@]}" >"$log" 2>&1; then
        grep -vE '^\[[0-9]+/[0-9]+\] Building' "$log" >&2
        rm -f "$log"
        say "Building in $directory failed; what the compiler said is above."
        return 1
    fi
    rm -f "$log"
}
