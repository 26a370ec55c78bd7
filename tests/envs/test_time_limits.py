"""The share of the time limit, of whichever limit ends the episode, in whichever steps it counts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.time_limits import OwnLimit, limits_of
from steadyrl.errors import UserError


class Endless(gym.Env[Any, Any]):
    """No limit of its own; of `ends` steps where it keeps one that its specification declares."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, ends: int = 0) -> None:
        self.ends, self.t = ends, 0
        if ends:
            self.spec = EnvSpec("Endless-v0", max_episode_steps=ends)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.zeros(1, dtype=np.float32), 0.0, False, self.t == self.ends, {}


def limit(steps: int) -> dict[str, Any]:
    return {"name": "TimeLimit", "kwargs": {"max_episode_steps": steps}}


SKIP = {"name": "MaxAndSkipObservation", "kwargs": {"skip": 4}}
REPEAT = {"name": "RepeatAction", "kwargs": {"num_repeats": 4}}
CASES: dict[str, tuple[Any, dict[str, Any], int | None, int]] = {
    "a limit by name that is shorter": ("Pendulum-v1", {"wrappers": [limit(50)]}, None, 50),
    "a limit by name that is longer": ("Pendulum-v1", {"wrappers": [limit(500)]}, None, 200),
    "the only limit by name": (Endless, {"wrappers": [limit(50)]}, None, 50),
    "repeats by name": ("Pendulum-v1", {"wrappers": [SKIP]}, None, 50),
    "repeats by name within a limit": ("Pendulum-v1", {"wrappers": [REPEAT, limit(20)]}, None, 20),
    "repeats by name around a limit": (Endless, {"wrappers": [limit(20), REPEAT]}, None, 5),
    "repeats, a limit that is given": ("Pendulum-v1", {"action_repeat": 2, "wrappers": [SKIP]}, 60, 15),
    "repeats twice": ("Pendulum-v1", {"action_repeat": 2, "wrappers": [SKIP]}, None, 25),
    "repeats that do not divide": ("Pendulum-v1", {"action_repeat": 3}, None, 67),
    "within the user's own": (lambda: gym.wrappers.TimeLimit(Endless(), 30), {"action_repeat": 4}, None, 8),
    "kept by the environment": (lambda: Endless(30), {}, None, 30),
    "kept by it, with repeats": (lambda: Endless(30), {"action_repeat": 4, "wrappers": [SKIP]}, None, 2),
}


@pytest.mark.parametrize("case", CASES)
def test_the_share_is_one_where_the_episode_is_cut(case: str) -> None:
    env, settings, given, steps = CASES[case]
    if REPEAT in settings.get("wrappers", ()) and not hasattr(gym.wrappers, "RepeatAction"):
        pytest.skip("this Gymnasium has no RepeatAction")
    wrappers = WrapperSettings(time_in_obs=True, **settings)
    made = make_env_factory(env, wrappers=wrappers, max_episode_steps=given)()
    for _ in range(2):
        shares, truncated = [float(made.reset(seed=0)[0][-1])], False
        while not truncated:
            obs, _, _, truncated, _ = made.step(made.action_space.sample())
            shares.append(float(obs[-1]))
        assert len(shares) == steps + 1
        assert (shares[0], shares[-1]) == (0.0, 1.0)
        np.testing.assert_allclose(np.diff(shares)[:-1], shares[1], rtol=1e-4)


def test_a_limit_that_does_not_come_first_is_refused_with_repeats_too() -> None:
    def own() -> gym.Env[Any, Any]:
        return gym.wrappers.TimeLimit(Endless(), 200)

    factory = make_env_factory(own, wrappers=WrapperSettings(action_repeat=4), max_episode_steps=75)
    said = "max_episode_steps is 75, which are 300 steps of own .* already has a TimeLimit of 200 that comes first"
    with pytest.raises(UserError, match=said):
        factory()
    make_env_factory(own, wrappers=WrapperSettings(action_repeat=4), max_episode_steps=50)()


def test_without_any_limit_it_is_refused() -> None:
    wrappers = (REPEAT,) if hasattr(gym.wrappers, "RepeatAction") else ()
    with pytest.raises(UserError, match="time_in_obs needs a time limit, and Endless has none"):
        make_env_factory(Endless, wrappers=WrapperSettings(time_in_obs=True, wrappers=wrappers))()


def test_limits_that_cut_come_before_those_that_only_count() -> None:
    counted = OwnLimit(Endless(), 30)
    assert limits_of(counted) == [counted]
    cut = gym.wrappers.TimeLimit(counted, 50)
    assert limits_of(cut) == [cut]
    assert limits_of(Endless()) == []
