"""Recording: what must not be frozen is refused by name, and nothing heavy is imported for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from steadyrl import kernels
from steadyrl.kernels.errors import CannotTrace
from steadyrl.kernels.program import TracedFunction, TracedLoss
from steadyrl.kernels.tracing import loss_with_gradient, record

needs_kernels = pytest.mark.skipif(not kernels.available(), reason=kernels.reason())
ELSEWHERE = torch.ones(3)


def test_forward_and_backward_are_recorded_with_their_tensors() -> None:
    # The names below are PyTorch's; they are what the lowering relies on, so a release that changes them fails here.
    x = torch.tensor([1.0, -2.0]).requires_grad_()
    (value, metrics, (gradient,)), nodes = record(
        loss_with_gradient(lambda outputs: (outputs[0].exp().sum(), {"x": outputs[0].mean()})), ((x,),), grad=True
    )
    names = [node.name for node in nodes if node.name not in ("detach", "alias")]
    assert names == ["exp", "sum", "mean", "ones_like", "expand", "mul"]
    assert nodes[0].args[0] is x
    assert value.item() == pytest.approx(np.exp(1.0) + np.exp(-2.0))
    assert metrics["x"].item() == -0.5
    assert gradient.tolist() == pytest.approx([np.exp(1.0), np.exp(-2.0)])


def test_the_program_of_a_softmax_policy_is_short() -> None:
    def loss(outputs: tuple[Tensor, ...], index: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return -outputs[0].log_softmax(-1).gather(-1, index[:, None]).mean(), {}

    if not kernels.available():
        pytest.skip(kernels.reason())
    traced = TracedLoss(loss)
    traced((torch.randn(64, 4),), torch.randint(4, (64,)))
    assert traced.programs[0].instructions <= 20


def _numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(np.exp(x.numpy()))


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "item": (lambda x: x * x.sum().item(), "looks at the numbers"),
    "float": (lambda x: x * float(x.sum()), "looks at the numbers"),
    "branch": (lambda x: x if x.sum() > 0 else -x, "looks at the numbers"),
    "tolist": (lambda x: torch.tensor(x.tolist()), "looks at the numbers"),
    "numpy": (_numpy, "looks at the numbers"),
    "array": (lambda x: torch.from_numpy(np.asarray(x)), "looks at the numbers"),
    "nonzero": (lambda x: x[x > 0], "nonzero|indexing"),
    "closure": (lambda x: x * ELSEWHERE, "not among its"),
    "random": (lambda x: x + torch.randn(3), r"aten\.randn"),
    "unknown": (lambda x: torch.sin(x), r"aten\.sin"),
    "double": (lambda x: x.double() * 2, "float64"),
    "power": (lambda x: x**2.3, "power"),
    "rounding": (lambda x: torch.div(x, 2, rounding_mode="floor"), "rounding"),
    "a list": (lambda x: [x.sum(), 3.0], "something other than tensors"),
    "view of what changes": (lambda x: _write_through(x), "in place"),
    "index": (lambda x: x[torch.tensor([0, 2])], "indexing"),
}


def _write_through(x: Tensor) -> Tensor:
    y = x * 2
    y[0] = 5.0
    return y


@needs_kernels
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, reason = REFUSED[name]
    traced = TracedFunction(function)
    for _ in range(2):  # the second time from memory
        with pytest.raises(CannotTrace, match=reason):
            traced(torch.tensor([1.0, 2.0, 3.0]))


@needs_kernels
def test_refused_arguments() -> None:
    traced = TracedFunction(lambda *args: args[0] * 2)
    x = torch.randn(3)
    for wrong, reason in (
        (x.double(), "float64"),
        (torch.empty(0), "empty"),
        (x.to(torch.bfloat16), "bfloat16"),
    ):
        with pytest.raises(CannotTrace, match=reason):
            traced(wrong)
    with pytest.raises(CannotTrace, match="ndarray"):
        traced(x, np.zeros(3))


@needs_kernels
def test_a_loss_that_is_no_scalar_is_refused() -> None:
    with pytest.raises(CannotTrace, match="scalar"):
        TracedLoss(lambda outputs: (outputs[0], {}))((torch.randn(3),))


@needs_kernels
def test_an_error_in_the_function_comes_through() -> None:
    with pytest.raises(RuntimeError, match="must match"):
        TracedFunction(lambda a, b: a + b)(torch.randn(2), torch.randn(3))


@needs_kernels
def test_changes_in_place_of_what_nothing_else_sees() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y += 1
        y.clamp_(max=3).mul_(x)
        return y

    x = torch.randn(5)
    torch.testing.assert_close(TracedFunction(function)(x), function(x))


@needs_kernels
def test_tracing_imports_no_compiler() -> None:
    code = (
        "import sys, torch\n"
        "from steadyrl.kernels.program import TracedLoss\n"
        "before = set(sys.modules)\n"
        "TracedLoss(lambda outputs: (outputs[0].log_softmax(-1).square().mean(), {}))((torch.randn(4, 3),))\n"
        "print(sorted(m for m in set(sys.modules) - before if m.startswith(('torch', 'sympy'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
