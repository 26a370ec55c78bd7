"""Optimisers against torch's and against a float64 oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from steadyrl.errors import NonFiniteError
from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.optim import Adam, Optimizer, RMSprop, clip_grad_norm
from steadyrl.seeding import Stream
from support.flat import packed

MAKERS: dict[str, Callable[[FlatParameters], Optimizer]] = {
    "adam": lambda flat: Adam(flat, eps=1e-5),
    "rmsprop": lambda flat: RMSprop(flat, eps=1e-5),
}


def network() -> nn.Sequential:
    net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))
    stream = Stream(0, "weights")
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.from_numpy(0.3 * stream.normal(tuple(p.shape))))
    return net


def gradients(steps: int, size: int) -> list[Tensor]:
    stream = Stream(0, "gradients")
    return [torch.from_numpy(stream.normal((size,)) * (0.01 if i % 2 else 1.0)) for i in range(steps)]


def learning_rate(step: int) -> float:
    return 3e-3 * (1 - step / 200)


@pytest.mark.parametrize("max_grad_norm", [0.0, 0.5])
def test_adam_is_torchs_over_a_hundred_steps(max_grad_norm: float) -> None:
    ours, theirs = network(), network()
    flat = FlatParameters(ours)
    adam = Adam(flat, eps=1e-5)
    reference = torch.optim.Adam(theirs.parameters(), lr=1.0, eps=1e-5)
    x, y = (torch.from_numpy(Stream(0, name).normal((32, n))) for name, n in (("x", 5), ("y", 2)))
    for step in range(100):
        flat.zero_grad()
        torch.autograd.backward(nn.functional.mse_loss(ours(x), y) * 20)
        norm = adam.step(learning_rate(step), max_grad_norm)

        reference.zero_grad()
        torch.autograd.backward(nn.functional.mse_loss(theirs(x), y) * 20)
        limit = max_grad_norm if max_grad_norm > 0 else float("inf")
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), limit)
        reference.param_groups[0]["lr"] = learning_rate(step)
        reference.step()
        torch.testing.assert_close(norm, expected, rtol=1e-5, atol=1e-7)
    expected_data = packed(theirs.parameters())
    assert (flat.data - expected_data).abs().max().item() < 1e-6
    assert (flat.data - FlatParameters(network()).data).abs().max().item() > 0.01


def test_first_adam_step_is_the_sign_of_the_gradient() -> None:
    flat = FlatParameters(network())
    before = flat.data.clone()
    flat.grad.copy_(gradients(1, len(before))[0])
    Adam(flat, eps=1e-12).step(0.01, 0.0)
    torch.testing.assert_close(flat.data, before - 0.01 * flat.grad.sign())


@pytest.mark.parametrize("max_grad_norm", [0.0, 0.5])
def test_rmsprop_is_tensorflows(max_grad_norm: float) -> None:
    flat = FlatParameters(network())
    rmsprop = RMSprop(flat, alpha=0.99, eps=0.1)  # large enough to show where it is added
    weights = flat.data.numpy().astype(np.float64)
    square = np.ones_like(weights)
    for step, grad in enumerate(gradients(100, len(weights))):
        flat.grad.copy_(grad)
        rmsprop.step(learning_rate(step), max_grad_norm)
        g = grad.numpy().astype(np.float64)
        if max_grad_norm > 0:
            g *= min(1.0, max_grad_norm / (float(np.linalg.norm(g)) + 1e-6))
        square = 0.99 * square + 0.01 * g**2
        weights -= learning_rate(step) * g / np.sqrt(square + 0.1)
    assert np.abs(flat.data.numpy() - weights).max() < 2e-6


def test_clip_by_hand() -> None:
    grad = torch.tensor([3.0, 4.0])
    assert clip_grad_norm(grad, 0.5).item() == 5.0
    torch.testing.assert_close(grad, torch.tensor([0.3, 0.4]))
    assert clip_grad_norm(grad, 0.0).item() == pytest.approx(0.5)
    torch.testing.assert_close(grad, torch.tensor([0.3, 0.4]))
    small = torch.tensor([0.03, 0.04])
    assert clip_grad_norm(small, 0.5).item() == pytest.approx(0.05)
    assert torch.equal(small, torch.tensor([0.03, 0.04]))
    zero = torch.zeros(2)
    clip_grad_norm(zero, 0.5)
    assert torch.equal(zero, torch.zeros(2))


@pytest.mark.parametrize("name", MAKERS)
def test_state_goes_on_bit_for_bit(name: str) -> None:
    flat = FlatParameters(network())
    optimizer = MAKERS[name](flat)
    grads = gradients(20, len(flat.data))
    for grad in grads[:10]:
        flat.grad.copy_(grad)
        optimizer.step(1e-2, 0.5)
    saved, data = optimizer.state_dict(), flat.data.clone()
    frozen = {key: value.clone() for key, value in saved.items()}
    for grad in grads[10:]:
        flat.grad.copy_(grad)
        optimizer.step(1e-2, 0.5)
    assert all(torch.equal(saved[key], frozen[key]) for key in frozen)

    other = FlatParameters(network())
    other.data.copy_(data)
    resumed, fresh = MAKERS[name](other), MAKERS[name](FlatParameters(network()))
    assert any(not torch.equal(fresh.state_dict()[key], saved[key]) for key in saved)
    resumed.load_state_dict(saved)
    for grad in grads[10:]:
        other.grad.copy_(grad)
        resumed.step(1e-2, 0.5)
    assert torch.equal(other.data, flat.data)
    for key, value in optimizer.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value)


@pytest.mark.parametrize("name", MAKERS)
def test_state_of_another_network_is_refused(name: str) -> None:
    small = MAKERS[name](FlatParameters(nn.Linear(2, 2)))
    with pytest.raises(ValueError, match="optimiser state is for 32 parameters, the network has 144"):
        MAKERS[name](FlatParameters(network())).load_state_dict(small.state_dict())


@pytest.mark.parametrize("name", MAKERS)
def test_step_reads_nothing_back(name: str) -> None:
    """The norm stays a tensor, and no gradient is left attached to the step."""
    flat = FlatParameters(network())
    norm = MAKERS[name](flat).step(1e-2, 0.5)
    assert norm.shape == ()
    assert not norm.requires_grad
    assert flat.intact()


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(name: str, bad: float) -> None:
    flat = FlatParameters(network())
    optimizer = MAKERS[name](flat)
    flat.grad.fill_(0.1)
    optimizer.step(1e-2, 0.5)
    before, state = flat.data.clone(), optimizer.state_dict()
    flat.grad[3] = bad
    with pytest.raises(NonFiniteError, match="gradient is not finite"):
        optimizer.step(1e-2, 0.5)
    assert torch.equal(flat.data, before)
    assert all(torch.equal(value, state[key]) for key, value in optimizer.state_dict().items())
