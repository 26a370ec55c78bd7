"""Environments of this process behind Gymnasium's vector interface, with little between two of their steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from steadyrl.envs.snapshot import Ability, block_restore, block_state, how
from steadyrl.envs.types import BoolArray, FloatArray
from steadyrl.envs.wrappers import Canonical

Stepped = tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]


class SerialVectorEnv(VectorEnv[Any, Any, Any]):
    """N environments, stepped one after the other, with SAME_STEP autoreset.

    It returns what Gymnasium's SyncVectorEnv would. What that does beyond it, `Canonical` has done: observations are
    fresh and of the space's shape and dtype, rewards are floats, flags are bools. Every array is a fresh one.

    Args:
        envs: The environments, of equal spaces: Box, Discrete, MultiDiscrete, MultiBinary or a flat Dict of these to
            observe.
    """

    def __init__(self, envs: Sequence[Canonical]) -> None:
        self.envs = envs
        self.num_envs = len(envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = envs[0].observation_space
        self.single_action_space = envs[0].action_space

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start every environment with its own seed, [N]; without, each draws on."""
        seeds = [None] * self.num_envs if seed is None else seed
        rows = []
        infos: dict[str, Any] = {}
        for i, (env, own) in enumerate(zip(self.envs, seeds, strict=True)):
            obs, info = env.reset(seed=own, options=options)
            rows.append(obs)
            infos = self._add_info(infos, info, i)
        return self._batch(rows), infos

    def step(self, actions: npt.NDArray[Any]) -> Stepped:
        """Step every environment with its own action, [N, ...], and start those anew whose episode ended."""
        rows, rewards, terminated, truncated = [], [], [], []
        infos: dict[str, Any] = {}
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            obs, reward, ended, cut, info = env.step(action)
            if ended or cut:
                infos = self._add_info(infos, {"final_obs": obs, "final_info": info}, i)
                obs, info = env.reset()
            if info:
                infos = self._add_info(infos, info, i)
            rows.append(obs)
            rewards.append(reward)
            terminated.append(ended)
            truncated.append(cut)
        return self._batch(rows), np.array(rewards), np.array(terminated), np.array(truncated), infos

    def abilities(self) -> list[Ability]:
        """How the state of each environment can be saved."""
        return [how(env) for env in self.envs]

    def states(self) -> list[Any]:
        """The state of each environment, a plain value."""
        return block_state(self.envs)

    def restore_states(self, states: Sequence[Any]) -> Any:
        """Let newly made environments go on; the last observations as one batch, leaves [N, ...]."""
        return self._batch(block_restore(self.envs, states))

    def close_extras(self, **kwargs: Any) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()

    def _batch(self, rows: list[Any]) -> Any:
        """Observations of the N environments as one, leaves [N, ...]."""
        space = self.single_observation_space
        if isinstance(space, spaces.Dict):
            return {key: np.array([row[key] for row in rows]) for key in space.spaces}
        return np.array(rows)
