"""What float32 loses, told from the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.spaces import precision_note, precision_notes


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (spaces.Box(1.7e9, 1.7e9 + 1000, (2,), np.float64), "128 apart"),
        (spaces.Box(2**30, 2**30 + 100, (1,), np.int64), "from 1073741824 to 1073741924 in entry 0"),
        (spaces.Box(-(2**30) - 100, -(2**30), (1,), np.int32), "128 apart"),
        (spaces.Box(np.array([0, 5e8]), np.array([1, 5e8 + 1]), dtype=np.float64), "in entry 1"),
        (spaces.Dict({"t": spaces.Box(1.7e9, 1.7e9 + 1, (), np.float64)}), "observation space at 't'"),
    ],
)
def test_a_small_range_of_large_numbers_is_said(space: Any, said: str) -> None:
    (note,) = precision_notes(space)
    assert said in note
    assert "Subtract the offset" in note


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1.0, 1.0, (3,), np.float64),
        spaces.Box(-np.inf, np.inf, (3,), np.float64),
        spaces.Box(1.7e9, np.inf, (3,), np.float64),
        spaces.Box(0, 1.7e9, (1,), np.float64),
        spaces.Box(3.0, 3.0, (1,), np.float64),
        spaces.Box(5, 6, (1,), np.int64),
        spaces.Box(2**23, 2**23 + 1, (1,), np.int64),
        spaces.Box(-(2**63), 2**63 - 1, (1,), np.int64),
        spaces.Box(1e9, 1e9 + 128, (1,), np.float32),
        spaces.Box(0, 255, (4, 4), np.uint8),
        spaces.Discrete(5),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1.0, 1.0, (2,), np.float64)}),
    ],
)
def test_other_bounds_say_nothing(space: Any) -> None:
    assert precision_notes(space) == []


@pytest.mark.parametrize("power", range(0, 60, 3))
def test_exactly_what_float32_makes_equal_is_said(power: int) -> None:
    # Ten float32 values and more between the ends are enough; of fewer it is said.
    start = np.array([2**power], dtype=np.int64)
    gap = max(1, 2 ** (power - 23))
    assert precision_note(start, start + 40 * gap, "it") == ""
    assert bool(precision_note(start, start + 4 * gap, "it")) == (gap > 1)
    nearest = (start + gap // 4).astype(np.float32).astype(np.int64)
    assert (nearest == start).all() == (gap > 1 or gap // 4 == 0)


def test_noise_of_the_environment_itself_is_no_variation() -> None:
    at_rest = np.array([0.5])
    assert precision_note(at_rest, at_rest + 1e-13, "it") == ""
    assert precision_note(at_rest, at_rest + 1e-9, "it")
