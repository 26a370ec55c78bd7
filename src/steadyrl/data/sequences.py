"""Rollouts of a policy that remembers: whole sequences of environments, with what it remembered when they began."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.data.rollout import RolloutBatch, TensorTree

Bools = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


class Sequences(NamedTuple):
    """Steps of n environments in a row, T each, cut where episodes start: L steps in each of K pieces.

    A recurrent network runs over all pieces at once; beyond the end of a shorter one its first row stands in, whose
    outputs nobody looks at.
    """

    obs: TensorTree  # leaves [T * n, ...], in the order of time
    states: Tensor  # [n, S], what was remembered before the first step
    pieces: Tensor  # [L, K] int64, the row of each step of each piece
    begins: Tensor  # [K] int64, the environment whose state a piece begins with; n where it is an episode's start
    places: Tensor  # [B] int64, where among [L * K] the rows are that count, in the order of time

    def to(self, device: torch.device) -> Sequences:
        """The same on this device."""
        obs = {path: leaf.to(device) for path, leaf in self.obs.items()}
        return Sequences(obs, *(part.to(device) for part in self[1:]))


def cut(starts: Bools) -> tuple[Int64, Int64, Int64]:
    """Pieces [L, K] and begins [K] as `Sequences` has them, and the place of every row, [T * n].

    Args:
        starts: Where a step is the first of an episode, [T, n].
    """
    length, n = starts.shape
    first = starts.copy()
    first[0] = True
    first_of = first.T.ravel()  # environment by environment
    rows = np.arange(length * n).reshape(length, n).T.ravel()
    begin = np.flatnonzero(first_of)
    piece = np.cumsum(first_of) - 1
    step = np.arange(length * n) - begin[piece]
    pieces = np.repeat(rows[begin][None], step.max() + 1, axis=0)
    pieces[step, piece] = rows
    places = np.empty(length * n, dtype=np.int64)
    places[rows] = step * len(begin) + piece
    env, time = np.divmod(begin, length)
    carried = (time == 0) & ~starts[0, env]
    return pieces, np.where(carried, env, n), places


class SequenceBatch:
    """A rollout as sequences of whole environments.

    Args:
        rows: All of its transitions, flat in the order of time, [T * N]; those that do not count included.
        valid: Which count, [T, N].
        starts: Where a step is the first of an episode, [T, N].
        states: What was remembered before the first step, [N, S].
    """

    def __init__(self, rows: RolloutBatch, valid: Bools, starts: Bools, states: Tensor) -> None:
        self._rows = rows
        self._valid = valid
        self._starts = starts
        self._states = states
        self.n_steps, self.num_envs = valid.shape
        self._counted = torch.from_numpy(np.flatnonzero(valid))

    @property
    def values(self) -> Tensor:
        """Of the transitions that count, [B]."""
        return self._rows.values[self._counted.to(self._rows.values.device)]

    @property
    def returns(self) -> Tensor:
        """Of the transitions that count, [B]."""
        return self._rows.returns[self._counted.to(self._rows.returns.device)]

    def to(self, device: torch.device) -> SequenceBatch:
        """The same transitions on this device."""
        return SequenceBatch(self._rows.to(device), self._valid, self._starts, self._states.to(device))

    def take(self, envs: Int64) -> tuple[RolloutBatch, Sequences]:
        """The transitions of these environments that count, flat in the order of time, and what the network runs over.

        Args:
            envs: Numbers of environments, [n].
        """
        pieces, begins, places = cut(self._starts[:, envs])
        rows = (np.arange(self.n_steps)[:, None] * self.num_envs + envs).ravel()
        counted = np.flatnonzero(self._valid[:, envs])
        device = self._states.device
        there = torch.from_numpy(rows).to(device)
        sequences = Sequences(
            {path: leaf[there] for path, leaf in self._rows.obs.items()},
            self._states[torch.from_numpy(envs).to(device)],
            *(torch.from_numpy(part).to(device) for part in (pieces, begins, places[counted])),
        )
        return self._rows.take(torch.from_numpy(rows[counted]).to(device)), sequences

    def minibatches(self, order: Int64, size: int) -> list[Int64]:
        """The environments of each minibatch: whole sequences, as many as `size` transitions hold, at least one.

        Args:
            order: The environments, [N].
            size: Transitions of a minibatch.
        """
        each = max(1, size // self.n_steps)
        groups = [order[first : first + each] for first in range(0, len(order), each)]
        return [group for group in groups if self._valid[:, group].any()]
