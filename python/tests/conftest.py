# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all tests: the service of the host backend, so that no GPU is needed, and small templates."""

from __future__ import annotations

import kiln
import pytest

SCALE = """// scale: y = FACTOR * x
//@ kernel scale
//@ param  FACTOR int in 1..100 = 2  "the factor"
//@ param  T type in float, half, bfloat16 = float
//@ block  256
//@ grid   ceil_div(n, 256)
//@ size   n = 1000
//@ input  x [n]
//@ output y [n]
#include "kiln/device.h"
extern "C" __global__ void scale(int n, const T* x, T* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = T(FACTOR * static_cast<float>(x[i]));
}
"""

# No size, input or output line: sizes are given by name, shapes are the caller's affair.
AXPY = """
//@ kernel axpy
//@ block  64
//@ grid   ceil_div(n, 64)
#include "kiln/device.h"
extern "C" __global__ void axpy(int n, float alpha, unsigned char is_added, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha * x[i] + (is_added ? y[i] : 0.0f);
}
"""


@pytest.fixture(scope="session", autouse=True)
def host() -> kiln.Service:
    service = kiln.default_service("host")
    kiln.set_default_service(service)
    return service


@pytest.fixture(scope="session")
def scale(host: kiln.Service) -> kiln.Kernel:
    return kiln.Template(SCALE).variant(FACTOR=3).build()


@pytest.fixture(scope="session")
def axpy(host: kiln.Service) -> kiln.Kernel:
    return kiln.Template(AXPY).variant().build()
