"""The small wrappers, each with a known answer."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs.around import ActionRepeat, ChangedObs, DelayActions, DelayObs, FrameStack, Stacking, TimeInObs
from steadyrl.envs.time_limits import OwnLimit
from steadyrl.errors import UserError
from support.envs import SpaceProbe
from support.games import Game, pay_of


class Counts(gym.Env[Any, Any]):
    """The observation is filled with the step's number; actions are kept."""

    def __init__(self, space: spaces.Space[Any], action_space: spaces.Space[Any] | None = None) -> None:
        self.observation_space = space
        self.action_space = action_space or spaces.Discrete(5, start=2)
        self.t = 0
        self.taken: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.taken.append(action)
        return self._obs(), 1.0, self.t == 6, False, {}

    def _obs(self) -> Any:
        space: Any = self.observation_space
        return np.full(space.shape, self.t, dtype=space.dtype)


@pytest.mark.parametrize(
    ("shape", "stacked", "stacking"),
    [
        ((2,), (6,), Stacking(3, 0, 2)),
        ((4, 5), (3, 4, 5), Stacking(3, 0, 1)),
        ((6, 5, 3), (6, 5, 9), Stacking(3, -1, 3)),
        ((6, 5, 1), (6, 5, 3), Stacking(3, -1, 1)),
        ((3, 4, 5), (9, 4, 5), Stacking(3, 0, 3)),
        ((7, 4, 5), (7, 4, 15), Stacking(3, -1, 5)),
        ((5, 4, 7), (15, 4, 7), Stacking(3, 0, 5)),
    ],
)
def test_frames_are_stacked_along_the_channels(shape: Any, stacked: Any, stacking: Stacking) -> None:
    env = FrameStack(Counts(spaces.Box(0, 255, shape, np.uint8)), 3, "Counts")
    assert env.observation_space == spaces.Box(0, 255, stacked, np.uint8)
    assert env.stacking == stacking
    history = [0, 0, 0]
    for episode in range(2):
        obs, _ = env.reset()
        history = [0, 0, 0]
        for t in range(1, 6):
            parts = np.split(obs, 3, axis=stacking.axis)
            assert [set(part.ravel().tolist()) for part in parts] == [{frame} for frame in history[-3:]]
            obs[...] = 77  # it is the caller's
            obs = env.step(2)[0]
            history.append(t)
        assert episode in (0, 1)


def test_what_cannot_be_stacked_is_refused() -> None:
    with pytest.raises(UserError, match="frame_stack needs observations that are vectors or pictures, but those of X"):
        FrameStack(SpaceProbe(spaces.Discrete(3), spaces.Discrete(2)), 3, "X")


def test_a_repeated_action_adds_up_rewards_and_ends_with_the_episode() -> None:
    env = ActionRepeat(Game(8), 3)
    env.reset()
    results = [env.step(1) for _ in range(3)]
    assert [result[1] for result in results] == [
        sum(map(pay_of, (1, 2, 3))),
        sum(map(pay_of, (4, 5, 6))),
        pay_of(7) + pay_of(8),
    ]
    assert [result[2] for result in results] == [False, False, True]


@pytest.mark.parametrize(
    ("space", "zero", "chosen"),
    [
        (spaces.Discrete(5, start=2), 2, [3, 4, 5]),
        (spaces.Box(1.0, 2.0, (2,)), [1.0, 1.0], [[1.5, 2.0], [1.25, 1.0], [2.0, 2.0]]),
        (spaces.Box(-1.0, 2.0, (1,)), [0.0], [[0.5], [-0.5], [2.0]]),
        (spaces.MultiDiscrete([3, 3], start=[1, 0]), [1, 0], [[2, 2], [3, 1], [1, 1]]),
        (spaces.MultiBinary(2), [0, 0], [[1, 0], [1, 1], [0, 1]]),
    ],
)
def test_actions_come_late(space: Any, zero: Any, chosen: list[Any]) -> None:
    inner = Counts(spaces.Box(0, 9, (1,)), space)
    env = DelayActions(inner, 2, "Counts")
    for _ in range(2):
        inner.taken.clear()
        env.reset()
        for action in chosen:
            own = np.array(action, dtype=space.dtype)
            env.step(own if own.ndim else int(own))
            own += 1  # what waits is not the caller's array
        assert [np.asarray(action).tolist() for action in inner.taken] == [zero, zero, chosen[0]]
        assert all(space.contains(action) for action in inner.taken)


def test_observations_come_late() -> None:
    env = DelayObs(Counts(spaces.Box(0, 9, (1,))), 2, "Counts")
    for _ in range(2):
        seen = [env.reset()[0]] + [env.step(2)[0] for _ in range(5)]
        assert [float(obs[0]) for obs in seen] == [0, 0, 0, 1, 2, 3]


def test_time_is_the_last_number() -> None:
    env = TimeInObs(OwnLimit(Counts(spaces.Box(-1, 9, (2,), np.float32)), 4), "Counts")
    assert env.observation_space == spaces.Box(np.array([-1, -1, 0], np.float32), np.array([9, 9, 1], np.float32))
    for _ in range(2):
        seen = [env.reset()[0]] + [env.step(2)[0] for _ in range(5)]
        assert [obs.tolist() for obs in seen] == [[t, t, min(t / 4, 1)] for t in range(6)]
        assert all(obs.dtype == np.float32 for obs in seen)


def test_observations_are_brought_from_their_bounds_to_one() -> None:
    space = spaces.Box(np.array([0, -4], np.float32), np.array([8, 12], np.float32))
    env = ChangedObs(Counts(space), None, "Counts")
    assert env.observation_space == spaces.Box(-1, 1, (2,), np.float32)
    seen = [env.reset()[0]] + [env.step(2)[0] for _ in range(4)]
    assert [obs.tolist() for obs in seen] == [[t / 4 - 1, t / 8 - 0.5] for t in range(5)]
    image = ChangedObs(Counts(spaces.Box(0, 255, (2, 2), np.uint8)), None, "Counts")
    assert image.reset()[0].tolist() == [[-1, -1], [-1, -1]]
    assert image.observation_space.dtype == np.float32


def test_observations_are_clipped() -> None:
    env = ChangedObs(Counts(spaces.Box(-np.inf, np.inf, (1,), np.float64)), 2.5, "Counts")
    assert env.observation_space == spaces.Box(-2.5, 2.5, (1,), np.float64)
    seen = [env.reset()[0]] + [env.step(2)[0] for _ in range(4)]
    assert [float(obs[0]) for obs in seen] == [0, 1, 2, 2.5, 2.5]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ChangedObs(Counts(spaces.Box(-np.inf, 1, (1,))), None, "X"), "rescale_obs needs finite bounds"),
        (lambda: ChangedObs(Counts(spaces.Box(0, 9, (1,), np.uint8)), 1.0, "X"), "a Box of floats"),
        (lambda: TimeInObs(OwnLimit(Counts(spaces.Box(0, 9, (2, 2))), 4), "X"), "vectors of floats"),
        (lambda: DelayActions(Counts(spaces.Box(0, 9, (1,)), spaces.Text(3)), 1, "X"), "what no action is"),
        (lambda: DelayObs(SpaceProbe(spaces.Discrete(3), spaces.Discrete(2)), 1, "X"), "delay_obs needs"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_setting(make: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make()
