"""What an off-policy algorithm learns from: transitions drawn from a ring of the newest ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from steadyrl.data.frames import Frames
from steadyrl.data.ring import Ring
from steadyrl.data.transitions import Bools, Inside, Int64, ReplayBatch
from steadyrl.data.windows import Window, Windows
from steadyrl.errors import UserError
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec

_REDRAWS = 8  # rounds of rejection before the legal transitions are listed


class Replay(Ring):
    """A ring from which transitions that count are drawn uniformly, with n-step returns made at that moment.

    Args:
        capacity: Transitions in all; there is room for `capacity // num_envs` rows.
        num_envs: N.
        obs_spec: Leaves of the observation.
        action_spec: Actions of the policy.
        gamma: Discount factor.
        n_step: Most steps in a window.
        inside: Give the observations inside windows too, to algorithms that need them.
        frames: As for `Ring`, and so are the others.
        ends: Frames kept apart for ends of episodes.
        directory: Where the arrays live as files.
        reuse: Write over a replay's files that are in the directory.

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
        gamma: float,
        n_step: int = 1,
        inside: bool = False,
        frames: Frames | None = None,
        ends: int | None = None,
        directory: Path | None = None,
        reuse: bool = False,
    ) -> None:
        super().__init__(
            capacity, num_envs, obs_spec, action_spec, frames=frames, ends=ends, directory=directory, reuse=reuse
        )
        self.gamma = gamma
        self.n_step = n_step
        self._give_inside = inside and n_step > 1
        self._windows = Windows(gamma, n_step, num_envs, self.capacity)

    def sample(self, batch_size: int, stream: Stream) -> ReplayBatch:
        """Transitions drawn uniformly and independently (so also more than there are), [batch_size].

        Raises:
            UserError: there is none.
        """
        return self._batch(self._draw(batch_size, stream))

    def indices(self) -> Int64:
        """Numbers of all transitions that can be sampled, ascending."""
        stored = np.arange(self._oldest, self._next)
        return stored[self._eligible(stored)]

    def gather(self, index: Int64) -> ReplayBatch:
        """The transitions of these numbers, [B].

        Raises:
            IndexError: one of them cannot be sampled: overwritten, not yet written, or a row that does not count.
        """
        if not (self._stored(index) & self._eligible(index)).all():
            raise IndexError("a transition that is not in the replay was asked for")
        return self._batch(index)

    def _eligible(self, index: Int64) -> Bools:
        """Which of these stored transitions may be sampled, [B]."""
        return self._flat["valid"].take(index % self.capacity)

    def _draw(self, batch_size: int, stream: Stream) -> Int64:
        """Numbers of transitions, by rejection: nearly every row counts."""
        oldest, end = self._oldest, self._next
        if self._count == 0:
            raise self._nothing_there()
        index = stream.integers(oldest, end, (batch_size,))
        (wrong,) = (~self._eligible(index)).nonzero()
        for _ in range(_REDRAWS):
            if len(wrong) == 0:
                return index
            index[wrong] = stream.integers(oldest, end, (len(wrong),))
            wrong = wrong[~self._eligible(index[wrong])]
        legal = self.indices()
        if len(legal) == 0:
            raise self._nothing_there()
        index[wrong] = legal[stream.integers(0, len(legal), (len(wrong),))]
        return index

    def _nothing_there(self) -> UserError:
        return UserError(
            "The replay holds no transition to learn from yet.",
            remedy="Collect steps first: set learning_starts (--learning-starts) to at least 1.",
            code="empty-replay",
        )

    def _batch(self, index: Int64) -> ReplayBatch:
        """The transitions of legal numbers, with their windows."""
        slot = index % self.capacity
        if self.n_step == 1:
            (obs, next_obs), (actions, rewards, terminated) = self._read(
                slot, ("obs", "next_obs"), ("actions", "rewards", "terminated")
            )
            discounts, inside = np.full(len(slot), self.gamma, dtype=np.float32), None
        else:
            window = self._windows.of(self._flat, index, self._next)
            rewards, discounts = torch.from_numpy(window.rewards), window.discounts
            (obs,), (actions,) = self._read(slot, ("obs",), ("actions",))
            (next_obs,), (terminated,) = self._read(window.last, ("next_obs",), ("terminated",))
            inside = self._inside(window) if self._give_inside else None
        return ReplayBatch(
            obs,
            actions,
            rewards,
            next_obs,
            terminated,
            torch.from_numpy(discounts),
            torch.ones(len(index), dtype=torch.float32),
            torch.from_numpy(index),
            inside,
        )

    def _inside(self, window: Window) -> Inside:
        later, discounts = self._windows.later(window)
        (obs,), _ = self._read(later.ravel(), ("obs",), ())
        return Inside(obs, torch.from_numpy(discounts))


def uniforms(stream: Stream, n: int) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1), [n], with all 53 bits: float32's 24 would miss entries of a large replay."""
    return stream.integers(0, 2**53, (n,)).astype(np.float64) * 2.0**-53
