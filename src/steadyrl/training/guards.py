"""Numbers that nothing may be computed from: NaN, infinity, and those whose square leaves float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from steadyrl.errors import UserError
from steadyrl.spaces import ObsTree

ABSURD = 1e18


def is_sane(number: float) -> bool:
    """Whether it is finite and of a magnitude that float32 can square."""
    return -ABSURD <= number <= ABSURD


def first_absurd(tree: ObsTree) -> tuple[str, tuple[int, ...], Any] | None:
    """Path, index [row, ...] and value of the first such number in stored observations; None where all are good.

    The sum of squares bounds every entry and costs a fraction of looking at each; where it is too large, they decide.
    """
    for path, leaf in tree.items():
        if leaf.dtype.kind != "f" or np.vdot(leaf, leaf) <= ABSURD**2:
            continue
        bad = ~(np.abs(leaf) <= ABSURD)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            return path, index, leaf[index]
    return None


def entry(path: str, index: tuple[int, ...]) -> str:
    """How an entry of an observation is called, such as `entry (0, 3) at 'camera'`."""
    place = f" {index[0] if len(index) == 1 else index}" if index else ""
    return f"entry{place}" + (f" at '{path}'" if path else "")


def require_sane(tree: ObsTree, single: bool) -> None:
    """Raises UserError for such a number in observations that the user gave: one, or a batch."""
    found = first_absurd(tree)
    if found is not None:
        path, index, value = found
        raise UserError(
            f"The observation holds {value} as {entry(path, index[1:] if single else index)}.",
            remedy="Pass finite numbers of a magnitude of at most 1e18.",
            code="obs-nonfinite",
        )
