# SPDX-License-Identifier: Apache-2.0
"""kiln.gemm and the other operations against NumPy, on the host backend."""

from __future__ import annotations

import itertools
import sys
from array import array
from types import ModuleType

import kiln
import numpy as np
import pytest

RNG = np.random.default_rng(1)


def random(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gemm_of_odd_sizes(dtype: type) -> None:
    a, b = random(33, 17, dtype=dtype), random(17, 29, dtype=dtype)
    c = kiln.gemm(a, b)
    assert c.dtype == np.float32 and c.shape == (33, 29)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-4)


def test_gemm_writes_where_it_is_told() -> None:
    a, b = random(8, 16, dtype=np.float16), random(16, 8, dtype=np.float16)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    for dtype in (np.float32, np.float16):
        out = np.full((8, 8), np.nan, dtype)
        assert kiln.gemm(a, b, out=out) is out
        np.testing.assert_allclose(out, expected, atol=1e-2)
    assert kiln.gemm(a, b, out_dtype="float16").dtype == np.float16
    with pytest.raises(ValueError, match="the result is int32; it can be float32"):
        kiln.gemm(a, b, out=np.zeros((8, 8), np.int32))


def test_gemm_of_a_transposed_view_and_of_leading_axes() -> None:
    a, weight = random(2, 5, 24, dtype=np.float16), random(16, 24, dtype=np.float16)
    c = kiln.gemm(a, weight.T)
    assert c.shape == (2, 5, 16)
    np.testing.assert_allclose(c, a.astype(np.float64) @ weight.T.astype(np.float64), atol=1e-4)


@pytest.mark.parametrize("activation", [None, "relu"])
def test_gemm_with_bias(activation: str | None) -> None:
    a, b, bias = random(9, 20), random(20, 12), random(12)
    expected = a.astype(np.float64) @ b + bias
    if activation:
        expected = np.maximum(expected, 0)
    np.testing.assert_allclose(kiln.gemm(a, b, bias=bias, activation=activation), expected, atol=1e-4)


def test_gemm_of_a_batch() -> None:
    a, b = random(3, 9, 20), random(3, 20, 12)
    np.testing.assert_allclose(kiln.gemm(a, b), a.astype(np.float64) @ b, atol=1e-4)


def test_gemm_says_which_shape_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"a has the shape \(3, 4\) and b \(5, 6\)"):
        kiln.gemm(random(3, 4), random(5, 6))
    with pytest.raises(ValueError, match="activation is 'tanh'"):
        kiln.gemm(random(3, 4), random(4, 6), activation="tanh")
    with pytest.raises(TypeError, match="'b' has elements of type float16, and the kernel takes float32"):
        kiln.gemm(random(3, 4), random(4, 6, dtype=np.float16))
    with pytest.raises(ValueError, match="'out' has the shape"):
        kiln.gemm(random(3, 4), random(4, 6), out=random(3, 7))


