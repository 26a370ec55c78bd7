"""Stepping the training environments and counting exactly: what both loops do at each vector step."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.envs.types import BoolArray, BrokenEpisode, EpisodeRecord, Step, VecEnv
from steadyrl.errors import NonFiniteError
from steadyrl.nn.policy import Policy
from steadyrl.spaces import ObsTree
from steadyrl.training.guards import require_sane_actions
from steadyrl.training.phases import Phases

_NONE = type(None)
_RECORD: dict[str, tuple[type, ...]] = {
    "env_index": (int,),
    "return_": (float,),
    "length": (int,),
    "terminated": (bool,),
    "truncated": (bool,),
    "success": (bool, _NONE),
    "seed": (int, _NONE),
}
WINDOW = 100  # episodes that rollout/ep_rew_mean looks back on


@dataclass
class Counters:
    """Where the training stands, in the library's own step axis."""

    timesteps: int = 0
    updates: int = 0
    restarts: int = 0  # of failed environments


class Stepper:
    """The training environments, the observations to act on, the counts.

    Attributes:
        lost: Episodes that failing environments cut off, until somebody who tells of them takes them out.
        seen: The observations of the last `look` as the network takes them, leaves [N, ...].

    Args:
        venv: The training environments.
        env_seeds: Seed of each environment's first episode, [N].
        policy: Whose normaliser learns from the observations acted on.
        start: Environment steps that the policy was trained on before.
    """

    def __init__(self, venv: VecEnv, env_seeds: list[int], policy: Policy, start: int = 0) -> None:
        self.venv = venv
        self.counters = Counters(timesteps=start)
        self.episodes: deque[EpisodeRecord] = deque(maxlen=WINDOW)
        self.lost: list[BrokenEpisode] = []
        self.phases = Phases()
        self._policy = policy
        self._env_seeds = env_seeds
        self._obs: ObsTree | None = None
        self.seen: ObsTree = {}

    @property
    def obs(self) -> ObsTree:
        """Raw observations to act on, leaves [N, ...]; the first call resets the environments."""
        self.begin()
        assert self._obs is not None
        return self._obs

    def begin(self) -> None:
        """Reset the environments, once; a phase of its own."""
        if self._obs is None:
            with self.phases("env"):
                self._obs = self.venv.reset(self._env_seeds)

    def look(self, remaining: int) -> BoolArray:
        """Which rows of the next step count, at most `remaining` of them, [N]; the normaliser takes those in.

        Rows beyond `remaining` are stepped and thrown away, those of the highest index first.
        """
        obs = self.obs
        valid = within(self.venv.live, remaining)
        normalizer = self._policy.normalizer
        self.seen = obs if normalizer is None else normalizer.take_in(obs, valid)
        return valid

    def require_sane(self, actions: npt.NDArray[Any]) -> None:
        """Raises NonFiniteError for an action of the policy that no environment should see, [N, ...]."""
        try:
            require_sane_actions(actions, self.counters.timesteps)
        except NonFiniteError:
            self._unlook()
            raise

    def _unlook(self) -> None:
        if self._policy.normalizer is not None:
            self._policy.normalizer.undo()

    def step(self, actions: npt.NDArray[Any], valid: BoolArray) -> tuple[Step, list[EpisodeRecord]]:
        """Step with the environments' own actions; returns the step and the episodes that ended in rows that count.

        Rows of environments that failed are taken out of `valid`, and the episodes that this cut off are put down in
        `lost`. Steps of theirs that were counted before stay counted: they were taken, and the step axis, which
        schedules and everything that happens every so many steps hang on, never goes back.
        """
        with self.phases("env"):
            try:
                step = self.venv.step(actions)
            except BaseException:
                self._unlook()
                raise
        self._obs = step.obs
        if step.broken is not None:
            valid &= ~step.broken
        if step.lost:
            self.lost += step.lost
            self.counters.restarts += len(step.lost)
        self.counters.timesteps += int(np.count_nonzero(valid))
        ended = [episode for episode in step.episodes if valid[episode.env_index]]
        self.episodes.extend(ended)
        return step, ended

    def start_anew(self, env_seeds: list[int]) -> None:
        """Reset the environments with other seeds than they began with, [N]."""
        self._obs = self.venv.reset(env_seeds)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly but the environments, whose state is `VecEnv.state`."""
        return {
            **asdict(self.counters),
            "obs": self._obs,
            "episodes": [asdict(episode) for episode in self.episodes],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave, in environments that were restored."""
        counters, obs = self.counters, state["obs"]
        counters.timesteps, counters.updates, counters.restarts = (
            state["timesteps"],
            state["updates"],
            state["restarts"],
        )
        expected = self._policy.stored_spec.zeros(self.venv.num_envs)
        # Pixels were kept as float32 before they were kept as uint8.
        old = {n for n, x in expected.items() if x.dtype == np.uint8 and n in obs and obs[n].dtype == np.float32}
        obs = {path: leaf.astype(np.uint8) if path in old else leaf for path, leaf in obs.items()}
        if {path: (leaf.shape, leaf.dtype) for path, leaf in obs.items()} != {
            path: (leaf.shape, leaf.dtype) for path, leaf in expected.items()
        }:
            raise ValueError("'loop/stepper/obs' is of other shapes or types than the environment's observations")
        self._obs = {path: np.array(leaf) for path, leaf in obs.items()}
        self.episodes.clear()
        self.episodes.extend(map(_record, state["episodes"]))


def _record(facts: dict[str, Any]) -> EpisodeRecord:
    record = EpisodeRecord(**facts)
    for name, kinds in _RECORD.items():
        if type(getattr(record, name)) not in kinds:
            raise TypeError(f"'loop/stepper/episodes' holds a {name} of another type")
    return record


def within(live: BoolArray, remaining: int) -> BoolArray:
    """Rows that count: the live ones, without the highest-index ones beyond `remaining`."""
    valid = live.copy()
    if remaining < len(live):
        valid[np.flatnonzero(live)[remaining:]] = False
    return valid


def passed(every: int, before: int, now: int) -> int:
    """How many multiples of `every` lie in (before, now]; none for `every` 0."""
    return now // every - before // every if every > 0 else 0
