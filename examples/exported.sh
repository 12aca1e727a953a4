#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# exported.sh KILN WORK_DIR: makes the C program of exported/, which needs no library of Kiln, and runs it: on a GPU, or
# to the error that says that there is none. KILN is the program kiln; WORK_DIR is emptied first. Exit status 77: it can't be
# made here, since there is no NVRTC or no C compiler.
set -euo pipefail
kiln=$1 work=$2
source=$(cd "$(dirname "$0")" && pwd)/exported
rm -rf "$work"
mkdir -p "$work"
required() { case ,${KILN_REQUIRE:-}, in *,"$1",*) exit 1 ;; *) exit 77 ;; esac; }

if ! "$kiln" export "$source/variants.txt" --output "$work"; then
    echo "NOT RUN: the variants could not be compiled for CUDA here"
    required nvrtc
fi
compiler=${CC:-cc}
command -v "$compiler" >/dev/null || { echo "NOT RUN: there is no C compiler"; required host; }
"$compiler" -std=c11 -O2 -Wall -Wextra -pedantic -Werror -I "$work" "$source/main.c" "$work/kiln_softmax.c" \
    -o "$work/softmax" -ldl -lpthread -lm

status=0
"$work/softmax" 2>"$work/softmax.err" || status=$?
cat "$work/softmax.err" >&2
if [ $status -eq 3 ]; then
    case ,${KILN_REQUIRE:-}, in *,gpu,*) echo "FAILED: a GPU is required"; exit 1 ;; esac
    grep -q 'kiln_softmax_load: status -2: .*driver' "$work/softmax.err" || { echo "FAILED: the error is not clear"; exit 1; }
    echo "there is no GPU here, and the program says so"
else
    exit $status
fi
