"""One view of every vector environment: dense true successors, a flag for rows that are real, and episode records."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from steadyrl.envs.autoreset import autoreset_mode, final_observations, resets_twice, success_of
from steadyrl.envs.convert import NOTE
from steadyrl.envs.nonfinite import SURE, Place, Skipping, bad_entries
from steadyrl.envs.notes import FirstSteps
from steadyrl.envs.outputs import flags_of, parts_of, rewards_of
from steadyrl.envs.restart import RESTARTED, Restarts
from steadyrl.envs.snapshots.state import Ability
from steadyrl.envs.snapshots.vectors import by_environment, vector_ability, vector_restore, vector_state
from steadyrl.envs.types import BoolArray, BrokenEpisode, EnvSpec, EpisodeRecord, FloatArray, Step
from steadyrl.errors import NonFiniteError, RunFailedError, SteadyRLError, UserError, words
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree

_TOLD = ("actions", "rewards", "terminated", "truncated")
_STEP = ("obs", "rewards", "terminated", "truncated", "infos")


class VectorAdapter:
    """The library's view of a Gymnasium vector environment, in any autoreset mode.

    What `step` returns belongs to the caller: no array is a view into the environment's own. Episode returns are sums
    of raw rewards in float64. The environments are seeded by `reset` once; an automatic reset draws on.

    Attributes:
        notes: Remarks on the observations, each said once: outside their bounds, of another type than declared, or too
            fine for float32.
        dropped: Episodes that were left out because of a bad number in them.

    Args:
        env: The vector environment.
        spec: What is known of it.
        seeds_each: It takes a list of seeds, one an environment; else only the first of them.
        skipping: A bad number that an environment tells ends its episode, not the run; without effect where `env` has
            no `restart(index, seed)`, which gives the first observation of a new episode of that environment.
        restarts: Where `env` counts the environments that it starts anew.

    Raises:
        UserError: a space is of a kind that is not supported.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        spec: EnvSpec,
        *,
        seeds_each: bool,
        skipping: Skipping | None = None,
        restarts: Restarts | None = None,
    ) -> None:
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
        self._restarts = restarts
        self._early: list[BrokenEpisode] = []  # restarts at the first reset, for the next step to tell
        self._closed = False
        self.dropped = 0
        self._in_a_row = [0] * self.num_envs  # broken episodes since the last whole one
        self._restart = getattr(env, "restart", None)
        self._skipping = skipping if self._restart is not None else None
        self._told: tuple[npt.NDArray[Any], ...] = ()  # of the present step, in the order of _TOLD
        self._faults: dict[int, NonFiniteError] | None = None  # of the present step, where they are to be skipped
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
        self._faults = None
        obs, infos = self._reset(seed=list(seeds) if self._seeds_each else seeds[0])
        self.live = self.live.copy() if self._resets_twice else np.ones(self.num_envs, dtype=np.bool_)
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._seeds = list(seeds) if self._seeds_each else [None] * self.num_envs
        self._early = list(self._lost())
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
        faults: dict[int, NonFiniteError] = {}
        if self._skipping is not None:
            self._faults = faults
        try:
            step = self._step(actions)
        except NonFiniteError as error:
            error.batch |= dict(zip(_TOLD, (actions, *self._told), strict=False))
            raise
        if faults:
            self._faults = None
            return self._start_anew(step, faults)
        return step

    def _step(self, actions: npt.NDArray[Any]) -> Step:
        try:
            result = self._env.step(actions)
        except BaseException as error:
            self._raise(error, "step()")
        obs, told, ended, cut, infos = parts_of(result, _STEP, "step", self.spec.id)
        rewards = rewards_of(told, self.num_envs, self.spec.id)
        terminated = flags_of(ended, "terminated", self.num_envs, self.spec.id)
        truncated = flags_of(cut, "truncated", self.num_envs, self.spec.id)
        valid = self.live
        broken = infos.get(RESTARTED)
        if broken is not None:
            broken = broken & ~(
                terminated | truncated
            )  # where an episode ended by itself, the next one failed to begin
            valid = valid & ~broken
        if self.mode is AutoresetMode.NEXT_STEP and np.count_nonzero(valid) < self.num_envs:
            rewards[~valid] = 0.0
            terminated &= valid
            truncated &= valid
        self._lengths += valid
        self._told = (rewards, terminated, truncated)
        stored = self._stored(obs)
        if not np.vdot(rewards, rewards) <= SURE:
            self._check_entries(rewards, "reward", "", None, rewards, stored)
        self._returns += rewards
        if not self._first_steps.over or NOTE in infos:
            self._look(obs, infos)
        done = terminated | truncated
        (rows,) = done.nonzero()
        if not len(rows):
            if self.mode is AutoresetMode.NEXT_STEP:
                self.live = ~done
            lost = self._lost() if self._restarts is not None else ()
            return Step(self._kept(stored), stored, rewards, terminated, truncated, valid.copy(), [], broken, lost)
        next_obs, final_obs = self._resolve(stored, done, rows, infos)
        episodes = [self._record(int(i), terminated, truncated, infos) for i in rows]
        lost = self._lost() if self._restarts is not None else ()
        return Step(
            self._kept(next_obs), final_obs, rewards, terminated, truncated, valid.copy(), episodes, broken, lost
        )

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
            "restarts": [restarts.state() for restarts in self._all_restarts()],
            "dropped": self.dropped,
            "in_a_row": list(self._in_a_row),
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
            for restarts, saved in zip(self._all_restarts(), state["restarts"], strict=False):
                restarts.restore(saved)
            self.dropped, self._in_a_row = state["dropped"], list(state["in_a_row"])
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

    def _all_restarts(self) -> list[Restarts]:
        """Whatever counts restarts here, once each."""
        found = [self._restarts, self._skipping.restarts if self._skipping is not None else None]
        return [restarts for i, restarts in enumerate(found) if restarts is not None and restarts not in found[:i]]

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
        if self._skipping is not None and (not self._faults or i not in self._faults):
            self._in_a_row[i] = 0
            self._skipping.restarts.fine(i)
        return record

    def _lost(self) -> tuple[BrokenEpisode, ...]:
        """An episode for each restart since the last step; one that failed to start as well has a length of 0."""
        lost, self._early = self._early, []
        if self._restarts is None or not self._restarts.pending:
            return tuple(lost)
        pending, self._restarts.pending = sorted(self._restarts.pending, key=lambda restart: restart.env_index), []
        for i, seed, reason, failure in pending:
            return_, length = float(self._returns[i]), int(self._lengths[i])
            lost.append(BrokenEpisode(i, return_, length, self._seeds[i], reason, failure))
            self._returns[i] = 0.0
            self._lengths[i] = 0
            self._seeds[i] = seed
        return tuple(lost)

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
            if not np.vdot(leaf, leaf) <= SURE:
                what = f"observation at '{path}'" if path else "observation"
                self._check_entries(leaf, what, path, rows, told[path], tree)

    def _check_entries(
        self, values: npt.NDArray[Any], what: str, key: str, rows: npt.NDArray[np.intp] | None, told: Any, obs: ObsTree
    ) -> None:
        """Raise for the first bad entry; where it is to be skipped, note each environment that has one."""
        found = bad_entries(values, told, what, key, rows, Place(self.spec.id, self._lengths, self._seeds))
        for i, error in found.items():
            error.batch = {f"observation/{path}".rstrip("/"): leaf for path, leaf in obs.items()}
            if self._faults is None:
                raise error
            self._faults.setdefault(i, error)

    def _start_anew(self, step: Step, faults: dict[int, NonFiniteError]) -> Step:
        """The step with the rows of these environments made up: each is started anew, its episode is no more."""
        assert self._skipping is not None
        assert self._restart is not None
        broken = np.zeros(self.num_envs, dtype=np.bool_) if step.broken is None else step.broken
        lost = list(step.lost)
        for i, error in faults.items():
            self._in_a_row[i] += 1
            if self._in_a_row[i] >= self._skipping.limit:
                raise error
            self._note([f"Left out, as on_nonfinite is skip: {error.message}"] if not self.dropped else [])
            self.dropped += 1
            broken[i] = True
            seed = self._skipping.restarts.next_seed(i, error)
            self._skipping.restarts.pending.pop()  # told here
            so_far = float(self._returns[i]), int(self._lengths[i])
            lost.append(BrokenEpisode(i, *so_far, self._seeds[i], error.message, error.failure))
            self._seeds[i] = seed
            self._returns[i] = self._lengths[i] = 0
            told = self._restart(i, seed)
            row = self.obs_spec.store(told, batch=False)
            self._check_leaves(row, told if self.obs_spec.is_tree else {"": told}, np.array([i]))
            for path, leaf in row.items():
                step.obs[path][i] = step.final_obs[path][i] = leaf[0]
        step.rewards[broken] = 0.0
        for flags in (step.terminated, step.truncated, step.valid):
            flags[broken] = False
        episodes = [record for record in step.episodes if not broken[record.env_index]]
        return step._replace(episodes=episodes, broken=broken, lost=tuple(lost))


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
