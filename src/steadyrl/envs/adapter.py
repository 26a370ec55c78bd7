"""One view of every vector environment: dense true successors, a flag for rows that are real, and episode records."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from steadyrl.envs.autoreset import autoreset_mode, resets_twice
from steadyrl.envs.checks import Checks, replaced
from steadyrl.envs.episodes import Episodes
from steadyrl.envs.inner import inner_of
from steadyrl.envs.masks import Given, Masks, Wanted
from steadyrl.envs.nonfinite import Skipping
from steadyrl.envs.notes import FirstSteps
from steadyrl.envs.restart import Restarts
from steadyrl.envs.skips import Skips
from steadyrl.envs.snapshots.state import Ability, plain_id
from steadyrl.envs.snapshots.vectors import by_environment, vector_ability, vector_restore, vector_state
from steadyrl.envs.state_form import insist_on_arrays, insist_on_form
from steadyrl.envs.types import BoolArray, EnvSpec, EpisodeRecord, FloatArray, Step
from steadyrl.errors import Ending, UserError, words
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree
from steadyrl.spaces.masks import mask_width


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
        skipping: A bad number that an environment tells ends its episode, not the run; without effect where `env` has
            no `restart(index, seed)`, which gives the first observation and info of a new episode of that environment.
        restarts: Where `env` counts the environments that it starts anew.
        obs_spec: How observations are stored; None reads the space.
        masks: Whether action masks are used: then each observation holds its own, as the leaf `MASK`.

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
        obs_spec: ObsSpec | None = None,
        masks: Wanted = "off",
    ) -> None:
        self.spec = spec
        self.num_envs = int(env.num_envs)
        self.notes: list[str] = []
        self.live: BoolArray = np.ones(self.num_envs, dtype=np.bool_)
        self.obs_spec = obs_spec or ObsSpec.of(spec.obs_space)
        self.action_spec = ActionSpec.of(spec.action_space)
        self.mode = autoreset_mode(env)
        self._env = env
        self._late = self.mode is AutoresetMode.NEXT_STEP  # the row after an episode's end is made up
        masked = masks != "off" and mask_width(self.action_spec) > 0
        self._inner = inner_of(env, spec, self.mode, masks=masked)
        self._seeds_each = seeds_each
        self._resets_twice = resets_twice(env)
        self._first_steps = FirstSteps(spec.obs_space, spec.id)
        self._restarts = restarts
        self._episodes = Episodes(self.num_envs, restarts)
        self._checks = Checks(self.obs_spec, spec.id, self.num_envs, self._episodes, fresh=self._inner.own)
        self._masks = Masks(masks, self.action_spec, spec.id, self.num_envs, checked=self._inner.own)
        self._first: tuple[list[int], ObsTree] | None = None  # a reset that `look_for_masks` made
        restart = getattr(env, "restart", None)
        self._skips = Skips(skipping, restart, self._checks, self._episodes, self._masks, self.num_envs, self._note)
        self._closed = False
        self._last: ObsTree | None = None  # what to act on, kept only where the environments cannot tell it
        self._keeps_last = not by_environment(env)
        self._note(self._first_steps.declared)

    @property
    def dropped(self) -> int:
        """Episodes that were left out because of a bad number in them."""
        return self._skips.dropped

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
        first, self._first = self._first, None
        if first is not None and first[0] == seeds:
            return first[1]
        self._checks.faults, self._checks.told = None, ()
        obs, note = self._inner.reset(seed=list(seeds) if self._seeds_each else seeds[0])
        self.live = self.live.copy() if self._resets_twice else np.ones(self.num_envs, dtype=np.bool_)
        self._episodes.begin(list(seeds) if self._seeds_each else [None] * self.num_envs)
        stored = self._checks.stored(obs)
        self._look(obs, note)
        return self._masks.begin(self._kept(stored), {} if self._masks.used is False else self._inner.reset_masks)

    @property
    def allowed(self) -> Callable[[], BoolArray] | None:
        """Gives the masks of what may be done now, [N, width]; None where none are used, once reset has decided it."""
        return (lambda: self._masks.current) if self._masks.used else None

    def insist_on_last_masks(self) -> None:
        """Where masks are used, a step that truncates an episode is to give one: what may be done next is learnt from.

        Else it may be left out there, as for a value function, which is asked for no mask.
        """
        self._masks.needs_last = True

    def look_for_masks(self, seeds: list[int]) -> bool:
        """Reset as the next `reset` with these seeds is to; returns whether action masks are used, then known."""
        if self._masks.used is None:
            self._first = list(seeds), self.reset(seeds)
        return bool(self._masks.used)

    def step(self, actions: npt.NDArray[Any]) -> Step:
        """Step all environments.

        Args:
            actions: [N, ...], the environment's own, as `ActionSpec.to_env` makes them.

        Raises:
            RunFailedError: an environment failed, or told a number that is not finite or is absurd.
            UserError: it breaks the interface.
        """
        self._first = None
        checks, episodes = self._checks, self._episodes
        faults = checks.faults = {} if self._skips.skipping is not None else None
        obs, rewards, terminated, truncated, infos = self._inner.step(actions)
        valid = self.live.copy()
        broken = self._inner.broken(infos) if infos else None
        if broken is not None:
            broken = broken & ~(terminated | truncated)  # an episode that ended by itself: the next failed to begin
            valid &= ~broken
        episodes.steps += 1
        if broken is not None or self._late:
            self._make_up(~valid, rewards, terminated, truncated)
        checks.told = (actions, rewards, terminated, truncated)
        stored = checks.stored(obs)
        checks.rewards(rewards, stored)
        episodes.returns += rewards if not faults else [0.0 if i in faults else r for i, r in enumerate(rewards)]
        if infos or not self._first_steps.over:
            self._look(obs, self._inner.note(infos))
        next_obs = final_obs = stored
        records: list[EpisodeRecord] = []
        ends = episodes.lengths if self._masks.used else None
        if infos or not self._inner.own:
            done = terminated | truncated
            (rows,) = done.nonzero()
            if self._late:
                self.live = ~done
            if len(rows):
                next_obs, final_obs = self._resolve(stored, done, rows, infos)
                records = self._records(rows, terminated, truncated, infos)
        lost = () if self._restarts is None else episodes.lost()
        if self._keeps_last:
            self._kept(next_obs)
        if ends is not None:
            ended = terminated, truncated
            given = self._given(infos, terminated | truncated)
            next_obs, final_obs = self._masks.take(
                (next_obs, final_obs), given, ended, episodes.lengths, ends, late=self._late
            )
        elif infos and self._masks.was_open:
            self._masks.refuse_late(self._inner.masks(infos), episodes.lengths)
        step = Step(next_obs, final_obs, rewards, terminated, truncated, valid, records, broken, lost)
        return self._skips.answer(step, faults) if faults else step

    def ability(self) -> Ability:
        """How the state can be saved, as far as it can be known; best asked after the first reset."""
        return vector_ability(self._env)

    def state(self) -> dict[str, Any]:
        """Everything that is needed to go on exactly, between two steps: a plain value.

        Raises:
            RunFailedError: an environment's state cannot be saved; `ability` says why.
        """
        last = None if self._last is None else {path: leaf.copy() for path, leaf in self._last.items()}
        return {**self._around(), "inner": vector_state(self._env, self.spec.id), "last": last}

    def _around(self) -> dict[str, Any]:
        """The state without that of the environments themselves."""
        return {
            "env_id": plain_id(self.spec.id),
            "num_envs": self.num_envs,
            "inner": None,
            "last": None,
            "live": self.live.copy(),
            **self._episodes.state(),
            "notes": list(self.notes),
            "first_steps": self._first_steps.state(),
            "restarts": [restarts.state() for restarts in self._all_restarts()],
            **self._skips.state(),
            **({"masks": self._masks.state()} if self._masks.used else {}),
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
            if (state["env_id"], state["num_envs"]) != (plain_id(self.spec.id), self.num_envs):
                raise UserError(
                    f"The state is of {state['num_envs']} environments {state['env_id']}, and these are "
                    f"{self.num_envs} of {self.spec.id}.",
                    remedy="Make as many of the same as were saved.",
                    code="snapshot-kind",
                )
            insist_on_form(state, self._around())
            insist_on_arrays(state["last"])
            obs = vector_restore(self._env, self.spec.id, state["inner"])
            stored = (
                {path: leaf.copy() for path, leaf in state["last"].items()} if obs is None else self._checks.stored(obs)
            )
            self.live = state["live"].copy()
            self._episodes.restore(state)
            self.notes[:] = state["notes"]
            self._first_steps.restore(state["first_steps"])
            for restarts, saved in zip(self._all_restarts(), state["restarts"], strict=False):
                restarts.restore(saved)
            self._skips.restore(state)
            self._masks.restore(state.get("masks"))
            self._first = None
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"The state of the environments {self.spec.id} is damaged: {type(error).__name__}: {words(error)}.",
                remedy="Use another checkpoint.",
                code="state-damaged",
            ) from error
        return self._masks.with_current(self._kept(stored))

    def close(self) -> None:
        """Close every environment; a second call does nothing, and an error on the way is told as a warning."""
        if self._closed:
            return
        self._closed = True
        self._note(self._first_steps.end())
        try:
            self._env.close()
        except (KeyboardInterrupt, Ending):
            raise
        except BaseException as error:
            warnings.warn(f"close() of {self.spec.id} raised {type(error).__name__}: {words(error)}", stacklevel=2)

    def _all_restarts(self) -> list[Restarts]:
        """Whatever counts restarts here, once each."""
        skipping = self._skips.skipping
        found = [self._restarts, skipping.restarts if skipping is not None else None]
        return [restarts for i, restarts in enumerate(found) if restarts is not None and restarts not in found[:i]]

    def _kept(self, obs: ObsTree) -> ObsTree:
        if self._keeps_last:
            self._last = {path: leaf.copy() for path, leaf in obs.items()}
        return obs

    def _make_up(self, rows: BoolArray, rewards: FloatArray, terminated: BoolArray, truncated: BoolArray) -> None:
        """These rows of a step, [N], are none of an episode."""
        self._episodes.made_up(rows)
        if self._late:
            rewards[rows] = 0.0
            terminated[rows] = False
            truncated[rows] = False

    def _look(self, obs: Any, note: str) -> None:
        if note:
            self._note([note])
        if not self._first_steps.over:
            self._note(self._first_steps.look(obs))

    def _note(self, notes: list[str]) -> None:
        self.notes += notes
        for note in notes:
            warnings.warn(note, stacklevel=2)

    def _resolve(
        self, stored: ObsTree, done: BoolArray, rows: npt.NDArray[np.intp], infos: Any
    ) -> tuple[ObsTree, ObsTree]:
        """What to act on next and the true successors, where the episodes of `rows` have just ended."""
        if self._late:
            return stored, stored
        if self.mode is AutoresetMode.SAME_STEP:
            return stored, self._checks.ended(stored, rows, self._inner.final_obs(infos, rows))
        # A fresh dictionary each time: Gymnasium pops the mask from it.
        fresh = self.obs_spec.store(self._inner.reset(options={"reset_mask": done})[0], batch=True)
        self._checks.insist_on_rows(fresh, self.num_envs)
        for path, leaf in fresh.items():
            kept = (leaf == stored[path]) | np.isnan(leaf)  # what was not asked for may be left out
            if not kept[~done].all():
                raise _mask_ignored(self.spec.id)
        started = {path: leaf[rows] for path, leaf in fresh.items()}
        self._checks.leaves(started, None, rows)
        return {path: replaced(leaf, rows, started[path]) for path, leaf in stored.items()}, stored

    def _given(self, infos: Any, done: BoolArray) -> tuple[Given, Given]:
        """Masks of what to act on next, and of the last observations of episodes that ended, `done` [N]."""
        now, last = self._inner.masks(infos)
        if self.mode is not AutoresetMode.DISABLED or not done.any():
            return now, last
        begun = self._inner.reset_masks
        return {i: mask for i, mask in now.items() if not done[i]} | {i: begun[i] for i in begun if done[i]}, now

    def _records(
        self, rows: npt.NDArray[np.intp], terminated: BoolArray, truncated: BoolArray, infos: Any
    ) -> list[EpisodeRecord]:
        """Those of the episodes that these rows ended."""
        records = []
        told = zip(rows.tolist(), self._inner.successes(infos, rows), self._inner.games(infos, rows), strict=True)
        for i, success, game in told:
            if game.over:
                records.append(self._episodes.record(i, bool(terminated[i]), bool(truncated[i]), success, game.score))
            self._skips.whole(i)
        return records


def _mask_ignored(name: str) -> UserError:
    return UserError(
        f"The vector environment {name} declares autoreset mode DISABLED, but its reset() changes environments that "
        "options['reset_mask'] leaves out.",
        remedy="Make it with another autoreset mode (NEXT_STEP or SAME_STEP), or let reset() keep to the mask.",
        code="reset-mask",
    )
