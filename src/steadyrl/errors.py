"""The errors this library raises on purpose: a sentence with its cause, a sentence with its cure."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

LONGEST = 1 << 16  # characters of an error's text that are told


class SteadyRLError(Exception):
    """Base of every error of this library.

    Args:
        message: One sentence that names the cause: which environment, key, value.
        remedy: One sentence that says what to do.
        code: A stable word for programs, such as `unknown-env`.
    """

    exit_status = 3

    def __init__(self, message: str, *, remedy: str = "", code: str = "error") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class Ending(BaseException):
    """The program is asked to end: no failure of whatever code it comes through, which is to let it pass."""


class UserError(SteadyRLError, ValueError):
    """Wrong usage or bad input: exit status 2.

    Attributes:
        row: Of a batch, which it is about; None where that is not known.
    """

    exit_status = 2
    row: int | None = None


class RunFailedError(SteadyRLError, RuntimeError):
    """The run cannot go on (environment, non-finite numbers, disk): exit status 3.

    Attributes:
        failure: Where an environment failed, its `envs.failure.Failure`.
    """

    failure: Any = None


class NonFiniteError(RunFailedError):
    """A number that is not finite, or of a magnitude above 1e18, was seen before it could do harm.

    Args:
        message: As for every error.
        remedy: As for every error.
        code: As for every error.
        batch: The arrays that the number is in, or that led to it, by name.
        facts: What a program may want to know, as JSON values: `source`, and what names the place there.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        code: str = "non-finite",
        batch: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, code=code)
        self.batch: dict[str, Any] = dict(batch or {})
        self.facts: dict[str, Any] = dict(facts or {})


def words(error: BaseException) -> str:
    """What an error says, up to `LONGEST` characters; for one that says nothing, such as a bare `assert`, the line that
    raised it."""
    try:
        text = str(error).encode("utf-8", "backslashreplace").decode()  # files hold no halves of characters
    except Exception:  # its class cannot say it
        text = ""
    if len(text) > LONGEST:
        return f"{text[:LONGEST]} ... ({len(text) - LONGEST:,} more characters)"
    if text.strip():
        return text
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "no reason given"
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: {frames[-1].line}"


def install(extra: str) -> str:
    """What installs an extra: the package is in no index, so that its name would find nothing, or something else."""
    return f"pip install '.[{extra}]' in a clone of the library"


def nearest(word: str, known: Iterable[str], cutoff: float = 0.55) -> str:
    """A suggestion such as `Did you mean CartPole-v1?`, or an empty string when nothing is near.

    Args:
        word: What was written.
        known: What there is.
        cutoff: How alike a suggestion must be at least; 1 is the same but for its case.
    """
    by_lower = {name.lower(): name for name in known}
    if word.lower() in by_lower:  # only the case differs
        return f"Did you mean {by_lower[word.lower()]}?"
    hits = difflib.get_close_matches(word.lower(), by_lower, n=3, cutoff=cutoff)
    return f"Did you mean {' or '.join(by_lower[hit] for hit in hits)}?" if hits else ""
