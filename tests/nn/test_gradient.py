"""A loss with its gradient equals plain autograd through the whole network."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from steadyrl import kernels
from steadyrl.nn.compiled import Compiler
from steadyrl.nn.gaussian import StateDependentGaussian
from steadyrl.nn.gradient import Loss, ScalarLoss, with_gradient
from steadyrl.nn.heads import SDEHead
from steadyrl.nn.part import Part
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from support.flat import packed
from support.kernels import needs_native

X = torch.from_numpy(Stream(0, "x").normal((6, 3)))
Outputs = tuple[Tensor, ...]


def quadratic(outputs: Outputs, target: Tensor, *, weight: float) -> tuple[Tensor, dict[str, Tensor]]:
    a, b = outputs
    error = (a * b - target).square().mean()
    return weight * error, {"error": error}


def test_by_hand() -> None:
    a = torch.tensor([2.0], requires_grad=True)
    b = torch.tensor([3.0], requires_grad=True)
    value, metrics, (da, db) = with_gradient(quadratic, (a, b), torch.tensor([5.0]), weight=0.5)
    assert value.item() == 0.5
    assert metrics["error"].item() == 1.0
    assert da.tolist() == [3.0]
    assert db.tolist() == [2.0]
    assert not value.requires_grad
    assert not metrics["error"].requires_grad
    assert a.grad is None


def test_outputs_that_the_loss_does_not_use_have_zeros() -> None:
    used, unused = torch.tensor([2.0]), torch.tensor([[1.0, 2.0]])

    def loss(outputs: Outputs) -> tuple[Tensor, dict[str, Tensor]]:
        return (3 * outputs[0]).sum(), {}

    with torch.no_grad():
        _, _, grads = with_gradient(loss, (used, unused))
    assert [g.tolist() for g in grads] == [[3.0], [[0.0, 0.0]]]


def test_a_loss_cannot_reach_the_network() -> None:
    layer = nn.Linear(3, 1)
    outputs = (layer(X),)

    def loss(outputs: Outputs) -> tuple[Tensor, dict[str, Tensor]]:
        assert outputs[0].grad_fn is None
        return outputs[0].sum() + layer.weight.square().sum(), {}

    with_gradient(loss, outputs)
    assert layer.weight.grad is None


def test_the_two_halves_are_backward_through_all() -> None:
    """With a parameter (log_std) and a detached tensor (phi) among the outputs, into flat gradients."""
    distribution = StateDependentGaussian(2, 4)

    def loss(outputs: Outputs, actions: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        log_probs = distribution.log_prob(outputs, actions)
        entropy = distribution.entropy(outputs, log_probs).mean()
        return -(log_probs.mean() + 0.3 * entropy), {"entropy": entropy}

    trunk, head = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), SDEHead(4, 2, -0.5)
    with torch.no_grad():
        head.mean.weight.copy_(torch.from_numpy(Stream(0, "head").normal((2, 4))))

    class Both(Part):
        def __init__(self) -> None:
            super().__init__()
            self.trunk, self.head = trunk, head

        def forward(self, x: Tensor) -> Outputs:
            found: Outputs = self.head(self.trunk(x))
            return found

    net = Both()
    actions = torch.from_numpy(Stream(0, "actions").normal((6, 2)))
    value, _ = loss(head(trunk(X)), actions)
    expected = packed(torch.autograd.grad(value, list(net.parameters())))

    trainable = Trainable(net, native=False)
    flat = trainable.flat
    halved, metrics, grads = with_gradient(loss, trainable.forward(X), actions)
    trainable.backward(grads)
    assert halved.item() == pytest.approx(value.item())
    assert metrics["entropy"].shape == ()
    assert flat.intact()
    assert flat.grad[expected != 0].abs().min().item() > 0
    torch.testing.assert_close(flat.grad, expected)


class Owner:
    native = kernels.available()

    def __init__(self) -> None:
        self.notes: dict[str, bool] = {}
        self.compiler = Compiler()


def test_what_the_kernels_cannot_run_runs_by_autograd_and_is_noted() -> None:
    def picks(outputs: Outputs, index: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return outputs[0][torch.arange(3), index].sum(), {}

    def looks(outputs: Outputs, index: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return outputs[0].sum() * float(index.max().item()), {}

    values = torch.arange(6.0).reshape(3, 2)
    for loss, index in ((picks, torch.tensor([0, -1, 1])), (looks, torch.tensor([2, 1, 0]))):
        owner = Owner()
        made = Loss(loss, owner)
        for _ in range(3):
            value, _, (gradient,) = made((values,), index)
            expected, _, (theirs,) = with_gradient(loss, (values,), index)
            assert value.item() == expected.item()
            assert torch.equal(gradient, theirs)
        assert len(owner.notes) == owner.native


class Choice:
    """Lets kernels run a loss, or not."""

    def __init__(self, *, native: bool) -> None:
        self.native = native
        self.notes: dict[str, bool] = {}
        self.compiler = Compiler()


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
def test_scalars_are_the_loss_and_its_metrics_in_one_tensor(native: bool) -> None:
    owner = Choice(native=native)
    outputs, target = (X[:, 0], X[:, 1]), X[:, 2].contiguous()
    value, metrics, gradients = Loss(quadratic, owner)(outputs, target, weight=0.5)
    expected = [x.clone() for x in gradients]
    scalars, found = ScalarLoss(quadratic, "loss", owner)(outputs, target, weight=0.5)
    assert list(scalars) == ["loss", "error"]
    assert torch.equal(scalars.block, torch.stack([value, metrics["error"]]))
    assert torch.equal(scalars["error"], metrics["error"])
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert "td" not in scalars
    with pytest.raises(KeyError):
        scalars["td"]
    assert not owner.notes


@needs_native
def test_a_metric_that_is_no_scalar_is_left_to_pytorch() -> None:
    def loss(outputs: Outputs) -> tuple[Tensor, dict[str, Tensor]]:
        return outputs[0].sum(), {"rows": outputs[0]}

    owner = Choice(native=True)
    with pytest.raises(RuntimeError, match="equal size"):
        ScalarLoss(loss, "loss", owner)((X,))
    assert owner.notes == {"a loss, because a metric is not a scalar": False}
