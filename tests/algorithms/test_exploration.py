"""Whence the noise comes, and how long a state-dependent distribution keeps it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from steadyrl.algorithms.exploration import Exploration
from steadyrl.nn.distributions import Distribution
from steadyrl.nn.gaussian import DiagGaussian, Squashed, StateDependentGaussian
from steadyrl.seeding import Stream

SDE = StateDependentGaussian(size=2, latent_dim=3)


def exploration(distribution: Distribution, sample_freq: int = -1) -> Exploration:
    return Exploration(distribution, Stream(0, "actions"), 4, sample_freq)


def changes(source: Exploration, steps: list[int]) -> list[bool]:
    """Whether the noise of each step is another one than that of the step before."""
    drawn = [source.draw(step).copy() for step in steps]
    return [not np.array_equal(a, b) for a, b in pairwise(drawn)]


def test_ordinary_noise_is_the_streams_own_and_new_each_step() -> None:
    source, stream = exploration(DiagGaussian(2)), Stream(0, "actions")
    for step in (0, 1, 2, 0):
        noise = source.draw(step)
        assert noise.shape == (4, 2)
        assert np.array_equal(noise, stream.normal((4, 2)))


@pytest.mark.parametrize("distribution", [SDE, Squashed(SDE)], ids=["plain", "squashed"])
def test_state_dependent_noise_is_kept(distribution: Distribution) -> None:
    steps = [0, 1, 2, 3, 4, 5, 0, 1]
    assert exploration(distribution).draw(0).shape == (4, 3, 2)
    once_a_rollout = [False] * 5 + [True, False]
    assert changes(exploration(distribution, -1), steps) == once_a_rollout
    assert changes(exploration(distribution, 1), steps) == [True] * 7
    assert changes(exploration(distribution, 2), steps) == [False, True, False, True, False, True, False]


def test_each_environment_has_its_own_matrix() -> None:
    noise = exploration(SDE).draw(0)
    assert len({row.tobytes() for row in noise}) == 4


@pytest.mark.parametrize("distribution", [DiagGaussian(2), SDE], ids=["plain", "gsde"])
def test_the_state_goes_on_in_the_middle_of_a_rollout(distribution: Distribution) -> None:
    source = exploration(distribution, 3)
    for step in range(5):
        source.draw(step)
    other = Exploration(distribution, Stream(9, "other"), 4, 3)
    other.load_state_dict(source.state_dict())
    for step in (5, 6, 7, 0, 1):
        assert np.array_equal(other.draw(step), source.draw(step))


def test_a_state_without_a_draw() -> None:
    source = exploration(SDE)
    other = Exploration(SDE, Stream(9, "other"), 4, -1)
    other.load_state_dict(source.state_dict())
    assert np.array_equal(other.draw(3), source.draw(3))
