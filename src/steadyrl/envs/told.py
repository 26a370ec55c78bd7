"""What an environment tells, made fit for the wrappers around it, as `wrappers.Canonical` does around all of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.envs.convert import Converter, obs_converter
from steadyrl.envs.outcome import flag_of, insist_on_five, insist_on_info, insist_on_pair, reward_of

_ARRAYS = spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete


class Told:
    """Reads the results of one environment: arrays, floats and bools for wrappers, or an error in words.

    An array of another element type stays as it is, for that is told once where it arrives.

    Args:
        env: The environment.
        name: How errors call it.
    """

    def __init__(self, env: gym.Env[Any, Any], name: str) -> None:
        self._name = name
        space = env.observation_space
        self._shape = space.shape
        self._convert: Converter | None = obs_converter(space, name) if isinstance(space, _ARRAYS) else None

    def reset(self, result: Any) -> tuple[Any, dict[str, Any]]:
        """What `reset()` returned.

        Raises:
            UserError: it breaks the Gymnasium interface.
        """
        insist_on_pair(result, self._name)
        return self._seen(result[0]), result[1]

    def step(self, result: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What `step()` returned.

        Raises:
            UserError: it breaks the Gymnasium interface.
        """
        insist_on_five(result, self._name)
        obs, reward, terminated, truncated, info = result
        if type(reward) is not float:
            reward = reward_of(reward, self._name)
        if type(terminated) is not bool:
            terminated = flag_of(terminated, "terminated", self._name)
        if type(truncated) is not bool:
            truncated = flag_of(truncated, "truncated", self._name)
        if type(info) is not dict:
            insist_on_info(info, self._name)
        return self._seen(obs), reward, terminated, truncated, info

    def _seen(self, obs: Any) -> Any:
        if self._convert is None:
            return obs
        fits = type(obs) is np.ndarray and obs.shape == self._shape and obs.dtype.kind in "biuf"
        return obs if fits else self._convert(obs)
