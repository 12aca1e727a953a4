# SPDX-License-Identifier: Apache-2.0
"""The exceptions of Kiln. They mirror those of C++ (kiln/error.h); catch Error for all of them.

Wrong arrays (a dtype, shape, stride or device that a kernel can't take) are TypeError and ValueError of Python itself, and
name the argument.
"""

from __future__ import annotations

__all__ = [
    "BuildError",
    "CacheError",
    "DeviceError",
    "Error",
    "NotReadyError",
    "TemplateError",
    "UsageError",
    "VariantError",
]


class Error(Exception):
    """Base of all errors of the library. The message is complete; attributes only repeat its parts."""


class UsageError(Error, ValueError):
    """Wrong use of the API: an unknown template or backend, a missing argument."""


class TemplateError(Error, ValueError):
    """A template that can't be read, or whose //@ lines are wrong."""

    file: str = ""
    line: int = 0
    column: int = 0


class VariantError(Error, ValueError):
    """Values that are no legal variant: not allowed, against a rule, or beyond the device."""

    rule: str = ""


class BuildError(Error, RuntimeError):
    """A compiler rejected the source, died, ran out of time, or is not there."""

    log: str = ""


class CacheError(Error, RuntimeError):
    """A cache directory or entry that was asked for by name can't be used."""


class DeviceError(Error, RuntimeError):
    """A call of the driver failed, or there is no device."""

    call: str = ""
    code: int = 0


class NotReadyError(Error, RuntimeError):
    """An operation would have to compile, load or allocate, and may not; `sizes` is the shape to prepare."""

    sizes: dict[str, int] = {}
