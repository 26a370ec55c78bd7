"""Compiled losses equal eager ones, sizes other than the full one run eagerly, and a failure is said or raised."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from steadyrl.errors import RunFailedError
from steadyrl.nn import compiled
from steadyrl.nn.compiled import CompiledLoss, Compiler
from steadyrl.nn.gradient import Loss, Outputs, with_gradient
from support.compiling import needs_compiler

Metrics = dict[str, Tensor]


class Owner:
    native = False

    def __init__(self, rows: int = 4, *, strict: bool = False) -> None:
        self.notes: dict[str, bool] = {}
        self.compiler = Compiler()
        self.compiler.start(rows, strict=strict)


def clipped(outputs: Outputs, target: Tensor, *, bound: float) -> tuple[Tensor, Metrics]:
    a, _ = outputs
    error = (a - target).clamp(-bound, bound).square()
    return error.mean(), {"error": error, "largest": error.max()}


def arguments(rows: int) -> tuple[Outputs, Tensor]:
    outputs = (torch.linspace(-1.0, 1.0, rows).requires_grad_(), torch.ones(rows, 2))
    return outputs, torch.linspace(0.5, -0.5, rows)


def assert_same(found: tuple[Tensor, Metrics, Outputs], expected: tuple[Tensor, Metrics, Outputs]) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    assert not found[0].requires_grad
    assert not any(metric.requires_grad for metric in found[1].values())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo and autograd's part, without the seconds and the compiler that code for this machine needs."""
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[torch.fx.GraphModule]:
    """What is compiled: here each graph runs as it is."""
    found: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        found.append(graph)
        return graph.forward

    monkeypatch.setattr(compiled, "BACKEND", backend)
    return found


def test_a_compiled_loss_is_the_loss_with_its_gradient(graphs: list[torch.fx.GraphModule]) -> None:
    owner = Owner()
    loss = Loss(clipped, owner)
    outputs, target = arguments(4)
    for bound in (0.5, 0.25, 2.0):  # a number that changes is an argument, and nothing is compiled anew
        assert_same(loss(outputs, target, bound=bound), with_gradient(clipped, outputs, target, bound=bound))
    assert owner.compiler.losses == len(graphs) == 1
    assert owner.compiler.seconds > 0.0
    assert not owner.compiler.failed


def test_other_sizes_and_a_policy_that_compiles_nothing_run_eagerly(
    graphs: list[torch.fx.GraphModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[int] = []
    original = CompiledLoss.__call__

    def spy(self: CompiledLoss, compiler: Compiler, eager: Callable[[], compiled.Found], *rest: object) -> object:
        called.append(compiler.rows)
        return original(self, compiler, eager, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(CompiledLoss, "__call__", spy)
    owner, off = Owner(), Owner(0)
    for each in (owner, off):
        loss = Loss(clipped, each)
        for rows in (3, 4, 3, 5):
            outputs, target = arguments(rows)
            assert_same(loss(outputs, target, bound=0.5), with_gradient(clipped, outputs, target, bound=0.5))
    assert called == [4]
    assert (owner.compiler.losses, off.compiler.losses, len(graphs)) == (1, 0, 1)


def test_many_losses_in_one_process_are_each_compiled(graphs: list[torch.fx.GraphModule]) -> None:
    """Dynamo compiles a code object no more than eight times, and then refuses."""
    outputs, target = arguments(4)
    for i in range(12):
        owner = Owner(strict=True)
        loss = partial(clipped, bound=0.25 * (i + 1))
        assert_same(Loss(loss, owner)(outputs, target), with_gradient(loss, outputs, target))
        assert owner.compiler.losses == 1
    assert len(graphs) == 12


@pytest.mark.usefixtures("quick")
def test_a_copy_compiles_for_itself() -> None:
    outputs, target = arguments(4)
    loss = Loss(clipped, Owner())
    expected = loss(outputs, target, bound=0.5)
    twin = copy.deepcopy(loss)
    assert_same(twin(outputs, target, bound=0.5), expected)
    assert twin.owner.compiler.losses == 2
    assert loss.owner.compiler.losses == 1


def looks(outputs: Outputs, target: Tensor) -> tuple[Tensor, Metrics]:
    """What has a graph break: it looks at a number."""
    scale = 2.0 if float(target.max().item()) > 0.0 else 3.0
    return scale * outputs[0].sum(), {}


@pytest.mark.usefixtures("quick")
def test_what_cannot_be_compiled_runs_eagerly_and_is_said_once() -> None:
    owner = Owner()
    loss, outputs = Loss(looks, owner), arguments(4)[0]
    for _ in range(3):
        _, _, (gradient, unused) = loss(outputs, torch.ones(4))
        assert gradient.tolist() == [2.0] * 4
        assert unused.tolist() == [[0.0, 0.0]] * 4
    assert owner.compiler.rows == 0
    ((text, warning),) = owner.compiler.notes
    assert warning
    assert text.startswith("torch.compile failed, so that PyTorch runs the losses eagerly: ")


@pytest.mark.usefixtures("quick")
def test_what_was_insisted_on_never_falls_back() -> None:
    owner = Owner(strict=True)
    with pytest.raises(RunFailedError, match=r"^torch\.compile failed: ") as caught:
        Loss(looks, owner)(arguments(4)[0], torch.ones(4))
    assert caught.value.code == "compile-failed"
    assert "--compile auto" in caught.value.remedy


def test_a_compiled_loss_that_is_slower_is_said() -> None:
    compiler = Compiler()
    compiler.took(1.0, eager=2e-4, compiled=1e-4)
    assert compiler.notes == []
    compiler.took(1.0, eager=1e-4, compiled=2e-4)
    ((text, warning),) = compiler.notes
    assert warning
    assert text.startswith("A compiled loss takes 200 us and an eager one 100 us: --compile off would be faster.")
    assert (compiler.losses, compiler.seconds) == (2, 2.0)
    assert compiler.eager == pytest.approx(3e-4)
    assert compiler.compiled == pytest.approx(3e-4)


@needs_compiler
def test_inductor_gives_the_same_numbers() -> None:
    owner = Owner(strict=True)
    outputs, target = arguments(4)
    assert_same(Loss(clipped, owner)(outputs, target, bound=0.5), with_gradient(clipped, outputs, target, bound=0.5))
    assert owner.compiler.losses == 1
