"""Environments of this process behind Gymnasium's vector interface, with little between two of their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from steadyrl.envs.advance import Advanced, AdvancingVectorEnv, ToldInfos
from steadyrl.envs.alike import differ
from steadyrl.envs.restart import RESTARTED, Restarts
from steadyrl.envs.snapshot import Ability, block_abilities, block_restore, block_state
from steadyrl.envs.wrappers import Canonical, failure_in_making
from steadyrl.errors import RunFailedError, UserError
from steadyrl.spaces.tree import FIXED, Tree


class SerialVectorEnv(AdvancingVectorEnv):
    """N environments, stepped one after the other, with SAME_STEP autoreset.

    It returns what Gymnasium's SyncVectorEnv would. What that does beyond it, `Canonical` has done: observations are
    fresh and of the space's shape and dtype, rewards are floats, flags are bools. Every array is a fresh one.

    Args:
        envs: The environments, of equal spaces.
        anew: Makes an environment once more, where one that fails is to be started anew.
        restarts: How often and with which seeds that happens; None never.
    """

    def __init__(
        self,
        envs: Sequence[Canonical],
        anew: Callable[[int], Canonical] | None = None,
        restarts: Restarts | None = None,
    ) -> None:
        self.envs = list(envs)
        self._anew = anew
        self._restarts = restarts
        self.num_envs = len(envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = envs[0].observation_space
        self.single_action_space = envs[0].action_space
        self._tree = Tree.of(self.single_observation_space)
        space = self.single_observation_space
        self._plain = isinstance(space, FIXED) and bool(np.dtype(space.dtype).isnative)
        self._dtype, self._shape = space.dtype, (self.num_envs, *(space.shape or ()))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start every environment with its own seed, [N]; without, each draws on."""
        seeds = [None] * self.num_envs if seed is None else seed
        rows, told = [], []
        for i, (env, own) in enumerate(zip(self.envs, seeds, strict=True)):
            try:
                obs, info = env.reset(seed=own, options=options)
            except RunFailedError as error:
                obs, info = self._start_anew(i, error)
            rows.append(obs)
            told.append((i, info))
        return self._batch(rows), self._infos(told)

    def advance(self, actions: npt.NDArray[Any]) -> Advanced:
        """Step every environment with its own action, [N, ...], and start those anew whose episode ended."""
        rows: list[Any] = []
        rewards: list[float] = []
        told: ToldInfos = []
        terminated, truncated = np.zeros(self.num_envs, dtype=np.bool_), np.zeros(self.num_envs, dtype=np.bool_)
        for env, action in zip(self.envs, actions, strict=True):
            try:
                obs, reward, ended, cut, info = env.step(action)
            except RunFailedError as error:
                obs, info = self._start_anew(len(rows), error)
                reward, ended, cut = 0.0, False, False
                told.append((len(rows), {RESTARTED: True}))
            if ended or cut:
                i = len(rows)
                terminated[i], truncated[i] = ended, cut
                told.append((i, {"final_obs": obs, "final_info": info}))
                obs, info = self._next_episode(i)
            if info:
                told.append((len(rows), info))
            rows.append(obs)
            rewards.append(reward)
        return self._batch(rows), np.array(rewards), terminated, truncated, told

    def restart(self, index: int, seed: int) -> Any:
        """Start one environment anew; returns its first observation and info."""
        return self.envs[index].reset(seed=seed)

    def _next_episode(self, i: int) -> tuple[Any, dict[str, Any]]:
        if self._restarts is not None:
            self._restarts.fine(i)
        try:
            return self.envs[i].reset()
        except RunFailedError as error:
            return self._start_anew(i, error)

    def _start_anew(self, i: int, error: RunFailedError) -> tuple[Any, dict[str, Any]]:
        """The first observation and info of a new environment in the place of one that failed.

        Raises:
            RunFailedError: what failed is not the environment's code, or the budget is spent.
            UserError: the new environment breaks the Gymnasium interface.
        """
        while True:
            if self._restarts is None or self._anew is None or error.failure is None:
                raise error
            seed = self._restarts.next_seed(i, error)
            self.envs[i].close()
            try:
                self.envs[i] = self._made(i)
                return self.envs[i].reset(seed=seed)
            except RunFailedError as again:
                error = again

    def _made(self, i: int) -> Canonical:
        assert self._anew is not None
        try:
            env = self._anew(i)
        except UserError as error:
            if error.code != "env-make" or error.__cause__ is None:
                raise
            failed = RunFailedError(error.message, remedy=error.remedy, code=error.code)
            failed.failure = failure_in_making(i, error.__cause__)
            raise failed from error.__cause__
        own, known = (
            (env.observation_space, env.action_space),
            (self.single_observation_space, self.single_action_space),
        )
        if any(map(differ, own, known)):
            env.close()
            raise UserError(
                f"Environment {i} ({env.name}) has other spaces since it was started anew.",
                remedy="Let every call make an environment with the same observation and action space.",
                code="env-spaces",
            )
        return env

    def abilities(self) -> list[Ability]:
        """How the state of each environment can be saved."""
        return block_abilities(self.envs)

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
        if self._plain:
            # Each row is fresh and of the space's dtype and shape: their bytes one after the other are the batch, which
            # takes a third of the time of `np.array`.
            try:
                return np.ndarray(self._shape, self._dtype, bytearray().join(rows))
            except (BufferError, TypeError):
                pass  # a row whose bytes are in another order, as those of a transposed picture
        return self._tree.batch(rows)
