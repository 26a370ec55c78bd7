"""What an observation loses on its way into float32, the type that everything but counted integers is held in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces as gs

from steadyrl.spaces.tree import leaf_spaces

_STEPS_LEFT = 10  # fewer float32 values than this between two ends: what lies between them is lost
_NOISE = 1e-10  # a variation smaller than this share of the value is rounding in the environment itself


def is_wide(dtype: Any) -> bool:
    """Whether an element type tells apart numbers that float32 does not."""
    kind = np.dtype(dtype)
    return kind == np.float64 or (kind.kind in "iu" and kind.itemsize >= 4)


def precision_notes(space: gs.Space[Any]) -> list[str]:
    """What the declared bounds of an observation space tell of values that float32 cannot tell apart.

    Args:
        space: An observation space; parts without finite bounds tell nothing.

    Returns:
        One sentence for each part that loses its variation, with the cure.
    """
    notes = []
    for path, part in leaf_spaces(space):
        if isinstance(part, gs.Box) and is_wide(part.dtype):
            finite = part.bounded_below & part.bounded_above
            least, most = part.low[finite], part.high[finite]
            note = precision_note(least, most, f"observation space at '{path}'" if path else "observation space")
            notes += [note] if note else []
    return notes


def precision_note(least: npt.NDArray[Any], most: npt.NDArray[Any], what: str) -> str:
    """A sentence where values between these ends, of the same shape, are equal as float32; an empty one elsewhere."""
    ends = np.array([least.ravel(), most.ravel()])
    size = np.abs(ends.astype(np.float64)).max(axis=0, initial=0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = (ends[1].astype(object) - ends[0].astype(object)).astype(np.float64)  # exact for 64-bit integers
        gap = np.spacing(size.astype(np.float32)).astype(np.float64)
    counted = ends.dtype.kind in "iu"
    real = (gap > 1.0) & (spread > 0.0) if counted else spread > _NOISE * size
    lost = np.flatnonzero(real & (gap * _STEPS_LEFT > spread))
    if not len(lost):
        return ""
    entry = int(lost[0])
    return (
        f"The {what} goes from {ends[0][entry]!s} to {ends[1][entry]!s} in entry {entry}, but it is held as float32, "
        f"whose values are {gap[entry]:g} apart there: what lies between is lost. "
        "Subtract the offset in the environment."
    )
