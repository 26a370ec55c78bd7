"""One view of every vector environment: dense true successors, a flag for rows that are real, and episode records."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from steadyrl.envs.autoreset import autoreset_mode, final_observations, resets_twice, success_of
from steadyrl.envs.convert import NOTE
from steadyrl.envs.notes import FirstSteps
from steadyrl.envs.outputs import flags_of, parts_of, rewards_of
from steadyrl.envs.snapshots.state import Ability
from steadyrl.envs.snapshots.vectors import by_environment, vector_ability, vector_restore, vector_state
from steadyrl.envs.types import BoolArray, EnvSpec, EpisodeRecord, FloatArray, Step
from steadyrl.errors import RunFailedError, SteadyRLError, UserError, words
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree

_ABSURD = 1e18  # the square of a larger magnitude soon leaves float32
_SURE = 0.99 * _ABSURD**2  # no entry is larger where the sum of squares, however rounded, is at most this
_STEP = ("obs", "rewards", "terminated", "truncated", "infos")


class VectorAdapter:
    """The library's view of a Gymnasium vector environment, in any autoreset mode.

    What `step` returns belongs to the caller: no array is a view into the environment's own. Episode returns are sums
    of raw rewards in float64. The environments are seeded by `reset` once; an automatic reset draws on.

    Attributes:
        notes: Remarks on the observations, each said once: outside their bounds, of another type than declared, or too
            fine for float32.

    Args:
        env: The vector environment.
        spec: What is known of it.
        seeds_each: It takes a list of seeds, one an environment; else only the first of them.

    Raises:
        UserError: a space is of a kind that is not supported.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], spec: EnvSpec, *, seeds_each: bool) -> None:
        self.spec = spec
        self.num_envs = int(env.num_envs)
        self.notes: list[str] = []
        self.live: BoolArray = np.ones(self.num_envs, dtype=np.bool_)
        self.obs_spec = ObsSpec.of(spec.obs_space)
        self.action_spec = ActionSpec.of(spec.action_space)
        self.mode = autoreset_mode(env)
        self._env = env
        self._seeds_each = seeds_each
        self._resets_twice = resets_twice(env)
        self._checked = [
            leaf.path
            for leaf in self.obs_spec.leaves
            if not leaf.nvec and (np.dtype(leaf.dtype).kind == "f" or np.dtype(leaf.dtype).itemsize == 8)
        ]
        self._first_steps = FirstSteps(spec.obs_space, spec.id)
        self._returns: FloatArray = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._seeds: list[int | None] = [None] * self.num_envs
        self._closed = False
        self._last: ObsTree | None = None  # what to act on, kept only where the environments cannot tell it
        self._keeps_last = not by_environment(env)
        self._note(self._first_steps.declared)

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
        obs, infos = self._reset(seed=list(seeds) if self._seeds_each else seeds[0])
        self.live = self.live.copy() if self._resets_twice else np.ones(self.num_envs, dtype=np.bool_)
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._seeds = list(seeds) if self._seeds_each else [None] * self.num_envs
        stored = self._stored(obs)
        self._look(obs, infos)
        return self._kept(stored)

    def step(self, actions: npt.NDArray[Any]) -> Step:
        """Step all environments.

        Args:
            actions: [N, ...], the environment's own, as `ActionSpec.to_env` makes them.

        Raises:
            RunFailedError: an environment failed, or told a number that is not finite or is absurd.
            UserError: it breaks the interface.
        """
        try:
            result = self._env.step(actions)
        except BaseException as error:
            self._raise(error, "step()")
        obs, told, ended, cut, infos = parts_of(result, _STEP, "step", self.spec.id)
        rewards = rewards_of(told, self.num_envs, self.spec.id)
        terminated = flags_of(ended, "terminated", self.num_envs, self.spec.id)
        truncated = flags_of(cut, "truncated", self.num_envs, self.spec.id)
        valid = self.live
        if self.mode is AutoresetMode.NEXT_STEP and np.count_nonzero(valid) < self.num_envs:
            rewards[~valid] = 0.0
            terminated &= valid
            truncated &= valid
        self._returns += rewards
        self._lengths += valid
        stored = self._stored(obs)
        if not np.vdot(rewards, rewards) <= _SURE:
            self._check_entries(rewards, "reward", None, rewards)
        if not self._first_steps.over or NOTE in infos:
            self._look(obs, infos)
        done = terminated | truncated
        (rows,) = done.nonzero()
        if not len(rows):
            if self.mode is AutoresetMode.NEXT_STEP:
                self.live = ~done
            return Step(self._kept(stored), stored, rewards, terminated, truncated, valid.copy(), [])
        next_obs, final_obs = self._resolve(stored, done, rows, infos)
        episodes = [self._record(int(i), terminated, truncated, infos) for i in rows]
        return Step(self._kept(next_obs), final_obs, rewards, terminated, truncated, valid.copy(), episodes)

    def ability(self) -> Ability:
        """How the state can be saved, as far as it can be known; best asked after the first reset."""
        return vector_ability(self._env)

    def state(self) -> dict[str, Any]:
        """Everything that is needed to go on exactly, between two steps: a plain value.

        Raises:
            RunFailedError: an environment's state cannot be saved; `ability` says why.
        """
        return {
            "env_id": self.spec.id,
            "num_envs": self.num_envs,
            "inner": vector_state(self._env, self.spec.id),
            "last": None if self._last is None else {path: leaf.copy() for path, leaf in self._last.items()},
            "live": self.live.copy(),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "seeds": list(self._seeds),
            "notes": list(self.notes),
            "first_steps": self._first_steps.state(),
        }

    def restore(self, state: dict[str, Any]) -> ObsTree:
        """Go on where `state` was taken, in environments newly made.

        Returns:
            The observations to act on, leaves [N, ...].

        Raises:
            UserError: the state is of other environments, or damaged.
            RunFailedError: an environment was not restored exactly.
        """
        try:
            if (state["env_id"], state["num_envs"]) != (self.spec.id, self.num_envs):
                raise UserError(
                    f"The state is of {state['num_envs']} environments {state['env_id']}, and these are "
                    f"{self.num_envs} of {self.spec.id}.",
                    remedy="Make as many of the same as were saved.",
                    code="snapshot-kind",
                )
            obs = vector_restore(self._env, self.spec.id, state["inner"])
            stored = {path: leaf.copy() for path, leaf in state["last"].items()} if obs is None else self._stored(obs)
            self.live, self._returns = state["live"].copy(), state["returns"].copy()
            self._lengths, self._seeds = state["lengths"].copy(), list(state["seeds"])
            self.notes[:] = state["notes"]
            self._first_steps.restore(state["first_steps"])
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"The state of the environments {self.spec.id} is damaged: {type(error).__name__}: {words(error)}.",
                remedy="Use another checkpoint.",
                code="state-damaged",
            ) from error
        return self._kept(stored)

    def close(self) -> None:
        """Close every environment; a second call does nothing, and an error on the way is told as a warning."""
        if self._closed:
            return
        self._closed = True
        self._note(self._first_steps.end())
        try:
            self._env.close()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            warnings.warn(f"close() of {self.spec.id} raised {type(error).__name__}: {words(error)}", stacklevel=2)

    def _kept(self, obs: ObsTree) -> ObsTree:
        if self._keeps_last:
            self._last = {path: leaf.copy() for path, leaf in obs.items()}
        return obs

    def _reset(self, **arguments: Any) -> Any:
        try:
            result = self._env.reset(**arguments)
        except BaseException as error:
            self._raise(error, "reset()")
        return parts_of(result, ("obs", "infos"), "reset", self.spec.id)

    def _raise(self, error: BaseException, where: str) -> NoReturn:
        if isinstance(error, SteadyRLError | KeyboardInterrupt):
            raise error
        raise RunFailedError(
            f"The vector environment {self.spec.id} raised {type(error).__name__} in {where}: {words(error)}",
            remedy="The fault is in the environment's own code: its traceback says where.",
            code="env-error",
        ) from error

    def _look(self, obs: Any, infos: dict[str, Any]) -> None:
        if NOTE in infos:
            self._note([note for note in infos[NOTE] if note][:1])
        if not self._first_steps.over:
            self._note(self._first_steps.look(obs))

    def _note(self, notes: list[str]) -> None:
        self.notes += notes
        for note in notes:
            warnings.warn(note, stacklevel=2)

    def _resolve(
        self, stored: ObsTree, done: BoolArray, rows: npt.NDArray[np.intp], infos: dict[str, Any]
    ) -> tuple[ObsTree, ObsTree]:
        """What to act on next and the true successors, where the episodes of `rows` have just ended."""
        if self.mode is AutoresetMode.NEXT_STEP:
            self.live = ~done
            return stored, stored
        if self.mode is AutoresetMode.SAME_STEP:
            last = self._stored(final_observations(infos, rows, self.num_envs, self.spec.obs_space), rows)
            return stored, {path: _replaced(leaf, rows, last[path]) for path, leaf in stored.items()}
        # A fresh dictionary each time: Gymnasium pops the mask from it.
        fresh = self.obs_spec.store(self._reset(options={"reset_mask": done})[0], batch=True)
        self._insist_on_rows(fresh, self.num_envs)
        for path, leaf in fresh.items():
            kept = (leaf == stored[path]) | np.isnan(leaf)  # what was not asked for may be left out
            if not kept[~done].all():
                raise _mask_ignored(self.spec.id)
        started = {path: leaf[rows] for path, leaf in fresh.items()}
        self._check_leaves(started, started, rows)
        return {path: _replaced(leaf, rows, started[path]) for path, leaf in stored.items()}, stored

    def _record(self, i: int, terminated: BoolArray, truncated: BoolArray, infos: dict[str, Any]) -> EpisodeRecord:
        record = EpisodeRecord(
            env_index=i,
            return_=float(self._returns[i]),
            length=int(self._lengths[i]),
            terminated=bool(terminated[i]),
            truncated=bool(truncated[i]),
            success=success_of(infos, i, self.mode, self.num_envs),
            seed=self._seeds[i],
        )
        self._returns[i] = 0.0
        self._lengths[i] = 0
        self._seeds[i] = None
        return record

    def _stored(self, obs: Any, rows: npt.NDArray[np.intp] | None = None) -> ObsTree:
        """The batch as a stored tree; `rows` are the environments that it is of, all by default."""
        stored = self.obs_spec.store(obs, batch=True)
        self._insist_on_rows(stored, self.num_envs if rows is None else len(rows))
        self._check_leaves(stored, obs if self.obs_spec.is_tree else {"": obs}, rows)
        return stored

    def _insist_on_rows(self, tree: ObsTree, count: int) -> None:
        for path, leaf in tree.items():
            if len(leaf) != count:
                raise UserError(
                    f"The observations{f' at {path!r}' if path else ''} of the vector environment {self.spec.id} are "
                    f"{len(leaf)}, not {count}.",
                    remedy="Return one observation for each environment, and let num_envs tell their number.",
                    code="vector-shape",
                )

    def _check_leaves(self, tree: ObsTree, told: Any, rows: npt.NDArray[np.intp] | None) -> None:
        """Raise RunFailedError for NaN, infinity or an absurd number.

        Args:
            tree: As it is stored.
            told: The same as the environment told it, with the numbers that leave float32.
            rows: The environments of the tree's rows; None for all.

        One sum of squares tells that all is well; where it is too large the entries decide.
        """
        for path in self._checked:
            leaf = tree[path]
            if not np.vdot(leaf, leaf) <= _SURE:
                self._check_entries(leaf, f"observation at '{path}'" if path else "observation", rows, told[path])

    def _check_entries(self, values: npt.NDArray[Any], what: str, rows: npt.NDArray[np.intp] | None, told: Any) -> None:
        flat = values.reshape(len(values), -1)
        bad = ~(np.abs(flat) <= _ABSURD)
        if not bad.any():
            return
        row, entry = (int(x) for x in np.argwhere(bad)[0])
        i = row if rows is None else int(rows[row])
        value = np.asarray(told).reshape(flat.shape)[row, entry]
        place = f" entry {entry} of" if values.ndim > 1 else ""
        seed = "" if self._seeds[i] is None else f" (seed {self._seeds[i]})"
        source = "Find out in the environment where the number comes from"
        scale = "" if not np.isfinite(value) else f", and scale or clip it: its magnitude is above {_ABSURD:g}"
        raise RunFailedError(
            f"Environment {i} ({self.spec.id}) gave {value!s} as{place} its {what} "
            f"in step {self._lengths[i]} of its episode{seed}.",
            remedy=f"{source}{scale}; nothing was trained on it.",
            code="env-absurd" if scale else "env-nonfinite",
        )


def _mask_ignored(name: str) -> UserError:
    return UserError(
        f"The vector environment {name} declares autoreset mode DISABLED, but its reset() changes environments that "
        "options['reset_mask'] leaves out.",
        remedy="Make it with another autoreset mode (NEXT_STEP or SAME_STEP), or let reset() keep to the mask.",
        code="reset-mask",
    )


def _replaced(leaf: npt.NDArray[Any], rows: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    copy = leaf.copy()
    copy[rows] = values
    return copy
