#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# wheel_test.sh SOURCE_DIR WORK_DIR [WHEEL]: pip makes a wheel of a copy of the tree, with what it fetches for that and nothing else; it is
# installed into an empty environment, needs no library that a system may lack or have in another version, and works there. WHEEL: is
# tested instead. 77: there is no Python 3.11, or pip has no network.
set -euo pipefail
source=$1 work=$2 wheel=${3:-}
. "$source/scripts/lib.sh"
if ! has_python || ! python3 -m venv --help >/dev/null 2>&1; then
    say "NOT TESTED: there is no Python 3.11 with headers and venv"
    exit "$(skip_status python)"
fi
rm -rf "$work"
mkdir -p "$work/source"
python3 -m venv "$work/environment"
python=$work/environment/bin/python
if ! "$python" -m pip install -q numpy pytest >"$work/pip.log" 2>&1; then
    say "NOT TESTED: pip fetches nothing: $(tail -n 1 "$work/pip.log")"
    exit 77
fi
if [ -z "$wheel" ]; then
    tar -C "$source" --exclude='./build*' --exclude=./.git --exclude=./.deps -cf - . | tar -C "$work/source" -xf -
    "$python" -m pip wheel -q --no-deps -w "$work" "$work/source" >"$work/pip.log" 2>&1 || { tail -n 40 "$work/pip.log"; exit 1; }
    wheel=$(echo "$work"/kiln-*.whl)
fi
"$python" -m pip install -q --no-deps "$wheel"

package=$("$python" -c 'import kiln, os; print(os.path.dirname(kiln.__file__))')
case $package in "$work"/environment/*) ;; *) say "kiln is that of $package"; exit 1 ;; esac
for file in "$package"/_kiln*.so "$package/kiln-compile-worker"; do
    needed=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    other=$(grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' <<<"$needed" || true)
    [ -z "$other" ] || { say "$file needs $other; KILN_STATIC_DEPS=ON links all but the C library"; exit 1; }
done
[ -n "$(find "$(dirname "$package")" -path '*/kiln-*.dist-info/*' -name THIRD_PARTY.txt)" ] || { say "the wheel has no THIRD_PARTY.txt"; exit 1; }
cd "$source/python/tests"
KILN_CACHE_DIR=$work/cache PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider --tb=short test_kernel.py test_operations.py test_jit.py
rm -rf "$work"
