"""Numbers, durations and small charts as text, in Unicode or plain ASCII."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Glyphs:
    """The characters that a terminal can show; `levels` go from empty to full."""

    bar: str
    track: str
    levels: str
    plus_minus: str
    dot: str
    ellipsis: str


UNICODE = Glyphs(bar="━", track="─", levels=" ▁▂▃▄▅▆▇█", plus_minus="±", dot="·", ellipsis="…")
ASCII = Glyphs(bar="#", track="-", levels=" .:-=+*#@", plus_minus="+-", dot="|", ellipsis="~")


def glyphs_for(encoding: str | None) -> Glyphs:
    """Unicode where the stream's encoding carries it, else ASCII."""
    try:
        "".join((UNICODE.bar, UNICODE.track, UNICODE.levels, UNICODE.ellipsis)).encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return UNICODE


def one_line(text: object) -> str:
    """The text on one line: an escape sequence or line break in a message must not reach the terminal."""
    return "".join(char if char.isprintable() else " " for char in str(text))


def encodable(text: str, glyphs: Glyphs) -> str:
    """The text with `?` for what an ASCII terminal cannot show."""
    return text.encode("ascii", "replace").decode() if glyphs is ASCII else text


def number(value: float) -> str:
    """About four significant digits: `0.00123`, `1.50`, `475.2`, `-1,234`, `1.23e+09`, `nan`."""
    size = abs(value)
    if not math.isfinite(value) or size >= 1e7 or 0 < size < 0.1:
        return f"{value:.3g}"
    if size >= 999.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 99.995 else f"{value:.2f}"


def count(value: float) -> str:
    """A whole number with separators."""
    return f"{value:,.0f}" if math.isfinite(value) else str(value)


def duration(seconds: float | None) -> str:
    """`0:05`, `12:34`, `3:07:20` or `2d 04:00`; `-` when it is not known."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    minutes, second = divmod(int(max(seconds, 0) + 0.5), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24}d {hours % 24:02}:{minute:02}"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def shares(phases: Sequence[tuple[str, float]]) -> list[tuple[str, int]]:
    """Phases as whole percents of their sum, largest remainders rounded up so that they add to 100."""
    total = sum(seconds for _, seconds in phases)
    if not (math.isfinite(total) and total > 0):
        return []
    exact = [100 * seconds / total for _, seconds in phases]
    percents = [int(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: percents[i] - exact[i])
    for i in by_remainder[: 100 - sum(percents)]:
        percents[i] += 1
    return [(name, percent) for (name, _), percent in zip(phases, percents, strict=True)]


def resampled(values: Sequence[float], width: int) -> list[float]:
    """The finite values as `width` columns: means of neighbours, or, where there are fewer, straight lines between."""
    finite = [value for value in values if math.isfinite(value)]
    n = len(finite)
    if n == 0 or width < 1:
        return []
    if n < width:
        places = [column * (n - 1) / (width - 1) for column in range(width)]
        before = [min(int(place), max(n - 2, 0)) for place in places]
        return [
            finite[i] + (place - i) * (finite[min(i + 1, n - 1)] - finite[i])
            for place, i in zip(places, before, strict=True)
        ]
    edges = [column * n // width for column in range(width + 1)]
    return [sum(finite[i:j]) / (j - i) for i, j in itertools.pairwise(edges)]


def area_chart(values: Sequence[float], width: int, height: int, glyphs: Glyphs) -> list[str]:
    """An area chart of `height` rows, top row first; with one row it is a sparkline.

    The lowest value still shows the smallest mark, so that a gap always means "no data".
    """
    columns = resampled(values, width)
    if not columns or height < 1:
        return []
    low, high = min(columns), max(columns)
    steps = len(glyphs.levels) - 1
    top = height * steps
    span = high - low
    fill = [1 + round((value - low) / span * (top - 1)) if span > 0 else (top + 1) // 2 for value in columns]
    return [
        "".join(glyphs.levels[min(max(level - row * steps, 0), steps)] for level in fill)
        for row in reversed(range(height))
    ]


def bar(fraction: float, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """The done and the open part of a progress bar."""
    done = min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else 0.0
    filled = int(done * max(width, 0))
    return glyphs.bar * filled, glyphs.track * (max(width, 0) - filled)
