"""Interquartile mean and bootstrap intervals against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from steadyrl.stats import FloatArray, bootstrap_ci, iqm


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 100.0, 10.0], 37.0),  # floor(3 / 4) = 0 are cut
        ([9.0, 1.0, 2.0, 1000.0], 5.5),  # 1 and 1000 are cut
        ([5.0, 1.0, 2.0, 3.0, 1000.0], 10 / 3),  # floor(5 / 4) = 1 at each end
        ([0, 0, 1, 2, 3, 50, 50], (0 + 1 + 2 + 3 + 50) / 5),
        ([8, 7, 6, 5, 4, 3, 2, -100], (3 + 4 + 5 + 6) / 4),  # 2 at each end
    ],
)
def test_iqm_by_hand(values: list[float], expected: float) -> None:
    assert float(iqm(values)) == pytest.approx(expected, rel=1e-12)


def test_iqm_along_an_axis() -> None:
    table = np.array([[9.0, 1.0, 2.0, 1000.0], [4.0, 4.0, 4.0, 4.0]])
    assert iqm(table).tolist() == [5.5, 4.0]
    assert iqm(table.T, axis=0).tolist() == [5.5, 4.0]
    assert table[0].tolist() == [9.0, 1.0, 2.0, 1000.0]


def test_bootstrap_is_the_same_for_the_same_values_and_leaves_numpys_generator_alone() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    assert bootstrap_ci(values) == bootstrap_ci(values)
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


def test_bootstrap_against_the_exact_distribution() -> None:
    # A resample of [0, 1] has the mean 0, 0.5, 1 with probability 1/4, 1/2, 1/4.
    assert bootstrap_ci([0.0, 1.0], confidence=0.95) == (0.0, 1.0)
    assert bootstrap_ci([0.0, 1.0], confidence=0.4) == (0.5, 0.5)
    assert bootstrap_ci([2.5]) == (2.5, 2.5)
    assert bootstrap_ci([4.0] * 9) == (4.0, 4.0)


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    values = np.random.default_rng(1).normal(10.0, 2.0, 400)
    low, high = bootstrap_ci(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_bootstrap_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(300):
        low, high = bootstrap_ci(rng.normal(1.0, 1.0, 30), confidence=0.9, resamples=400)
        hits += low <= 1.0 <= high
    # 300 trials at 0.9 (a little less for 30 values): within four standard deviations.
    assert 0.82 <= hits / 300 <= 0.97


def test_bootstrap_of_another_statistic() -> None:
    values = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1000.0]
    low, high = bootstrap_ci(values, iqm)
    assert low == 0.0
    assert high < bootstrap_ci(values)[1]


def test_resamples_are_as_many_as_asked_for_whatever_their_size() -> None:
    drawn: list[int] = []

    def count(sample: FloatArray, axis: int) -> FloatArray:
        drawn.append(len(sample))
        return np.asarray(sample.mean(axis=axis))

    for n, resamples in ((3, 7), (400_000, 5), (2_000_000, 2)):
        drawn.clear()
        bootstrap_ci(np.zeros(n), count, resamples=resamples)
        assert sum(drawn) == resamples
        assert max(drawn) * n <= max(2**20, n)
