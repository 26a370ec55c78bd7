"""Running statistics against NumPy over all rows at once, and rewards against a hand-computed run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.errors import UserError
from steadyrl.nn.normalizer import ObsNormalizer, RewardNormalizer, RunningMeanStd
from steadyrl.seeding import Stream
from steadyrl.spaces import ObsSpec

SPACE = gs.Dict(
    {
        "position": gs.Box(-np.inf, np.inf, (2,)),
        "image": gs.Box(0, 255, (2, 2), np.uint8),
        "room": gs.Discrete(3),
        "doors": gs.MultiBinary(2),
    }
)


def observations(n: int) -> dict[str, npt.NDArray[Any]]:
    stream = Stream(0, "obs")
    return {
        "position": stream.normal((n, 2)) * np.array([1, 50], np.float32) + np.array([3, -7], np.float32),
        "image": stream.integers(0, 256, (n, 2, 2)).astype(np.float32),
        "room": stream.integers(0, 3, (n, 1)),
        "doors": stream.integers(0, 2, (n, 2)).astype(np.float32),
    }


ALL = np.ones(8, dtype=bool)


@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
@settings(max_examples=200, deadline=None)
def test_batches_merge_to_the_whole(values: list[float], cuts: list[int]) -> None:
    rows = np.array(values, dtype=np.float32)
    statistic = RunningMeanStd()
    for batch in np.split(rows, sorted(min(cut, len(rows)) for cut in cuts)):
        statistic.update(batch)
    whole = rows.astype(np.float64)
    scale = np.abs(whole).max() + 1e-300
    assert statistic.count == len(rows)
    assert abs(statistic.mean - whole.mean()) <= 1e-12 * scale
    assert abs(statistic.var - whole.var()) <= 1e-12 * scale**2


def test_before_two_rows_the_variance_is_one() -> None:
    statistic = RunningMeanStd((2,))
    assert statistic.mean.tolist() == [0, 0]
    assert statistic.var.tolist() == [1, 1]
    statistic.update(np.zeros((0, 2)))
    assert statistic.count == 0
    statistic.update(np.array([[3.0, -4.0]]))
    assert statistic.mean.tolist() == [3, -4]
    assert statistic.var.tolist() == [1, 1]
    statistic.update(np.array([[5.0, -4.0]]))
    assert statistic.mean.tolist() == [4, -4]
    assert statistic.var.tolist() == [1, 0]


def test_a_small_spread_on_a_large_mean_is_kept() -> None:
    """float32 sums of squares would lose this variance altogether."""
    statistic = RunningMeanStd()
    for _ in range(100):
        statistic.update(np.array([1e6 - 0.5, 1e6 + 0.5], dtype=np.float32))
    assert statistic.var == pytest.approx(0.25, rel=1e-9)


def test_observations_are_standardised_by_leaf() -> None:
    normalizer = ObsNormalizer(ObsSpec.of(SPACE))
    obs = observations(500)
    normalizer.update(obs, np.ones(500, dtype=bool))
    out = normalizer(obs)
    assert list(out) == list(obs)
    position = out["position"]
    assert position.dtype == np.float32
    np.testing.assert_allclose(position.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(position.std(axis=0), 1, atol=1e-5)
    for path in ("image", "room", "doors"):
        assert out[path] is obs[path]


def test_normalised_arrays_are_fresh() -> None:
    normalizer = ObsNormalizer(ObsSpec.of(gs.Box(-1.0, 1.0, (2,))), eps=0.0)
    obs = {"": np.array([[0.5, -20.0]], np.float32)}
    out = normalizer(obs)
    assert out[""].tolist() == [[0.5, -10.0]]
    assert not np.shares_memory(out[""], obs[""])
    assert obs[""].tolist() == [[0.5, -20.0]]


def test_only_masked_rows_count_and_use_changes_nothing() -> None:
    spec = ObsSpec.of(gs.Box(-np.inf, np.inf, (1,)))
    normalizer = ObsNormalizer(spec, clip=5.0)
    obs = {"": np.array([[1.0], [1e9], [3.0]], np.float32)}
    normalizer.update(obs, np.array([True, False, True]))
    state = normalizer.state_dict()
    assert (state["mean/"].tolist(), state["count/"].tolist()) == ([2.0], 2.0)
    np.testing.assert_allclose(normalizer(obs)[""], [[-1.0], [5.0], [1.0]], rtol=1e-6)
    after = normalizer.state_dict()
    assert all(np.array_equal(state[key], after[key]) for key in state)


def test_observation_state_goes_on_bit_for_bit() -> None:
    spec, obs = ObsSpec.of(SPACE), observations(8)
    first, second = ObsNormalizer(spec), ObsNormalizer(spec)
    first.update(obs, ALL)
    state = first.state_dict()
    assert set(state) == {"mean/position", "m2/position", "count/position"}
    assert {array.dtype for array in state.values()} == {np.dtype(np.float64)}
    second.load_state_dict(state)
    assert np.array_equal(second(obs)["position"], first(obs)["position"])
    for normalizer in (first, second):
        normalizer.update(observations(5), np.ones(5, dtype=bool))
    assert not np.array_equal(first.state_dict()["mean/position"], state["mean/position"])
    for key, array in first.state_dict().items():
        assert np.array_equal(second.state_dict()[key], array)


@pytest.mark.parametrize(
    ("key", "value", "words"), [("m2/", None, "'m2' is missing"), ("mean/", (3,), r"shape \(3,\)")]
)
def test_a_state_for_other_observations_is_refused(key: str, value: tuple[int, ...] | None, words: str) -> None:
    normalizer = ObsNormalizer(ObsSpec.of(gs.Box(-1.0, 1.0, (2,))))
    state = normalizer.state_dict()
    if value is None:
        del state[key]
    else:
        state[key] = np.zeros(value)
    with pytest.raises(UserError, match=words):
        normalizer.load_state_dict(state)


def flags(*values: int) -> npt.NDArray[np.bool_]:
    return np.array(values, dtype=bool)


def test_rewards_by_hand() -> None:
    """The discounted returns seen: environment 0 ends at the second step, and its third row is made up."""
    normalizer = RewardNormalizer(2, gamma=0.5, clip=1.5, eps=0.0)

    def check(rewards: list[float], done: tuple[int, int], valid: tuple[int, int], expected: list[float]) -> None:
        out = normalizer(np.array(rewards), flags(*done), flags(*valid))
        assert out.dtype == np.float32
        assert out.tolist() == pytest.approx(expected, rel=1e-6)

    check([1.0, 2.0], (0, 0), (1, 1), [1.5, 1.5])  # returns 1 and 2: std 0.5
    assert normalizer.std == 0.5
    seen = [1.0, 2.0, 0.5 + 3.0, 1.0 + 0.0]
    check([3.0, 0.0], (1, 0), (1, 1), [1.5, 0.0])
    assert normalizer.std == pytest.approx(float(np.std(seen)))
    seen += [0.5 + 1.0]
    check([99.0, 1.0], (0, 0), (0, 1), [0.0, 1.0 / float(np.std(seen))])
    seen += [0.0 + 4.0, 0.75 - 1.0]
    check([4.0, -1.0], (0, 0), (1, 1), [1.5, -1.0 / float(np.std(seen))])
    assert normalizer.std == pytest.approx(float(np.std(seen)))


def test_a_constant_reward_is_scaled_by_the_spread_of_its_returns() -> None:
    """Endless reward 1: returns go to 1 / (1 - gamma), so the spread stays finite and rewards keep their sign."""
    normalizer = RewardNormalizer(1, gamma=0.9)
    returns, running = [], 0.0
    for _ in range(200):
        running = 0.9 * running + 1.0
        returns.append(running)
        out = normalizer(np.ones(1), flags(0), flags(1))
    assert out[0] == pytest.approx(1.0 / math.sqrt(np.var(returns) + 1e-8), rel=1e-6)


def test_reward_state_goes_on_bit_for_bit() -> None:
    stream = Stream(0, "rewards")
    first, second = RewardNormalizer(3, 0.99), RewardNormalizer(3, 0.99)

    def feed(normalizer: RewardNormalizer, rewards: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return normalizer(rewards.astype(np.float64), rewards > 1.5, flags(1, 1, 1))

    for _ in range(10):
        feed(first, stream.normal((3,)))
    state = first.state_dict()
    second.load_state_dict(state)
    rewards = stream.normal((3,))
    assert np.array_equal(feed(first, rewards), feed(second, rewards))
    assert not np.array_equal(state["returns"], first.state_dict()["returns"])
    with pytest.raises(UserError, match="'returns' is of shape"):
        RewardNormalizer(2, 0.99).load_state_dict(state)


def test_the_newest_update_is_taken_back_exactly() -> None:
    normalizer = ObsNormalizer(ObsSpec.of(SPACE))
    normalizer.update(observations(8), ALL)
    before = normalizer.state_dict()
    normalizer.update({path: leaf + 1 for path, leaf in observations(8).items()}, ALL)
    assert normalizer.state_dict()["count/position"] == 16
    normalizer.undo()
    normalizer.undo()  # there is only one to take back
    after = normalizer.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("name", ["mean", "_m2"])
def test_statistics_say_whether_they_are_finite(name: str) -> None:
    normalizer = ObsNormalizer(ObsSpec.of(SPACE))
    normalizer.update(observations(8), ALL)
    assert normalizer.is_sane()
    setattr(normalizer.statistics["position"], name, np.array([1.0, np.inf]))
    assert not normalizer.is_sane()
