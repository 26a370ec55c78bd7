"""How findings are put into words where a record says only what was seen and where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steadyrl.checker.finding import Found
from steadyrl.checker.probe.play import Split
from steadyrl.checker.probe.survey import Seen


def of_seen(seen: Seen | None, sentence: str) -> Iterator[Found]:
    """A finding where something was seen; the sentence has `{what}` and `{place}`."""
    if seen is not None:
        text = sentence.format(what=seen.what, place=seen.place)
        yield Found(f"{text[0].upper()}{text[1:]}", seen.place.evidence | {"value": seen.what})


def of_split(where: Split | None, sentence: str, **evidence: Any) -> Iterator[Found]:
    """A finding where two plays went apart; the sentence has `{where}`, and may have `{seed}`."""
    if where is not None:
        yield Found(sentence.format(where=where, seed=where.seed), where.evidence | evidence)
