# SPDX-License-Identifier: Apache-2.0
"""Kiln's operations as operators of PyTorch, and templates as operators of your own.

    import kiln.torch
    y = kiln.torch.linear(x, weight, bias)            # differentiable; works under torch.compile and in CUDA graphs
    scale = kiln.torch.operator("mine::scale", "scale.cu", FACTOR=3)
    y = scale(x)

Operators are registered with torch.library: torch.ops.kiln.gemm, linear, softmax, layer_norm, attention and transpose. They
have fake tensors, so torch.compile needs no graph break.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn
from torch.library import define, impl, register_autograd, register_fake

from . import operations
from ._arrays import dtype_name, service_for
from ._kiln import Kernel, Service, Template, Variant
from ._locks import ForkSafeLock
from ._services import default_service
from .errors import UsageError
from ._jit import Jit, variant_for

__all__ = ["Linear", "attention", "gemm", "layer_norm", "linear", "operator", "softmax", "transpose"]

_DEVICES = ("CPU", "CUDA")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _register(name: str, schema: str, run: Any, fake: Any) -> Any:
    define(f"kiln::{name}", schema)
    impl(f"kiln::{name}", _DEVICES)(run)
    register_fake(f"kiln::{name}")(fake)
    return getattr(torch.ops.kiln, name).default


# a @ b


def _gemm(a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    return operations.gemm(a, b, out_dtype=_name(out_dtype or a.dtype))


def _gemm_fake(a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[-1]), dtype=out_dtype or a.dtype)


gemm = _register("gemm", "(Tensor a, Tensor b, ScalarType? out_dtype=None) -> Tensor", _gemm, _gemm_fake)
"""a @ b in the type of a, or in out_dtype; sums are float32. [..., m, k] and [k, n]."""


def _gemm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])


def _gemm_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    a, b = ctx.saved_tensors
    grad = grad.to(a.dtype)  # that of b, too; out_dtype may be another
    grad_a = gemm(grad, b.mT, a.dtype) if ctx.needs_input_grad[0] else None
    grad_b = None
    if ctx.needs_input_grad[1]:
        if b.dim() == 2:  # a's leading axes are rows
            a, grad = a.reshape(-1, a.shape[-1]), grad.reshape(-1, grad.shape[-1])
        grad_b = gemm(a.mT.contiguous(), grad, b.dtype)
    return grad_a, grad_b, None


register_autograd("kiln::gemm", _gemm_backward, setup_context=_gemm_setup)


# x @ weight.T + bias


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    return operations.gemm(x, weight.t(), bias=bias, activation=activation, out_dtype=_name(x.dtype))


def _linear_fake(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


linear = _register(
    "linear",
    "(Tensor x, Tensor weight, Tensor? bias=None, str? activation=None) -> Tensor",
    _linear,
    _linear_fake,
)
"""activation(x @ weight.T + bias) in the type of x. Differentiable without an activation."""


def _linear_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, ctx.activation = inputs
    ctx.save_for_backward(x, weight)
    ctx.bias_dtype = None if bias is None else bias.dtype


def _linear_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
    if ctx.activation is not None:
        raise NotImplementedError("kiln::linear with an activation has no gradient: apply the activation after it")
    x, weight = ctx.saved_tensors
    rows = grad.reshape(-1, grad.shape[-1])
    grad_x = gemm(grad, weight, x.dtype) if ctx.needs_input_grad[0] else None
    grad_weight = None
    if ctx.needs_input_grad[1]:
        grad_weight = gemm(rows.t().contiguous(), x.reshape(-1, x.shape[-1]), weight.dtype)
    grad_bias = rows.sum(0).to(ctx.bias_dtype) if ctx.bias_dtype is not None else None
    return grad_x, grad_weight, grad_bias, None


register_autograd("kiln::linear", _linear_backward, setup_context=_linear_setup)


class Linear(nn.Linear):
    """nn.Linear by Kiln: same parameters, same state dict. Linear.replace(module) makes one of an nn.Linear."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)

    @classmethod
    def replace(cls, module: nn.Module) -> nn.Module:
        """Every nn.Linear in a model becomes one of these, in place, with the same parameters; returns the model."""
        if type(module) is nn.Linear:
            module.__class__ = cls
        for child in module.children():
            cls.replace(child)
        return module


