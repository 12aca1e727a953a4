# SPDX-License-Identifier: Apache-2.0
"""What operations ask of arrays, whichever library they are of: dtype, device, layout, and a new one like it.

Only the library of the arrays that come in is used; none is imported here for its own sake.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

from ._kiln import Service, _stream_handle
from ._services import default_service

Array = Any


def library(x: Array) -> str:
    """ "torch", "numpy", "cupy", "jaxlib", ..."""
    return type(x).__module__.partition(".")[0]


def dtype_name(x: Array) -> str:
    """ "float16", "bfloat16", "float32", ..."""
    name = getattr(x.dtype, "name", None)
    return name if isinstance(name, str) else str(x.dtype).rpartition(".")[2]


def service_for(x: Array, service: Service | None) -> Service:
    """The service that was given, else the default one of the device that the array is on."""
    if service is not None:
        return service
    kind = library(x)
    if kind == "torch" or hasattr(x, "is_cuda"):
        if not x.is_cuda:
            return default_service("host")
        torch = sys.modules["torch"]
        return default_service("hip" if torch.version.hip else "cuda", x.get_device())
    if hasattr(x, "__cuda_array_interface__"):
        return default_service("cuda", _device_number(x))
    if hasattr(x, "__dlpack_device__"):
        device_type, device = x.__dlpack_device__()
        if device_type == 2:
            return default_service("cuda", device)
        if device_type == 10:
            return default_service("hip", device)
    return default_service("host")


def _device_number(x: Array) -> int:
    """Of an array with __cuda_array_interface__, which has no entry for it: as CuPy says, as Numba says, else 0."""
    device = getattr(x, "device", None) or getattr(getattr(getattr(x, "gpu_data", None), "context", None), "device", None)
    return getattr(device, "id", 0)


def on_stream(x: Array, stream: Any) -> AbstractContextManager[Any]:
    """While it is entered, what the library of x copies, converts and makes is work of `stream`, as the kernel is."""
    kind = library(x)
    if kind == "torch" or hasattr(x, "is_cuda"):
        if not x.is_cuda:
            return nullcontext()
        cuda = sys.modules["torch"].cuda
        handle = _stream_handle(stream)
        # 1 is the legacy default stream, too, and PyTorch does not know it.
        found = cuda.default_stream(x.device) if handle < 2 else cuda.ExternalStream(handle, device=x.device)
        return cuda.stream(found)  # type: ignore[no-any-return]
    if kind == "cupy":
        streams = sys.modules["cupy"].cuda
        handle = _stream_handle(stream)
        return streams.Stream.null if handle < 2 else streams.ExternalStream(handle)  # type: ignore[no-any-return]
    return nullcontext()  # NumPy has no streams; what others hand over by DLPack is made ready for the stream


def empty(like: Array, shape: tuple[int, ...], dtype: str | None = None) -> Array:
    """A new array of the same library, on the same device; dtype: a name, by default that of `like`."""
    kind = library(like)
    if hasattr(like, "new_empty"):  # PyTorch, subclasses of its tensors included
        if dtype is None:
            return like.new_empty(shape)
        return like.new_empty(shape, dtype=getattr(sys.modules["torch"], dtype))
    if kind in ("numpy", "cupy"):
        module = sys.modules[kind]
        return module.empty(shape, dtype=like.dtype if dtype is None else dtype)
    raise TypeError(
        f"Kiln makes outputs for arrays of PyTorch, CuPy and NumPy, not of {kind} ({type(like).__name__}); "
        "give the output by out="
    )


def is_row_major(x: Array) -> bool:
    if hasattr(x, "is_contiguous"):
        return bool(x.is_contiguous())
    flags = getattr(x, "flags", None)
    return flags is None or bool(flags.c_contiguous)  # JAX's arrays have no other layout


def _memory(x: Array) -> tuple[int, int]:
    """Of an array without gaps: its first byte and the one behind it; (0, 0) where its library does not say."""
    if hasattr(x, "data_ptr"):  # PyTorch
        return x.data_ptr(), x.data_ptr() + x.numel() * x.element_size()
    interface = getattr(x, "__cuda_array_interface__", None) or getattr(x, "__array_interface__", None)
    if interface is None:
        return 0, 0
    begin = interface["data"][0]
    return begin, begin + prod(interface["shape"]) * int(interface["typestr"][2:])


def same_memory(x: Array, y: Array) -> bool:
    return _memory(x) == _memory(y)


def overlap(x: Array, y: Array) -> bool:
    """Whether two arrays without gaps have elements in common."""
    (x_begin, x_end), (y_begin, y_end) = _memory(x), _memory(y)
    return max(x_begin, y_begin) < min(x_end, y_end)


def flat(x: Array) -> Array:
    """A matrix of all rows along the last axis."""
    return x if x.ndim == 2 else x.reshape(prod(x.shape[:-1]), x.shape[-1])


def check_array(name: str, x: Array) -> None:
    """Throws TypeError for what is no array of these libraries, though a kernel might read it, and for masks, which no kernel
    knows."""
    if not hasattr(x, "dtype"):
        raise TypeError(
            f"the argument '{name}' is of the type {type(x).__name__}, and has to be an array of PyTorch, CuPy or NumPy, such as "
            "numpy.asarray() makes"
        )
    masked = sys.modules.get("numpy.ma")
    if masked is not None and masked.is_masked(x):
        raise TypeError(f"the argument '{name}' has masked elements, which kernels would read; give its filled()")


def row_major(x: Array) -> Array:
    """The same array, or a copy without gaps."""
    if is_row_major(x):
        return x
    if hasattr(x, "contiguous"):
        return x.contiguous()
    return sys.modules[library(x)].ascontiguousarray(x)


def transposed(x: Array) -> Array:
    """A view with the last two axes exchanged."""
    if hasattr(x, "mT"):
        return x.mT
    return x.swapaxes(-1, -2)


def converted(x: Array, dtype: str) -> Array:
    if dtype_name(x) == dtype:
        return x
    if hasattr(x, "new_empty"):
        return x.to(getattr(sys.modules["torch"], dtype))
    return x.astype(dtype)
