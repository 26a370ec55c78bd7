"""One writer of a run folder at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steadyrl.errors import UserError

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


@contextmanager
def writing(run: Path, shown: Path) -> Iterator[None]:
    """Inside, no other process writes this run; the system lifts the lock however the process ends.

    Args:
        run: The run folder.
        shown: As the user wrote it.

    Raises:
        UserError: another one does.
    """
    if fcntl is None:
        yield
        return
    with open(run / NAME, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"Another process is writing the run {shown} just now.",
                remedy="Let it end, or stop it first.",
                code="run-in-use",
            ) from error
        yield
