"""Copies and comparisons of observations, infos and actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steadyrl.checker.probe.values import apart, difference, own, unchanged

NESTED = {"a": [1, (2.0, np.arange(3))], "b": {"c": np.nan}}


def test_a_copy_is_equal_and_its_own() -> None:
    copy = own(NESTED)
    assert difference(copy, NESTED) is None
    NESTED["a"][1][1][0] = 7  # type: ignore[index]
    found = difference(copy, NESTED)
    assert found is not None
    assert (found.path, found.one, found.other) == ("['a'][1][1][0]", "0", "7")


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        (1, 1.0, None),
        (np.nan, np.nan, None),
        (np.array([1, np.nan]), np.array([1, np.nan]), None),
        (np.array([1, 2], np.float32), np.array([1.0, 2.0]), None),
        ([1], [1, 2], ""),
        ({"a": 1}, {"b": 1}, ""),
        (np.zeros(2), np.zeros(3), ""),
        (np.zeros((2, 2)), np.eye(2), "[0, 0]"),
        ("x", "y", ""),
        (None, 0, ""),
        (np.zeros(2), "text", ""),
        (object(), object(), None),
        ((object(), 1), (object(), 2), "[1]"),
    ],
)
def test_the_first_difference(one: Any, other: Any, path: str | None) -> None:
    found = difference(own(one), own(other))
    assert (None if found is None else found.path) == path


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.00001]), True),
        (np.array([1.0, 2.0]), np.array([1.0, 2.1]), False),
        ({"x": (np.array([1e-7]), 3)}, {"x": (np.array([0.0]), 3)}, True),
        ({"x": (np.array([1e-7]), 3)}, {"x": (np.array([0.0]), 4)}, False),
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.zeros(2), np.zeros(3), False),
        (np.array([np.nan]), np.array([np.nan]), True),
    ],
)
def test_rounding_sets_nothing_apart(one: Any, other: Any, same: bool) -> None:
    assert (apart(one, other) is None) is same


@pytest.mark.parametrize("value", [1, 2.5, "x", None, True, np.float32(1), [1, {"a": (2, None)}], np.arange(3), {}])
def test_plain_data_is_surely_unchanged(value: object) -> None:
    assert unchanged(own(value), value)


def test_whatever_changes_is_not_surely_unchanged() -> None:
    value = {"a": [1, np.zeros(2)], "b": {1, 2}}
    copy = own(value)
    assert not unchanged(copy, value)  # in doubt: a set is none of the plain kinds
    assert difference(copy, own(value)) is None
    value["a"][1][0] = 1.0  # type: ignore[index]
    assert not unchanged(copy["a"], value["a"])
    assert not unchanged(own(np.zeros(2)), np.zeros(2, np.float32))
    assert not unchanged([1], [1, 2])
    assert not unchanged({"a": 1}, {"b": 1})
