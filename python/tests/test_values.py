# SPDX-License-Identifier: Apache-2.0
"""Values of parameters and sizes: those of other libraries are what they say, and what is no value is named."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import kiln
import numpy as np
import pytest
from conftest import SCALE

SCALED = (
    SCALE.replace("FACTOR", "F")
    .replace("bfloat16 = float", "double = float")
    .replace("//@ block", "//@ param  ALPHA float = 1\n//@ param  B bool = true\n//@ block")
    .replace("T(F *", "T(ALPHA * (B ? 1 : 0) * F *")
)


@pytest.fixture(scope="module")
def scaled(host: kiln.Service) -> kiln.Template:
    return kiln.Template(SCALED)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("ALPHA", np.float32(0.5), 0.5),
        ("ALPHA", np.float16(1.5), 1.5),
        ("ALPHA", np.longdouble(0.25), 0.25),
        ("ALPHA", Decimal("0.75"), 0.75),
        ("ALPHA", Fraction(1, 2), 0.5),
        ("ALPHA", np.array(0.5, np.float32), 0.5),
        ("ALPHA", np.float32(3), 3.0),
        ("ALPHA", np.int8(3), 3.0),
        ("F", np.int64(3), 3),
        ("F", np.array(3, np.uint8), 3),
        ("B", np.bool_(False), False),
        ("B", np.array(False), False),
        ("T", np.float16, "half"),
        ("T", np.dtype("float64"), "double"),
        ("T", np.array("half"), "half"),
    ],
)
def test_a_value_is_the_number_or_the_type_that_it_is(
    scaled: kiln.Template, name: str, value: Any, expected: Any
) -> None:
    found = scaled.variant(**{name: value}).values[name]
    assert found == expected and type(found) is type(expected)


def test_what_python_has_no_such_value_for_follows_the_rules_of_pythons(scaled: kiln.Template) -> None:
    for name, value, plain in (
        ("F", np.float32(7.5), 7.5),
        ("F", np.float32(3), 3.0),
        ("F", np.bool_(True), True),
        ("ALPHA", np.array(True), True),
        ("B", np.int64(1), 1),
    ):
        with pytest.raises(kiln.VariantError) as one:
            scaled.variant(**{name: value})
        with pytest.raises(kiln.VariantError) as other:
            scaled.variant(**{name: plain})
        assert str(one.value) == str(other.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "F is None of the type NoneType, and has to be a number, a bool, a string or a type"),
        (b"3", "F is b'3' of the type bytes"),
        (1j, "F is 1j of the type complex"),
        (np.complex64(1), "complex64"),
        (np.array([3]), r"F is array\(\[3\]\) of the type ndarray"),
        (np.ma.masked, "F is masked of the type numpy.ma.core.MaskedConstant"),
        ([3], r"F is \[3\] of the type list"),
        (SimpleNamespace(name="3"), "F is namespace"),
        (Fraction(10**400), "has to be a number that a float can hold"),
    ],
)
def test_what_is_no_value_is_named(scaled: kiln.Template, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        scaled.variant(F=value)
    with pytest.raises(TypeError, match=message):
        kiln.jit(SCALED).kernel(F=value)


def test_a_dtype_of_pytorch_is_its_name(scaled: kiln.Template, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = type("dtype", (), {"__str__": lambda self: "torch.float16"})
    torch = ModuleType("torch")
    torch.dtype = dtype  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    assert scaled.variant(T=dtype()).values["T"] == "half"


def test_numbers_beyond_64_bits_are_named(scaled: kiln.Template) -> None:
    for wide in (10**30, -(10**30), np.uint64(2**63)):
        with pytest.raises(ValueError, match=f"F is {int(wide)} .*does not fit 64 bits"):
            scaled.variant(F=wide)
    with pytest.raises(ValueError, match="the size 'n' is 1000000000000000000000000000000 "):
        scaled.variant().problem(n=10**30)


def test_a_size_is_an_integer(scaled: kiln.Template) -> None:
    variant = scaled.variant()
    assert variant.problem(n=np.int32(7))["sizes"]["n"] == 7
    for wrong in (1.5, 5.0, "5", None, np.float32(5), np.array(5.0)):
        with pytest.raises(TypeError, match="the size 'n' is .*, and has to be an integer"):
            variant.problem(n=wrong)
    with pytest.raises(TypeError, match=r"the size 'n' is 5\.0"):
        kiln.run(variant, {"n": 5.0})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="the name of a size is 5 "):
        kiln.run(variant, {5: 5})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"the size 'rows' is 1\.0"):
        kiln.operation("softmax", T="float").prepare(rows=1.0, cols=4)  # type: ignore[arg-type]


def test_lone_surrogates_are_named(scaled: kiln.Template) -> None:
    with pytest.raises(ValueError, match="the template's source has lone surrogates"):
        kiln.Template(SCALE + "// \udc80")
    with pytest.raises(ValueError, match="T has lone surrogates"):
        scaled.variant(T="\udc80")
    with pytest.raises(ValueError, match="the name of a parameter has lone surrogates"):
        scaled.variant(**{"\udc80": 1})
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="an argument's name has lone surrogates"):
        scaled.variant().build()(x, y, **{"\udc80": 1})


def test_a_service_is_a_service() -> None:
    with pytest.raises(TypeError, match="service is 5 of the type int, and has to be a kiln.Service"):
        kiln.Template(SCALE, service=5)  # type: ignore[arg-type]


def test_jit_builds_for_what_values_mean() -> None:
    function = kiln.jit(SCALED)
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    for alpha in (np.float32(0.25), 0.5, np.float32(0.5), np.array(0.75), 0.25):
        function(x, y, ALPHA=alpha, F=1)
        np.testing.assert_array_equal(y, float(alpha))
    changing = np.array(2.0)
    function(x, y, ALPHA=changing, F=1)
    changing[()] = 3
    function(x, y, ALPHA=changing, F=1)
    np.testing.assert_array_equal(y, 3)
    for wrong in (True, 1.0):  # equal to 1 for Python
        with pytest.raises(kiln.VariantError):
            function(x, y, F=wrong)


def test_an_operations_values_do_not_depend_on_earlier_calls() -> None:
    q = np.ones((1, 1, 3, 64), np.float32)
    expected = kiln.attention(q, q, q, causal=True)
    np.testing.assert_array_equal(kiln.attention(q, q, q, causal=np.bool_(True)), expected)  # type: ignore[arg-type]
    offsets, rows = np.array([0, 3], np.int32), q[0].swapaxes(0, 1).copy()
    packed = kiln.attention_packed(rows, rows, rows, offsets, causal=True)
    np.testing.assert_array_equal(
        kiln.attention_packed(rows, rows, rows, offsets, causal=np.bool_(True)),  # type: ignore[arg-type]
        packed,
    )
    for wrong in (1, 1.0, "True"):
        with pytest.raises(kiln.UsageError, match=f"causal is {wrong!r}; it is True or False"):
            kiln.attention(q, q, q, causal=wrong)  # type: ignore[arg-type]
        with pytest.raises(kiln.UsageError, match=f"causal is {wrong!r}; it is True or False"):
            kiln.attention_packed(rows, rows, rows, offsets, causal=wrong)  # type: ignore[arg-type]
