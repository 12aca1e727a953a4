# SPDX-License-Identifier: Apache-2.0
"""Values of parameters as Python's own: the `repr` of such a dictionary tells 1, True, 1.0 and "1" apart."""

from __future__ import annotations

from typing import Any

from ._kiln import _plain_values

_PLAIN = (bool, int, float, str)


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """The same values, which nobody changes: a number of NumPy's as int or float, a dtype as its name."""
    for value in values.values():
        if type(value) not in _PLAIN:
            return _plain_values(values)
    return values
