# SPDX-License-Identifier: Apache-2.0
"""kiln.run, tune, analyze, check and report: what they find, as plain objects."""

from __future__ import annotations

import dataclasses
import json

import kiln
import pytest
from conftest import SCALE

RACE = """
//@ kernel race
//@ block  64
//@ grid   1
//@ size   n = 64
//@ input  x [n]
//@ output y [n]
#include "kiln/device.h"
extern "C" __global__ void race(int n, const float* x, float* y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


def test_run_compares_with_the_reference() -> None:
    found = kiln.run(kiln.Template("transpose_naive").variant(), test_sizes=True, iterations=3)
    assert found.passed and found.failures == [] and found.time["iterations"] == 3
    assert found.outputs[0]["tensor"] == "out" and found.outputs[0]["wrong"] == 0
    json.dumps(dataclasses.asdict(found))


def test_check_finds_a_race() -> None:
    found = kiln.check(kiln.Template(RACE).variant())
    assert not found.clean
    race = found.problems[0]
    assert race.kind == "race" and race.variable == "tile" and ":" in race.place
    assert kiln.check(kiln.Template(SCALE).variant(), {"n": 300}).clean


@pytest.mark.parametrize("blocks", [0, -1])
def test_a_check_of_no_blocks_is_an_error(blocks: int) -> None:
    with pytest.raises(kiln.UsageError, match=f"most_blocks is {blocks}; it has to be 1 or more"):
        kiln.check(kiln.Template(RACE).variant(), most_blocks=blocks)


def test_analyze_predicts_without_a_gpu() -> None:
    service = kiln.Service("cuda", arch="sm_90a", compile_only=True)
    try:
        found = kiln.analyze(kiln.Template("transpose_tiled", service=service).variant(), test_sizes=True)
    except kiln.BuildError as error:
        pytest.skip(f"no NVRTC: {error}")
    assert found.arch == "sm_90a" and found.registers > 0 and found.occupancy["blocks"] > 0
    assert found.shared and found.shared[0].ideal > 0
    json.dumps(dataclasses.asdict(found))


def test_report_is_a_page(tmp_path) -> None:
    variant = kiln.Template("transpose_naive").variant()
    page = kiln.report(variant, file=tmp_path / "page.html", title="A title", test_sizes=True)
    assert "A title" in page and (tmp_path / "page.html").read_text() == page
    (tmp_path / "link.html").symlink_to("page.html")
    other = kiln.report(variant, file=tmp_path / "link.html", title="Another", test_sizes=True)
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "page.html").read_text() == other
    with pytest.raises(kiln.UsageError, match="it is a directory"):
        kiln.report(variant, file=tmp_path, test_sizes=True)


def test_counts_that_do_not_follow_to_the_sizes_are_none() -> None:
    # What a block does grows with the square of n, and no line declares it.
    template = kiln.Template(
        "//@ kernel pairs\n//@ block 32\n//@ grid 1\n//@ size n = 100\n//@ input x [n]\n//@ output y [1]\n"
        '#include "kiln/device.h"\n'
        'extern "C" __global__ void pairs(int n, const float* x, float* y) {\n'
        "    float sum = 0;\n    for (int i = threadIdx.x; i < n; i += 32)\n"
        "        for (int j = 0; j < n; ++j) sum += x[i] * x[j];\n    if (threadIdx.x == 0) y[0] = sum;\n}\n"
    )
    found = kiln.analyze(template.variant(), {"n": 1000000})
    assert found.not_scaled and found.global_sectors is None and found.shared_wavefronts is None
    small = kiln.analyze(template.variant(), {"n": 256})
    assert not small.not_scaled and small.global_sectors > 0


def test_tune_finds_a_verified_variant(tmp_path) -> None:
    found = kiln.tune(kiln.Template("transpose_tiled"), [{"rows": 64, "cols": 64}], seconds=1, T="float")
    best = found.shapes[0].best[0]
    assert best.template == "transpose_tiled" and best.values["T"] == "float" and best.median_ms > 0
    wisdom = tmp_path / "wisdom.txt"
    wisdom.write_text(found.wisdom)
    op = kiln.operation("transpose", wisdom=wisdom, T="float")
    assert op.explain(rows=64, cols=64)["origin"] == "wisdom"


def test_tuning_needs_a_template() -> None:
    with pytest.raises(kiln.UsageError, match="no template was given"):
        kiln.tune([])
