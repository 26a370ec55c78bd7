"""Bounds that count as such, and actions that are clipped or stand for any."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import steadyrl as srl
from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.around import ChangedObs
from steadyrl.envs.bounds import has_bounds, lacking, least_action
from steadyrl.envs.make import make_env_factory
from steadyrl.errors import UserError

MOST = float(np.finfo(np.float32).max)


class Seen(gym.Env[Any, Any]):
    """Keeps its action and shows the same numbers each time."""

    def __init__(self, obs: Any = (6.0, 0.5), space: Any = None, actions: Any = None) -> None:
        self.obs = np.array(obs)
        self.observation_space = space or spaces.Box(-9, 9, self.obs.shape, np.float32)
        self.action_space = actions or spaces.Box(-2, 3, (2,), np.float32)
        self.taken: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.obs.astype(self.observation_space.dtype), {}

    def step(self, action: Any) -> Any:
        self.taken = action
        return self.obs.astype(self.observation_space.dtype), 0.0, False, True, {}


def made(env: Any, **settings: Any) -> Any:
    return make_env_factory(lambda: env, wrappers=WrapperSettings(**settings))()


@pytest.mark.parametrize(
    ("low", "high", "bounded"),
    [
        (-1.0, 1.0, True),
        (-1e18, 1e18, True),
        (-MOST, MOST, False),
        (-1.0, 2e18, False),
        (-np.inf, 1.0, False),
    ],
)
def test_absurd_bounds_are_none(low: float, high: float, bounded: bool) -> None:
    space = spaces.Box(low, high, (2,), np.float32 if abs(high) != 1e18 else np.float64)
    assert has_bounds(space) == bounded
    if not bounded:
        with pytest.raises(UserError, match="rescale_obs needs finite bounds"):
            ChangedObs(Seen(space=space), None, "Seen")
        with pytest.raises(UserError, match="rescale_action needs actions with finite bounds"):
            made(Seen(actions=space), rescale_action=True)


@pytest.mark.parametrize(
    ("low", "high", "least", "most"),
    [
        ([5, -1], [10, 1], [2, -1], [2, 1]),
        ([-10, -1], [-5, 1], [-2, -1], [-2, 1]),
        ([-9, 1], [9, 9], [-2, 1], [2, 2]),
    ],
)
def test_observations_are_clipped_where_bounds_lie_beyond(low: Any, high: Any, least: Any, most: Any) -> None:
    space = spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
    env = made(Seen(low, space), clip_obs=2.0)
    assert env.observation_space == spaces.Box(np.array(least, np.float32), np.array(most, np.float32))
    obs = env.reset(seed=0)[0]
    np.testing.assert_array_equal(obs, np.clip(low, -2, 2))
    assert env.observation_space.contains(obs)


def test_clipped_observations_are_of_the_type_that_is_told() -> None:
    space = spaces.Box(-9, 9, (1,), np.float16)
    env = ChangedObs(Seen([8.0], space), 0.3, "Seen")
    obs = env.reset()[0]
    assert obs.dtype == env.observation_space.dtype == np.float32
    assert env.observation_space.contains(obs)


def test_clipped_actions_keep_their_bounds_and_take_any() -> None:
    inner = Seen()
    env = made(inner, clip_action=True)
    assert env.action_space == inner.action_space
    env.reset(seed=0)
    for action, taken in (([5, -7], [3, -2]), ([0.5, -1], [0.5, -1])):
        env.step(np.array(action, dtype=np.float32))
        np.testing.assert_array_equal(inner.taken, np.array(taken, dtype=np.float32))


def test_a_training_takes_the_same_actions_whether_they_are_clipped_or_not() -> None:
    weights = []
    for settings in ({}, {"clip_action": True}):
        agent = srl.PPO(
            "Pendulum-v1", n_steps=64, num_envs=1, vec="sync", preset="none", seed=0, eval_freq=0, **settings
        )
        agent.learn(128)
        weights.append(agent.policy.sha256())
    assert weights[0] == weights[1]
    assert srl.SAC("Pendulum-v1", clip_action=True, preset="none").action_space == spaces.Box(-2, 2, (1,), np.float32)


@pytest.mark.parametrize("setting", ["rescale_action", "clip_action"])
@pytest.mark.parametrize(
    ("space", "lacks"),
    [
        (spaces.Box(-2, 3, (2,), np.int64), "that are real numbers"),
        (spaces.Box(0, 255, (2,), np.uint8), "that are real numbers"),
        (spaces.Box(np.array([1, 0], np.float32), np.array([1, 2], np.float32)), "with room between their bounds"),
        (spaces.Discrete(3), "with finite bounds"),
        (spaces.Box(-2, 3, (2,), np.float64), ""),
    ],
)
def test_actions_that_cannot_be_rescaled_are_refused(setting: str, space: Any, lacks: str) -> None:
    assert lacking(space) == lacks
    if lacks:
        with pytest.raises(UserError, match=f"{setting} needs actions {lacks}, but those of"):
            made(Seen(actions=space), **{setting: True})
    else:
        made(Seen(actions=space), **{setting: True})


@pytest.mark.parametrize(
    ("space", "least"),
    [
        (spaces.Discrete(5, start=2), 2),
        (spaces.MultiDiscrete([3, 3], start=[1, 0]), [1, 0]),
        (spaces.Box(1.0, 2.0, (1,)), [1.0]),
        (spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))), (0, [0, 0])),
        (spaces.Dict({"a": spaces.Discrete(2, start=1)}), {"a": 1}),
        (spaces.Text(3), None),
        (spaces.Dict({"a": spaces.Text(3)}), None),
    ],
)
def test_an_action_that_fits_is_found(space: Any, least: Any) -> None:
    found = least_action(space)
    if least is None:
        assert found is None
        return
    assert space.contains(found)
    np.testing.assert_equal(found, least if not isinstance(least, list) else np.array(least))
