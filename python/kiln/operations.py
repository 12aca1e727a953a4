# SPDX-License-Identifier: Apache-2.0
"""Operations: a problem rather than a kernel. Each call launches the variant that is best for its shape, which is chosen
(from wisdom, else by a model) and built when the shape is first seen.

Arrays may be of PyTorch, CuPy or NumPy (on the host backend); outputs are made with the library of the inputs, and work is
queued on that library's current stream. Arrays that are not row-major are copied first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from os import PathLike
from typing import Any, TypeVar

from . import _kiln
from ._arrays import (
    Array,
    check_array,
    converted,
    dtype_name,
    empty,
    flat,
    is_row_major,
    library,
    on_stream,
    overlap,
    row_major,
    same_memory,
    service_for,
    transposed,
)
from ._kiln import Operation, Service, Template
from ._locks import ForkSafeLock
from ._values import plain
from .errors import NotReadyError, UsageError, VariantError

__all__ = ["attention", "attention_packed", "gemm", "layer_norm", "operation", "softmax", "sum", "transpose"]

_ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "silu": 3}

_lock = ForkSafeLock()


def operation(
    what: str | Template,
    *,
    service: Service | None = None,
    when_missing: str = "build",
    reproducible: bool = False,
    wisdom: str | PathLike[str] | None = None,
    **values: Any,
) -> Operation:
    """An operation of the templates that compute what `what` computes: a template, its name, or a family ("gemm").

    values: those that say what is computed, T="half", say. when_missing: what a call does for a shape that is not built:
    "build", "substitute" (launch another variant meanwhile) or "fail". Calls take tensors by position, in the order of
    `arguments`; sizes are taken from them.
    """
    return _kiln._operation(what, service, when_missing, reproducible, wisdom, values)


def _known(service: Service, family: str, values: dict[str, Any]) -> Operation | None:
    """Made once per service and (plain) values; None where no template computes this. The service's dictionary
    goes with the last of its Service objects, templates, variants and kernels."""
    known = service._operations
    key = (family, *values.items())
    try:
        return known[key]
    except KeyError:
        pass
    with _lock.held():
        if key not in known:
            try:
                known[key] = operation(family, service=service, **values)
            except (VariantError, UsageError):
                known[key] = None
        return known[key]


def _needed(service: Service, family: str, values: dict[str, Any]) -> Operation:
    found = _known(service, family, values)
    return found if found is not None else operation(family, service=service, **values)  # raises the reason


def _is_causal(causal: Any) -> bool:
    """Of a bool of Python's or NumPy's."""
    value = plain({"causal": causal})["causal"]
    if not isinstance(value, bool):
        raise UsageError(f"causal is {causal!r}; it is True or False")
    return value


def launch(op: Operation, stream: Any, **tensors: Any) -> None:
    """A call; sizes that can't be inferred from the arrays come behind them. While PyTorch captures a graph, workspace
    comes from its pool, which is the graph's then."""
    try:
        op(stream=stream, **tensors)
    except NotReadyError as error:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing():
            raise
        if not op.explain(**error.sizes)["built"]:
            raise
        bytes_needed = op.workspace_bytes(**error.sizes)
        device = next(iter(tensors.values())).device
        op(stream=stream, workspace=torch.empty(bytes_needed, dtype=torch.uint8, device=device), **tensors)


_F = TypeVar("_F", bound=Callable[..., Any])


def _queued(function: _F) -> _F:
    """Copies and conversions of the arguments, and outputs, are work of the stream that is given, not only the kernel. All
    arrays are checked; the first argument says which library they are of."""
    names = function.__code__.co_varnames
    first = names[0]
    arrays = {name for name, annotation in function.__annotations__.items() if annotation.startswith("Array") and name != "return"}

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        for name, given in (*zip(names, args), *named.items()):
            if name in arrays and given is not None:
                check_array(name, given)
        stream = named.get("stream")
        if stream is None:
            return function(*args, **named)
        with on_stream(args[0] if args else named.get(first), stream):
            return function(*args, **named)

    return call  # type: ignore[return-value]


