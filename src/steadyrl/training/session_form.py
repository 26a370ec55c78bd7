"""What a stored `Session.state_dict` has to look like. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def require_session(state: Mapping[str, Any]) -> None:
    """Raises ValueError for what is not of the form of `Session.state_dict`."""
    for name, kinds in _FORM.items():
        if not isinstance(state.get(name, _FORM), kinds):
            raise ValueError(f"'session/{name}' is missing or of another type")
    if state.keys() != _FORM.keys():
        raise ValueError("'session' has unknown parts")
    if any(not isinstance(row, dict) or {*map(type, row.values())} - {float} for row in state["since_row"]):
        raise ValueError("'session/since_row' does not hold rows of numbers")
    found = state["evaluation"]
    if (found is None) != (state["evaluated_at"] is None) or (
        found is not None and [*map(type, state["evaluated_at"])] != [int, int]
    ):
        raise ValueError("'session/evaluated_at' is no step and number of updates")
    if found is not None and found.keys() - {"successes"} != {"returns", "lengths"}:
        raise ValueError("'session/evaluation' has not the parts returns and lengths")
    successes = [] if found is None else found.get("successes", [])
    if not isinstance(successes, list) or {*map(type, successes)} - {bool, type(None)}:
        raise ValueError("'session/evaluation/successes' is no list of truth values")


_FORM: dict[str, tuple[type, ...]] = {
    "since_row": (list,),
    "elapsed": (float,),
    "start_step": (int,),
    "best": (float, type(None)),
    "evaluated_at": (list, type(None)),
    "evaluation": (dict, type(None)),
    "said_long": (bool,),
    "owed": (bool,),
}
