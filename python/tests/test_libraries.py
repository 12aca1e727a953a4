# SPDX-License-Identifier: Apache-2.0
"""Arrays of CuPy (on a GPU) and JAX; each is skipped where it is missing."""

from __future__ import annotations

import kiln
import numpy as np
import pytest
from conftest import SCALE


def test_cupys_arrays_and_stream() -> None:
    cupy = pytest.importorskip("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(str(error))
    scale = kiln.Template(SCALE, service=kiln.default_service("cuda")).variant(FACTOR=3).build()
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.zeros(1000, cupy.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        big = cupy.ones(1 << 26, cupy.float32)
        for _ in range(20):
            big *= 1.5  # what the kernel must wait for
        x += 1
        scale(x, y)
        z = y.copy()
        stream.synchronize()
    np.testing.assert_array_equal(z.get(), 3 * (np.arange(1000) + 1))
    with pytest.raises(ValueError, match="strides"):
        scale(x[::2], y[:500])
    rows = cupy.random.rand(8, 100).astype(cupy.float32)
    found = kiln.softmax(rows)
    assert isinstance(found, cupy.ndarray)
    e = np.exp(rows.get() - rows.get().max(-1, keepdims=True))
    np.testing.assert_allclose(found.get(), e / e.sum(-1, keepdims=True), rtol=1e-4)


def test_arrays_of_another_stream_are_waited_for() -> None:
    """__cuda_array_interface__ says on which stream an array is being written."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    scale = kiln.Template(SCALE, service=kiln.default_service("cuda")).variant(FACTOR=3).build()

    class Produced:
        def __init__(self, tensor, stream: int) -> None:
            self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}

    producing, launching = torch.cuda.Stream(), torch.cuda.Stream()
    x, y, big = torch.zeros(1000, device="cuda"), torch.zeros(1000, device="cuda"), torch.ones(1 << 28, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(producing):
        for _ in range(20):
            big *= 1.5  # what the kernel must wait for
        x += 1
    scale(Produced(x, producing.cuda_stream), Produced(y, 1), stream=launching)
    launching.synchronize()
    assert (y == 3).all()


def test_an_operation_copies_on_the_stream_that_it_is_given() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    stream = torch.cuda.Stream()
    x, big = torch.rand(300, 200, device="cuda"), torch.ones(1 << 28, device="cuda")
    expected = torch.softmax(x.T, -1)
    late = torch.zeros_like(x)
    kiln.softmax(late.T, stream=stream)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(20):
            big *= 1.5
        late.copy_(x)
    found = kiln.softmax(late.T, stream=stream)  # a copy that the default stream made would be of zeros
    stream.synchronize()
    torch.testing.assert_close(found, expected)


def test_jaxs_arrays_are_inputs(scale: kiln.Kernel) -> None:
    jax = pytest.importorskip("jax")
    x = jax.device_put(jax.numpy.arange(100, dtype=jax.numpy.float32), jax.devices("cpu")[0])
    y = np.zeros(100, np.float32)
    scale(x, y)
    np.testing.assert_array_equal(y, 3 * np.arange(100))
    with pytest.raises(ValueError, match="'y' is read-only"):
        scale(x, x)  # JAX's arrays never change
    with pytest.raises(TypeError, match="give the output by out="):
        kiln.softmax(x.reshape(10, 10))
    out = np.zeros((10, 10), np.float32)
    kiln.softmax(x.reshape(10, 10), out=out)
    np.testing.assert_allclose(out.sum(-1), 1, rtol=1e-5)


def test_jaxs_bfloat16_is_read(host: kiln.Service) -> None:
    jax = pytest.importorskip("jax")
    x = jax.device_put(jax.numpy.arange(10, dtype=jax.numpy.bfloat16), jax.devices("cpu")[0])
    y = np.zeros(10, x.dtype)
    scale = kiln.Template(SCALE).variant(FACTOR=3, T="bfloat16").build()
    scale(x, y)
    np.testing.assert_array_equal(y.astype(np.float32), 3 * np.arange(10))
    with pytest.raises(ValueError, match="'y' is read-only"):
        scale(x, x)


def test_an_array_whose_buffer_fails_comes_through_dlpack(scale: kiln.Kernel) -> None:
    """As JAX's on a GPU, where one on the CPU came first."""

    class Array(np.ndarray):
        __array_interface__ = property()  # type: ignore[assignment]

        def __dlpack__(self, **named):
            return np.full(4, 2, np.float32).__dlpack__()

    x = np.zeros(4, "datetime64[s]").view(Array)  # the buffer protocol has no letter for it
    y = np.zeros(4, np.float32)
    scale(x, y)
    assert (y == 6).all()


@pytest.mark.parametrize("first_on_gpu", [True, False])
def test_arrays_whose_cuda_interface_names_no_stream_are_made_ready_by_dlpack(
    scale: kiln.Kernel, first_on_gpu: bool
) -> None:
    """JAX's are such: work of its own may be under way, for which only __dlpack__(stream=) waits."""
    asked = []

    class Array:
        def __init__(self, on_gpu: bool) -> None:
            self.on_gpu, self.memory = on_gpu, np.ones(4, np.float32)

        @property
        def __cuda_array_interface__(self) -> dict:
            if not self.on_gpu:
                raise AttributeError("only arrays on a GPU have it")
            return {"shape": (4,), "typestr": "<f4", "data": (self.memory.ctypes.data, True), "version": 2}

        def __dlpack__(self, **named):
            asked.append(named.get("stream"))
            return self.memory.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0) if self.on_gpu else self.memory.__dlpack_device__()

    for on_gpu in (first_on_gpu, not first_on_gpu):
        y = np.zeros(4, np.float32)
        scale(Array(on_gpu), y)
        assert (y == 3).all()
        assert asked.pop() == (scale.service.stream if on_gpu else None)


def test_bfloat16_of_ml_dtypes_is_read(host: kiln.Service) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    scale = kiln.Template(SCALE).variant(FACTOR=3, T="bfloat16").build()
    x = np.arange(10).astype(ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    scale(x, y)
    np.testing.assert_array_equal(y.astype(np.float32), 3 * np.arange(10))
