# SPDX-License-Identifier: Apache-2.0
"""Templates, variants and kernels: how a call's arguments are given, inferred and checked."""

from __future__ import annotations

import array
import ctypes
import multiprocessing
from types import SimpleNamespace

import kiln
import numpy as np
import pytest
from conftest import SCALE


def test_a_kernel_takes_its_sizes_from_the_arrays(scale: kiln.Kernel) -> None:
    x = np.arange(1001, dtype=np.float32)
    y = np.full_like(x, np.nan)
    assert scale(x, y) is None
    np.testing.assert_array_equal(y, 3 * x)


def test_arguments_may_be_named(scale: kiln.Kernel) -> None:
    x = np.arange(10, dtype=np.float32)
    y = np.zeros_like(x)
    scale(y=y, x=x, n=10)
    np.testing.assert_array_equal(y, 3 * x)
    y[:] = 0
    scale(y, x=x)  # the named ones first, then the rest in their order
    np.testing.assert_array_equal(y, 0 * x + 3 * x)


def test_scalars_and_sizes_that_no_array_tells(axpy: kiln.Kernel) -> None:
    x = np.arange(100, dtype=np.float32)
    y = np.ones_like(x)
    axpy(100, 0.5, True, x, y)
    np.testing.assert_array_equal(y, 0.5 * x + 1)
    axpy(x=x, y=y, n=50, alpha=np.float32(2), is_added=0)
    np.testing.assert_array_equal(y[:50], 2 * x[:50])
    np.testing.assert_array_equal(y[50:], 0.5 * x[50:] + 1)


def test_any_object_with_a_buffer_is_an_array(scale: kiln.Kernel) -> None:
    x, y = array.array("f", [1, 2, 3]), array.array("f", [0, 0, 0])
    scale(x, memoryview(y))
    assert y.tolist() == [3, 6, 9]


def test_arrays_of_ctypes_are_arrays(scale: kiln.Kernel) -> None:
    x, y = (ctypes.c_float * 10)(*range(10)), (ctypes.c_float * 10)()
    scale(x, y)
    assert list(y) == [3 * i for i in range(10)]
    shared = multiprocessing.Array(ctypes.c_float, 10).get_obj()
    scale(x, shared)
    assert list(shared) == list(y)
    with pytest.raises(ValueError, match=r"'x' has the shape \(2, 5\), and the kernel takes 1 dim"):
        scale((ctypes.c_float * 5 * 2)(), y)
    with pytest.raises(TypeError, match="'x' has elements of type float64.*takes float32"):
        scale((ctypes.c_double * 10)(), y)


class Exporter:
    """An array that only DLPack can read."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.calls = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: object) -> object:
        self.calls += 1
        return self.values.__dlpack__(**options)


def test_arrays_come_through_dlpack(scale: kiln.Kernel) -> None:
    x, y = Exporter(np.ones(5, np.float32)), Exporter(np.zeros(5, np.float32))
    scale(x, y)
    np.testing.assert_array_equal(y.values, 3)
    assert (x.calls, y.calls) == (1, 1)


class OldExporter(Exporter):
    """Of a library that knows neither max_version nor the versioned capsule."""

    def __dlpack__(self, stream: object = None) -> object:  # type: ignore[override]
        return self.values.__dlpack__()


def test_arrays_come_through_dlpack_before_its_version_1(scale: kiln.Kernel) -> None:
    x, y = OldExporter(np.ones(5, np.float32)), OldExporter(np.zeros(5, np.float32))
    scale(x, y)
    np.testing.assert_array_equal(y.values, 3)


class OnGpu:
    """An array on a GPU of a library that does not say which."""

    __cuda_array_interface__ = {"shape": (5,), "typestr": "<f4", "data": (0x1000, False), "version": 3, "strides": None}


class OfCuPy(OnGpu):
    device = SimpleNamespace(id=0)


class OfNumba(OnGpu):
    gpu_data = SimpleNamespace(context=SimpleNamespace(device=SimpleNamespace(id=3)))


class OnAmbiguousStream(OnGpu):
    __cuda_array_interface__ = {**OnGpu.__cuda_array_interface__, "stream": 0}


class WithoutTypestr(OnGpu):
    __cuda_array_interface__ = {**OnGpu.__cuda_array_interface__, "typestr": 4}


class OnUnknownDevice:
    def __dlpack__(self, **options: object) -> None: ...

    def __dlpack_device__(self) -> str:
        return "cpu"


class WithoutHandle:
    def __cuda_stream__(self) -> int:
        return 0


class OnWideStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, 1 << 70)


class Bfloat16(np.ndarray):
    """An array of NumPy's with a type that the buffer protocol has no letter for, and strides of its own."""

    dtype = SimpleNamespace(name="bfloat16")  # type: ignore[assignment]
    memory = np.zeros(64, np.uint8)
    bytes_between = 2

    @property
    def __array_interface__(self) -> dict[str, object]:
        return {"shape": (3,), "strides": (self.bytes_between,), "data": (self.memory.ctypes.data, False)}


