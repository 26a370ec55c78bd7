"""Observations of a replay where they are stacks of frames: each frame is kept once (Mnih et al. 2015).

The newest frame of every observation lies in a ring, as the other arrays of a replay do. The frames before it are those
of the steps before, back to the beginning of the episode, whose first frame stands for what was before that. The newest
frame of a true successor is that of the next step's observation; where that begins another episode, it is kept apart,
in a second ring. What is stored is compared with what will be read, so that nothing else can ever come out: a stream of
observations that is no such stack is refused.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from steadyrl.data.arrays import Arrays, ArraySpec, Layout, State, bad_state, entry
from steadyrl.errors import RunFailedError
from steadyrl.spaces import Leaf

Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ENDS_SHARE = 10  # one frame kept apart for so many transitions: episodes are longer than that on average


class Frames(NamedTuple):
    """How an observation is stacked.

    Attributes:
        number: Frames in it, the newest one last.
        axis: Along which they are put together, 0 or -1.
        depth: Entries of one frame along it.
    """

    number: int
    axis: int
    depth: int


class FrameStore:
    """What of a replay are observations and true successors.

    Attributes:
        ended: Frames that were ever kept apart.
        needed: The first vector step whose successors are all there; earlier rows must not be sampled.

    Args:
        arrays: Of `frame_layout`.
        frames: How observations are stacked.
        leaf: The observation.
        rows: Vector steps in the ring.
        num_envs: N.
    """

    def __init__(self, arrays: Arrays, frames: Frames, leaf: Leaf, rows: int, num_envs: int) -> None:
        self.ended = 0
        self.needed = 0
        self._frames = frames
        self._leaf = leaf
        self._rows, self._num_envs = rows, num_envs
        self._arrays = arrays
        self._store, self._ends, self._ends_time = arrays["frames"], arrays["ends"], arrays["ends_time"]
        self._age, self._end = arrays["age"], arrays["end"]
        # Frames of the steps just overwritten, for the oldest rows; and the newest of the last step's successors.
        self._tail = np.zeros((frames.number - 1, num_envs, *self._store.shape[2:]), dtype=self._store.dtype)
        self._newest = np.zeros((num_envs, *self._store.shape[2:]), dtype=self._store.dtype)
        self._last = np.zeros((num_envs, *leaf.stored_shape), dtype=self._store.dtype)  # the last step's successors
        self._linked = np.zeros(num_envs, dtype=np.bool_)  # they are one frame on from the last step's observations

    def add(self, time: int, obs: npt.NDArray[Any], successors: npt.NDArray[Any], valid: Bools) -> None:
        """Keep the observations of a vector step and their true successors, [N, ...].

        Raises:
            RunFailedError: they are no stacks of frames.
        """
        obs, successors = (part.astype(self._store.dtype, copy=False) for part in (obs, successors))
        row = time % self._rows
        goes_on = self._linked & (obs == self._last).reshape(self._num_envs, -1).all(axis=1)
        frames = [self._frame(obs, i) for i in range(self._frames.number)]
        known = goes_on
        if not goes_on.all():
            known = goes_on | np.logical_and.reduce([_same(frame, frames[-1]) for frame in frames[:-1]])
        linked = _same(self._without(obs, 0), self._without(successors, -1))
        self._insist(valid, known, linked)
        if time > 0:
            self._keep_ends(time - 1, ~goes_on & self._linked)
        if time >= self._rows:
            self._tail[(time - self._rows) % len(self._tail)] = self._store[row]
        before = self._age[(time - 1) % self._rows].copy()
        self._store[row] = frames[-1]
        self._age[row] = np.where(goes_on, np.minimum(before + 1, self._frames.number - 1), 0)
        self._end[row] = -1
        self._newest[:] = self._frame(successors, self._frames.number - 1)
        self._last[:], self._linked[:] = successors, linked

    def obs(self, time: Int64, env: Int64, now: int) -> npt.NDArray[Any]:
        """Observations at these vector steps of these environments, [B, ...]; `now` is the number of steps added."""
        age = self._age[time % self._rows, env]
        back = range(self._frames.number - 1, -1, -1)
        return self._stacked([self._at(time - np.minimum(age, steps), env, now) for steps in back])

    def successors(self, time: Int64, env: Int64, now: int) -> npt.NDArray[Any]:
        """Their true successors, [B, ...]."""
        age = self._age[time % self._rows, env]
        back = range(self._frames.number - 2, -1, -1)
        earlier = [self._at(time - np.minimum(age, steps), env, now) for steps in back]
        end = self._end[time % self._rows, env]
        newest = self._at(np.minimum(time + 1, now - 1), env, now)
        last = (time == now - 1) & (end < 0)
        newest[last] = self._newest[env[last]]
        apart = end >= 0
        newest[apart] = self._ends[end[apart] % len(self._ends)]
        return self._stacked([*earlier, newest])

    def state_dict(self) -> State:
        """What is not in the rings, copied: it is little, and the next step writes over all of it."""
        parts = {"tail": self._tail, "newest": self._newest, "linked": self._linked}
        state: State = {name: part.copy() for name, part in parts.items()}
        return state | {"ended": self.ended, "needed": self.needed}

    def check(self, state: State, written: int) -> None:
        """Raises UserError where `load_state_dict` could not take this state."""
        filled = min(written, self._rows)
        for name in ("ended", "needed"):
            if type(state.get(name)) is not int or not 0 <= state[name] <= written * self._num_envs:
                raise bad_state(name, f"{state.get(name)!r}, not a count")
        for name, own in (("tail", self._tail), ("newest", self._newest), ("linked", self._linked)):
            entry(state, name, own.shape, own.dtype)
        ended: Any = state["ended"]
        end = entry(state, "end", (filled, self._num_envs), self._end.dtype)
        age = entry(state, "age", (filled, self._num_envs), self._age.dtype)
        if (end >= ended).any() or (end < -1).any():
            raise bad_state("end", "not about frames that were kept")
        if (age >= self._frames.number).any():
            raise bad_state("age", "above the number of frames")

    def load_state_dict(self, state: State, written: int) -> None:
        """Go on from what was checked, once the rings are in place."""
        ended: Any = state["ended"]
        needed: Any = state["needed"]
        self.ended, self.needed = ended, needed
        for name, own in (("tail", self._tail), ("newest", self._newest), ("linked", self._linked)):
            own[...] = state[name]
        if written:
            every = np.arange(self._num_envs)
            self._last[:] = self.successors(np.full(self._num_envs, written - 1), every, written)

    def _keep_ends(self, time: int, where: Bools) -> None:
        """Keep the newest frames of the successors at vector step `time` apart, in these environments, [N]."""
        for env in np.flatnonzero(where):
            slot = self.ended % len(self._ends)
            if self.ended >= len(self._ends):
                self.needed = max(self.needed, int(self._ends_time[slot]) + 1)
            self._ends[slot], self._ends_time[slot] = self._newest[env], time
            self._end[time % self._rows, env] = self.ended
            self.ended += 1

    def _at(self, time: Int64, env: Int64, now: int) -> npt.NDArray[Any]:
        """The newest frames of the observations at these steps, [B, ...], a copy."""
        found = self._store.reshape(-1, *self._store.shape[2:]).take(time % self._rows * self._num_envs + env, axis=0)
        old = time < now - self._rows
        if old.any():
            found[old] = self._tail[time[old] % len(self._tail), env[old]]
        return found

    def _frame(self, obs: npt.NDArray[Any], i: int) -> npt.NDArray[Any]:
        """Frame `i` of stacked observations, [N, ...] of the stored shape."""
        _, axis, depth = self._frames
        part = slice(i * depth, (i + 1) * depth)
        return obs[:, part] if axis == 0 else obs[..., part]

    def _without(self, obs: npt.NDArray[Any], end: int) -> npt.NDArray[Any]:
        """Stacked observations without their first (0) or last (-1) frame."""
        _, axis, depth = self._frames
        part = slice(depth, None) if end == 0 else slice(None, -depth)
        return obs[:, part] if axis == 0 else obs[..., part]

    def _stacked(self, frames: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        axis = 1 if self._frames.axis == 0 else -1
        return np.concatenate(frames, axis=axis)

    def _insist(self, valid: Bools, known: Bools, linked: Bools) -> None:
        odd = np.flatnonzero(valid & ~(known & linked))
        if len(odd):
            what = "begins with other frames than one that is repeated" if not known[odd[0]] else "is not one frame on"
            raise RunFailedError(
                f"The observations of environment {odd[0]} are no stack of {self._frames.number} frames: one {what}.",
                remedy="Keep whole observations: replay_frames='off' (--replay-frames off).",
                code="no-frame-stack",
            )


def frame_layout(rows: int, num_envs: int, leaf: Leaf, frames: Frames, ends: int | None = None) -> Layout:
    """The arrays: `frames` and what tells where they belong, [rows, N, ...]; `ends` and when they were, [E, ...].

    Args:
        rows: Vector steps.
        num_envs: N.
        leaf: The observation, of uint8.
        frames: How it is stacked.
        ends: E, frames kept apart; None is one for `ENDS_SHARE` transitions, and some in any case.
    """
    axis = 0 if frames.axis == 0 else len(leaf.stored_shape) - 1
    shape = tuple(frames.depth if i == axis else size for i, size in enumerate(leaf.stored_shape))
    apart = -(-rows * num_envs // ENDS_SHARE) + 2 * num_envs if ends is None else ends
    kept = min(apart, rows * num_envs + num_envs)
    return {
        "frames": ArraySpec((rows, num_envs, *shape), np.uint8),
        "ends": ArraySpec((kept, *shape), np.uint8),
        "ends_time": ArraySpec((kept,), np.int64),
        "age": ArraySpec((rows, num_envs), np.uint8),
        "end": ArraySpec((rows, num_envs), np.int64),
    }


def fits(frames: Frames, leaf: Leaf) -> bool:
    """Whether a leaf can be kept as frames."""
    axis = 0 if frames.axis == 0 else len(leaf.stored_shape) - 1
    return (
        leaf.dtype == "uint8"
        and not leaf.nvec
        and frames.number >= 2
        and len(leaf.stored_shape) >= 1
        and leaf.stored_shape[axis] == frames.number * frames.depth
        and math.prod(leaf.stored_shape) > 0
    )


def _same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> Bools:
    """Which rows are equal, [N]."""
    equal: Bools = (one == other).reshape(len(one), -1).all(axis=1)
    return equal
