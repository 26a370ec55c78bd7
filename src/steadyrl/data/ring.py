"""Where an off-policy algorithm's transitions lie: a ring of the newest ones, `[rows, N]`, allocated once."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.data.arrays import Arrays, Layout, State, bad_state, entry, in_memory, on_disk
from steadyrl.data.frames import ENDS_SHARE, Frames, FrameStore
from steadyrl.data.layouts import transitions
from steadyrl.data.transitions import Bools, Int64, StepRows, TensorTree
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, Leaf, ObsSpec, ObsTree


class Ring:
    """What is kept of the environments' steps, and where it lies.

    A transition has a number, `vector step * N + environment`, that no other one ever gets; it lies at its number
    modulo the capacity. Rows that do not count are kept, and marked.

    Observations and true successors are both stored, as given (raw), a leaf that the environment has as uint8 in uint8.
    Where observations are stacks of frames, a `FrameStore` may take the place of their arrays: it keeps a frame once.

    Attributes:
        native: Kernels fetch what is read, which have to be there.

    Args:
        capacity: Transitions in all; there is room for `capacity // num_envs` rows.
        num_envs: N.
        obs_spec: Leaves of the observation.
        action_spec: Actions of the policy.
        frames: How observations are stacked, to keep each frame once; None keeps them whole.
        ends: Frames kept apart for ends of episodes; None is enough for episodes of 10 steps on average.
        directory: Where the arrays live as files; None keeps them in memory.
        reuse: Write over a replay's files that are in the directory. Their content comes back by `load_state_dict`.

    Raises:
        UserError: there is no room for one row, or the directory cannot be used.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        obs_spec: ObsSpec,
        action_spec: ActionSpec,
        *,
        frames: Frames | None,
        ends: int | None,
        directory: Path | None,
        reuse: bool,
    ) -> None:
        self.num_envs = num_envs
        self.rows = rows_of(capacity, num_envs)
        self.capacity = self.rows * num_envs
        self.native = False
        self.obs_spec = obs_spec
        layout = self.layout(self.rows, num_envs, obs_spec, action_spec)
        if frames is not None:
            layout = transitions(self.rows, num_envs, obs_spec, action_spec, frames, ends)
        self._arrays = in_memory(layout) if directory is None else on_disk(layout, directory, reuse=reuse)
        self._share()
        if reuse:
            self._arrays["valid"][:] = False
        leaf = obs_spec.leaves[0]
        self._frames = None if frames is None else FrameStore(self._arrays, frames, leaf, self.rows, num_envs)
        self._dropped = 0  # vector steps whose rows count no more because ends of episodes were overwritten
        self._told = False
        self._written = 0  # vector steps ever added
        self._count = 0

    def _share(self) -> None:
        """The same memory by transition."""
        self._flat: Arrays = {name: array.reshape(-1, *array.shape[2:]) for name, array in self._arrays.items()}

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has of its own; it shares anew."""
        return {name: value for name, value in self.__dict__.items() if name != "_flat"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        self.__dict__.update(state)
        self._share()

    @classmethod
    def layout(cls, rows: int, num_envs: int, obs_spec: ObsSpec, action_spec: ActionSpec) -> Layout:
        """The arrays, all [rows, N, ...]."""
        return transitions(rows, num_envs, obs_spec, action_spec)

    def __len__(self) -> int:
        """Transitions that count."""
        return self._count

    @property
    def rings(self) -> Arrays:
        """The arrays themselves, [rows, N, ...]; observations and successors are written by `add` alone."""
        return self._arrays

    @property
    def written(self) -> int:
        """Vector steps ever added."""
        return self._written

    def written_to(self, name: str) -> int:
        """Rows ever added to a ring; it holds the newest of them."""
        return self._frames.ended if self._frames is not None and name.startswith("ends") else self._written

    def add(self, obs: ObsTree, actions: npt.NDArray[Any], step: StepRows, valid: Bools) -> None:
        """Store one vector step; everything is copied.

        Args:
            obs: What was acted on, leaves [N, ...].
            actions: The policy's actions, before the map to the environment's, [N, size] or [N].
            step: What came of them.
            valid: Rows that count, [N].

        Raises:
            ValueError: an array has another shape.
        """
        row = self._written % self.rows
        first = self.obs_spec.leaves[0].path
        seen = _both(obs, step.final_obs)
        if self._frames is not None:
            seen = {name: part for name, part in seen.items() if name.partition("/")[2] != first}
        parts = {
            **seen,
            "actions": actions,
            "rewards": step.rewards,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "valid": valid,
        }
        for name, part in parts.items():
            if part.shape != self._arrays[name].shape[1:]:
                raise ValueError(f"{name} has shape {part.shape}, not {self._arrays[name].shape[1:]}")
        if self._frames is not None:
            self._frames.add(self._written, obs[first], step.final_obs[first], valid)
        self._count += int(np.count_nonzero(valid)) - int(np.count_nonzero(self._arrays["valid"][row]))
        for name, part in parts.items():
            self._arrays[name][row] = part
        self._written += 1
        if self._frames is not None and self._frames.needed > self._dropped:
            self._drop_before(self._frames.needed)

    def drop_unfinished(self, rows: Bools) -> Int64:
        """Let no transition be sampled of the episodes that are unfinished in these environments, [N].

        Returns:
            The numbers of the rows that this is about, those that did not count before included.
        """
        stored = np.arange(self._oldest, self._next).reshape(-1, self.num_envs)
        done = (self._flat["terminated"] | self._flat["truncated"]).take(stored % self.capacity)
        # Done rows at or after each row, [rows, N]: a row without one belongs to the unfinished episode.
        to_come = np.logical_or.accumulate(done[::-1])[::-1]
        dropped = stored[~to_come & rows]
        self._drop(dropped)
        return dropped

    def _drop_before(self, step: int) -> None:
        """Let no transition before a vector step be sampled: what followed some of them is not there any more."""
        first = max(self._oldest, self._dropped * self.num_envs)
        self._dropped = step
        if step * self.num_envs <= first:
            return
        if not self._told:
            self._told = True
            warnings.warn(
                f"Episodes are shorter than {ENDS_SHARE} steps on average, so the replay holds fewer transitions than "
                "buffer_size: it keeps their last frames apart, and gave up old ones (replay_frames='off' keeps all).",
                stacklevel=3,
            )
        self._drop(np.arange(first, step * self.num_envs))

    def _drop(self, index: Int64) -> None:
        """Let these transitions not be sampled."""
        self._flat["valid"][index % self.capacity] = False
        self._count = int(np.count_nonzero(self._arrays["valid"]))

    def state_dict(self, *, copy: bool = True) -> State:
        """Everything needed to go on exactly: arrays of the rows written, and the vector steps ever added.

        Args:
            copy: False gives views of the replay's own memory, to be written out before the next `add`.
        """
        used = {name: array[: self.written_to(name)] for name, array in self._arrays.items()}
        own = {} if self._frames is None else self._frames.state_dict()
        parts = {name: array.copy() if copy else array for name, array in used.items()}
        return {**parts, **own, "written": self._written}

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            UserError: it is not the state of a replay of this size and these spaces; nothing is changed.
        """
        written = state.get("written")
        if type(written) is not int or written < 0:
            raise bad_state("written", f"{written!r}, not a count")
        if self._frames is not None:
            self._frames.check(state, written)
        parts = {}
        for name, array in self._arrays.items():
            count: Any = state["ended"] if self._frames is not None and name.startswith("ends") else written
            parts[name] = entry(state, name, (min(count, len(array)), *array.shape[1:]), array.dtype)
        self._arrays["valid"][:] = False
        for name, part in parts.items():
            self._arrays[name][: len(part)] = part
        self._written = written
        self._count = int(self._arrays["valid"].sum())
        if self._frames is not None:
            self._frames.load_state_dict(state, written)
            self._dropped = self._frames.needed

    @property
    def _next(self) -> int:
        """Number of the next vector step's first transition."""
        return self._written * self.num_envs

    @property
    def _oldest(self) -> int:
        """Number of the oldest row's first transition."""
        return max(self._next - self.capacity, 0)

    def _stored(self, index: Int64) -> Bools:
        return (index >= self._oldest) & (index < self._next)

    def _read(
        self, slot: Int64, which: tuple[str, ...], others: tuple[str, ...]
    ) -> tuple[list[TensorTree], list[Tensor]]:
        """Stored observations (`obs`, `next_obs`) as the policy takes them, and other arrays, at these places; copies.

        Kernels fetch all of them in one call.
        """
        leaves = self.obs_spec.leaves
        if not self.native or self._frames is not None:
            trees = [{leaf.path: torch.from_numpy(self._leaf(each, leaf, slot)) for leaf in leaves} for each in which]
            return trees, [torch.from_numpy(self._flat[name].take(slot, axis=0)) for name in others]
        from steadyrl.kernels import _native

        sources = [self._flat[f"{each}/{leaf.path}"] for each in which for leaf in leaves]
        sources += [self._flat[name] for name in others]
        taken = [np.empty((len(slot), *source.shape[1:]), dtype=source.dtype) for source in sources]
        _native.gather(slot, sources, taken)
        found = iter(taken)
        trees = [
            {leaf.path: torch.from_numpy(next(found).astype(leaf.stored_dtype, copy=False)) for leaf in leaves}
            for _ in which
        ]
        return trees, [torch.from_numpy(array) for array in found]

    def _leaf(self, which: str, leaf: Leaf, slot: Int64) -> npt.NDArray[Any]:
        """One leaf of them, [B, ...], a copy."""
        if self._frames is not None and leaf is self.obs_spec.leaves[0]:
            env = slot % self.num_envs
            time = self._written - 1 - (self._written - 1 - slot // self.num_envs) % self.rows
            read = self._frames.obs if which == "obs" else self._frames.successors
            return read(time, env, self._written).astype(leaf.stored_dtype, copy=False)
        return self._flat[f"{which}/{leaf.path}"].take(slot, axis=0).astype(leaf.stored_dtype, copy=False)


def _both(obs: ObsTree, successors: ObsTree) -> dict[str, npt.NDArray[Any]]:
    """Observations and true successors by the names of their arrays."""
    return {
        **{f"obs/{path}": leaf for path, leaf in obs.items()},
        **{f"next_obs/{path}": leaf for path, leaf in successors.items()},
    }


def rows_of(capacity: int, num_envs: int) -> int:
    """Vector steps that fit.

    Raises:
        UserError: not one does.
    """
    if capacity < num_envs:
        raise UserError(
            f"buffer_size {capacity} has no room for one step of num_envs = {num_envs} environments.",
            remedy=f"Raise buffer_size (--buffer-size) to at least {num_envs}.",
            code="bad-value",
        )
    return capacity // num_envs
