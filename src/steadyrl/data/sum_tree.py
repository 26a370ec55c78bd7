"""Sums of priorities in a tree, so that an entry is found in proportion to its priority without a pass over all."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

_BITS = 4
_FAN = 1 << _BITS  # children of a node: 5 levels hold 2**20 entries, and a NumPy call per level costs more than 16 adds
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


class SumTree:
    """`size` priorities >= 0, in float64, all 0 at first.

    A parent is always computed anew as the sum of its children from left to right, so nothing drifts and the same
    priorities give the same bits, whatever came before.

    Args:
        size: Number of entries, at least 1.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        # From the leaves up, each [blocks, 16]: entry j of block b is the sum of block 16 b + j below.
        self._levels = [np.zeros((blocks, _FAN)) for blocks in _blocks(size)]

    @staticmethod
    def bytes_for(size: int) -> int:
        """Bytes that a tree of this size takes."""
        return sum(blocks * _FAN * 8 for blocks in _blocks(size))

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._levels[-1].cumsum(axis=1)[0, -1])

    def __getitem__(self, index: Int64 | slice) -> Float64:
        """Priorities at these places; a copy."""
        return np.array(self._leaves[index])

    @property
    def _leaves(self) -> Float64:
        return self._levels[0].reshape(-1)[: self.size]

    def update(self, index: Int64, priority: npt.NDArray[Any]) -> None:
        """Set priorities, [B] each; of an entry named twice the last one counts.

        Raises:
            ValueError: a priority is negative or not finite; nothing is changed.
        """
        if not (np.isfinite(priority) & (priority >= 0)).all():
            raise ValueError("a priority must be finite and at least 0")
        self._leaves[index] = priority
        block = index >> _BITS
        for below, above in pairwise(self._levels):
            above.reshape(-1)[block] = below[block].cumsum(axis=1)[:, -1]
            block = block >> _BITS

    def sample(self, u: Float64) -> Int64:
        """The entries in which the shares `u` in [0, 1) of the total fall, [B]; never one of priority 0.

        Raises:
            ValueError: all priorities are 0.
        """
        total = self.total
        if total <= 0:
            raise ValueError("all priorities are 0")
        rest, node, each = u * total, np.zeros(len(u), dtype=np.int64), np.arange(len(u))
        for level in reversed(self._levels):
            sums = np.zeros((len(u), _FAN + 1))
            level[node].cumsum(axis=1, out=sums[:, 1:])
            # Rounding can bring the rest up to the sum, which would fall behind the last child.
            rest = np.minimum(rest, np.nextafter(sums[:, -1], 0.0))
            child = (sums[:, 1:] <= rest[:, None]).sum(axis=1)
            rest = rest - sums[each, child]
            node = (node << _BITS) + child
        return node


def _blocks(size: int) -> list[int]:
    """Blocks of each level, from the leaves up."""
    blocks = [-(-size // _FAN)]
    while blocks[-1] > 1:
        blocks.append(-(-blocks[-1] // _FAN))
    return blocks