def wrong_calls(x: np.ndarray, y: np.ndarray) -> list:
    read_only = y.copy()
    read_only.flags.writeable = False
    return [
        ("missing", TypeError, (x,), {}, r"'y' \(float\*\) is missing"),
        ("dtype", TypeError, (x.astype(np.float64), y), {}, "'x' has elements of type float64.*takes float32"),
        ("complex", TypeError, (x.astype(np.complex64), y), {}, "type 'Zf', which Kiln does not know"),
        (
            "extent",
            ValueError,
            (x, y[:7]),
            {},
            r"'y' has the shape \(7,\), and its dimension 0 has to be 10, the n of 'x'",
        ),
        ("given", ValueError, (x, y), {"n": 9}, "dimension 0 has to be 9, which is what n was given as"),
        ("rank", ValueError, (x.reshape(2, 5), y), {}, r"'x' has the shape \(2, 5\), and the kernel takes 1 dim"),
        (
            "strides",
            ValueError,
            (np.zeros(20, np.float32)[::2], y),
            {},
            r"'x' has the shape \(10,\) and the strides \(2,\)",
        ),
        ("backwards", ValueError, (x[::-1], y), {}, r"strides \(-1,\)"),
        ("device", ValueError, (OfCuPy(), y), {}, "'x' is on cuda:0, and the kernel runs on cpu"),
        ("Numba's", ValueError, (OfNumba(), y), {}, "'x' is on cuda:3, and the kernel runs on cpu"),
        ("unknown device", ValueError, (OnGpu(), y), {}, "'x' is on a device of CUDA, and the kernel runs on cpu"),
        ("stream of the array", ValueError, (OnAmbiguousStream(), y), {}, "the stream 0, which is ambiguous"),
        ("read-only", ValueError, (x, read_only), {}, "'y' is read-only, and the kernel writes to it"),
        ("no array", TypeError, (3, y), {}, "'x' is an array, and not what was given"),
        ("too many", TypeError, (x, y, y), {}, "takes by position x, y"),
        ("unknown", TypeError, (x, y), {"m": 1}, "no argument 'm'; its arguments are n, x, y, and stream"),
        ("size", TypeError, (x, y), {"n": 1.5}, "'n' is an integer"),
        ("wide", ValueError, (x, y), {"n": 1 << 40}, "'n' is 1099511627776, which does not fit its type, int32"),
        ("stream", TypeError, (x, y), {"stream": "0"}, "stream is neither an integer"),
        ("stream's pair", TypeError, (x, y), {"stream": WithoutHandle()}, "__cuda_stream__ .* no pair of integers"),
        ("wide stream", OverflowError, (x, y), {"stream": 1 << 70}, "too large"),
        ("wide stream's pair", OverflowError, (x, y), {"stream": OnWideStream()}, "too large"),
        ("PyTorch's", OverflowError, (x, y), {"stream": SimpleNamespace(cuda_stream=1 << 70)}, "too large"),
        ("masked", TypeError, (np.ma.masked_array(x, x == x), y), {}, "'x' can't be read: .* masked elements"),
        ("masked output", TypeError, (x, np.ma.masked_array(y, y == y)), {}, "'y' can't be read: .* masked elements"),
        ("typestr", TypeError, (WithoutTypestr(), y), {}, "'x' can't be read: the typestr .* is no string"),
        ("DLPack's device", TypeError, (OnUnknownDevice(), y), {}, "'x' can't be read: __dlpack_device__ .* no pair"),
    ]


@pytest.mark.parametrize("index", range(27))
def test_what_is_wrong_with_an_argument_is_named(scale: kiln.Kernel, index: int) -> None:
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    _, error, args, named, message = wrong_calls(x, y)[index]
    with pytest.raises(error, match=message):
        scale(*args, **named)
    assert not y.any()


