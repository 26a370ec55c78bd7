"""What observations and actions have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces as gs

from steadyrl.errors import UserError

DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)


def unsupported(role: str, path: str, space: gs.Space[Any], remedy: str) -> UserError:
    """The error for a space, or the part of one at `path`, that cannot be used."""
    where = f" at '{path}'" if path else ""
    return UserError(
        f"The {role} space{where} is a {type(space).__name__}, which is not supported: {space}.",
        remedy=remedy,
        code=f"unsupported-{role}-space",
    )


def insist_on_entries(role: str, path: str, space: gs.Space[Any]) -> None:
    """Raise UserError for a space of arrays or texts, or the part of one at `path`, that holds nothing."""
    if isinstance(space, gs.Text):
        if space.max_length and len(space.character_list):
            return
        what = f"a Text of at most {space.max_length} out of {len(space.character_list)} characters"
    elif 0 in (space.shape or ()):
        what = f"a {type(space).__name__} of shape {space.shape}"
    else:
        return
    where, cure = (f" at '{path}'" if path else ""), f"Give {role}s at least one entry."
    if path.endswith("*"):
        cure = "Give the entries of the sequence at least one number."
    elif path:
        how = "" if "/" in path or role == "action" else " (gymnasium.wrappers.FilterObservation)"
        cure = f"Leave this part out of the space{how}, or give it at least one entry."
    raise UserError(
        f"The {role} space{where} is {what}, which holds nothing.", remedy=cure, code=f"unsupported-{role}-space"
    )


def dtype_of(role: str, path: str, space: gs.Space[Any]) -> str:
    """Name of a space's element type.

    Raises:
        UserError: it is not one of `DTYPES`.
    """
    if str(space.dtype) not in DTYPES:
        raise unsupported(role, path, space, f"Its dtype {space.dtype} must be one of {', '.join(DTYPES)}.")
    return str(space.dtype)


def counts_of(space: gs.MultiDiscrete) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Number of values and lowest value of each entry, flat."""
    start = np.broadcast_to(np.asarray(space.start), space.nvec.shape)
    return tuple(int(n) for n in space.nvec.ravel()), tuple(int(s) for s in start.ravel())


def are_sizes(values: tuple[Any, ...], least: int) -> bool:
    """Whether all are whole numbers of at least `least`."""
    return all(type(x) is int and x >= least for x in values)


def are_counts(nvec: tuple[Any, ...], start: tuple[Any, ...], size: int, dtype: str) -> bool:
    """Whether these describe `size` entries whose values all fit the integer type `dtype`."""
    if not (len(nvec) == len(start) == size > 0 and are_sizes(nvec, 1) and np.dtype(dtype).kind in "iu"):
        return False
    limits = np.iinfo(dtype)
    low, high = int(limits.min), min(int(limits.max), 2**63 - 1)
    return all(type(s) is int and low <= s <= high - n + 1 for n, s in zip(nvec, start, strict=True))
