"""Prioritised replay, the proportional variant (Schaul et al. 2016, arXiv:1511.05952)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.data.arrays import State, bad_state, entry
from steadyrl.data.frames import Frames
from steadyrl.data.replay import Replay, uniforms
from steadyrl.data.sum_tree import SumTree
from steadyrl.data.transitions import Bools, Int64, ReplayBatch, StepRows
from steadyrl.errors import NonFiniteError
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree


class PrioritisedReplay(Replay):
    """A replay that samples a transition with probability `p^alpha / sum p^alpha`, p its last |TD error| + eps.

    A new transition gets the largest p^alpha there has been (1 at first), so that it is soon seen. A row that does not
    count has priority 0. Everything else is `Replay`'s, n-step returns too.

    Args:
        capacity: Transitions in all.
        num_envs: N.
        obs_spec: Leaves of the observation.
        action_spec: Actions of the policy.
        gamma: Discount factor.
        n_step: Most steps in a window.
        inside: Give the observations inside windows too.
        alpha: 0 samples uniformly, 1 in proportion to the TD error.
        eps: What a transition without error keeps; above 0.
        frames: How observations are stacked, to keep each frame once.
        ends: Frames kept apart for ends of episodes.
        directory: Where the arrays live as files; None keeps them in memory. The priorities always are in memory.
        reuse: Write over a replay's files that are in the directory.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        obs_spec: ObsSpec,
        action_spec: ActionSpec,
        *,
        gamma: float,
        n_step: int = 1,
        inside: bool = False,
        alpha: float = 0.6,
        eps: float = 1e-6,
        frames: Frames | None = None,
        ends: int | None = None,
        directory: Path | None = None,
        reuse: bool = False,
    ) -> None:
        super().__init__(
            capacity,
            num_envs,
            obs_spec,
            action_spec,
            gamma=gamma,
            n_step=n_step,
            inside=inside,
            frames=frames,
            ends=ends,
            directory=directory,
            reuse=reuse,
        )
        self.alpha = alpha
        self.eps = eps
        self._tree = SumTree(self.capacity)
        self._largest = 1.0

    def add(self, obs: ObsTree, actions: npt.NDArray[Any], step: StepRows, valid: Bools) -> None:
        """Store one vector step, with the largest priority there has been."""
        super().add(obs, actions, step, valid)
        slot = np.arange(self._next - self.num_envs, self._next) % self.capacity
        self._tree.update(slot, np.where(valid, self._largest, 0.0))

    def _drop(self, index: Int64) -> None:
        """Let these transitions not be sampled: priority 0."""
        super()._drop(index)
        self._tree.update(index % self.capacity, np.zeros(len(index)))

    def sample(self, batch_size: int, stream: Stream, beta: float = 1.0) -> ReplayBatch:
        """Transitions by priority, one from each of `batch_size` equal shares of the total, as the paper does.

        Their weights are `(N P)^-beta` over the largest of the minibatch, which is `(p / min p)^-beta`.

        Args:
            batch_size: B.
            stream: Where the randomness comes from.
            beta: How much of the sampling's bias the weights take back; 1 is all of it.

        Raises:
            UserError: there is no transition.
        """
        if len(self) == 0:
            raise self._nothing_there()
        slot = self._tree.sample((np.arange(batch_size) + uniforms(stream, batch_size)) / batch_size)
        newest = self._next - 1
        index = newest - (newest - slot) % self.capacity
        priority = self._tree[slot]
        weights = (priority / priority.min()) ** -beta
        return self._batch(index)._replace(weights=torch.from_numpy(weights.astype(np.float32)))

    def update_priorities(self, index: Tensor, td_errors: Tensor) -> None:
        """Set the priorities of sampled transitions; those overwritten or dropped meanwhile are left out.

        Args:
            index: `ReplayBatch.index`, [B].
            td_errors: TD error of each (any sign), [B].

        Raises:
            NonFiniteError: an error is NaN or infinite; nothing is changed.
        """
        number, error = index.cpu().numpy(), td_errors.detach().cpu().numpy().astype(np.float64)
        if not np.isfinite(error).all():
            raise NonFiniteError(
                f"The TD error of transition {number[~np.isfinite(error)][0]} is not finite.",
                remedy="Lower learning_rate (--learning-rate), and look for very large rewards or observations.",
                code="non-finite",
            )
        there = self._stored(number) & self._eligible(number)  # meanwhile overwritten, or dropped
        priority = (np.abs(error[there]) + self.eps) ** self.alpha
        self._tree.update(number[there] % self.capacity, priority)
        self._largest = max(self._largest, float(priority.max(initial=0.0)))

    def state_dict(self, *, copy: bool = True) -> State:
        """Everything needed to go on exactly, the priorities too."""
        filled = min(self._next, self.capacity)
        own: State = {"priorities": self._tree[:filled], "largest": np.array(self._largest)}
        return {**super().state_dict(copy=copy), **own}

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` gave."""
        written = state.get("written")
        filled = min(written * self.num_envs, self.capacity) if isinstance(written, int) else 0
        priorities = entry(state, "priorities", (filled,), np.float64)
        largest = entry(state, "largest", (), np.float64)
        tree = SumTree(self.capacity)
        try:
            tree.update(np.arange(filled), priorities)
        except ValueError as error:
            raise bad_state("priorities", f"no list of priorities: {error}") from error
        super().load_state_dict(state)
        self._tree = tree
        self._largest = float(largest)