@_queued
def gemm(
    a: Array,
    b: Array,
    *,
    bias: Array | None = None,
    activation: str | None = None,
    out: Array | None = None,
    out_dtype: str | None = None,
    stream: Any = None,
    service: Service | None = None,
) -> Array:
    """activation(a @ b + bias): a is [..., m, k], b is [k, n]; or [batch, m, k] and [batch, k, n].

    The result is float32, unless `out` or `out_dtype` ("bfloat16", "float16") says otherwise. bias: float32 [n].
    activation: None, "relu", "gelu" or "silu". A view of a row-major [n, k] array, `weight.T`, is read as it lies where a
    kernel can.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it is None, 'relu', 'gelu' or 'silu'")
    if a.ndim < 2 or b.ndim not in (2, 3) or a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"gemm: a has the shape {tuple(a.shape)} and b {tuple(b.shape)}; they have to be [..., m, k] and [k, n]"
        )
    if b.ndim == 3 and (a.ndim != 3 or a.shape[0] != b.shape[0]):
        raise ValueError(
            f"gemm: b has the shape {tuple(b.shape)}, and a, {tuple(a.shape)}, is no batch of as many matrices"
        )
    service = service_for(a, service)
    dtype = dtype_name(a)
    wanted = dtype_name(out) if out is not None else out_dtype or "float32"
    if wanted not in ("float32", "float16", "bfloat16"):
        raise ValueError(f"gemm: the result is {wanted}; it can be float32, float16 or bfloat16")
    shape = (*a.shape[:-1], b.shape[-1])
    values: dict[str, Any] = {"T": dtype}
    if activation is not None:
        values["ACTIVATION"] = _ACTIVATIONS[activation]

    if b.ndim == 2:
        a2 = row_major(flat(a))
        lies_transposed = not is_row_major(b) and is_row_major(transposed(b))
        epilogue = {**values}
        if wanted != "float32":
            epilogue["OUT"] = wanted
        if bias is not None:
            epilogue["BIAS"] = 1
        for trans_b in (True, False) if lies_transposed else (False,):
            layout = {"TRANS_B": True} if trans_b else {}
            op = _known(service, "gemm", {**epilogue, **layout})
            in_float = op is None and bias is None and wanted != "float32"
            if in_float:  # and converted by the arrays' library
                op = _known(service, "gemm", {**values, **layout})
            if op is None:
                continue
            named = {} if bias is None else {"bias": converted(bias, wanted)}
            right = transposed(b) if trans_b else row_major(b)
            if out is not None:
                _checked(out, shape, a=a2, b=right, **named)
            c = empty(a, shape, "float32" if in_float else wanted) if out is None or in_float else out
            launch(op, stream, a=a2, b=right, c=flat(c), **named)
            return _delivered(c, wanted, out)

    # Batches, and biases where the family has none.
    batch = b.shape[0] if b.ndim == 3 else 1
    a3 = row_major(a) if b.ndim == 3 else flat(row_major(a))[None]
    trans_b = not is_row_major(b) and is_row_major(transposed(b))
    right = transposed(b) if trans_b else row_major(b)
    b3 = right if b.ndim == 3 else right[None]
    if bias is not None:
        values["BIAS"] = True
    else:
        bias = empty(a, (b.shape[-1],), "float32")  # not read
    values["TRANS_B"] = trans_b
    op = _known(service, "gemm_mma_batched", values) if service.backend == "cuda" else None
    if op is None:
        op = _needed(service, "gemm_batched", values)
    bias = converted(bias, "float32")
    if out is not None:
        _checked(out, shape, a=a3, b=b3, bias=bias)
    c = empty(a, shape, "float32") if out is None or wanted != "float32" else out
    launch(op, stream, a=a3, b=b3, bias=bias, c=c.reshape(batch, a3.shape[1], shape[-1]))
    return _delivered(c, wanted, out)


def _delivered(c: Array, dtype: str, out: Array | None) -> Array:
    """A float32 result as the type that was asked for."""
    if out is None or out is c:
        return converted(c, dtype)
    out[...] = converted(c, dtype)
    return out


def _checked(out: Array, shape: tuple[int, ...], **inputs: Array) -> Array:
    """A given output: written while the inputs are read, so it has to have this shape, without gaps, and none of their
    memory."""
    if tuple(out.shape) != tuple(shape) or not is_row_major(out):
        raise ValueError(f"the argument 'out' has the shape {tuple(out.shape)}; it has to be row-major, and {tuple(shape)}")
    return _apart(out, **inputs)


def _apart(out: Array, **inputs: Array) -> Array:
    for name, x in inputs.items():
        if overlap(out, x):
            raise ValueError(f"the argument 'out' overlaps '{name}', which is read while 'out' is written; give other memory")
    return out


def _rows(name: str, x: Array) -> Array:
    """A matrix of all rows along the last axis."""
    if x.ndim == 0:
        raise ValueError(f"{name}: x has the shape (); it has to have one axis or more")
    return flat(row_major(x))


def _rows_in(out: Array | None, x: Array, rows: Array, **inputs: Array) -> Array:
    """The output of what reads each row before it writes it: it may be the input itself."""
    if out is None:
        return empty(x, tuple(x.shape))
    _checked(out, tuple(x.shape), **inputs)
    return out if same_memory(out, rows) else _apart(out, x=rows)


@_queued
def softmax(x: Array, *, out: Array | None = None, stream: Any = None, service: Service | None = None) -> Array:
    """Softmax along the last axis, in the type of x (float16, bfloat16 or float32)."""
    op = _needed(service_for(x, service), "softmax", {"T": dtype_name(x)})
    rows = _rows("softmax", x)
    y = _rows_in(out, x, rows)
    launch(op, stream, x=rows, y=flat(y))
    return y


@_queued
def layer_norm(
    x: Array,
    weight: Array,
    bias: Array,
    *,
    out: Array | None = None,
    stream: Any = None,
    service: Service | None = None,
) -> Array:
    """(x - mean) / sqrt(variance + 1e-5) * weight + bias along the last axis; all of one type."""
    op = _needed(service_for(x, service), "layer_norm", {"T": dtype_name(x)})
    rows, weight, bias = _rows("layer_norm", x), row_major(weight), row_major(bias)
    y = _rows_in(out, x, rows, weight=weight, bias=bias)
    launch(op, stream, x=rows, weight=weight, bias=bias, y=flat(y))
    return y


@_queued
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    return_lse: bool = False,
    out: Array | None = None,
    stream: Any = None,
    service: Service | None = None,
) -> Any:
    """softmax(q k^T / sqrt(d)) v. q is [batch, heads, queries, d], k and v are [batch, kv_heads, keys, d], where kv_heads
    divides heads; d is 64, 96, 128, 192 or 256, and 128 in v where it is 192 in q and k. With return_lse also ln of the sum
    of e^score, float32 [batch, heads, queries].
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != 4:
            raise ValueError(
                f"attention: {name} has the shape {tuple(array.shape)}; it has to be [batch, heads, length, d]"
            )
    values = {"T": dtype_name(q), "HEAD_DIM": q.shape[-1], "CAUSAL": _is_causal(causal)}
    if v.shape[-1] != q.shape[-1]:
        values["VALUE_DIM"] = v.shape[-1]
    op = _needed(service_for(q, service), "attention_naive", values)
    shape = (*q.shape[:-1], v.shape[-1])
    q, k, v = row_major(q), row_major(k), row_major(v)
    o = empty(q, shape) if out is None else _checked(out, shape, q=q, k=k, v=v)
    lse = empty(q, tuple(q.shape[:-1]), "float32")
    launch(op, stream, q=q, k=k, v=v, o=o, lse=lse)
    return (o, lse) if return_lse else o


