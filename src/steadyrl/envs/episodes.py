"""The running episodes of a vector of environments: what each came to so far, and the record once it is over."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.envs.failure import Failure
from steadyrl.envs.restart import Restarts
from steadyrl.envs.types import BoolArray, BrokenEpisode, EpisodeRecord, FloatArray


class Episodes:
    """Returns, lengths and seeds of the episodes that are running, one an environment.

    Attributes:
        returns: Sums of raw rewards so far, [N], in float64.
        steps: Vector steps so far, for the caller to count.
        seeds: What the episodes were reset with, None where an environment drew on, [N].

    Args:
        num_envs: N.
        restarts: Where environments that are started anew are counted.
    """

    def __init__(self, num_envs: int, restarts: Restarts | None) -> None:
        self.returns: FloatArray = np.zeros(num_envs)
        self.seeds: list[int | None] = [None] * num_envs
        self.steps = 0  # a length is these less those before the episode: one addition a step, however many there are
        self._before = [0] * num_envs
        self._restarts = restarts
        self._early: list[BrokenEpisode] = []  # restarts at the first reset, for the next step to tell

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Steps of the running episodes, [N]."""
        return self.steps - np.array(self._before, dtype=np.int64)

    def begin(self, seeds: list[int | None]) -> None:
        """All environments were reset, with these seeds."""
        self.returns[:] = 0.0
        self.steps, self._before = 0, [0] * len(seeds)
        self.seeds = list(seeds)
        self._early = list(self.lost())

    def made_up(self, rows: BoolArray) -> None:
        """The step that was just counted is none for these environments, [N]."""
        for i in rows.nonzero()[0]:
            self._before[i] += 1

    def record(
        self, i: int, terminated: bool, truncated: bool, success: bool | None, score: float | None = None
    ) -> EpisodeRecord:
        """The record of the episode of environment `i`, which is over; `score` in place of the sum of its rewards."""
        return_ = float(self.returns[i]) if score is None else score
        length, seed = self.steps - self._before[i], self.seeds[i]
        record = EpisodeRecord(i, return_, length, terminated, truncated, success, seed)
        self._forget(i, None)
        return record

    def broken(self, i: int, seed: int, reason: str, failure: Failure | None) -> BrokenEpisode:
        """What the episode of environment `i` came to, which is no more; the next one began with `seed`."""
        length = self.steps - self._before[i]
        broken = BrokenEpisode(i, float(self.returns[i]), length, self.seeds[i], reason, failure)
        self._forget(i, seed)
        return broken

    def spoilt(self, i: int, seed: int, reason: str, step: int, ended: EpisodeRecord | None) -> BrokenEpisode:
        """As `broken`, for an episode with a bad number in this step of it, which may have ended it.

        Args:
            i: Number of the environment.
            seed: What the next episode began with.
            reason: What was wrong.
            step: In which step of the episode.
            ended: The record of the episode, if that step was its last.
        """
        return_, own = (self.returns[i], self.seeds[i]) if ended is None else (ended.return_, ended.seed)
        broken = BrokenEpisode(i, float(return_), max(step - 1, 0), own, reason, None)
        self._forget(i, seed)
        return broken

    def lost(self) -> tuple[BrokenEpisode, ...]:
        """An episode for each restart since the last step; one that failed to start as well has a length of 0."""
        if self._restarts is None:
            return ()
        lost, self._early = self._early, []
        if self._restarts.pending:
            pending, self._restarts.pending = self._restarts.pending, []
            lost += [self.broken(*restart) for restart in sorted(pending, key=lambda restart: restart.env_index)]
        return tuple(lost)

    def state(self) -> dict[str, Any]:
        """What `restore` takes."""
        return {"returns": self.returns.copy(), "lengths": self.lengths, "seeds": list(self.seeds)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.returns, self.seeds = state["returns"].copy(), list(state["seeds"])
        self.steps, self._before = 0, [-int(length) for length in state["lengths"]]

    def _forget(self, i: int, seed: int | None) -> None:
        self.returns[i] = 0.0
        self._before[i] = self.steps
        self.seeds[i] = seed
