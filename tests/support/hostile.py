"""Whether a refusal left the world as it was: files around, modules, memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

SLACK = 50 << 20  # bytes that a refusal may take besides twice the size of what is refused


@dataclass(frozen=True)
class Hostile:
    """One thing that must not be loaded.

    Attributes:
        name: Of the case.
        put: Puts it into a place.
        told: One of these words has to be in the error.
    """

    name: str
    put: Callable[[Path], object]
    told: tuple[str, ...]


@dataclass
class Seen:
    """What a refusal did.

    Attributes:
        wall_s: Seconds.
        grew: Bytes that the process's memory grew by at its highest; -1 where the system does not tell.
    """

    wall_s: float = 0.0
    grew: int = -1


def around(folder: Path, but: Path | None = None) -> dict[str, tuple[int, int, int]]:
    """Every name below a folder, another one below it left out, with its mode, size and time; links not followed."""
    found = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if but != Path(parent, name)]
        for name in [*folders, *names]:
            path = os.path.join(parent, name)
            about = os.lstat(path)
            size, time = (about.st_size, about.st_mtime_ns) if name in names else (0, 0)
            found[os.path.relpath(path, folder)] = (about.st_mode, size, time)
    return found


def _memory(what: str) -> int:
    """A line of this process's status, in bytes; -1 where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))
    except (OSError, StopIteration):
        return -1


def _forget_highest() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


@contextmanager
def watched(outside: Path, size: int, but: Path | None = None) -> Iterator[Seen]:
    """Fails where the block writes outside, imports a module, or takes much more memory than twice a size.

    Args:
        outside: A folder with everything that must stay as it is.
        size: Bytes of what is read inside.
        but: A folder below it that may change.
    """
    before, modules, seen = around(outside, but), set(sys.modules), Seen()
    known = _forget_highest()
    resident, begun = _memory("VmRSS:"), perf_counter()
    yield seen
    seen.wall_s = perf_counter() - begun
    seen.grew = _memory("VmHWM:") - resident if known and resident >= 0 else -1
    assert around(outside, but) == before
    assert set(sys.modules) <= modules, set(sys.modules) - modules
    assert seen.grew <= 2 * size + SLACK, seen
