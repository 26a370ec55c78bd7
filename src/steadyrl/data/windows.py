"""n-step windows (Sutton and Barto 2018, chapter 7) over the rings of a replay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from steadyrl.data.arrays import Arrays
from steadyrl.data.transitions import Bools, Int64

Floats = npt.NDArray[np.float32]


class Window(NamedTuple):
    """Windows that begin at B transitions."""

    rewards: Floats  # [B], discounted sum over the steps taken
    discounts: Floats  # [B], gamma ** (steps taken)
    last: Int64  # [B], place of the last step taken
    slots: Int64  # [B, n], places of the n steps from the first one on
    taken: Bools  # [B, n], which of them belong to the window


class Windows:
    """What windows of a replay come to.

    A window ends with the first done step in it, before a row that does not count, and at the newest row, and
    bootstraps with gamma^k of the k steps taken. A window that the newest row cuts short is taken all the same: a
    return over fewer steps is as true, and no small replay is ever left without a sample. The same transition has its
    full window once the steps are there.

    Args:
        gamma: Discount factor.
        n_step: Most steps in a window.
        num_envs: N.
        capacity: Transitions for which there is room.
    """

    def __init__(self, gamma: float, n_step: int, num_envs: int, capacity: int) -> None:
        self._powers = gamma ** np.arange(n_step + 1, dtype=np.float64)
        self._ahead = num_envs * np.arange(n_step)  # numbers of the same environment's next steps
        self._capacity = capacity

    def of(self, arrays: Arrays, index: Int64, end: int) -> Window:
        """The windows that begin at these transitions.

        Args:
            arrays: `rewards`, `terminated`, `truncated` and `valid` of every place, [capacity].
            index: Numbers of the first transitions, [B]; they are stored, and count.
            end: The number that comes after the newest transition's.
        """
        steps = index[:, None] + self._ahead
        slots = steps % self._capacity
        done = arrays["terminated"][slots] | arrays["truncated"][slots]
        taken = arrays["valid"][slots] & (steps < end)
        taken[:, 1:] &= ~done[:, :-1]
        taken = np.logical_and.accumulate(taken, axis=1)
        count = taken.sum(axis=1)
        rewards = (np.where(taken, arrays["rewards"][slots], 0.0) * self._powers[:-1]).sum(axis=1)
        last = slots[np.arange(len(index)), count - 1]
        return Window(rewards.astype(np.float32), self._powers[count].astype(np.float32), last, slots, taken)

    def later(self, window: Window) -> tuple[Int64, Floats]:
        """Places of all but the first steps, [B, n - 1], and gamma ** (steps from the first one).

        Beyond a window's end its first step stands in, a legal one, with a discount of 0.
        """
        discounts = np.where(window.taken, self._powers[:-1], 0.0).astype(np.float32)[:, 1:]
        return np.where(window.taken, window.slots, window.slots[:, :1])[:, 1:], discounts
