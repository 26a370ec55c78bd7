"""Gives readers their mutated contents, so many or for so long: nothing but a refusal may come of one."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from types import FrameType
from typing import Any

from steadyrl.errors import UserError

LIMIT_S = 30  # of one case on a busy machine; what takes longer hangs
ROUND = 10_000  # cases, of all readers together, between two words on how far it is


@dataclass(frozen=True)
class Target:
    """One reader.

    Attributes:
        mutate: Another content.
        read: Is given it.
        refusals: What it may raise.
        share: How many cases, as against the others.
        end: Called after some of the cases.
    """

    mutate: Callable[[random.Random], Any]
    read: Callable[[Any], object]
    refusals: tuple[type[Exception], ...] = (UserError,)
    share: int = 1
    end: Callable[[], object] = lambda: None


@dataclass
class Count:
    """What became of a target's cases."""

    refused: int = 0
    taken: int = 0
    slowest_s: float = 0.0
    wall_s: float = 0.0

    @property
    def cases(self) -> int:
        """So far."""
        return self.refused + self.taken


class HangError(AssertionError):
    """A case took too long."""


def fuzz(
    found: dict[str, Target],
    cases: int,
    seed: int,
    *,
    seconds: float = float("inf"),
    say: Callable[[str], object] = lambda text: None,
) -> dict[str, Count]:
    """Give each target its share of so many cases, in rounds; case i of a target is the same in every call.

    Args:
        found: By name.
        cases: Of all targets together.
        seed: Of all draws.
        seconds: After which no further round is begun.
        say: Told after each round how far it is.

    Raises:
        AssertionError: something else than a refusal was raised, or nothing came back in time; the case is named.
    """
    total, start = sum(target.share for target in found.values()), perf_counter()
    counts = {name: Count() for name in found}
    given = 0
    while given < cases and (given == 0 or perf_counter() - start < seconds):
        given = min(given + ROUND, cases)
        for name, target in found.items():
            _some(name, target, counts[name], max(given * target.share // total, 1), seed)
        done = sum(count.cases for count in counts.values())
        say(f"{done:,} of {cases:,} cases, {perf_counter() - start:.0f} s")
    return counts


def _some(name: str, target: Target, count: Count, until: int, seed: int) -> None:
    """The target's next cases, up to this many in all."""
    start = perf_counter()
    with _alarms() as watch:
        try:
            for i in range(count.cases, until):
                begun = perf_counter()
                case = f"{name}, case {i} of seed {seed}"
                watch(case)
                if _one(target, random.Random(f"{name} {seed} {i}"), case):
                    count.taken += 1
                else:
                    count.refused += 1
                count.slowest_s = max(count.slowest_s, perf_counter() - begun)
        finally:
            target.end()
    count.wall_s += perf_counter() - start


@contextmanager
def _alarms() -> Iterator[Callable[[str], None]]:
    """What is yielded is told each case, which then has its time."""
    now = ""

    def hangs(number: int, frame: FrameType | None) -> None:
        raise HangError(f"{now}: nothing came back within {LIMIT_S} s")

    def watch(case: str) -> None:
        nonlocal now
        now = case
        signal.alarm(LIMIT_S)

    before = signal.signal(signal.SIGALRM, hangs)
    try:
        yield watch
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _one(target: Target, draw: random.Random, case: str) -> bool:
    content = target.mutate(draw)
    try:
        target.read(content)
    except target.refusals:
        return False
    except Exception as error:
        raise AssertionError(f"{case}: {type(error).__name__}: {error}: {str(content)[:2000]}") from error
    return True
