"""Streams of stacked frames for a replay that keeps each of them once, beside one that keeps whole observations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces as gs

from steadyrl.data.frames import Frames
from steadyrl.envs.types import Step
from steadyrl.spaces import ActionSpec, ObsSpec
from support.replay_oracle import Kind

ACTION = ActionSpec.of(gs.Discrete(7))


def spec_of(frames: Frames, shape: tuple[int, ...]) -> ObsSpec:
    """Of observations that are so many frames [C, H, W] or [H, W, C] of this shape."""
    axis = 0 if frames.axis == 0 else len(shape) - 1
    stacked = tuple(size * frames.number if i == axis else size for i, size in enumerate(shape))
    return ObsSpec.of(gs.Box(0, 255, stacked, np.uint8))


@dataclass
class Stream:
    """N environments whose frames are random pictures; every stack is made anew from the frames that it shows."""

    frames: Frames
    shape: tuple[int, ...]
    num_envs: int
    late: bool = False  # the row after an episode's end is made up by the environment, as in NEXT_STEP
    few: int = 255  # how many different frames there are: with few, episodes begin with what others end with
    seed: int = 0
    t: int = 0
    stacks: list[list[npt.NDArray[np.uint8]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.stacks = [[self._frame()] * self.frames.number for _ in range(self.num_envs)]
        self.over = [False] * self.num_envs

    def _frame(self) -> npt.NDArray[np.uint8]:
        if self.few < 255:
            return np.full(self.shape, self.rng.integers(self.few), dtype=np.uint8)
        return self.rng.integers(0, 256, self.shape).astype(np.uint8)

    def _stacked(self) -> npt.NDArray[Any]:
        axis = 0 if self.frames.axis == 0 else -1
        return np.stack([np.concatenate(stack[-self.frames.number :], axis=axis) for stack in self.stacks])

    def step(self, kinds: list[Kind], dtype: Any) -> tuple[Any, Any, Step, Any]:
        """Arguments of `Replay.add` for one vector step, observations of this type."""
        obs = self._stacked().astype(dtype)
        valid = np.array([not kind.startswith("invalid") for kind in kinds])
        ends = np.array([kind in ("terminated", "truncated", "both", "invalid end") for kind in kinds])
        for i in range(self.num_envs):
            if self.over[i]:  # this row is made up: its successor begins the next episode
                valid[i], ends[i] = False, False
                self.stacks[i] = [self._frame()] * self.frames.number
            else:
                self.stacks[i] = [*self.stacks[i][1:], self._frame()]
        successors = self._stacked().astype(dtype)
        for i in np.flatnonzero(ends).tolist():
            if not self.late:
                self.stacks[i] = [self._frame()] * self.frames.number
        self.over = [bool(end) and self.late for end in ends]
        step = Step(
            obs={"": self._stacked()},
            final_obs={"": successors},
            rewards=self.rng.integers(-9, 10, self.num_envs).astype(np.float64),
            terminated=ends & np.array([kind != "truncated" for kind in kinds]),
            truncated=ends & np.array([kind in ("truncated", "both") for kind in kinds]),
            valid=np.ones(self.num_envs, dtype=np.bool_),
            episodes=[],
        )
        self.t += 1
        return {"": obs}, self.rng.integers(0, 7, self.num_envs), step, valid