@_queued
def attention_packed(
    q: Array,
    k: Array,
    v: Array,
    query_offsets: Array,
    key_offsets: Array | None = None,
    *,
    causal: bool = False,
    return_lse: bool = False,
    out: Array | None = None,
    stream: Any = None,
    service: Service | None = None,
) -> Any:
    """Attention of packed sequences of different lengths (varlen), one behind the other without padding. q is [queries of
    all, heads, d], k and v are [keys of all, kv_heads, d], where kv_heads divides heads; d is 64, 96, 128, 192 or 256, and
    128 in v where it is 192 in q and k. The offsets are cumulative lengths (cu_seqlens), int32 [sequences + 1]: 0, where each
    further sequence begins, and the number of all rows; those of keys are those of queries where they are left out. What
    they hold is checked for NumPy's arrays only; on a device false ones read outside of the tensors. With causal the last
    query of a sequence sees its last key. With return_lse also ln of the sum of e^score, float32 [heads, queries of all].
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != 3:
            raise ValueError(
                f"attention_packed: {name} has the shape {tuple(array.shape)}; it has to be [length, heads, d]"
            )
    if key_offsets is None:
        if k.shape[0] != q.shape[0]:
            raise ValueError(
                f"attention_packed: q has {q.shape[0]} rows and k {k.shape[0]}; give key_offsets where they differ"
            )
        key_offsets = query_offsets
    for name, offsets, rows in (("query_offsets", query_offsets, q.shape[0]), ("key_offsets", key_offsets, k.shape[0])):
        if offsets.ndim != 1 or offsets.shape[0] < 1:
            raise ValueError(
                f"attention_packed: {name} has the shape {tuple(offsets.shape)}; it has to be [sequences + 1]"
            )
        if library(offsets) != "numpy":
            continue
        if offsets[0] != 0 or offsets[-1] != rows or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(f"attention_packed: {name} has to begin with 0, never fall and end with {rows}")
    values = {"T": dtype_name(q), "HEAD_DIM": q.shape[-1], "CAUSAL": _is_causal(causal)}
    if v.shape[-1] != q.shape[-1]:
        values["VALUE_DIM"] = v.shape[-1]
    op = _needed(service_for(q, service), "attention_packed_naive", values)
    shape = (*q.shape[:-1], v.shape[-1])
    tensors = {"q": row_major(q), "k": row_major(k), "v": row_major(v)}
    offsets = {"query_offsets": row_major(query_offsets), "key_offsets": row_major(key_offsets)}
    o = empty(q, shape) if out is None else _checked(out, shape, **tensors, **offsets)
    lse = empty(q, (q.shape[1], q.shape[0]), "float32")
    launch(op, stream, **tensors, **offsets, o=o, lse=lse, batch=query_offsets.shape[0] - 1)
    return (o, lse) if return_lse else o


@_queued
def transpose(x: Array, *, out: Array | None = None, stream: Any = None, service: Service | None = None) -> Array:
    """A row-major copy of x with its two axes exchanged."""
    if x.ndim != 2:
        raise ValueError(f"transpose: x has the shape {tuple(x.shape)}; it has to have two axes")
    op = _needed(service_for(x, service), "transpose", {"T": dtype_name(x)})
    x = row_major(x)
    shape = (x.shape[1], x.shape[0])
    y = empty(x, shape) if out is None else _checked(out, shape, x=x)
    launch(op, stream, **{"in": x, "out": y})
    return y


@_queued
def sum(
    x: Array,
    axis: int | None = None,
    *,
    out: Array | None = None,
    stream: Any = None,
    service: Service | None = None,
) -> Array:
    """The sum of all elements, or with axis=0 of each column of a matrix; float32, in an order that never changes."""
    service = service_for(x, service)
    x = row_major(x)
    if axis is None:
        op = _needed(service, "sum", {"T": dtype_name(x)})
        y = empty(x, (1,), "float32") if out is None else _apart(out, x=x)
        launch(op, stream, x=x.reshape(-1), sum=y.reshape(1))
        return y.reshape(()) if out is None else y
    if axis not in (0, -2) or x.ndim != 2:
        raise ValueError(f"sum: axis is {axis} of an array with {x.ndim} axes; it can be None, or 0 of a matrix")
    op = _needed(service, "column_sum", {"T": dtype_name(x)})
    y = empty(x, (x.shape[1],), "float32") if out is None else _checked(out, (x.shape[1],), x=x)
    launch(op, stream, x=x, sums=y)
    return y
