# SPDX-License-Identifier: Apache-2.0
"""kiln.jit: templates in strings as functions."""

from __future__ import annotations

import kiln
import numpy as np
import pytest
from conftest import SCALE


@kiln.jit
def plus(x, y):
    """
    //@ kernel plus
    //@ param  WHAT int in 0..9 = 1
    //@ param  T type in float, half, double = float
    //@ block  64
    //@ grid   ceil_div(n, 64)
    //@ size   n = 1000
    //@ input  x [n]
    //@ output y [n]
    #include "kiln/device.h"
    extern "C" __global__ void plus(int n, const T* x, T* y) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = T(static_cast<float>(x[i]) + WHAT);
    }
    """


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_the_type_follows_from_the_arrays(dtype: type) -> None:
    x = np.arange(100, dtype=dtype)
    y = np.zeros_like(x)
    plus(x, y)
    np.testing.assert_array_equal(y, x + 1)
    plus(x, y=y, WHAT=5)
    np.testing.assert_array_equal(y, x + 5)


def test_a_kernel_is_built_once() -> None:
    x = np.zeros(8, np.float32)
    assert plus.kernel(x, x, WHAT=2) is plus.kernel(x, x, WHAT=2)
    assert plus.kernel(x, x, WHAT=2).variant.values == {"WHAT": 2, "T": "float"}


def test_a_wrong_dtype_is_named() -> None:
    x = np.zeros(8, np.int32)
    with pytest.raises(TypeError, match="'x' has elements of type int32"):
        plus(x, x.copy())


def test_a_wrong_call_does_not_spoil_the_right_one() -> None:
    two = kiln.jit(
        SCALE.replace("//@ param  T type", "//@ param  U type in float, half = float\n//@ param  T type")
        .replace("const T* x, T* y", "const T* x, float factor, U* y")
        .replace("y[i] = T(FACTOR *", "y[i] = U(factor * FACTOR *")
    )
    x, y = np.ones(4, np.float32), np.zeros(4, np.float16)
    with pytest.raises(TypeError):
        two(x, y, 2.0)
    two(x, 2.0, y)
    assert (y == 4).all()
    with pytest.raises(TypeError):
        two(x, y, 2.0)


def test_a_string_is_a_function_too() -> None:
    scale = kiln.jit(SCALE)
    x = np.ones(3, np.float16)
    y = np.zeros_like(x)
    scale(x, y, FACTOR=4)
    np.testing.assert_array_equal(y, 4)


def test_a_docstring_without_a_template_is_rejected() -> None:
    with pytest.raises(kiln.UsageError, match="docstring of wrong is no template"):

        @kiln.jit
        def wrong() -> None:
            """Nothing."""


def test_scalars_do_not_say_where_the_arrays_are(monkeypatch: pytest.MonkeyPatch) -> None:
    times = kiln.jit(
        """
        //@ kernel times
        //@ block  64
        //@ grid   ceil_div(n, 64)
        //@ size   n = 1000
        //@ input  x [n]
        //@ output y [n]
        #include "kiln/device.h"
        extern "C" __global__ void times(float by, int n, const float* x, float* y) {
            const int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = by * x[i];
        }
        """
    )
    asked = []
    known = kiln._jit.service_for
    monkeypatch.setattr(kiln._jit, "service_for", lambda x, service: asked.append(x) or known(x, service))
    x = np.arange(100, dtype=np.float32)
    y = np.zeros_like(x)
    times(np.float32(2), x, y)
    np.testing.assert_array_equal(y, 2 * x)
    assert asked[0] is x
