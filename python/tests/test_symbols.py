# SPDX-License-Identifier: Apache-2.0
"""Variables of a kernel's module: copies from and to arrays, and what is rejected."""

from __future__ import annotations

import kiln
import numpy as np
import pytest

WEIGHTED = """
//@ kernel weighted
//@ block 32
//@ grid 1
//@ size n = 3
//@ output y [n]
#include "kiln/device.h"
namespace filter { __constant__ float weights[3]; }
extern "C" __global__ void weighted(int n, float* y) {
    if (threadIdx.x < n) y[threadIdx.x] = filter::weights[threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def weighted(host: kiln.Service) -> kiln.Kernel:
    return kiln.Template(WEIGHTED).variant().build()


def launched(kernel: kiln.Kernel) -> list[float]:
    y = np.zeros(3, np.float32)
    kernel(y)
    return y.tolist()


def test_what_is_set_reaches_launches_and_comes_back(weighted: kiln.Kernel) -> None:
    weights = weighted.symbol("weights")
    assert (weights.name, weights.nbytes) == ("weights", 12)
    assert weights.data != 0
    weights.set(np.array([1, 2, 3], np.float32))
    assert launched(weighted) == [1, 2, 3]
    back = np.zeros(3, np.float32)
    weighted.symbol("filter::weights").get(back)
    assert back.tolist() == [1, 2, 3]


def test_copies_are_work_of_a_stream(weighted: kiln.Kernel) -> None:
    service = weighted.service
    stream = service.stream
    values, back = np.array([4, 5, 6], np.float32), np.zeros(3, np.float32)
    weights = weighted.symbol("weights")
    weights.set(values, stream=stream)
    weights.get(back, stream=stream)
    service.synchronize()
    assert back.tolist() == [4, 5, 6]
    assert launched(weighted) == [4, 5, 6]


def test_a_symbol_outlives_its_kernel(host: kiln.Service) -> None:
    weights = kiln.Template(WEIGHTED.replace("weights[3]", "weights[4]")).variant().build().symbol("weights")
    weights.set(np.arange(4, dtype=np.float32))
    back = np.zeros(4, np.float32)
    weights.get(back)
    assert back.tolist() == [0, 1, 2, 3]


def test_wrong_names_and_arrays_are_rejected(weighted: kiln.Kernel) -> None:
    with pytest.raises(kiln.UsageError, match="filter::weights"):
        weighted.symbol("weight")
    weights = weighted.symbol("weights")
    with pytest.raises(kiln.UsageError, match="16 bytes .float32, shape .4,.*has 12"):
        weights.set(np.zeros(4, np.float32))
    with pytest.raises(TypeError, match="strides"):
        weights.set(np.zeros(6, np.float32)[::2])
    with pytest.raises(TypeError, match="no array"):
        weights.set(3.0)
    with pytest.raises(TypeError, match="masked elements"):
        weights.set(np.ma.masked_array(np.zeros(3, np.float32), mask=[True, False, False]))
    constant = np.zeros(3, np.float32)
    constant.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        weights.get(constant)
