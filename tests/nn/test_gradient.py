"""A loss with its gradient equals plain autograd through the whole network."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from steadyrl.nn.distributions import StateDependentGaussian
from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.gradient import backward, with_gradient
from steadyrl.nn.heads import SDEHead
from steadyrl.seeding import Stream
from support.flat import packed

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


def test_outputs_that_need_or_get_no_gradient_have_zeros() -> None:
    a = torch.tensor([2.0], requires_grad=True)
    fixed = torch.tensor([3.0])
    unused = torch.tensor([[1.0, 2.0]], requires_grad=True)

    def loss(outputs: Outputs) -> tuple[Tensor, dict[str, Tensor]]:
        assert [x.requires_grad for x in outputs] == [True, False, True]
        return (outputs[0] * outputs[1]).sum(), {}

    with torch.no_grad():
        _, _, grads = with_gradient(loss, (a, fixed, unused))
    assert [g.tolist() for g in grads] == [[3.0], [0.0], [[0.0, 0.0]]]
    backward((a, fixed, unused), grads)
    assert a.grad is not None
    assert a.grad.tolist() == [3.0]
    assert fixed.grad is None


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
    net = nn.Sequential(trunk, head)
    actions = torch.from_numpy(Stream(0, "actions").normal((6, 2)))
    value, _ = loss(head(trunk(X)), actions)
    expected = packed(torch.autograd.grad(value, list(net.parameters())))

    flat = FlatParameters(net)
    outputs = head(trunk(X))
    halved, metrics, grads = with_gradient(loss, outputs, actions)
    backward(outputs, grads)
    assert halved.item() == pytest.approx(value.item())
    assert metrics["entropy"].shape == ()
    assert flat.intact()
    assert flat.grad[expected != 0].abs().min().item() > 0
    torch.testing.assert_close(flat.grad, expected)
