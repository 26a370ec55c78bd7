"""The process's own streams: always there, able to write any text, and stdout kept for the one JSON document."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any


def mend() -> None:
    """Closed streams become the null device, as a file opened later would take their number; what an encoding lacks is
    escaped."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # open takes the lowest free number
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def mute(stream: IO[Any]) -> None:
    """Send what the stream still holds, and all that follows, to the null device: its reader is gone."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def tell(text: str, stream: IO[str]) -> None:
    """A line for people. A stream that cannot take it is mute from then on: the work is worth more than the line."""
    try:
        print(visible(text), file=stream, flush=True)
    except (OSError, ValueError):
        mute(stream)


def visible(text: str) -> str:
    """The text with escape sequences and other control characters as Python writes them: an environment's error, or a
    file of one, must not steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def stdout_kept(*, for_good: bool) -> Iterator[Callable[[str], None]]:
    """Everything that is printed inside goes to stderr, by Python, by C code, and in child processes.

    Args:
        for_good: stdout is not given back afterwards: what C code holds in its buffers until the process ends must not
            follow the document.

    Yields:
        What writes to the real stdout.
    """
    real, number = sys.stdout, _number(sys.stdout)
    kept = None if number is None else os.dup(number)

    def write(text: str) -> None:
        data = memoryview(text.encode())
        if kept is None:
            real.write(text)
            real.flush()
        while kept is not None and data:
            data = data[os.write(kept, data) :]

    if number is not None:
        real.flush()
        os.dup2(2, number)
    sys.stdout = sys.stderr
    try:
        yield write
    finally:
        if not for_good:
            sys.stdout = real
            if kept is not None and number is not None:
                os.dup2(kept, number)
                os.close(kept)


def _number(stream: IO[Any]) -> int | None:
    """The file number of the process's stdout; None for a stream of another kind, such as a test's."""
    try:
        return 1 if stream.fileno() == 1 else None
    except (OSError, ValueError, AttributeError):
        return None
