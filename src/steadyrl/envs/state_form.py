"""What a stored state has to look like before anything of it is put back into a vector of environments."""

from __future__ import annotations

from typing import Any

import numpy as np

_NONE = type(None)
_ENTRIES: dict[str, set[type]] = {"seeds": {int, _NONE}, "in_a_row": {int}, "notes": {str}, "restarts": {dict}}


def insist_on_form(found: Any, own: Any, place: str = "") -> None:
    """Raises TypeError, or KeyError for a missing part, unless a state has the form of what these would save.

    Args:
        found: What was stored.
        own: What they would save; None stands for what others look at.
        place: Of both in the whole.
    """
    if own is None:
        return
    if type(found) is not type(own):
        raise TypeError(f"'{place}' is a {type(found).__name__}, not a {type(own).__name__}")
    if isinstance(own, dict):
        for name in sorted(own.keys() - found.keys()):
            raise KeyError(f"{place}/{name}".lstrip("/"))
        for name in sorted(found.keys() - own.keys()):
            raise TypeError(f"'{f'{place}/{name}'.lstrip('/')}' is unknown")
        for name, part in own.items():
            insist_on_form(found[name], part, f"{place}/{name}".lstrip("/"))
    elif isinstance(own, np.ndarray):
        if (found.shape, found.dtype) != (own.shape, own.dtype):
            raise TypeError(f"'{place}' is {found.dtype} {found.shape}, not {own.dtype} {own.shape}")
    elif isinstance(own, list):
        name = place.rpartition("/")[2]
        if {*map(type, found)} - _ENTRIES.get(name, {int}):
            raise TypeError(f"'{place}' holds something else than it should")
        if name in ("seeds", "in_a_row", "counts") and len(found) != len(own):
            raise TypeError(f"'{place}' has {len(found)} entries, not {len(own)}")
        for i, (part, other) in enumerate(zip(found, own, strict=False)):
            if isinstance(other, dict):
                insist_on_form(part, other, f"{place}/{i}")


def insist_on_arrays(last: Any) -> None:
    """Raises TypeError for what are no last observations, nor None where there were none."""
    if last is not None and {*map(type, last.values() if isinstance(last, dict) else [last])} - {np.ndarray}:
        raise TypeError("'last' holds something else than arrays")
