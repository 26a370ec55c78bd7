from __future__ import annotations

import math

import pytest

from steadyrl.training.displays.text import (
    ASCII,
    UNICODE,
    area_chart,
    bar,
    duration,
    glyphs_for,
    number,
    shares,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.00"), (1.5, "1.50"), (-475.23, "-475.2"), (999.96, "1,000"), (123456.7, "123,457"), (1.5e9, "1.5e+09"),
        (0.00123, "0.00123"), (99.999, "100.0"), (math.nan, "nan"), (-math.inf, "-inf"),
    ],
)  # fmt: skip
def test_numbers(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0:00"),
        (59.6, "1:00"),
        (754, "12:34"),
        (11240, "3:07:20"),
        (187_200, "2d 04:00"),
        (None, "-"),
        (math.nan, "-"),
    ],
)
def test_durations(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


def test_shares_add_to_100() -> None:
    assert shares([("a", 1.0), ("b", 1.0), ("c", 1.0)]) == [("a", 34), ("b", 33), ("c", 33)]
    assert shares([("a", 0.0)]) == shares([("a", math.nan)]) == shares([]) == []


def test_charts_and_bars() -> None:
    assert area_chart([1, 2, 3, 4, 5, 6, 7, 8], 8, 1, UNICODE) == ["▁▂▃▄▅▆▇█"]
    assert area_chart([0, 1], 4, 2, UNICODE) == ["  ▃█", "▁▆██"]
    assert area_chart(range(10), 5, 1, UNICODE) == ["▁▃▅▆█"], "means of two"
    assert area_chart([5], 3, 1, UNICODE) == area_chart([5, 5], 3, 1, UNICODE) == ["▄▄▄"]
    assert area_chart([math.nan], 2, 1, UNICODE) == []
    assert bar(0.5, 4, ASCII) == ("##", "--")
    assert bar(math.nan, 2, ASCII) == ("", "--")
    assert (glyphs_for("utf-8"), glyphs_for("ascii"), glyphs_for(None)) == (UNICODE, ASCII, ASCII)
