"""The temperature: its gradient by hand, its direction, what `auto` means."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from steadyrl.algorithms.temperature import Temperature, temperature_loss
from steadyrl.configs import SACConfig
from steadyrl.nn.gradient import with_gradient
from support.off_policy import off_policy, plain_adam


def temperature(ent_coef: float | str = "auto", target: float | str = "auto") -> Temperature:
    return Temperature(SACConfig(ent_coef=ent_coef, target_entropy=target), -2.0, off_policy("sac"))


def test_the_gradient_by_hand() -> None:
    """log pi of 1 and 4, target entropy -2: the loss is -log_alpha * (2.5 - 2), its slope -0.5."""
    log_alpha = torch.tensor([0.3], requires_grad=True)
    loss, metrics, (gradient,) = with_gradient(temperature_loss, (log_alpha,), torch.tensor([1.0, 4.0]), -2.0)
    assert loss.item() == pytest.approx(-0.3 * 0.5)
    assert gradient.tolist() == pytest.approx([-0.5])
    assert metrics["train/ent_coef_loss"].item() == pytest.approx(-0.15)


@pytest.mark.parametrize(
    ("log_prob", "direction"),
    [(3.0, 1), (1.0, -1), (2.0, 0)],
    ids=["entropy -3 is below the target", "entropy -1 is above it", "entropy -2 is the target"],
)
def test_entropy_below_the_target_raises_alpha(log_prob: float, direction: int) -> None:
    found = temperature()
    before = found.value().item()
    found.learn(torch.full((5,), log_prob), 0.01)
    assert np.sign(found.value().item() - before) == direction


def test_several_steps_are_those_of_adam() -> None:
    found = temperature("auto_0.5")
    for log_probs in ([1.0, 5.0], [0.0, -1.0], [7.0, 7.0]):
        found.learn(torch.tensor(log_probs), 0.1)
    expected = plain_adam(np.array([math.log(0.5)]), [np.array([-1.0]), np.array([2.5]), np.array([-5.0])], 0.1)
    assert found.value().item() == pytest.approx(math.exp(expected[0]), rel=1e-5)


@pytest.mark.parametrize(("ent_coef", "start"), [("auto", 1.0), ("auto_0.1", 0.1), (0.3, 0.3), (2, 2.0), (0.0, 0.0)])
def test_where_it_starts(ent_coef: float | str, start: float) -> None:
    found = temperature(ent_coef)
    assert found.value().item() == pytest.approx(start)
    assert found.value().dtype == torch.float32
    assert found.value().shape == ()
    assert found.learnt == isinstance(ent_coef, str)


def test_a_fixed_one_does_not_move_and_says_nothing() -> None:
    found = temperature(0.3)
    assert found.learn(torch.tensor([100.0]), 1.0) == {}
    assert found.value().item() == pytest.approx(0.3)
    assert found.state_dict() == {}


def test_the_target_is_what_auto_means_unless_it_is_given() -> None:
    assert temperature().target_entropy == -2.0
    assert temperature(target=-7.5).target_entropy == -7.5


def test_a_restored_state_goes_on_as_if_nothing_had_happened() -> None:
    one, other = temperature("auto_0.5"), temperature()
    for log_prob in (1.0, 3.0):
        one.learn(torch.tensor([log_prob]), 0.1)
    other.load_state_dict(one.state_dict())
    for log_prob in (0.5, 9.0):
        one.learn(torch.tensor([log_prob]), 0.1)
        other.learn(torch.tensor([log_prob]), 0.1)
    assert torch.equal(one.value(), other.value())


def test_the_value_is_a_copy_that_a_step_does_not_change() -> None:
    found = temperature()
    before = found.value()
    found.learn(torch.tensor([50.0]), 1.0)
    assert before.item() == 1.0
    assert not before.requires_grad
