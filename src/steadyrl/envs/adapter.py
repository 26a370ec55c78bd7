"""One view of every vector environment: dense true successors, a flag for rows that are real, and episode records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from steadyrl.envs.autoreset import autoreset_mode, final_observations, resets_twice, success_of
from steadyrl.envs.types import BoolArray, EnvSpec, EpisodeRecord, FloatArray, Step
from steadyrl.errors import RunFailedError, UserError
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree


class VectorAdapter:
    """The library's view of a Gymnasium vector environment, in any autoreset mode.

    What `step` returns belongs to the caller: no array is a view into the environment's own. Episode returns are sums
    of raw rewards in float64. The environments are seeded by `reset` once; an automatic reset draws on.

    Args:
        env: The vector environment.
        spec: What is known of it.
        seeds_each: It takes a list of seeds, one an environment; else only the first of them.

    Raises:
        UserError: a space is of a kind that is not supported.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], spec: EnvSpec, *, seeds_each: bool) -> None:
        self.spec = spec
        self.num_envs = env.num_envs
        self.live: BoolArray = np.ones(self.num_envs, dtype=np.bool_)
        self.obs_spec = ObsSpec.of(spec.obs_space)
        self.action_spec = ActionSpec.of(spec.action_space)
        self.mode = autoreset_mode(env)
        self._env = env
        self._seeds_each = seeds_each
        self._resets_twice = resets_twice(env)
        self._float_leaves = [leaf.path for leaf in self.obs_spec.leaves if np.dtype(leaf.dtype).kind == "f"]
        self._returns: FloatArray = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._seeds: list[int | None] = [None] * self.num_envs
        self._closed = False

    def reset(self, seeds: list[int]) -> ObsTree:
        """Start every environment, once; later episodes draw on.

        Args:
            seeds: One an environment. A native vector environment draws everything from one stream and takes the first.

        Returns:
            Leaves [N, ...].
        """
        if len(seeds) != self.num_envs:
            raise UserError(
                f"{len(seeds)} seeds for {self.num_envs} environments.", remedy="Pass one for each.", code="seeds"
            )
        obs, _ = self._env.reset(seed=list(seeds) if self._seeds_each else seeds[0])  # type: ignore[arg-type]
        self.live = self.live.copy() if self._resets_twice else np.ones(self.num_envs, dtype=np.bool_)
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._seeds = list(seeds) if self._seeds_each else [None] * self.num_envs
        stored = self.obs_spec.store(obs, batch=True)
        self._check_finite(stored, None)
        return stored

    def step(self, actions: npt.NDArray[Any]) -> Step:
        """Step all environments.

        Args:
            actions: [N, ...], the environment's own, as `ActionSpec.to_env` makes them.

        Raises:
            RunFailedError: an environment failed, or told a number that is not finite.
        """
        obs, told_rewards, told_terminated, told_truncated, infos = self._env.step(actions)
        rewards = self._row_of_floats(told_rewards)
        terminated = self._row_of_flags(told_terminated, "terminated")
        truncated = self._row_of_flags(told_truncated, "truncated")
        valid = self.live
        stored = self.obs_spec.store(obs, batch=True)
        if self.mode is AutoresetMode.NEXT_STEP and not valid.all():
            rewards[~valid] = 0.0
            terminated &= valid
            truncated &= valid
        self._returns += rewards
        self._lengths += valid
        self._check_finite(stored, rewards)
        done = terminated | truncated
        rows = np.flatnonzero(done)
        if not len(rows):
            if self.mode is AutoresetMode.NEXT_STEP:
                self.live = ~done
            return Step(stored, stored, rewards, terminated, truncated, valid.copy(), [])
        next_obs, final_obs = self._resolve(stored, done, rows, infos)
        episodes = [self._record(int(i), terminated, truncated, infos) for i in rows]
        return Step(next_obs, final_obs, rewards, terminated, truncated, valid.copy(), episodes)

    def close(self) -> None:
        """Close every environment; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._env.close()

    def _resolve(
        self, stored: ObsTree, done: BoolArray, rows: npt.NDArray[np.intp], infos: dict[str, Any]
    ) -> tuple[ObsTree, ObsTree]:
        """What to act on next and the true successors, where the episodes of `rows` have just ended."""
        if self.mode is AutoresetMode.NEXT_STEP:
            self.live = ~done
            return stored, stored
        if self.mode is AutoresetMode.SAME_STEP:
            last = final_observations(infos, rows, self.obs_spec, self.spec.obs_space)
            self._check_finite(last, None, rows)
            return stored, {path: _replaced(leaf, rows, last[path]) for path, leaf in stored.items()}
        # A fresh dictionary each time: Gymnasium pops the mask from it.
        obs, _ = self._env.reset(options={"reset_mask": done})
        fresh = self.obs_spec.store(obs, batch=True)
        started = {path: leaf[rows] for path, leaf in fresh.items()}
        self._check_finite(started, None, rows)
        return {path: _replaced(leaf, rows, started[path]) for path, leaf in stored.items()}, stored

    def _record(self, i: int, terminated: BoolArray, truncated: BoolArray, infos: dict[str, Any]) -> EpisodeRecord:
        record = EpisodeRecord(
            env_index=i,
            return_=float(self._returns[i]),
            length=int(self._lengths[i]),
            terminated=bool(terminated[i]),
            truncated=bool(truncated[i]),
            success=success_of(infos, i, self.mode),
            seed=self._seeds[i],
        )
        self._returns[i] = 0.0
        self._lengths[i] = 0
        self._seeds[i] = None
        return record

    def _row_of_floats(self, values: Any) -> FloatArray:
        rewards = np.array(values, dtype=np.float64)
        return rewards if rewards.shape == (self.num_envs,) else self._flat(rewards, "rewards")

    def _row_of_flags(self, values: Any, key: str) -> BoolArray:
        flags = np.array(values, dtype=np.bool_)
        return flags if flags.shape == (self.num_envs,) else self._flat(flags, key)

    def _flat(self, values: npt.NDArray[Any], key: str) -> npt.NDArray[Any]:
        if values.shape == (self.num_envs, 1):
            return values[:, 0]
        raise UserError(
            f"`{key}` of the vector environment {self.spec.id} has shape {values.shape} instead of ({self.num_envs},).",
            remedy="Let it return one value for each environment.",
            code="vector-shape",
        )

    def _check_finite(
        self, tree: ObsTree, rewards: FloatArray | None, rows: npt.NDArray[np.intp] | None = None
    ) -> None:
        """Raise RunFailedError for NaN or infinity; `rows` are the environments of the tree's rows, all by default.

        The sum of squares is not finite if an entry is not, and costs a third of looking at each; it may also
        overflow, so the entries decide.
        """
        for path in self._float_leaves:
            leaf = tree[path]
            if not math.isfinite(np.vdot(leaf, leaf)):
                self._raise_not_finite(leaf, f"observation at '{path}'" if path else "observation", rows)
        if rewards is not None and not math.isfinite(np.vdot(rewards, rewards)):
            self._raise_not_finite(rewards, "reward", None)

    def _raise_not_finite(self, values: npt.NDArray[Any], what: str, rows: npt.NDArray[np.intp] | None) -> None:
        bad = ~np.isfinite(values.reshape(len(values), -1))
        if not bad.any():
            return
        row, entry = (int(x) for x in np.argwhere(bad)[0])
        i = row if rows is None else int(rows[row])
        place = f" entry {entry} of" if values.ndim > 1 else ""
        seed = "" if self._seeds[i] is None else f" (seed {self._seeds[i]})"
        raise RunFailedError(
            f"Environment {i} ({self.spec.id}) gave {values.reshape(len(values), -1)[row, entry]} as{place} its {what} "
            f"in step {self._lengths[i]} of its episode{seed}.",
            remedy="Find out in the environment where the number comes from; nothing was trained on it.",
            code="env-nonfinite",
        )


def _replaced(leaf: npt.NDArray[Any], rows: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    copy = leaf.copy()
    copy[rows] = values
    return copy