# Row operations, attention, transposition


def _same(x: Tensor, *rest: Any) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


softmax = _register("softmax", "(Tensor x) -> Tensor", lambda x: operations.softmax(x), _same)
"""Softmax along the last axis."""

layer_norm = _register(
    "layer_norm",
    "(Tensor x, Tensor weight, Tensor bias) -> Tensor",
    lambda x, weight, bias: operations.layer_norm(x, weight, bias),
    _same,
)
"""Layer norm along the last axis, epsilon 1e-5."""


def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    return operations.attention(q, k, v, causal=causal)


attention = _register(
    "attention",
    "(Tensor q, Tensor k, Tensor v, bool causal=False) -> Tensor",
    _attention,
    lambda q, k, v, *rest: q.new_empty((*q.shape[:-1], v.shape[-1])),
)
"""softmax(q k^T / sqrt(d)) v for [batch, heads, length, d]."""


transpose = _register(
    "transpose",
    "(Tensor x) -> Tensor",
    lambda x: operations.transpose(x),
    lambda x: x.new_empty((x.shape[1], x.shape[0])),
)
"""A row-major copy of x with its two axes exchanged."""


def _softmax_backward(ctx: Any, grad: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    product = grad.float() * y.float()
    return (product - y.float() * product.sum(-1, keepdim=True)).to(y.dtype)


def _no_gradient(name: str) -> None:
    def backward(ctx: Any, grad: Tensor) -> None:
        raise NotImplementedError(f"kiln::{name} has no gradient; call it under torch.no_grad()")

    register_autograd(f"kiln::{name}", backward)


register_autograd(
    "kiln::softmax", _softmax_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output)
)
register_autograd("kiln::transpose", lambda ctx, grad: transpose(grad.contiguous()))
_no_gradient("layer_norm")
_no_gradient("attention")


# Templates of your own


