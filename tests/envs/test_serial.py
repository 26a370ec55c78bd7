"""The serial backend returns what Gymnasium's SyncVectorEnv returns, on real environments and on awkward ones."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.serial import SerialVectorEnv
from steadyrl.envs.vector import make_vec
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import RunFailedError
from support.envs import ConstantReward, Ending, LifeLoss, OddTypes, Reuser, Scripted, SpaceProbe
from support.families import newest
from support.faulty_envs import Failing
from support.vectors import collect

N = 3
SEEDS = [50, 83, 7]

SCRIPT = [Ending(1, True, False), Ending(3, True, True), Ending(2, False, True)]
OBSERVATIONS: list[gym.Space[Any]] = [
    spaces.Box(-1, 1, (), np.float32),
    spaces.Box(-1, 1, (3,), np.float64),
    spaces.Box(0, 255, (4, 5, 2), np.uint8),
    spaces.Discrete(5, start=2),
    spaces.MultiDiscrete(np.array([[3], [4]])),
    spaces.MultiBinary((2, 2)),
    spaces.Dict({"b": spaces.Box(-1, 1, (2,), np.float64), "a": spaces.Discrete(3)}),
]
ACTIONS: list[gym.Space[Any]] = [
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([3, 2], start=[1, -1]),
    spaces.MultiBinary((2, 2)),
    spaces.Box(-2, 0, (2,), np.float64),
]


def cut_short(env_id: str) -> Callable[[], Canonical]:
    """An environment whose episodes end often enough to be seen ending."""
    return make_env_factory(env_id, max_episode_steps=9)


def flat_blackjack() -> gym.Env[Any, Any]:
    """A Tuple to observe, flattened: tuples themselves are refused before any vector is made."""
    return gym.wrappers.FlattenObservation(gym.make("Blackjack-v1"))


def probe(observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> SpaceProbe:
    """One with spaces, and so random numbers, of its own."""
    return SpaceProbe(copy.deepcopy(observation_space), copy.deepcopy(action_space))


TAXI = newest("Taxi")
MUJOCO = pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="needs mujoco")
BOX2D = pytest.mark.skipif(importlib.util.find_spec("Box2D") is None, reason="needs box2d")
ENVIRONMENTS: dict[str, Callable[[], gym.Env[Any, Any]]] = {
    **{name: cut_short(name) for name in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "FrozenLake-v1", TAXI)},
    "Blackjack-v1": flat_blackjack,
    "scripted": partial(Scripted, SCRIPT),
    "one buffer for all": partial(Reuser, 3),
    "arrays as numbers": partial(OddTypes, "(1,)", np.bool_),
    "lives": lambda: LifeLoss(ConstantReward(7), 3),
    **{f"observes {space}": partial(probe, space, spaces.Discrete(2)) for space in OBSERVATIONS},
    **{f"acts {space}": partial(probe, spaces.Box(-1, 1, (2,)), space) for space in ACTIONS},
}
CASES = [
    *ENVIRONMENTS.items(),
    pytest.param("LunarLander-v3", cut_short("LunarLander-v3"), marks=BOX2D),
    pytest.param("HalfCheetah-v5", cut_short("HalfCheetah-v5"), marks=MUJOCO),
]


def canonical(make: Callable[[], gym.Env[Any, Any]]) -> list[Canonical]:
    made = [make() for _ in range(N)]
    return [env if isinstance(env, Canonical) else Canonical(env, "it", i) for i, env in enumerate(made)]


def gymnasiums(make: Callable[[], gym.Env[Any, Any]]) -> SyncVectorEnv[Any, Any]:
    hand_out = iter(canonical(make))
    return SyncVectorEnv([lambda: next(hand_out)] * N, autoreset_mode=AutoresetMode.SAME_STEP)


def insist_on_equal(ours: Any, theirs: Any) -> None:
    """Equal in type, dtype and every value, through all dictionaries, tuples and arrays of objects."""
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            insist_on_equal(ours[key], theirs[key])
    elif isinstance(ours, tuple | list):
        for mine, other in zip(ours, theirs, strict=True):
            insist_on_equal(mine, other)
    elif isinstance(ours, np.ndarray) and ours.dtype == object:
        insist_on_equal(list(ours), list(theirs))
    else:
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("name", "make"), CASES)
def test_it_returns_what_gymnasiums_own_returns(name: str, make: Callable[[], gym.Env[Any, Any]]) -> None:
    ours, theirs = SerialVectorEnv(canonical(make)), gymnasiums(make)
    theirs.action_space.seed(0)
    ended = 0
    pairs = list(zip(ours.envs, theirs.envs, strict=True))
    for i, pair in enumerate(pairs):  # a sampled observation comes from its space's own generator
        for env in pair:
            env.observation_space.seed(i)
    starts: list[Any] = [SEEDS, None]
    for seeds in starts:
        insist_on_equal(ours.reset(seed=seeds), theirs.reset(seed=seeds))
        for _ in range(30):
            actions = theirs.action_space.sample()
            step = ours.step(actions)
            insist_on_equal(step, theirs.step(actions))
            ended += int((step[2] | step[3]).sum())
    assert ended > 2 * N, name
    for mine, other in ((a.unwrapped, b.unwrapped) for a, b in pairs):
        if isinstance(mine, SpaceProbe) and isinstance(other, SpaceProbe):
            insist_on_equal(mine.actions, other.actions)
    ours.close()
    theirs.close()


def test_make_vec_records_what_it_records_of_gymnasiums_own() -> None:
    ours = make_vec(partial(Scripted, SCRIPT), N)
    theirs = make_vec(gymnasiums(partial(Scripted, SCRIPT)))
    insist_on_equal(ours.reset(SEEDS), theirs.reset(SEEDS))
    for t in range(20):
        actions = np.arange(t, t + N) % 3
        insist_on_equal(tuple(ours.step(actions)), tuple(theirs.step(actions)))
    assert (ours.spec.backend, theirs.spec.backend) == ("sync", "sync")


def test_every_array_is_a_fresh_one() -> None:
    envs = SerialVectorEnv(canonical(partial(Reuser, 2)))
    before = envs.reset(seed=SEEDS)[0]
    for _ in range(4):
        obs, *rest, infos = envs.step(np.zeros(N, np.int64))
        kept = [obs.copy(), *(array.copy() for array in rest), *infos.get("final_obs", [])]
        after = envs.step(np.zeros(N, np.int64))[0]
        assert not np.shares_memory(obs, before)
        insist_on_equal([obs, *rest, *infos.get("final_obs", [])], kept)
        before = after


@pytest.mark.parametrize("at", [0, 3])
def test_an_error_names_its_environment_and_step(at: int) -> None:
    kinds = ["none", "raise", "none"]
    envs = make_vec(lambda: Failing(kinds.pop(0), at), N)
    where = rf"in step {at} of its episode" if at else r"in reset\(\)"
    with pytest.raises(RunFailedError, match=rf"Environment 1 .*LookupError {where}: the motor fell off"):
        collect(envs, SEEDS, at)
    envs.close()


def test_as_many_actions_and_seeds_as_environments_are_wanted() -> None:
    envs = SerialVectorEnv(canonical(ConstantReward))
    with pytest.raises(ValueError, match="zip"):
        envs.reset(seed=[1, 2])
    envs.reset(seed=SEEDS)
    with pytest.raises(ValueError, match="zip"):
        envs.step(np.zeros(N + 1, np.int64))


def test_close_closes_every_environment_once() -> None:
    closed = []

    class Closing(ConstantReward):
        def close(self) -> None:
            closed.append(self)

    envs = make_vec(Closing, N)
    envs.close()
    envs.close()
    assert len(closed) == N


class Picture(gym.Env[Any, Any]):
    """Observes where each number of a picture belongs: as arrays of this order in memory, and of this type."""

    def __init__(self, order: Literal["C", "F"], dtype: Any) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2, 3), np.float32)
        self.action_space = spaces.Discrete(2)
        self.picture = np.arange(6, dtype=dtype).reshape(2, 3).copy(order=order)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.picture, {}

    def step(self, action: Any) -> Any:
        return self.picture + np.float32(10.0 * action), 0.0, False, False, {}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_batch_holds_each_number_in_its_place(order: Literal["C", "F"], dtype: Any) -> None:
    envs = SerialVectorEnv([Canonical(Picture(order, dtype), index=i) for i in range(3)])
    expected = np.arange(6, dtype=np.float32).reshape(2, 3)
    first = envs.reset(seed=[0, 1, 2])[0]
    obs = envs.step(np.array([0, 1, 0]))[0]
    for batch, added in ((first, [0, 0, 0]), (obs, [0, 10, 0])):
        assert (batch.dtype, batch.shape, batch.flags.c_contiguous) == (np.float32, (3, 2, 3), True)
        for row, more in zip(batch, added, strict=True):
            np.testing.assert_array_equal(row, expected + more)
        batch[...] = -1.0  # it is the caller's
    np.testing.assert_array_equal(envs.envs[0].last, expected)
    envs.close()


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(3), spaces.MultiBinary(2), spaces.Box(0, 1, (0,)), spaces.Box(0, 255, (2, 2), np.uint8)],
    ids=str,
)
def test_a_batch_is_what_numpy_would_make_of_its_rows(space: gym.Space[Any]) -> None:
    envs = SerialVectorEnv([Canonical(SpaceProbe(copy.deepcopy(space), spaces.Discrete(2)), index=i) for i in range(3)])
    batch = envs.reset(seed=[0, 1, 2])[0]
    expected = np.array([env.last for env in envs.envs])
    assert (batch.dtype, batch.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(batch, expected)
    envs.close()
