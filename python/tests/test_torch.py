# SPDX-License-Identifier: Apache-2.0
"""kiln.torch on the host backend and, where there is one, on an NVIDIA GPU; skipped where there is no PyTorch."""

from __future__ import annotations

import kiln
import pytest
from conftest import SCALE

torch = pytest.importorskip("torch")
import kiln.torch  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    torch.manual_seed(1)
    return request.param


def close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype = torch.float32) -> None:
    assert found.dtype == dtype and found.shape == expected.shape
    tolerance = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    torch.testing.assert_close(found.double().cpu(), expected.double().cpu(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_kernel_takes_tensors(device: str, dtype: torch.dtype) -> None:
    service = kiln.default_service("cuda" if device == "cuda" else "host")
    scale = kiln.Template(SCALE, service=service).variant(FACTOR=3, T=dtype).build()
    x = torch.randn(1001, device=device).to(dtype)
    y = torch.empty_like(x)
    scale(x, y)
    torch.testing.assert_close(y, 3 * x)
    with pytest.raises(ValueError, match=r"'x' has the shape \(501,\) and the strides \(2,\)"):
        scale(x[::2], y[:501])
    with pytest.raises(TypeError, match="'x' has elements of type int32"):
        scale(x.int(), y)
    scale(torch.zeros(3, requires_grad=True, device=device, dtype=dtype), y[:3])


@pytest.mark.parametrize("dtype", FLOATS)
def test_gemm_and_linear(device: str, dtype: torch.dtype) -> None:
    x, weight = torch.randn(2, 9, 40, device=device).to(dtype), torch.randn(24, 40, device=device).to(dtype) / 6
    bias = torch.randn(24, device=device).to(dtype)
    expected = x.double() @ weight.double().T
    close(kiln.torch.gemm(x, weight.t()), expected, dtype)
    close(kiln.torch.gemm(x, weight.t(), torch.float32), expected)
    close(kiln.torch.linear(x, weight), expected, dtype)
    close(kiln.torch.linear(x, weight, bias), expected + bias.double(), dtype)


def test_gradients_of_linear(device: str) -> None:
    x, weight, bias = (torch.randn(*shape, device=device, requires_grad=True) for shape in ((7, 20), (12, 20), (12,)))
    grad = torch.randn(7, 12, device=device)
    found = torch.autograd.grad(kiln.torch.linear(x, weight, bias), (x, weight, bias), grad)
    expected = torch.autograd.grad(torch.nn.functional.linear(x, weight, bias), (x, weight, bias), grad)
    for one, other in zip(found, expected, strict=True):
        close(one, other)


def test_the_gradient_of_a_product_in_another_type(device: str) -> None:
    a, b = (torch.randn(*shape, device=device).half().requires_grad_() for shape in ((7, 20), (20, 12)))
    grad = torch.randn(7, 12, device=device)
    found = torch.autograd.grad(kiln.torch.gemm(a, b, torch.float32), (a, b), grad)
    expected = torch.autograd.grad(a @ b, (a, b), grad.half())
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float16
        torch.testing.assert_close(one.float(), other.float(), rtol=1e-2, atol=1e-2)


def test_gradients_of_other_operators(device: str) -> None:
    a, b = (
        torch.randn(2, 7, 20, device=device, requires_grad=True),
        torch.randn(20, 12, device=device, requires_grad=True),
    )
    grad = torch.randn(2, 7, 12, device=device)
    for one, other in zip(
        torch.autograd.grad(kiln.torch.gemm(a, b), (a, b), grad),
        torch.autograd.grad(a @ b, (a, b), grad),
        strict=True,
    ):
        close(one, other)
    for ours, theirs in ((kiln.torch.softmax, lambda x: x.softmax(-1)), (kiln.torch.transpose, lambda x: x.T)):
        found, expected = ours(b), theirs(b)
        grad = torch.randn(found.shape, device=device)
        close(torch.autograd.grad(found, b, grad)[0], torch.autograd.grad(expected, b, grad)[0])
    weight = torch.ones(12, device=device)
    with pytest.raises(NotImplementedError, match="kiln::layer_norm has no gradient"):
        kiln.torch.layer_norm(b, weight, weight).sum().backward()


def test_row_operations_and_attention(device: str) -> None:
    x, weight, bias = (torch.randn(*shape, device=device) for shape in ((3, 5, 64), (64,), (64,)))
    close(kiln.torch.softmax(x), x.double().softmax(-1))
    close(kiln.torch.layer_norm(x, weight, bias), torch.nn.functional.layer_norm(x, (64,), weight, bias))
    close(kiln.torch.transpose(x[0]), x[0].T)
    q, k, v = (torch.randn(1, 2, 40, 64, device=device).half() for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    close(kiln.torch.attention(q, k, v, True), expected, torch.float16)


def test_operators_pass_torchs_own_checks(device: str) -> None:
    x, weight, bias = (torch.randn(*shape, device=device, requires_grad=True) for shape in ((6, 16), (8, 16), (8,)))
    torch.library.opcheck(torch.ops.kiln.linear.default, (x, weight, bias), {})
    plain = x.detach()
    torch.library.opcheck(torch.ops.kiln.softmax.default, (plain,))
    torch.library.opcheck(torch.ops.kiln.gemm.default, (plain, weight.detach().t(), torch.float16))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(torch.nn.functional.relu(self.up(x)))
        return kiln.torch.softmax(y)


def test_a_module_is_replaced_and_compiles_without_a_graph_break(device: str) -> None:
    model = Model().to(device)
    x = torch.randn(5, 16, device=device)
    expected = torch.softmax(model.down(torch.nn.functional.relu(model.up(x))), -1)
    kiln.torch.Linear.replace(model)
    assert type(model.up) is kiln.torch.Linear and set(model.state_dict()) == set(Model().state_dict())
    close(model(x), expected)
    found = torch._dynamo.explain(model)(x)
    assert found.graph_break_count == 0, found
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (5, 9):
        y = torch.randn(rows, 16, device=device)
        close(compiled(y), model(y))
    compiled(x).sum().backward()
    assert model.up.weight.grad is not None


def test_a_template_becomes_an_operator(device: str) -> None:
    service = kiln.default_service("cuda" if device == "cuda" else "host")
    scale = kiln.torch.operator(f"kiln_test::scale_{device}", SCALE, service=service, FACTOR=3)
    for dtype in (torch.float32, torch.float16):
        x = torch.randn(100, device=device).to(dtype)
        torch.testing.assert_close(scale(x), 3 * x)
    torch.library.opcheck(scale, (x,))
    compiled = torch.compile(lambda x: scale(x) + 1, fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(compiled(x), 3 * x + 1)


def test_a_template_with_computed_extents_and_scratch_becomes_an_operator(device: str) -> None:
    service = kiln.default_service("cuda" if device == "cuda" else "host")
    total = kiln.torch.operator(f"kiln_test::sum_{device}", "sum_shuffle", service=service)
    x = torch.ones(1000, device=device)
    assert total(x).tolist() == [1000]
    attention = kiln.torch.operator(
        f"kiln_test::attention_{device}", "attention_naive", service=service, T="half", HEAD_DIM=64
    )
    q, k, v = (torch.randn(1, heads, 9, 64, device=device).half() for heads in (4, 2, 2))
    o, lse = attention(q, k, v)
    assert o.shape == q.shape and lse.shape == (1, 4, 9)
    with pytest.raises(kiln.UsageError, match="declares no sizes and tensors"):
        kiln.torch.operator(
            "kiln_test::none",
            SCALE.replace("//@ size", "// size").replace("//@ input", "// ").replace("//@ output", "// "),
            service=service,
        )


@pytest.mark.skipif("cuda" not in DEVICES, reason="no NVIDIA GPU")
def test_operators_are_captured_in_graphs() -> None:
    x = torch.randn(64, 512, device="cuda", dtype=torch.float16)
    weight = torch.randn(256, 512, device="cuda", dtype=torch.float16)
    kiln.sum(kiln.torch.softmax(kiln.torch.linear(x, weight)))  # builds
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kiln.torch.softmax(kiln.torch.linear(x, weight))
        z = kiln.sum(y)
    for seed in (1, 2):
        torch.manual_seed(seed)
        x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        expected = torch.softmax((x.double() @ weight.double().T).half().double(), -1)
        torch.testing.assert_close(y.double(), expected, atol=5e-3, rtol=5e-2)
        torch.testing.assert_close(z.double(), y.double().sum(), atol=1e-1, rtol=1e-3)


@pytest.mark.skipif("cuda" not in DEVICES, reason="no NVIDIA GPU")
def test_the_current_stream_is_used() -> None:
    service = kiln.default_service("cuda")
    scale = kiln.Template(SCALE, service=service).variant(FACTOR=3).build()
    x, y = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        x.fill_(2)  # long after the call below has returned
        scale(x, y)
        z = y.clone()
    assert not side.query()
    side.synchronize()
    assert z.sum().item() == 6 * (1 << 20)
    scale(x, y, stream=side)
    side.synchronize()
    with pytest.raises(ValueError, match="'x' is on cpu, and the kernel runs on cuda:0"):
        scale(x.cpu(), y)