def test_a_mask_that_hides_nothing_is_no_obstacle(scale: kiln.Kernel) -> None:
    x, y = np.ma.masked_array(np.ones(4, np.float32), mask=False), np.zeros(4, np.float32)
    scale(x, y)
    np.testing.assert_array_equal(y, 3)


def test_strides_that_are_no_multiple_of_an_element_are_rejected(host: kiln.Service) -> None:
    kernel = kiln.Template(SCALE).variant(T="bfloat16").build()
    x, y = (np.zeros(3, "M8[s]").view(Bfloat16) for _ in range(2))
    kernel(x, y)
    for x.bytes_between in (1, 3, 5, -3):
        with pytest.raises(ValueError, match=r"'x' has the shape \(3,\) and the strides \(-1,\)"):
            kernel(x, y)


def test_the_services_own_stream_may_be_given(scale: kiln.Kernel) -> None:
    """On the host, too, where it has no handle."""
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    scale(x, y, stream=scale.service.stream)
    assert (y == 3).all()


def test_bools_of_numpy_are_bools(host: kiln.Service) -> None:
    source = SCALE.replace("const T* x, T* y", "bool on, const T* x, T* y").replace("y[i] = T(", "if (on) y[i] = T(")
    kernel = kiln.Template(source).variant(FACTOR=3).build()
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    kernel(np.False_, x, y)
    assert (y == 0).all()
    kernel(np.True_, x, y)
    assert (y == 3).all()


def test_inputs_may_be_read_only(scale: kiln.Kernel) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    scale(x, y)
    np.testing.assert_array_equal(y, 3)


def test_arrays_without_elements_launch_nothing(scale: kiln.Kernel) -> None:
    scale(np.zeros(0, np.float32), np.zeros(0, np.float32))


