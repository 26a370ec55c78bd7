"""Exploration noise: its size, its correlation in time, its independence across environments and dimensions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest

from steadyrl.algorithms.noise import ActionNoise
from steadyrl.configs import LinearSchedule, Schedule
from steadyrl.seeding import Stream

SHAPE = (3, 2)


def noise(kind: str, std: Schedule = 0.2) -> ActionNoise:
    return ActionNoise(kind, std, Stream(0, "exploration"), SHAPE)


def series(source: ActionNoise, n: int, progress: float = 0.0) -> npt.NDArray[np.float64]:
    """[n, N * D]."""
    return np.stack([source.draw(progress).ravel() for _ in range(n)]).astype(np.float64)


def test_no_noise_is_zero_and_draws_nothing() -> None:
    source = noise("none")
    assert not series(source, 5).any()
    assert source.state_dict()["stream"] == Stream(0, "exploration").state_dict()


def test_gaussian_noise_has_its_standard_deviation_and_no_memory() -> None:
    found = series(noise("normal"), 20_000)
    np.testing.assert_allclose(found.std(axis=0), 0.2, rtol=0.03)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=0.006)
    for column in found.T:
        assert abs(np.corrcoef(column[1:], column[:-1])[0, 1]) < 0.03
    assert found.dtype == np.float64
    assert noise("normal").draw(0.0).dtype == np.float32


@pytest.mark.parametrize("kind", ["normal", "ornstein-uhlenbeck"])
def test_environments_and_dimensions_have_noise_of_their_own(kind: str) -> None:
    found = series(noise(kind), 20_000)
    increments = np.diff(found, axis=0)
    for i, j in itertools.combinations(range(6), 2):
        assert abs(np.corrcoef(increments[:, i], increments[:, j])[0, 1]) < 0.03


def test_ornstein_uhlenbeck_follows_its_equation() -> None:
    """x <- x + theta (0 - x) dt + sigma sqrt(dt) n, with theta 0.15 and dt 0.01 (arXiv:1509.02971, section 7)."""
    source, stream = noise("ornstein-uhlenbeck"), Stream(0, "exploration")
    x = np.zeros(SHAPE)
    for _ in range(50):
        x = x + 0.15 * (0 - x) * 0.01 + 0.2 * math.sqrt(0.01) * stream.normal(SHAPE)
        np.testing.assert_allclose(source.draw(0.0), x, rtol=1e-4, atol=1e-6)


def test_ornstein_uhlenbeck_is_correlated_in_time_and_settles() -> None:
    found = series(noise("ornstein-uhlenbeck"), 150_000)[5000:]
    stationary = 0.2 * math.sqrt(0.01 / (1 - (1 - 0.15 * 0.01) ** 2))
    np.testing.assert_allclose(found.std(), stationary, rtol=0.1)  # six series of some 200 correlation times
    np.testing.assert_allclose(
        np.mean([np.corrcoef(c[:-100], c[100:])[0, 1] for c in found.T]), (1 - 0.0015) ** 100, atol=0.03
    )


def test_only_the_environments_whose_episode_ended_start_anew() -> None:
    source = noise("ornstein-uhlenbeck")
    for _ in range(20):
        before = source.draw(0.0).copy()
    source.reset(np.array([False, True, False]))
    level = source.state_dict()["level"]
    np.testing.assert_array_equal(level[[0, 2]], before[[0, 2]])
    assert not level[1].any()
    assert before[1].all()


def test_gaussian_noise_does_not_care_about_episodes() -> None:
    one, other = noise("normal"), noise("normal")
    other.reset(np.array([True, True, True]))
    np.testing.assert_array_equal(series(one, 3), series(other, 3))


@pytest.mark.parametrize("kind", ["normal", "ornstein-uhlenbeck"])
def test_the_standard_deviation_follows_its_schedule(kind: str) -> None:
    rate = LinearSchedule(0.4, 0.0)
    start, middle = noise(kind, rate).draw(0.0), noise(kind, rate).draw(0.75)
    np.testing.assert_allclose(middle, start / 4, rtol=1e-6)
    assert not noise(kind, rate).draw(1.0).any()


@pytest.mark.parametrize("kind", ["normal", "ornstein-uhlenbeck"])
def test_a_restored_state_goes_on_with_the_same_noise(kind: str) -> None:
    one, other = noise(kind), noise(kind)
    series(one, 7)
    other.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(series(one, 5), series(other, 5))