class _TemplateOperator:
    """How one template is called as an operator: inputs come in, outputs are made, scratch memory is zeroed."""

    def __init__(self, template: Jit, service: Service | None, values: dict[str, Any]) -> None:
        self.template = template
        self.service = service
        self.values = values
        self.lock = ForkSafeLock()
        self.kernels: dict[tuple[Any, ...], tuple[Variant, Kernel | None, list[dict[str, Any]]]] = {}
        declared = template.template(service or default_service()).variant(**values)
        self.arguments = declared._signature
        if any(a["kind"] not in ("size", "scalar") and a["extents"] is None for a in self.arguments):
            raise UsageError(
                f"{declared.template.name} declares no sizes and tensors (size, input and output lines), "
                "from which the shapes of an operator's outputs follow"
            )
        self.inputs = [a for a in self.arguments if a["kind"] in ("input", "inout")]
        told = declared._told_by([a["name"] for a in self.inputs])
        # Those that inputs do not tell are arguments of the operator.
        self.numbers = [
            a for a in self.arguments if a["kind"] == "scalar" or (a["kind"] == "size" and a["name"] not in told)
        ]
        self.outputs = [a for a in self.arguments if a["kind"] == "output"]

    def schema(self) -> str:
        mutable = iter("abcdefgh")
        parts = [
            f"Tensor({next(mutable)}!) {a['name']}_" if a["kind"] == "inout" else f"Tensor {a['name']}_"
            for a in self.inputs
        ]
        for a in self.numbers:
            kind = "float" if a["dtype"].startswith(("float", "bfloat")) else "int"
            parts.append(f"{kind} {a['name']}_")
        count = len(self.outputs)
        result = "()" if count == 0 else "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        return f"({', '.join(parts)}) -> {result}"

    def kernel(self, tensors: tuple[Tensor, ...]) -> tuple[Variant, Kernel | None, list[dict[str, Any]]]:
        """For the dtypes of these inputs, on their device; fake tensors get no kernel, and nothing is built."""
        is_fake = isinstance(tensors[0], torch._subclasses.fake_tensor.FakeTensor) or tensors[0].is_meta
        service = self.service or default_service() if is_fake else service_for(tensors[0], self.service)
        key = (service, is_fake, *(t.dtype for t in tensors))
        with self.lock.held():
            if key not in self.kernels:
                template = self.template.template(service)
                names = [a["name"] for a in self.inputs]
                variant = variant_for(template, self.values, dict(zip(names, map(dtype_name, tensors), strict=True)))
                self.kernels[key] = (variant, None if is_fake else variant.build(), variant._signature)
            return self.kernels[key]

    def shapes(
        self, variant: Variant, tensors: tuple[Tensor, ...], numbers: dict[str, Any]
    ) -> dict[str, tuple[Any, ...]]:
        """Of outputs and scratch memory. Extents that are sizes are taken as they are, symbols included."""
        sizes: dict[str, Any] = dict(numbers)
        for a, t in zip(self.inputs, tensors, strict=True):
            for extent, value in zip(a["extents"], t.shape, strict=True):
                if isinstance(extent, str):
                    sizes.setdefault(extent, value)
        wanted = [a for a in self.arguments if a["kind"] in ("output", "scratch")]
        found = {a["name"]: tuple(sizes.get(e) if isinstance(e, str) else e for e in a["extents"]) for a in wanted}
        if any(extent is None for shape in found.values() for extent in shape):
            given = {a["name"]: [int(e) for e in t.shape] for a, t in zip(self.inputs, tensors, strict=True)}
            problem = variant.problem(False, **variant.sizes_of(given, **{k: int(v) for k, v in numbers.items()}))
            found = {t["name"]: t["shape"] for t in problem["tensors"] if t["name"] in found}
        return found

    def _split(self, args: tuple[Any, ...]) -> tuple[tuple[Tensor, ...], dict[str, Any], dict[str, Any]]:
        tensors, rest = args[: len(self.inputs)], args[len(self.inputs) :]
        numbers = {a["name"]: value for a, value in zip(self.numbers, rest, strict=True)}
        return tensors, numbers, {a["name"]: numbers[a["name"]] for a in self.numbers if a["kind"] == "size"}

    def make(
        self, tensors: tuple[Tensor, ...], signature: list[dict[str, Any]], shapes: dict[str, Any]
    ) -> dict[str, Tensor]:
        first = tensors[0]
        return {
            a["name"]: (torch.zeros if a["kind"] == "scratch" else torch.empty)(
                shapes[a["name"]], dtype=getattr(torch, a["dtype"]), device=first.device
            )
            for a in signature
            if a["name"] in shapes
        }

    def _results(self, made: dict[str, Tensor]) -> Any:
        results = tuple(made[a["name"]] for a in self.outputs)
        return None if not results else results[0] if len(results) == 1 else results

    def run(self, *args: Any) -> Any:
        tensors, numbers, sizes = self._split(args)
        variant, kernel, signature = self.kernel(tensors)
        assert kernel is not None
        made = self.make(tensors, signature, self.shapes(variant, tensors, sizes))
        given = {
            a["name"]: t if a["kind"] == "inout" else t.contiguous() for a, t in zip(self.inputs, tensors, strict=True)
        }
        kernel(**given, **made, **numbers)
        return self._results(made)

    def fake(self, *args: Any) -> Any:
        tensors, _, sizes = self._split(args)
        variant, _, signature = self.kernel(tensors)
        return self._results(self.make(tensors, signature, self.shapes(variant, tensors, sizes)))


def operator(name: str, source: str | PathLike[str] | Jit, *, service: Service | None = None, **values: Any) -> Any:
    """Registers a template as the operator `name` ("mine::scale") and returns it.

    Its arguments are the template's inputs and then what the inputs' shapes do not tell; it returns the outputs. Type
    parameters that `values` lacks follow from the inputs' dtypes. The template has to declare its problem.
    """
    if not isinstance(source, Jit):
        is_text = isinstance(source, str) and "\n" in source
        source = Jit(str(source) if is_text else Template(source, service=service), service=service)
    made = _TemplateOperator(source, service, values)
    define(name, made.schema())
    impl(name, _DEVICES)(made.run)
    register_fake(name)(made.fake)
    space, _, short = name.partition("::")
    return getattr(getattr(torch.ops, space), short).default