def test_half_and_bfloat16_are_dtypes(host: kiln.Service) -> None:
    half = kiln.Template(SCALE).variant(T=np.float16).build()
    x = np.arange(20, dtype=np.float16)
    y = np.zeros_like(x)
    half(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(TypeError, match="float16, and the kernel takes bfloat16"):
        kiln.Template(SCALE).variant(T="bfloat16").build()(x, y)


def test_integers_are_dtypes(host: kiln.Service) -> None:
    types = "int, unsigned, int8_t, uint8_t, int16_t, uint16_t, int64_t, uint64_t = int"
    template = kiln.Template(SCALE.replace("float, half, bfloat16 = float", types).replace("x [n]", "x [n] in 0..9"))
    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        wanted = {"int32": "int", "uint32": "unsigned"}.get(name, name + "_t")
        for given in (name, np.dtype(name), np.dtype(name).type):
            assert template.variant(T=given).values["T"] == wanted
    x = np.arange(10, dtype=np.int64)
    y = np.zeros_like(x)
    template.variant(T=np.int64).build()(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_sizes_in_products_of_extents_are_found(host: kiln.Service) -> None:
    kernel = kiln.Template("attention_naive").variant(T="half", HEAD_DIM=64).build()
    extents = {a["name"]: a["extents"] for a in kernel.arguments if "extents" in a}
    assert extents["q"] == ("batch", None, "queries", 64)
    sizes = kernel.sizes_of({"q": [2, 6, 37, 64], "k": [2, 3, 71, 64]})
    assert sizes == {"batch": 2, "group": 2, "keys": 71, "kv_heads": 3, "queries": 37}
    shapes = {"q": (1, 4, 3, 64), "k": (1, 2, 5, 64), "v": (1, 2, 5, 64), "o": (1, 4, 3, 64)}
    arrays = {name: np.zeros(shape, np.float16) for name, shape in shapes.items()}
    for lse in (np.zeros((1, 4, 3), np.float32),) * 2:  # the second time from memory
        kernel(**arrays, lse=lse)
    with pytest.raises(ValueError, match="'lse' has the shape .*dimension 1 has to be 4"):
        kernel(**arrays, lse=np.zeros((1, 5, 3), np.float32))
    with pytest.raises(TypeError, match="the size 'group' can't be told"):
        kernel.sizes_of({"k": [2, 3, 71, 64]})
    wrong = r"'q' has the shape \(1, 3, 3, 64\), and its dimension 1 has to be a multiple of 2"
    with pytest.raises(ValueError, match=wrong):
        kernel.sizes_of({"q": [1, 3, 3, 64], "k": [1, 2, 5, 64]})
    q, k = np.zeros((1, 3, 3, 64), np.float16), np.zeros((1, 2, 5, 64), np.float16)
    with pytest.raises(ValueError, match=wrong):
        kiln.attention(q, k, k)


def test_shapes_of_unknown_tensors_and_sizes_below_zero_are_errors(scale: kiln.Kernel) -> None:
    with pytest.raises(kiln.UsageError, match="scale has no tensor 'q'"):
        scale.sizes_of({"q": [5]}, n=4)
    with pytest.raises(kiln.UsageError, match="scale has no tensor 'n'"):
        scale.sizes_of({"x": [5], "n": [5]})
    with pytest.raises(ValueError, match="'n' is -5, and no size is below 0"):
        scale.sizes_of({"x": [-5]})
    with pytest.raises(ValueError, match="'n' is -5, and no size is below 0"):
        scale.variant.sizes_of({}, n=-5)
    assert scale.sizes_of({"x": [0]}) == {"n": 0}


def filler(lines: str, sizes: tuple[str, ...] = ("n",), scalars: str = "") -> kiln.Kernel:
    """Writes nothing: what is tested is which shapes it takes."""
    text = "".join(f"//@ size {name} = 64\n" for name in sizes if f"size {name} " not in lines)
    arguments = "".join(f"int {name}, " for name in sizes)
    return (
        kiln.Template(f"""//@ kernel filler
//@ block 64
//@ grid 1
{text}{lines}
#include "kiln/device.h"
extern "C" __global__ void filler({arguments}{scalars}const float* x, float* y) {{}}
""")
        .variant()
        .build()
    )


@pytest.mark.parametrize(
    ("extent", "x", "y"),
    [
        ("ceil_div(n, 65536)", (4 * 65536,), 4),
        ("max(n, 3)", (1,), 3),
        ("min(m, n)", (10, 5), 5),
        ("max(m, n)", (10, 5), 10),
        ("max(m, n)", (5, 10), 10),
        ("n + 1", (5,), 6),
    ],
)
def test_extents_are_what_the_template_says(host: kiln.Service, extent: str, x: tuple[int, ...], y: int) -> None:
    sizes = ("m", "n")[-len(x) :]
    kernel = filler(f"//@ input x [{', '.join(sizes)}]\n//@ output y [{extent}]", sizes)
    array = np.zeros(x, np.float32)
    for _ in range(2):  # the second time from memory
        kernel(array, np.zeros(y, np.float32))
    for wrong in {1, *x, y - 1, y + 1} - {y}:
        with pytest.raises(ValueError, match=rf"'y' has the shape \({wrong},\), and its dimension 0 has to be {y}"):
            kernel(array, np.zeros(wrong, np.float32))


@pytest.mark.parametrize("rule", ["at_most 128", "multiple 10", "multiple 4100", "multiple 8 at_most 8"])
def test_sizes_that_only_few_values_fit_are_told_and_checked(host: kiln.Service, rule: str) -> None:
    n = {"multiple 4100": 4100, "multiple 8 at_most 8": 8}.get(rule, 100)
    kernel = filler(f"//@ size n = {n} {rule}\n//@ input x [n]\n//@ output y [n]")
    kernel(np.zeros(n, np.float32), np.zeros(n, np.float32))
    for given in ({}, {"n": n}):
        with pytest.raises(ValueError, match=f"'y' has the shape .*has to be {n}"):
            kernel(np.zeros(n, np.float32), np.zeros(1, np.float32), **given)


def test_any_number_of_sizes_is_told(host: kiln.Service) -> None:
    sizes = tuple(f"n{i}" for i in range(12))
    kernel = filler(f"//@ input x [{', '.join(sizes[:8])}]\n//@ output y [{', '.join(sizes[4:])}]", sizes)
    x, y = np.zeros((1,) * 8, np.float32), np.zeros((1,) * 8, np.float32)
    kernel(x, y)
    with pytest.raises(ValueError, match="'y' .* dimension 0 has to be 1, the n4 of 'x'"):
        kernel(x, np.zeros((2,) + (1,) * 7, np.float32))


def test_an_extent_that_is_no_product_tells_no_size(host: kiln.Service) -> None:
    kernel = filler("//@ input x [min(m, n)]\n//@ output y [m]", ("m", "n"))
    x, y = np.zeros(5, np.float32), np.zeros(5, np.float32)
    with pytest.raises(TypeError, match="the size 'n' can't be told"):
        kernel(x, y)
    kernel(x, y, n=7)
    with pytest.raises(ValueError, match="'x' .* has to be 4"):
        kernel(x, y, n=4)
    doubled = filler("//@ input x [2 * n]\n//@ output y [n * m * 3]", ("m", "n"))
    assert doubled.sizes_of({"x": [10], "y": [30]}) == {"m": 2, "n": 5}
    with pytest.raises(kiln.VariantError, match="can't be computed"):
        filler("//@ input x [n]\n//@ output y [n / (n - 5)]")(x, y)


def test_declared_tensors_are_checked_where_others_are_not_declared(host: kiln.Service) -> None:
    kernel = filler("//@ output y [ceil_div(n, 2)]", scalars="float alpha, ")
    x = np.zeros(3, np.float32)
    kernel(0.5, x, np.zeros(4, np.float32), n=7)
    with pytest.raises(ValueError, match="'y' has the shape .*has to be 4"):
        kernel(0.5, x, np.zeros(3, np.float32), n=7)


def test_an_operation_checks_shapes_too(host: kiln.Service) -> None:
    op = kiln.operation(filler("//@ input x [n]\n//@ output y [ceil_div(n, 65536)]").variant.template)
    x = np.zeros(5 * 65536, np.float32)
    op(x, np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="'y' has the shape .*has to be 5"):
        op(x, np.zeros(1, np.float32))


def test_which_sizes_tensors_tell(host: kiln.Service) -> None:
    variant = kiln.Template("attention_naive").variant(T="half", HEAD_DIM=64)
    assert variant._told_by(["q", "k"]) == ["batch", "kv_heads", "group", "queries", "keys"]
    assert variant._told_by(["q"]) == ["batch", "queries"]
    assert filler("//@ input x [max(n, 3)]\n//@ output y [n]").variant._told_by(["x"]) == []
    none = filler("//@ input x [0 * n, m]\n//@ output y [n]", ("m", "n"))
    assert none.variant._told_by(["x"]) == ["m"]
    assert none.sizes_of({"x": [0, 2], "y": [3]}) == {"m": 2, "n": 3}


def test_templates_come_from_text_file_and_name(tmp_path, host: kiln.Service) -> None:
    file = tmp_path / "scale.cu"
    file.write_text(SCALE)
    for source in (SCALE, file, str(file), "softmax"):
        template = kiln.Template(source)
        assert template.name == ("softmax" if source == "softmax" else "scale")
        assert template.service == host
    assert [p["name"] for p in kiln.Template(file).parameters] == ["FACTOR", "T"]


def test_variants_are_values(host: kiln.Service) -> None:
    template = kiln.Template(SCALE)
    variant = template.variant(FACTOR=7, T="float16")
    assert variant.values == {"FACTOR": 7, "T": "half"}
    assert variant == template.variant(T="half", FACTOR=7) != template.variant()
    assert len({variant, template.variant(T="half", FACTOR=7)}) == 1
    assert len(template.variants(T="half")) == 100
    assert "constexpr int FACTOR = 7" in variant.source().replace("  ", " ")
    problem = variant.problem(n=5)
    assert problem["tensors"][0] == {"name": "x", "type": "half", "dtype": "float16", "shape": (5,), "role": "input"}


def test_a_size_that_the_variant_does_not_take_is_a_value_error(host: kiln.Service) -> None:
    text = SCALE.replace("n = 1000", "n = 1000 multiple 4")
    kernel = kiln.Template(text).variant().build()
    with pytest.raises(ValueError, match="the size n = 5 must be a multiple of 4; the nearest is 4 or 8"):
        kernel(np.ones(5, np.float32), np.zeros(5, np.float32))


def test_errors_mirror_those_of_cpp(host: kiln.Service) -> None:
    with pytest.raises(kiln.VariantError, match="FACTOR = 300 is not in 1..100") as variant:
        kiln.Template(SCALE).variant(FACTOR=300)
    assert isinstance(variant.value, (kiln.Error, ValueError)) and variant.value.rule == ""
    with pytest.raises(kiln.TemplateError) as template:
        kiln.Template("//@ kernel x\n//@ blok 3\n", file="wrong.cu")
    assert (template.value.file, template.value.line) == ("wrong.cu", 2)
    with pytest.raises(kiln.UsageError, match="there is no template 'nosuch'"):
        kiln.Template("nosuch")
    with pytest.raises(kiln.BuildError) as build:
        kiln.Template(SCALE.replace("T(FACTOR", "T(FACTORS")).variant().build()
    assert "FACTORS" in build.value.log and isinstance(build.value, RuntimeError)
    with pytest.raises(kiln.UsageError, match="backend"):
        kiln.Service("metal")
    with pytest.raises(kiln.DeviceError, match="host"):
        kiln.Service("host", device=7)


def test_a_build_is_served_from_memory_the_second_time(host: kiln.Service) -> None:
    variant = kiln.Template(SCALE).variant(FACTOR=4)
    variant.build()
    before = host.counters["memory_hits"]
    assert variant.build().info["origin"] == "memory"
    assert host.counters["memory_hits"] == before + 1


def test_a_service_keeps_to_its_own_cache(tmp_path) -> None:
    warnings: list[str] = []
    service = kiln.Service("host", cache_directory=tmp_path / "cache", on_warning=warnings.append)
    kernel = kiln.Template(SCALE, service=service).variant().build()
    assert kernel.info["origin"] == "compiled" and service.counters["stored_entries"] == 1
    again = kiln.Service("host", cache_directory=tmp_path / "cache", cached_only=True)
    assert kiln.Template(SCALE, service=again).variant().build().info["origin"] == "disk"
    with pytest.raises(kiln.BuildError):
        kiln.Template(SCALE, service=again).variant(FACTOR=9).build()
    assert warnings == []


def test_warnings_reach_python(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    service = kiln.Service("host", cache_directory=tmp_path / "file", on_warning=warnings.append)
    kiln.Template(SCALE, service=service).variant().build()
    assert len(warnings) == 1 and "file" in warnings[0]


def test_options_that_make_no_sense() -> None:
    for seconds in (-1.0, 0.0, float("nan"), float("inf")):
        with pytest.raises(kiln.UsageError, match="compile_timeout_s"):
            kiln.Service("host", compile_timeout_s=seconds)
    with pytest.raises(kiln.UsageError, match="cache_directory is empty"):
        kiln.Service("host", cache_directory="")


def test_code_is_given_as_text(host: kiln.Service) -> None:
    template = kiln.Template(
        SCALE.replace("//@ block", '//@ param F code = "return x;" (float x) -> float\n//@ block').replace(
            "FACTOR * static_cast<float>(x[i])", "F(static_cast<float>(x[i]))"
        )
    )
    assert [p["kind"] for p in template.parameters] == ["int", "type", "code"]
    variant = template.variant(F="return x * x + 1;")
    assert variant.values["F"] == "return x * x + 1;"
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    variant.build()(x, y)
    np.testing.assert_array_equal(y, x * x + 1)


def test_a_service_takes_options_of_the_compiler_and_limits(tmp_path) -> None:
    text = """
//@ kernel defined
//@ block 32
//@ grid 1
#include "kiln/device.h"
extern "C" __global__ void defined(int* y) { *y = WHAT; }
"""
    service = kiln.Service(
        "host",
        cache_directory=tmp_path,
        compile_options=["-DWHAT=42"],
        debug=True,
        cache_limit_bytes=1 << 20,
        remote="",
        worker_memory_bytes=1 << 32,
    )
    y = np.zeros(1, np.int32)
    kiln.Template(text, service=service).variant().build()(y)
    assert y[0] == 42
    with pytest.raises(kiln.BuildError):
        kiln.Template(text, service=kiln.Service("host", cache_directory=tmp_path, remote="")).variant().build()
    with pytest.raises(kiln.UsageError, match="context"):
        kiln.Service("host", context=4096)


def test_what_a_service_shares_is_not_given_again(tmp_path, host: kiln.Service) -> None:
    assert kiln.Service(device=0, shares=host).backend == "host"
    callback: list[str] = []
    for name, value in (
        ("backend", "host"),
        ("arch", "x86-64"),
        ("cache", False),
        ("cache_directory", tmp_path),
        ("seed_packs", [tmp_path]),
        ("validate", True),
        ("compile_timeout_s", 5.0),
        ("compile_options", ["-DX"]),
        ("on_warning", callback.append),
        ("remote", ""),
    ):
        with pytest.raises(kiln.UsageError, match=f"^{name} is that of the service that is shared"):
            kiln.Service(shares=host, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(kiln.UsageError, match="context"):
        kiln.Service(shares=host, context=4096)


def test_elements_that_no_kernel_has_are_named(scale: kiln.Kernel) -> None:
    with pytest.raises(TypeError, match="elements of a type that Kiln does not know"):
        scale(np.zeros(4, "datetime64[s]"), np.zeros(4, np.float32))
