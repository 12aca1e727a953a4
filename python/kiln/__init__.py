# SPDX-License-Identifier: Apache-2.0
"""Kiln compiles GPU kernels at run time, caches them, and launches them on NVIDIA, AMD or the CPU.

    import kiln
    scale = kiln.Template("scale.cu").variant(FACTOR=3).build()
    scale(x, y)                     # arrays of PyTorch, CuPy, JAX or NumPy; sizes are taken from them
    c = kiln.gemm(a, b)             # the best kernel for the shape

docs/python.md explains the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._kiln import Kernel, Operation, Service, Symbol, Template, Variant, __version__
from ._services import default_service, set_default_service
from .errors import (
    BuildError,
    CacheError,
    DeviceError,
    Error,
    NotReadyError,
    TemplateError,
    UsageError,
    VariantError,
)

if TYPE_CHECKING:
    from .background import build_async
    from ._jit import jit
    from .operations import attention, attention_packed, gemm, layer_norm, operation, softmax, sum, transpose
    from .tools import analyze, check, report, run, tune

# Where the rest lies: imported when first used, so that `import kiln` stays cheap.
_LATER = {
    "build_async": "background",
    "jit": "_jit",
    "attention": "operations",
    "attention_packed": "operations",
    "gemm": "operations",
    "layer_norm": "operations",
    "operation": "operations",
    "softmax": "operations",
    "sum": "operations",
    "transpose": "operations",
    "analyze": "tools",
    "check": "tools",
    "report": "tools",
    "run": "tools",
    "tune": "tools",
}

__all__ = [
    "BuildError",
    "CacheError",
    "DeviceError",
    "Error",
    "Kernel",
    "NotReadyError",
    "Operation",
    "Service",
    "Symbol",
    "Template",
    "TemplateError",
    "UsageError",
    "Variant",
    "VariantError",
    "__version__",
    "analyze",
    "attention",
    "attention_packed",
    "build_async",
    "check",
    "default_service",
    "gemm",
    "jit",
    "layer_norm",
    "operation",
    "report",
    "run",
    "set_default_service",
    "softmax",
    "sum",
    "transpose",
    "tune",
]


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'kiln' has no attribute '{name}'")
    from importlib import import_module

    found = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
