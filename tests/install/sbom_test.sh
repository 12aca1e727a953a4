#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sbom_test.sh SOURCE_DIR: scripts/sbom gives SPDX that a reader of JSON takes, the same bytes at each call, with every library of
# THIRD_PARTY.txt and its version on this system.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v python3 >/dev/null || { echo "NOT CHECKED: there is no python3 here" >&2; exit 77; }
export SOURCE_DATE_EPOCH=1700000000
"$source/scripts/sbom" "$work/first"
"$source/scripts/sbom" >"$work/second"
cmp "$work/first" "$work/second"
python3 - "$work/first" "$source" <<'PYTHON'
import json, re, sys
document = json.load(open(sys.argv[1]))
assert document["spdxVersion"] == "SPDX-2.3" and document["creationInfo"]["created"] == "2023-11-14T22:13:20Z", document
packages = {package["name"]: package for package in document["packages"]}
rows = re.findall(r"^\| ([A-Za-z_+.0-9, -]+?) \| .* \| ([^|]+) \|$", open(sys.argv[2] + "/THIRD_PARTY.txt").read(), re.M)[1:]
names = {"Boost.Context": "boost", "Boost.Program_options": "boost", "OpenSSL 3": "openssl", "xxHash": "xxhash",
         "libstdc++, libgcc": "gcc-runtime"}
rows = [(names.get(name, name), licence.strip()) for name, licence in rows if not name.startswith("-")]
assert len(rows) >= 8, rows
for name, licence in rows:
    assert packages[name]["licenseConcluded"] == licence, (name, licence, packages[name])
    assert re.match(r"\d", packages[name]["versionInfo"]), packages[name]
related = {one["relatedSpdxElement"] for one in document["relationships"]}
assert related == {package["SPDXID"] for package in document["packages"]}, related
version = dict(re.findall(r"#define KILN_VERSION_(MAJOR|MINOR|PATCH) (\d+)", open(sys.argv[2] + "/include/kiln/version.h").read()))
assert packages["kiln"]["versionInfo"] == ".".join(version[part] for part in ("MAJOR", "MINOR", "PATCH"))
PYTHON
