"""A replay as a list of transitions, slow and plain, and the vector steps that it and the real ones are fed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces as gs

from steadyrl.data.replay import Replay
from steadyrl.data.transitions import ReplayBatch
from steadyrl.envs.types import Step
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree

Kind = Literal["on", "terminated", "truncated", "both", "invalid", "invalid end"]

GAMMA = 0.5  # with rewards that are small whole numbers every return is exact
ROOMS = 5
SPACE = gs.Dict(
    {
        "observation": gs.Box(-np.inf, np.inf, (2,)),
        "achieved_goal": gs.Box(-np.inf, np.inf, (1,)),
        "desired_goal": gs.Box(-np.inf, np.inf, (1,)),
        "image": gs.Box(0, 255, (2, 2), np.uint8),
        "room": gs.Discrete(ROOMS, start=3),
    }
)
OBS = ObsSpec.of(SPACE)
ACTION = ActionSpec.of(gs.Box(-1, 1, (2,)))


class Sample(NamedTuple):
    """One transition as it can be sampled; observations and actions by their code."""

    obs: float
    action: float
    rewards: float
    next_obs: float
    terminated: bool
    discount: float
    inside: tuple[tuple[float, float], ...] = ()  # later observations of the window, with their discounts


@dataclass
class Oracle:
    """Every vector step ever made, as the kinds of its rows."""

    rows: int
    num_envs: int
    n_step: int = 1
    history: list[list[Kind]] = field(default_factory=list)

    def feed(self, replay: Replay, kinds: list[Kind]) -> None:
        """Add one vector step here and there."""
        replay.add(*vector_step(len(self.history), kinds))
        self.history.append(kinds)

    @property
    def oldest(self) -> int:
        """The oldest vector step that a ring of this size still has."""
        return max(0, len(self.history) - self.rows)

    def samples(self) -> dict[int, Sample]:
        """What can be sampled, by number."""
        return {
            t * self.num_envs + env: self._sample(t, env)
            for t in range(self.oldest, len(self.history))
            for env in range(self.num_envs)
            if not self.history[t][env].startswith("invalid")
        }

    def goals(self, strategy: str) -> dict[int, list[int]]:
        """Numbers of the transitions whose goals each transition of a finished episode can get."""
        found: dict[int, list[int]] = {}
        for env in range(self.num_envs):
            for episode in self._finished(env):
                stored = [t for t in episode if t >= self.oldest]
                for t in stored:
                    steps = {"future": [u for u in stored if u >= t], "final": stored[-1:], "episode": stored}[strategy]
                    found[t * self.num_envs + env] = [u * self.num_envs + env for u in steps]
        return found

    def _finished(self, env: int) -> list[list[int]]:
        """Vector steps of each finished episode of an environment."""
        finished: list[list[int]] = []
        episode: list[int] = []
        for t, kinds in enumerate(self.history):
            if not kinds[env].startswith("invalid"):
                episode.append(t)
            if kinds[env] != "on" and episode:
                finished.append(episode)
                episode = []
        return finished

    def _sample(self, t: int, env: int) -> Sample:
        total, discount, last = 0.0, 1.0, t
        inside = []
        for u in range(t, min(t + self.n_step, len(self.history))):
            if self.history[u][env].startswith("invalid"):
                break
            if u > t:
                inside.append((code_of(u, env), discount))
            total += discount * reward_of(u, env)
            discount *= GAMMA
            last = u
            if self.history[u][env] != "on":
                break
        over = self.history[last][env] in ("terminated", "both")
        code = code_of(t, env)
        return Sample(code, code + 0.25, total, code_of(last, env) + 0.5, over, discount, tuple(inside))


def code_of(t: int, env: int) -> float:
    """What every part of a transition tells of where it comes from."""
    return 10.0 * t + env


def reward_of(t: int, env: int) -> float:
    """A small whole number."""
    return float((3 * t + 5 * env) % 17 - 8)


def observe(code: npt.NDArray[Any]) -> ObsTree:
    """Observations that tell a code, [N]."""
    code = code.astype(np.float32)
    whole = np.nan_to_num(code * 2).astype(np.int64)
    return {
        "observation": np.stack([code, -code], axis=1),
        "achieved_goal": code[:, None] + 1000,
        "desired_goal": np.full((len(code), 1), -1.0, dtype=np.float32),
        "image": np.repeat(whole % 256, 4).reshape(-1, 2, 2).astype(np.uint8),
        "room": (whole % ROOMS)[:, None],
    }


def vector_step(t: int, kinds: list[Kind]) -> tuple[ObsTree, npt.NDArray[np.float32], Step, npt.NDArray[np.bool_]]:
    """Arguments of `Replay.add`; all that a row which does not count holds is NaN where there is one."""
    valid = np.array([not kind.startswith("invalid") for kind in kinds])
    code = np.where(valid, [code_of(t, env) for env in range(len(kinds))], np.nan)
    rewards = np.where(valid, [reward_of(t, env) for env in range(len(kinds))], np.nan)
    step = Step(
        obs=observe(code - 0.125),
        final_obs=observe(code + 0.5),
        rewards=rewards,
        terminated=np.array([kind in ("terminated", "both", "invalid end") for kind in kinds]),
        truncated=np.array([kind in ("truncated", "both") for kind in kinds]),
        valid=np.ones(len(kinds), dtype=bool),
        episodes=[],
    )
    return observe(code), np.stack([code, code], axis=1).astype(np.float32) + np.float32(0.25), step, valid


def samples_of(batch: ReplayBatch) -> dict[int, Sample]:
    """A batch by number, after a check that all parts of each observation belong together."""
    codes = []
    for tree in (batch.obs, batch.next_obs, *([batch.inside.obs] if batch.inside else [])):
        code = tree["observation"][:, 0].numpy()
        expected = observe(code)
        for path in ("observation", "achieved_goal", "image", "room"):
            found = tree[path].numpy()
            np.testing.assert_array_equal(found, expected[path], err_msg=path)
            assert found.dtype == expected[path].dtype
        codes.append(code)
    action = batch.actions.numpy()
    np.testing.assert_array_equal(action[:, 0], action[:, 1])
    columns = (codes[0], action[:, 0], batch.rewards, codes[1], batch.terminated, batch.discounts)
    listed = zip(*(column.tolist() for column in columns), _insides(batch, codes), strict=True)
    return {number: Sample(*row) for number, row in zip(batch.index.tolist(), listed, strict=True)}


def _insides(batch: ReplayBatch, codes: list[npt.NDArray[Any]]) -> list[tuple[tuple[float, float], ...]]:
    """Later observations and their discounts, window by window."""
    if batch.inside is None:
        return [()] * len(batch.index)
    discounts = batch.inside.discounts.tolist()
    later = codes[2].reshape(batch.inside.discounts.shape).tolist()
    return [
        tuple((code, discount) for code, discount in zip(*row, strict=True) if discount > 0)
        for row in zip(later, discounts, strict=True)
    ]
