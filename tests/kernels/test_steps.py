"""What happens between two steps of the environments, by kernels and by NumPy: running statistics, rewards, actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.nn.normalizer import ObsNormalizer, RewardNormalizer, RunningMeanStd
from steadyrl.spaces import ActionSpec, ObsSpec
from support.kernels import native_threads, needs_native

pytestmark = needs_native

SHAPES = st.sampled_from([(1,), (2,), (3,), (17,), (2, 3), ()])
SCALES = st.sampled_from([1e-30, 1e-3, 1.0, 1e6, 1e18])


def both(shape: tuple[int, ...], **options: Any) -> tuple[ObsNormalizer, ObsNormalizer]:
    """A normaliser of one leaf by kernels, and one by NumPy."""
    spec = ObsSpec.of(gs.Dict({"x": gs.Box(-np.inf, np.inf, shape)}))
    found = ObsNormalizer(spec, **options), ObsNormalizer(spec, **options)
    found[0].native = True
    return found


def states_agree(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-12, atol=0, err_msg=key)


@given(shape=SHAPES, scale=SCALES, sizes=st.lists(st.integers(0, 300), max_size=4), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_observations(shape: tuple[int, ...], scale: float, sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    native, numpy = both(shape)
    for n in sizes:
        obs = {"x": (scale * rng.normal(3.0, 1.0, (n, *shape))).astype(np.float32)}
        mask = rng.random(n) < rng.choice([0.0, 0.3, 1.0])
        before, kept = obs["x"].copy(), mask.copy()
        found, expected = native.take_in(obs, mask), numpy.take_in(obs, mask)
        assert found["x"].dtype == np.float32
        assert found["x"].shape == obs["x"].shape
        np.testing.assert_allclose(found["x"], expected["x"], rtol=1e-6, atol=1e-30)
        states_agree(native.state_dict(), numpy.state_dict())
        again = native(obs)["x"]  # changes nothing
        np.testing.assert_array_equal(again, found["x"])
        states_agree(native.state_dict(), numpy.state_dict())
        assert np.array_equal(before, obs["x"])
        assert np.array_equal(kept, mask)


def test_sums_have_numpys_bits() -> None:
    """Several columns are summed row by row, one column pairwise, so that both kernel modes train alike."""
    rng = np.random.default_rng(0)
    for shape, n in (((4,), 8), ((17,), 1), ((1,), 8), ((1,), 300), ((), 8)):
        native, numpy = both(shape)
        for _ in range(50):
            obs = {"x": rng.normal(size=(n, *shape)).astype(np.float32)}
            mask = rng.random(n) < 0.8
            assert np.array_equal(native.take_in(obs, mask)["x"], numpy.take_in(obs, mask)["x"])
        for key, value in numpy.state_dict().items():
            assert np.array_equal(native.state_dict()[key], value), (shape, key)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_numbers_that_are_none_pass_as_in_numpy(bad: float) -> None:
    native, numpy = both((3,))
    first = {"x": np.arange(12, dtype=np.float32).reshape(4, 3)}
    broken = {"x": first["x"].copy()}
    broken["x"][1, 2] = bad
    mask = np.array([True, False, True, True])
    for obs, valid in ((first, mask), (broken, mask), (broken, np.ones(4, dtype=bool)), (first, mask)):
        found, expected = native.take_in(obs, valid)["x"], numpy.take_in(obs, valid)["x"]
        np.testing.assert_allclose(found, expected, rtol=1e-6, equal_nan=True)
    assert np.isnan(found[:, 2]).all()
    assert np.isfinite(found[:, :2]).all()


def test_rows_in_pieces_and_of_another_type_are_taken_as_they_are() -> None:
    native, numpy = both((2,))
    wide = np.arange(40, dtype=np.float64).reshape(4, 10)
    obs, mask = {"x": wide[:, ::5]}, np.ones(4, dtype=bool)
    np.testing.assert_array_equal(native.take_in(obs, mask)["x"], numpy.take_in(obs, mask)["x"])
    states_agree(native.state_dict(), numpy.state_dict())


def test_threads_change_nothing() -> None:
    obs = {"x": np.random.default_rng(0).normal(size=(50_000, 9)).astype(np.float32)}
    results = []
    for threads in (1, 3):
        native, _ = both((9,))
        with native_threads(threads):
            results.append((native.take_in(obs, np.ones(50_000, dtype=bool))["x"], native.state_dict()["m2/x"]))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])


@given(
    n=st.integers(0, 40),
    steps=st.integers(1, 12),
    scale=SCALES,
    gamma=st.sampled_from([0.0, 0.99, 1.0]),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_rewards(n: int, steps: int, scale: float, gamma: float, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    native, numpy = (RewardNormalizer(n, gamma, native=kernels) for kernels in (True, False))
    for _ in range(steps):
        rewards = scale * rng.normal(size=n)
        done, valid = rng.random(n) < 0.3, rng.random(n) < share
        before = rewards.copy()
        found, expected = native(rewards, done, valid), numpy(rewards, done, valid)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        states_agree(native.state_dict(), numpy.state_dict())
        assert native.std == pytest.approx(numpy.std, rel=1e-12)
        assert np.array_equal(before, rewards)


def test_a_reward_that_is_no_number_passes() -> None:
    native = RewardNormalizer(2, 0.9, native=True)
    yes, no = np.ones(2, dtype=bool), np.zeros(2, dtype=bool)
    assert np.isnan(native(np.array([np.nan, 1.0]), no, yes)).all()  # the deviation is not one any more either
    only = RewardNormalizer(2, 0.9, native=True)
    assert only(np.array([np.nan, 1.0]), no, np.array([False, True])).tolist() == [0.0, 1.0]


@given(
    bounds=st.lists(
        st.tuples(st.sampled_from([-np.inf, -7.0, -1e-3, 0.0]), st.sampled_from([np.inf, 1e-3, 5.0])), max_size=6
    ).filter(bool),
    n=st.integers(1, 9),
    scale=st.sampled_from([0.5, 3.0, 1e30]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_actions_are_mapped_to_the_same_bits(
    bounds: list[tuple[float, float]], n: int, scale: float, seed: int
) -> None:
    from steadyrl.kernels import _native

    low, high = (np.array(side, dtype=np.float32) for side in zip(*bounds, strict=True))
    spec = ActionSpec.of(gs.Box(low, high, dtype=np.float32))
    actions = (scale * np.random.default_rng(seed).normal(size=(n, len(bounds)))).astype(np.float32)
    if n > 2:
        actions[0, 0], actions[1, 0], actions[2, 0] = np.nan, np.inf, -np.inf
    out = np.empty((n, len(bounds)), dtype=np.float32)
    _native.to_bounds(actions, *spec.bounds_map, out)
    np.testing.assert_array_equal(out, spec.to_env(actions))


ROWS, FLAGS, DOUBLES = np.zeros((4, 2), np.float32), np.ones(4, dtype=bool), np.zeros(2)
READ_ONLY = np.zeros(2)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("rows", ROWS.astype(np.float64), TypeError, "rows must be float32"),
        ("rows", np.zeros((2, 4), np.float32).T, ValueError, "rows must be contiguous"),
        ("rows", np.float32(1.0), ValueError, "rows must have rows"),
        ("valid", np.ones(3, dtype=bool), ValueError, r"valid must have the shape \[4\]"),
        ("valid", np.ones(4), TypeError, "valid must be"),
        ("mean", np.zeros(3), ValueError, "mean must hold 2 numbers, but it holds 3"),
        ("mean", np.zeros(2, np.float32), TypeError, "mean must be float64"),
        ("mean", [0.0, 0.0], TypeError, "mean must be a NumPy array"),
        ("m2", np.zeros(4)[::2], ValueError, "m2 must be contiguous"),
        ("m2", READ_ONLY, ValueError, "m2 must be writable"),
        ("count", -1, ValueError, "count must not be negative"),
        ("out", np.zeros((4, 3), np.float32), ValueError, "out must hold 8 numbers"),
    ],
)
def test_what_is_refused(name: str, value: Any, error: type[Exception], message: str) -> None:
    from steadyrl.kernels import _native

    good: dict[str, Any] = {"rows": ROWS, "valid": FLAGS, "mean": DOUBLES.copy(), "m2": DOUBLES.copy(), "count": 0}
    good |= {"eps": 1e-8, "clip": 10.0, "out": np.zeros((4, 2), np.float32)}
    _native.standardise(**good)
    with pytest.raises(error, match=message):
        _native.standardise(**{**good, name: value})


def test_rewards_that_are_refused() -> None:
    from steadyrl.kernels import _native

    scale: Any = _native.scale_rewards
    scalar: npt.NDArray[np.float64] = np.zeros(())
    good: list[Any] = [np.zeros(4), FLAGS, FLAGS, np.zeros(4), 0.9, scalar, scalar.copy(), 0, 1e-8, 10.0]
    out = np.zeros(4, np.float32)
    for place, value, error, message in (
        (0, np.zeros(4, np.float32), TypeError, "rewards must be float64"),
        (0, np.zeros((2, 2)), ValueError, "rewards must have one dimension"),
        (1, FLAGS[:2], ValueError, r"done must have the shape \[4\]"),
        (3, np.zeros(3), ValueError, "returns must hold 4 numbers"),
        (5, np.zeros(2), ValueError, "mean must hold 1 numbers"),
    ):
        with pytest.raises(error, match=message):
            scale(*[value if i == place else x for i, x in enumerate(good)], out)


def test_loaded_statistics_go_on_by_kernels() -> None:
    """A statistic of no dimension stays an array that kernels can write to."""
    known = RunningMeanStd()
    known.update(np.array([1.0, 5.0, 6.0]))
    rewards = RewardNormalizer(2, 0.9, native=True)
    rewards.load_state_dict({**known.state_dict(), "returns": np.zeros(2)})
    rewards(np.array([2.0, 3.0]), np.zeros(2, dtype=bool), np.ones(2, dtype=bool))
    assert rewards.state_dict()["count"] == 5
    assert rewards.std == pytest.approx(float(np.std([1.0, 5.0, 6.0, 2.0, 3.0])))
