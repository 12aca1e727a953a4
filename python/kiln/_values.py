# SPDX-License-Identifier: Apache-2.0
"""Values of parameters as parts of a key: values that mean different things are different, as 1, True and 1.0 are not in Python."""

from __future__ import annotations

from typing import Any

from ._kiln import _plain_values

_PLAIN = (bool, int, float, str)


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """The same values as Python's own, which nobody changes: a number of NumPy's as int or float, a dtype as its name."""
    if all(type(value) in _PLAIN for value in values.values()):
        return values
    return _plain_values(values)


def key_of(values: dict[str, Any]) -> tuple[Any, ...]:
    """Of plain values."""
    return tuple((name, type(value), repr(value)) for name, value in values.items())
