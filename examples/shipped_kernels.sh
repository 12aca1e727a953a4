#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# shipped_kernels.sh KILN APPLICATION WORK_DIR: plays the three steps of shipped_kernels.cpp, the last one with every way to a
# compiler blocked. KILN is the program kiln, APPLICATION is shipped_kernels; WORK_DIR is emptied first.
set -euo pipefail
kiln=$1 application=$2 work=$3
templates=$(cd "$(dirname "$0")" && pwd)/templates
rm -rf "$work"
mkdir -p "$work"

echo "== 1. the developer's run"
export KILN_CACHE_DIR=$work/developer
"$application" record "$work/app.json" "$templates"

echo "== 2. the pack"
"$kiln" cache pack "$work/app.pack" --for "$work/app.json" --template-dir "$templates"

echo "== 3. the customer's run, without a compiler"
export KILN_CACHE_DIR=$work/customer KILN_NVRTC=/nowhere KILN_HIPRTC=/nowhere KILN_HOST_CXX=/nowhere/c++
"$application" run "$work/app.pack" "$templates"

echo "== with a pack that lacks a kernel, the same run ends with an error that says so"
sed 's/"THREADS": "128"/"THREADS": "256"/' "$work/app.json" >"$work/less.json"
KILN_CACHE_DIR=$work/developer env -u KILN_NVRTC -u KILN_HIPRTC -u KILN_HOST_CXX \
    "$kiln" cache pack "$work/less.pack" --for "$work/less.json" --template-dir "$templates"
status=0
"$application" run "$work/less.pack" "$templates" || status=$?
[ $status -eq 3 ] || { echo "FAILED: it ended with $status instead of 3" >&2; exit 1; }
