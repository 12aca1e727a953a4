#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# setup_test.sh SOURCE_DIR: what scripts/setup fetches NVRTC for, and from where, on machines that are played by small
# programs in front of PATH: no pip, no NVRTC, with and without an NVIDIA driver.
set -euo pipefail
source_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() { echo "FAILED: $*" >&2; failed=1; }

# program NAME: its text comes from standard input; it finds $LOG.
program() {
    { printf '#!/bin/bash\n'; cat; } >"$bin/$1"
    chmod +x "$bin/$1"
}

# machine NAME: a fresh one, in which all packages but pip's are there.
machine() {
    tree=$work/$1/tree bin=$work/$1/bin
    export LOG=$work/$1/log
    mkdir -p "$tree" "$bin"
    cp -r "$source_dir/scripts" "$tree/"
    # This machine's own toolkit and GPU are out of sight.
    sed -i "s#/usr/local/cuda#$tree/cuda#g; s#/usr/lib/#$tree/lib/#g; s#/dev/nvidiactl#$tree/nvidiactl#g" "$tree/scripts/lib.sh"
    : >"$LOG"
    program id <<<'echo 0'
    program ldconfig <<<'exit 0'
    program apt-cache <<<'echo yes'
    program apt-get <<<'echo "apt-get $*" >>"$LOG"'
    program dpkg-query <<<'case $* in *python3-pip*) ! grep -q "install.*python3-pip" "$LOG" || echo -n installed ;; *) echo -n installed ;; esac'
    program python3 <<'PYTHON'
grep -q 'install.*python3-pip' "$LOG" || exit 1
case $* in
    *"pip download"*) echo "$*" >>"$LOG"; touch .deps/nvrtc.partial/wheel/one.whl ;;
    *zipfile*) mkdir -p .deps/nvrtc.partial/nvidia/cu13/lib; touch .deps/nvrtc.partial/nvidia/cu13/lib/libnvrtc.so.13 ;;
esac
PYTHON
}
setup() { (cd "$tree" && env -u KILN_NVRTC -u KILN_REQUIRE CUDA_HOME=/nowhere PATH="$bin:$PATH" scripts/setup "$@" 2>>"$LOG"); }

machine driver
touch "$tree/nvidiactl"
setup || fail "set-up with a driver: $(cat "$LOG")"
grep -q 'apt-get install.*python3-pip' "$LOG" || fail "a machine with a driver gets no pip to fetch NVRTC with: $(cat "$LOG")"
grep -q 'pip download.*nvidia-cuda-nvrtc>=[0-9.]*,<[0-9.]*' "$LOG" || fail "the wheel is not pinned to tested releases: $(cat "$LOG")"
[ -e "$tree/.deps/nvrtc/nvidia/cu13/lib/libnvrtc.so.13" ] || fail "the wheel was not unpacked"

if ! command -v nvidia-smi >/dev/null; then  # it can't be hidden
    machine no_driver
    setup || fail "set-up without a driver: $(cat "$LOG")"
    ! grep -q 'python3-pip\|pip download' "$LOG" || fail "a machine without a GPU needs no NVRTC to run: $(cat "$LOG")"
fi

machine tests
setup --tests || fail "set-up for the tests: $(cat "$LOG")"
grep -q 'pip download' "$LOG" || fail "the tests get no NVRTC: $(cat "$LOG")"
exit $failed