def test_softmax_and_layer_norm_along_the_last_axis() -> None:
    x = random(4, 5, 100)
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    y = kiln.softmax(x)
    assert y.shape == x.shape
    np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-5)
    weight, bias = random(100), random(100)
    d = x.astype(np.float64)
    expected = (d - d.mean(-1, keepdims=True)) / np.sqrt(d.var(-1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(kiln.layer_norm(x, weight, bias), expected, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("head", "values"), [(64, 64), (96, 96), (192, 128)])
def test_attention_with_grouped_heads(head: int, values: int, causal: bool) -> None:
    q, k, v = (random(1, h, 33, d, dtype=np.float16) for h, d in ((4, head), (2, head), (2, values)))
    kk, vv = (np.repeat(x.astype(np.float64), 2, axis=1) for x in (k, v))
    scores = q.astype(np.float64) @ kk.swapaxes(-1, -2) / np.sqrt(head)
    if causal:
        scores = np.where(np.tri(33, dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    o, lse = kiln.attention(q, k, v, causal=causal, return_lse=True)
    np.testing.assert_allclose(o, e / e.sum(-1, keepdims=True) @ vv, atol=5e-3)
    np.testing.assert_allclose(lse, np.log(np.exp(scores).sum(-1)), atol=5e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_packed_sequences(causal: bool) -> None:
    offsets = np.array([0, 7, 7, 40, 41], np.int32)
    q, k, v = (random(41, heads, 64, dtype=np.float16) for heads in (4, 2, 2))
    o, lse = kiln.attention_packed(q, k, v, offsets, causal=causal, return_lse=True)
    assert o.shape == (41, 4, 64) and lse.shape == (4, 41)
    for begin, end in itertools.pairwise(offsets):
        alone = (x[begin:end].swapaxes(0, 1)[None] for x in (q, k, v))
        if begin == end:
            continue
        expected, expected_lse = kiln.attention(*alone, causal=causal, return_lse=True)
        np.testing.assert_allclose(o[begin:end].swapaxes(0, 1), expected[0], atol=2e-3)
        np.testing.assert_allclose(lse[:, begin:end], expected_lse[0], atol=1e-3)
    few = np.array([0, 20, 30, 35, 40], np.int32)
    few_keys = kiln.attention_packed(q, k[:40], v[:40], offsets, few)
    one = kiln.attention(*(x.swapaxes(0, 1)[None] for x in (q[:7], k[:20], v[:20])))
    np.testing.assert_allclose(few_keys[:7].swapaxes(0, 1), one[0], atol=2e-3)


def test_attention_of_packed_sequences_says_which_shape_is_wrong() -> None:
    q, offsets = random(5, 2, 64, dtype=np.float16), np.array([0, 5], np.int32)
    with pytest.raises(ValueError, match=r"q has the shape \(1, 5, 2, 64\); it has to be \[length, heads, d\]"):
        kiln.attention_packed(q[None], q, q, offsets)
    with pytest.raises(ValueError, match=r"query_offsets has the shape \(1, 2\)"):
        kiln.attention_packed(q, q, q, offsets[None])
    with pytest.raises(ValueError, match="q has 5 rows and k 4; give key_offsets"):
        kiln.attention_packed(q, q[:4], q[:4], offsets)
    for wrong in ([0, 4], [1, 5], [0, 6, 5], [0]):
        with pytest.raises(ValueError, match="query_offsets has to begin with 0, never fall and end with 5"):
            kiln.attention_packed(q, q, q, np.array(wrong, np.int32))


def test_transpose_and_sums() -> None:
    x = random(37, 50)
    np.testing.assert_array_equal(kiln.transpose(x), x.T)
    assert kiln.transpose(x).flags.c_contiguous
    np.testing.assert_allclose(kiln.sum(x), x.sum(dtype=np.float64), rtol=1e-4)
    assert kiln.sum(x).shape == ()
    np.testing.assert_allclose(kiln.sum(x, axis=0), x.sum(0, dtype=np.float64), atol=1e-4)
    np.testing.assert_allclose(kiln.sum(x.T, axis=0), x.sum(1, dtype=np.float64), atol=1e-4)
    with pytest.raises(ValueError, match="axis is 1"):
        kiln.sum(x, axis=1)


def test_an_operation_is_called_by_position_and_explains_itself(host: kiln.Service) -> None:
    op = kiln.operation("transpose", T="float")
    x, y = random(10, 20), np.zeros((20, 10), np.float32)
    op(x, y)
    np.testing.assert_array_equal(y, x.T)
    plan = op.explain(rows=10, cols=20)
    assert plan["built"] and plan["variant"].startswith("transpose_")
    assert [a["name"] for a in op.arguments] == ["rows", "cols", "in", "out"]
    with pytest.raises(ValueError, match="'out' has the shape"):
        op(x, y.T.copy())
    op.prepare(rows=64, cols=64)
    assert op.explain(rows=64, cols=64)["built"]


def test_an_operation_that_may_not_build_says_what_to_prepare() -> None:
    op = kiln.operation("softmax", T="float", when_missing="fail")
    x = random(2, 40)
    with pytest.raises(kiln.NotReadyError) as error:
        op(x, x.copy())
    assert error.value.sizes == {"rows": 2, "cols": 40}
    op.prepare(**error.value.sizes)
    op(x, x.copy())
    with pytest.raises(kiln.UsageError, match='when_missing is "never"'):
        kiln.operation("softmax", when_missing="never")


def test_an_output_that_can_not_be_written_in_place_is_an_error() -> None:
    x = np.ones((3, 2, 8), dtype=np.float32)
    with pytest.raises(ValueError, match="'out' has the shape"):
        kiln.softmax(x, out=np.zeros((2, 3, 8), dtype=np.float32).transpose(1, 0, 2))
    with pytest.raises(ValueError, match="'out' has the shape"):
        kiln.softmax(x, out=np.zeros((6, 8), dtype=np.float32))
    with pytest.raises(ValueError, match="'out' has the shape"):
        kiln.gemm(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), out=np.zeros((4, 2), np.float32))


def test_an_output_that_overlaps_an_input_is_an_error() -> None:
    a, b = random(64, 64), random(64, 64)
    with pytest.raises(ValueError, match="'out' overlaps 'b'"):
        kiln.gemm(a, b, out=b)
    with pytest.raises(ValueError, match="'out' overlaps 'a'"):
        kiln.gemm(a, b, out=a)
    batch = random(3, 64, 64)
    with pytest.raises(ValueError, match="'out' overlaps 'a'"):
        kiln.gemm(batch, random(3, 64, 64), out=batch)
    half = batch.astype(np.float16)
    with pytest.raises(ValueError, match="'out' overlaps 'a'"):
        kiln.gemm(half, half.copy(), out=half)
    with pytest.raises(ValueError, match="'out' has the shape"):
        kiln.gemm(half, half.copy(), out=np.empty((2, 3, 64, 64), np.float16))
    bias = random(2, 64)
    with pytest.raises(ValueError, match="'out' overlaps 'bias'"):
        kiln.gemm(a[:2], b, bias=bias[1], out=bias)
    with pytest.raises(ValueError, match="'out' overlaps 'x'"):
        kiln.transpose(a, out=a)
    with pytest.raises(ValueError, match="'out' overlaps 'x'"):
        kiln.sum(a, out=a[3, :1])
    with pytest.raises(ValueError, match="'out' overlaps 'x'"):
        kiln.sum(a, axis=0, out=a[1])
    q, k, v = (random(1, 2, 16, 64, dtype=np.float16) for _ in range(3))
    with pytest.raises(ValueError, match="'out' overlaps 'v'"):
        kiln.attention(q, k, v, out=v)
    rows, offsets = q[0].swapaxes(0, 1).copy(), np.array([0, 16], np.int32)
    with pytest.raises(ValueError, match="'out' overlaps 'q'"):
        kiln.attention_packed(rows, rows.copy(), rows.copy(), offsets, out=rows)
    lines = random(9, 50)
    with pytest.raises(ValueError, match="'out' overlaps 'x'"):
        kiln.softmax(lines[1:], out=lines[:-1])
    with pytest.raises(ValueError, match="'out' overlaps 'weight'"):
        kiln.layer_norm(random(1, 50), lines[0], lines[1], out=lines[:1])


def test_what_reads_a_row_before_it_writes_it_may_write_it_in_place() -> None:
    for columns in (5, 1000, 40000):
        x = 10 * random(3, columns)
        expected = np.exp(x - x.max(-1, keepdims=True))
        expected /= expected.sum(-1, keepdims=True)
        assert kiln.softmax(x, out=x) is x
        np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-7)
        x, weight, bias = random(3, columns), random(columns), random(columns)
        expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias
        kiln.layer_norm(x, weight, bias, out=x)
        np.testing.assert_allclose(x, expected, atol=1e-4)
    x = random(8, 8)  # a view of it that has to be copied first
    expected = x.copy()
    np.testing.assert_array_equal(kiln.transpose(x.T, out=x), expected)


def test_arrays_without_columns_have_results() -> None:
    for shape in ((4, 0), (2, 4, 0), (0, 5)):
        assert kiln.softmax(np.zeros(shape, np.float32)).shape == shape
    assert kiln.layer_norm(np.zeros((4, 0), np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32)).shape == (4, 0)
    np.testing.assert_array_equal(kiln.gemm(np.zeros((2, 3, 0), np.float32), np.zeros((0, 4), np.float32)), 0)


def test_what_is_no_array_is_named() -> None:
    with pytest.raises(TypeError, match="the argument 'x' is of the type memoryview"):
        kiln.sum(memoryview(random(3, 4)))
    with pytest.raises(TypeError, match="the argument 'x' is of the type array"):
        kiln.softmax(array("f", [1, 2, 3]))
    with pytest.raises(TypeError, match="the argument 'x' has masked elements"):
        kiln.sum(np.ma.masked_array(np.ones(3, np.float32), mask=[True, False, False]))
    with pytest.raises(TypeError, match="the argument 'b' is of the type memoryview"):
        kiln.gemm(random(3, 4), memoryview(random(4, 2)))
    with pytest.raises(TypeError, match="the argument 'weight' has masked elements"):
        ones = np.ones(4, np.float32)
        kiln.layer_norm(random(3, 4), np.ma.masked_array(ones, mask=[True, False, False, False]), ones)
    with pytest.raises(kiln.TemplateError, match="missing.cu"):
        kiln.Template(b"missing.cu")
    with pytest.raises(TypeError, match="an operation is of a template"):
        kiln.operation(b"gemm")
    with pytest.raises(TypeError, match=r"the argument 'x'.*>f"):
        kiln.operation("softmax", T="float")(np.ones((2, 3), ">f4"), np.ones((2, 3), np.float32))


def test_rows_need_an_axis() -> None:
    one = np.array(1, np.float32)
    with pytest.raises(ValueError, match=r"softmax: x has the shape \(\)"):
        kiln.softmax(one)
    with pytest.raises(ValueError, match=r"layer_norm: x has the shape \(\)"):
        kiln.layer_norm(one, one, one)


def test_copies_and_conversions_are_work_of_the_stream_that_is_given(host: kiln.Service, monkeypatch) -> None:
    """With a library whose current stream is where it copies, as CuPy's; here NumPy does the work."""
    current, done = [0], []

    class ExternalStream:
        def __init__(self, handle: int) -> None:
            self.handle = handle

        def __enter__(self) -> None:
            current.append(self.handle)

        def __exit__(self, *error: object) -> None:
            current.pop()

    class Array(np.ndarray):
        def reshape(self, *shape: object) -> np.ndarray:  # type: ignore[override]
            return np.ndarray.reshape(self, *shape)

        def astype(self, dtype: object) -> np.ndarray:  # type: ignore[override]
            done.append(("convert", current[-1]))
            return np.ndarray.astype(self, dtype)

    def copied(x: np.ndarray) -> np.ndarray:
        done.append(("copy", current[-1]))
        return np.ascontiguousarray(x).view(Array)

    def empty(shape: tuple[int, ...], dtype: object) -> np.ndarray:
        done.append(("make", current[-1]))
        return np.empty(shape, dtype).view(Array)

    Array.__module__ = "cupy"
    cupy = ModuleType("cupy")
    cupy.cuda = ModuleType("cupy.cuda")
    cupy.cuda.ExternalStream = ExternalStream
    cupy.ascontiguousarray, cupy.empty = copied, empty
    monkeypatch.setitem(sys.modules, "cupy", cupy)

    # The host has no streams but the default ones: 2 is that of the thread.
    x = random(7, 5, 16).transpose(1, 0, 2).view(Array)
    y = kiln.softmax(x, stream=2)
    assert sorted(set(done)) == [("copy", 2), ("make", 2)]
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-5)
    done.clear()
    a, b, bias = random(8, 12).view(Array), random(12, 8).view(Array), random(8).astype(np.float16).view(Array)
    kiln.gemm(a, b.T.copy().view(Array).T, bias=bias, out_dtype="float16", stream=2)
    assert set(done) == {("make", 2)}, "one kernel takes all of it as it is"
    done.clear()
    a, b = random(2, 8, 12).view(Array), random(2, 12, 8).view(Array)
    kiln.gemm(a, b, bias=bias, out_dtype="float16", stream=2)
    assert {stream for _, stream in done} == {2} and ("convert", 2) in done
    done.clear()
    kiln.softmax(x)
    assert {stream for _, stream in done} == {0}
