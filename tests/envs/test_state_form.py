"""A stored state of environments is put back only where it has the form of what these environments would save."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from steadyrl.envs.state_form import insist_on_arrays, insist_on_form

OWN: dict[str, Any] = {
    "env_id": "X-v0",
    "num_envs": 2,
    "inner": None,
    "live": np.zeros(2, dtype=np.bool_),
    "seeds": [None, 3],
    "notes": [],
    "first": {"seen": 4, "over": False},
    "restarts": [{"counts": [0, 0], "in_a_row": [0, 0]}],
    "in_a_row": [0, 0],
}


def changed(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(OWN) | changes


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"env_id": "Y-v0"},
        {"inner": 5},
        {"seeds": [1, None]},
        {"notes": ["a", "b", "c"]},
        {"restarts": []},
        {"restarts": [{"counts": [1, 2], "in_a_row": [0, 1]}] * 2},
        {"live": np.ones(2, dtype=np.bool_)},
    ],
)
def test_the_same_form_is_taken(changes: dict[str, Any]) -> None:
    insist_on_form(changed(**changes), OWN)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_envs": True}, "'num_envs' is a bool, not a int"),
        ({"num_envs": "2"}, "'num_envs' is a str, not a int"),
        ({"more": 1}, "'more' is unknown"),
        ({"first": {"seen": 4}}, "'first/over'$"),
        ({"first": {"seen": 4, "over": 0}}, "'first/over' is a int, not a bool"),
        ({"first": []}, "'first' is a list, not a dict"),
        ({"live": np.zeros(3, dtype=np.bool_)}, r"'live' is bool \(3,\), not bool \(2,\)"),
        ({"live": np.zeros(2)}, r"'live' is float64 \(2,\), not bool \(2,\)"),
        ({"seeds": [1]}, "'seeds' has 1 entries, not 2"),
        ({"seeds": ["x", 1]}, "'seeds' holds something else than it should"),
        ({"seeds": [True, 1]}, "'seeds' holds something else than it should"),
        ({"notes": [1]}, "'notes' holds something else than it should"),
        ({"in_a_row": [0, None]}, "'in_a_row' holds something else than it should"),
        ({"in_a_row": [0, 0, 0]}, "'in_a_row' has 3 entries, not 2"),
        ({"restarts": [1]}, "'restarts' holds something else than it should"),
        ({"restarts": [{"counts": [0], "in_a_row": [0, 0]}]}, "'restarts/0/counts' has 1 entries, not 2"),
        ({"restarts": [{"counts": [0, "x"], "in_a_row": [0, 0]}]}, "'restarts/0/counts' holds something else"),
        ({"restarts": [{"counts": [0, 0]}]}, "'restarts/0/in_a_row'$"),
    ],
)
def test_another_form_is_refused_by_its_place(changes: dict[str, Any], told: str) -> None:
    with pytest.raises((TypeError, KeyError), match=f"^{told}"):
        insist_on_form(changed(**changes), OWN)


def test_last_observations_are_arrays() -> None:
    insist_on_arrays(None)
    insist_on_arrays({"": np.zeros(2)})
    for odd in ("x", [np.zeros(2)], {"": 1}, {"a": np.zeros(1), "b": None}):
        with pytest.raises(TypeError, match="'last' holds something else than arrays"):
            insist_on_arrays(odd)
