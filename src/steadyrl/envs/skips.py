"""Environments that tell a bad number, started anew one by one where that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steadyrl.envs.checks import Checks
from steadyrl.envs.episodes import Episodes
from steadyrl.envs.masks import KEY, Masks
from steadyrl.envs.nonfinite import Skipping, said
from steadyrl.envs.types import Step
from steadyrl.errors import NonFiniteError


class Skips:
    """Leaves out the episodes in which a number was bad.

    Attributes:
        skipping: How; None where bad numbers end the run.
        dropped: Episodes that were left out.

    Args:
        skipping: How.
        restart: Starts environment `i` anew with a seed, and gives its first observation and info; None where nothing
            does.
        checks: Store that observation.
        episodes: Tell what was left out.
        masks: Read that info.
        note: Told about the first one.
    """

    def __init__(
        self,
        skipping: Skipping | None,
        restart: Callable[[int, int], Any] | None,
        checks: Checks,
        episodes: Episodes,
        masks: Masks,
        num_envs: int,
        note: Callable[[list[str]], None],
    ) -> None:
        self.skipping = skipping if restart is not None else None
        self.dropped = 0
        self._restart = restart
        self._checks = checks
        self._episodes = episodes
        self._masks = masks
        self._note = note
        self._in_a_row = [0] * num_envs  # broken episodes since the last whole one

    def whole(self, i: int) -> None:
        """An episode of environment `i` is over; it counts as a good one unless a number in its last step was bad."""
        if self.skipping is not None and i not in (self._checks.faults or ()):
            self._in_a_row[i] = 0
            self.skipping.restarts.fine(i)

    def answer(self, step: Step, faults: dict[int, NonFiniteError]) -> Step:
        """The step with the rows of these environments made up: each is started anew, its episode is no more.

        Raises:
            NonFiniteError: too many episodes of an environment in a row were broken, or its new one starts so.
        """
        assert self.skipping is not None
        assert self._restart is not None
        self._checks.faults, self._checks.told = None, ()
        broken = np.zeros(len(step.valid), dtype=np.bool_) if step.broken is None else step.broken
        lost = list(step.lost)
        for i, error in faults.items():
            self._in_a_row[i] += 1
            if self._in_a_row[i] >= self.skipping.limit:
                raise error
            if not (self.dropped or self.skipping.told):
                self._note([f"Left out, as on_nonfinite is skip: {error.message}"])
            self.dropped += 1
            broken[i] = True
            seed = self.skipping.restarts.next_seed(i, error)
            self.skipping.restarts.pending.pop()  # told here
            ended = next((record for record in step.episodes if record.env_index == i), None)
            reason = f"it gave {said(error.facts)}"
            lost.append(self._episodes.spoilt(i, seed, reason, error.facts["episode_step"], ended))
            obs, info = self._restart(i, seed)
            for path, leaf in self._checks.one(obs, i).items():
                step.obs[path][i] = step.final_obs[path][i] = leaf[0]
            self._masks.start_anew(i, info.get(KEY), step.obs, step.final_obs)
        step.rewards[broken] = 0.0
        for flags in (step.terminated, step.truncated, step.valid):
            flags[broken] = False
        episodes = [record for record in step.episodes if not broken[record.env_index]]
        return step._replace(episodes=episodes, broken=broken, lost=tuple(lost))

    def state(self) -> dict[str, Any]:
        """What `restore` takes."""
        return {"dropped": self.dropped, "in_a_row": list(self._in_a_row)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.dropped, self._in_a_row = state["dropped"], list(state["in_a_row"])
