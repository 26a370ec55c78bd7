"""Schedules are straight lines over absolute progress."""

from __future__ import annotations

import math

import pytest

from steadyrl.configs import LinearSchedule, value_at
from steadyrl.errors import UserError


@pytest.mark.parametrize(
    ("progress", "expected"), [(0.0, 1e-3), (0.25, 7.5e-4), (0.5, 5e-4), (1.0, 0.0), (1.5, 0.0), (-0.5, 1e-3)]
)
def test_a_line_from_start_to_end(progress: float, expected: float) -> None:
    assert LinearSchedule(1e-3, 0.0)(progress) == pytest.approx(expected, abs=1e-18)
    assert value_at(LinearSchedule(1e-3, 0.0), progress) == pytest.approx(expected, abs=1e-18)


def test_the_ends_are_exact() -> None:
    for start, end in ((3e-4, 1e-7), (0.1, 0.7), (0.2, 0.2)):
        schedule = LinearSchedule(start, end)
        assert schedule(0.0) == start
        assert schedule(1.0) == pytest.approx(end, rel=1e-15)


@pytest.mark.parametrize(("progress", "expected"), [(0.0, 1.0), (0.05, 0.525), (0.1, 0.05), (0.5, 0.05), (1.0, 0.05)])
def test_a_fraction_of_the_run(progress: float, expected: float) -> None:
    assert LinearSchedule(1.0, 0.05, fraction=0.1)(progress) == pytest.approx(expected)


def test_a_number_is_the_same_throughout() -> None:
    assert [value_at(0.3, progress) for progress in (0.0, 0.5, 1.0)] == [0.3, 0.3, 0.3]


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, math.nan, math.inf])
def test_a_wrong_fraction_is_named(fraction: float) -> None:
    with pytest.raises(UserError, match=f"fraction of a schedule is {fraction!r}") as caught:
        LinearSchedule(1.0, 0.0, fraction)
    assert caught.value.code == "bad-value"
    assert caught.value.remedy


def test_equal_lines_are_equal() -> None:
    assert LinearSchedule(1.0, 0.0) == LinearSchedule(1.0, 0.0, 1.0)
    assert LinearSchedule(1.0, 0.0) != LinearSchedule(1.0, 0.5)
