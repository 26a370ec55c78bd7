"""Values that are not what they should be, in words for errors."""

from __future__ import annotations

from typing import Any

import numpy as np


def shown(value: Any) -> str:
    """A value that is not what it should be, in a few words, for an error."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    try:
        text = repr(value)
    except Exception:  # an integer of many thousand digits, or an object's own
        return f"a {type(value).__name__} that cannot be shown"
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
