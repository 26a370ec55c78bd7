"""Random actions among those that masks allow, for environments that are only timed."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from steadyrl.envs.masks import KEY, METHOD, told_masks
from steadyrl.envs.types import BoolArray
from steadyrl.spaces import ActionSpec
from steadyrl.spaces.masks import mask_width, pick_allowed, read_mask

_SEED = 20_260_001


class Chooser:
    """Chooses among what masks allow, each allowed value of an entry with the same probability.

    Args:
        space: Discrete or MultiDiscrete.
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        self._spec = ActionSpec.of(space)
        self._ends = np.cumsum(self._spec.nvec)[:-1]
        self._random = np.random.default_rng(_SEED)

    def __call__(self, masks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Environment actions [N, ...] under masks [N, width]."""
        parts = np.split(masks, self._ends, axis=1)
        chosen = [pick_allowed(part, self._random.random(len(masks))) for part in parts]
        return self._spec.to_env(np.stack(chosen, axis=1))


class BareMasks:
    """The masks of environments without this library around them, as they tell them.

    Args:
        envs: The environments; all have the same spaces.
    """

    def __init__(self, envs: list[gym.Env[Any, Any]]) -> None:
        self._spec = ActionSpec.of(envs[0].action_space)
        self._methods = [env.get_wrapper_attr(METHOD) if env.has_wrapper_attr(METHOD) else None for env in envs]

    def of(self, infos: list[dict[str, Any]]) -> BoolArray:
        """[N, width], by what they told last."""
        return np.stack([self._one(info, method) for info, method in zip(infos, self._methods, strict=True)])

    def _one(self, info: dict[str, Any], method: Any) -> BoolArray:
        told = info.get(KEY)
        return read_mask(method() if told is None and method is not None else told, self._spec, "the environment")


class GymnasiumsMasks:
    """The masks of one of Gymnasium's vectors: steps it, and keeps what it told.

    Args:
        vector: The vector.
        infos: What its reset told.
    """

    def __init__(self, vector: SyncVectorEnv | AsyncVectorEnv, infos: dict[str, Any]) -> None:
        self.num_envs = vector.num_envs
        self._vector = vector
        self._infos = infos
        self._spec = ActionSpec.of(vector.single_action_space)

    def step(self, actions: npt.NDArray[Any]) -> None:
        """Step every environment."""
        *_, self._infos = self._vector.step(actions)

    def now(self) -> BoolArray:
        """[N, width]; where nothing was told everything is allowed."""
        masks = np.ones((self.num_envs, mask_width(self._spec)), dtype=np.bool_)
        told = told_masks(self._infos, self.num_envs)
        if not told and all(self._vector.call("has_wrapper_attr", METHOD)):
            told = dict(enumerate(self._vector.call(METHOD)))
        for i, mask in told.items():
            masks[i] = read_mask(mask, self._spec, f"environment {i}")
        return masks
