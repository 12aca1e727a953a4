#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# wisdom_grid_test.sh SOURCE_DIR KILN: scripts/wisdom-grid with a `kiln tune` that is played: shards tune each slice once, what is
# tuned is not tuned again, a limit and a fault leave what is whole, and of templates that compete the fastest is merged.
set -euo pipefail
grid=$1/scripts/wisdom-grid kiln=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

# Its entries are of the first template. A slice of the name in FAULTS faults the device.
cat >"$work/kiln" <<'EOF'
#!/usr/bin/env bash
[ "$1" = tune ] || exec "$REAL_KILN" "$@"
output= sizes=() template=$2
while [ $# -gt 0 ]; do
    case $1 in
        --output) output=$2 ;;
        n=*) sizes+=("$1") ;;
    esac
    shift
done
echo "${output##*/}" >>"$CALLS"
: >"$output.journal"
case $output in */"${FAULTS:-none}".txt.part) exit 4 ;; esac
{
    echo '# kiln wisdom 1'
    for size in "${sizes[@]}"; do
        echo "$template T=half | $size | VEC=8 | NVIDIA H200 | sm_90a | 0.5 ms | 7 | 0123456789abcdef | NVRTC 13.0 | 2026-11-28T10:00:00Z"
    done
} >"$output"
EOF
chmod +x "$work/kiln"
export KILN=$work/kiln REAL_KILN=$kiln CALLS=$work/calls
: >"$CALLS"
status_of() { local status=0; "$@" >"$work/out" 2>&1 || status=$?; echo "$status"; }

slices=$("$grid" --list --only sum- | wc -l)
[ "$slices" -eq 6 ] || fail "$slices slices of sums, of columns too"
[ "$(status_of "$grid" "$work/a" --only sum- --shard 0/2)" -eq 0 ] || fail "a shard: $(<"$work/out")"
[ "$(status_of "$grid" "$work/a" --only sum- --shard 1/2)" -eq 0 ] || fail "the other shard: $(<"$work/out")"
all=$("$grid" --list --only sum- | awk '{ print $1 ".txt.part" }' | sort)
[ "$(sort "$CALLS")" = "$all" ] || fail "not each slice was tuned once: $(<"$CALLS")"
[ -z "$(find "$work/a" -name '*.part*')" ] || fail "a slice that is tuned has left something"
: >"$CALLS"
[ "$(status_of "$grid" "$work/a" --only sum-)" -eq 0 ] && [ ! -s "$CALLS" ] || fail "what was tuned was tuned again"

[ "$(status_of "$grid" "$work/b" --only sum- --limit 0)" -eq 1 ] || fail "slices are left, and the status does not say so"
grep -q 'left for the next run: sum-half' "$work/out" || fail "what is left is not named: $(<"$work/out")"
faulty=$("$grid" --list --only sum- | awk 'NR == 2 { print $1 }')
[ "$(FAULTS=$faulty status_of "$grid" "$work/b" --only sum-)" -eq 4 ] || fail "a fault of the device: $(<"$work/out")"
[ "$(find "$work/b" -name '*.txt' | wc -l)" -eq 1 ] || fail "after a fault there is not what was found before it"
: >"$CALLS"
[ "$(status_of "$grid" "$work/b" --only sum-)" -eq 0 ] && [ "$(wc -l <"$CALLS")" -eq $((slices - 1)) ] || fail "it does not go on after a fault"

# Two slices of one problem; the faster template is the second's. ALPHA=1 is the default, and BIAS=1 is not.
line() { echo "$1 | k=256 m=1 n=256 | $2 | NVIDIA H200 | sm_90a | $3 ms | 7 | 0123456789abcdef | NVRTC 13.0 | 2026-11-28T10:00:00Z"; }
mkdir "$work/c"
{ echo '# kiln wisdom 1'; line 'gemm_wgmma ALPHA=1 T=half TRANS_B=false' BM=64 0.5; } >"$work/c/gemm-half-nn-1.txt"
{ echo '# kiln wisdom 1'; line 'gemm_few_rows T=half' BM=1 0.25; } >"$work/c/gemm-half-nn-1-few.txt"
{ echo '# kiln wisdom 1'; line 'gemm_wgmma ALPHA=1 T=half TRANS_B=true' BM=128 0.125; } >"$work/c/gemm-half-tn-1.txt"
{ echo '# kiln wisdom 1'; line 'gemm_wgmma ALPHA=1 BIAS=1 OUT=float T=half' BM=64 0.75; } >"$work/merged.txt"
[ "$(status_of "$grid" --merge "$work/merged.txt" "$work/c")" -eq 0 ] || fail "--merge: $(<"$work/out")"
expected='gemm_few_rows T=half 0.25
gemm_wgmma BIAS=1 T=half 0.75
gemm_wgmma T=half TRANS_B=true 0.125'
found=$(grep -v '^#' "$work/merged.txt" | awk -F ' *[|] *' '{ split($6, time, " "); print $1, time[1] + 0 }' | sort)
[ "$found" = "$expected" ] || fail "merged: $found"
cp "$work/merged.txt" "$work/before.txt"
[ "$(status_of "$grid" --merge "$work/merged.txt" "$work/c")" -eq 0 ] || fail "--merge again: $(<"$work/out")"
cmp "$work/before.txt" "$work/merged.txt" || fail "merging again changes what is there"

[ "$(status_of "$grid" "$work/d" --shard 3/3)" -eq 2 ] || fail "a shard that is not there"
[ "$(status_of "$grid" "$work/d" --only no-such-slice)" -eq 2 ] || fail "a slice that is not there"
[ "$(status_of "$grid" --merge "$work/merged.txt" "$work/nowhere")" -eq 2 ] || fail "nothing to merge"
[ ! -e "$work/d" ] || fail "a mistaken call leaves a directory"
[ "$(wc -c <"$1/cache/wisdom/nvidia_h200.txt")" -le 204800 ] || fail "the shipped wisdom has more than 200 KiB"
