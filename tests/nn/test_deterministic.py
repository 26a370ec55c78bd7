"""The best action of a value function and the action of a deterministic actor, as distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from steadyrl.nn.deterministic import Deterministic, Greedy
from steadyrl.seeding import Stream

VALUES = (torch.tensor([[1.0, 3.0, 2.0, 0.0]]),)


def test_greedy_takes_the_highest_value() -> None:
    values = (torch.tensor([[1.0, 3.0, 2.0], [-1.0, -2.0, -3.0]]),)
    greedy = Greedy(0.1)
    assert greedy.mode(values).tolist() == [1, 0]
    assert not greedy.state_dependent
    assert Greedy(0.0).sample(values, torch.from_numpy(greedy.draw(Stream(0, "x"), 2))).tolist() == [1, 0]
    actions = torch.tensor([2, 0])
    assert greedy.to_unit(actions) is actions


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
def test_its_samples_have_its_probabilities(epsilon: float) -> None:
    greedy, n = Greedy(epsilon), 20_000
    params = (VALUES[0].expand(n, 4),)
    found = greedy.sample(params, torch.from_numpy(greedy.draw(Stream(0, "x"), n)))
    expected = np.full(4, epsilon / 4)
    expected[1] += 1 - epsilon
    np.testing.assert_allclose(np.bincount(found.numpy(), minlength=4) / n, expected, atol=0.012)
    probabilities = greedy.log_prob((VALUES[0].expand(4, 4),), torch.arange(4)).exp()
    np.testing.assert_allclose(probabilities.numpy(), expected, atol=1e-6)
    nonzero = expected[expected > 0]
    entropy = greedy.entropy(VALUES, torch.zeros(1)).item()
    assert entropy == pytest.approx(-(nonzero * np.log(nonzero)).sum(), abs=1e-6)


def test_noise_next_to_one_is_still_an_action() -> None:
    noise = torch.tensor([[0.0, 1.0 - 2.0**-24]])
    assert Greedy(1.0).sample(VALUES, noise).tolist() == [3]
    assert Greedy(1.0).sample((torch.zeros(1, 2**24),), noise).item() < 2**24


def test_the_deterministic_policy_draws_nothing() -> None:
    policy, stream = Deterministic(), Stream(0, "x")
    params = (torch.tensor([[0.5, -0.25]]),)
    noise = policy.draw(stream, 3)
    assert noise.shape == (3, 0)
    assert stream.state_dict() == Stream(0, "x").state_dict()
    assert policy.sample(params, torch.from_numpy(noise)) is params[0]
    assert policy.to_unit(policy.mode(params)) is params[0]
    for density in (policy.log_prob, policy.entropy):
        with pytest.raises(TypeError, match="no density"):
            density(params, params[0])


def test_a_policy_that_never_explores_is_sure() -> None:
    assert Greedy(0.0).log_prob(VALUES, torch.tensor([1])).item() == 0.0
    assert Greedy(0.0).log_prob(VALUES, torch.tensor([0])).item() == -math.inf
