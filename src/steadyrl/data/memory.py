"""Whether a replay fits into the memory there is, found out before it is allocated."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import psutil

from steadyrl.errors import UserError

FREE_SHARE = 0.7  # of the free memory, for the replay; the rest is for networks, environments and everybody else

_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt])(i?)b?", re.IGNORECASE)
# Limit, use and the key of memory.stat for cache that is given up on demand, in version 2 and 1.
_FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def require_memory(
    bytes_for: Callable[[int], int], buffer_size: int, *, num_envs: int = 1, limit: str | float | None = None
) -> None:
    """Nothing, where a replay of `buffer_size` transitions fits.

    Args:
        bytes_for: Bytes of a replay of so many transitions: `layouts.replay_bytes` with its other arguments given.
        buffer_size: Transitions wanted.
        num_envs: N; the size advised is a multiple of it.
        limit: `8GB`, `512MiB`, or a share of the free memory such as 0.5; None is 70% of the free memory.

    Raises:
        UserError: it does not fit (with the sizes, and the largest buffer_size that does), or the limit is no such
            value.
    """
    allowed, described = _allowed(limit)
    needed = bytes_for(buffer_size)
    if needed <= allowed:
        return
    fits = _largest(bytes_for, allowed, buffer_size // num_envs, num_envs)
    cure = f"Set buffer_size (--buffer-size) to at most {fits}" if fits else "Make the observations smaller"
    raise UserError(
        f"A replay of buffer_size {buffer_size} takes {shown(needed)}, but {described}.",
        remedy=f"{cure}, or allow more with --memory-limit.",
        code="no-memory",
    )


def memory_allowed(limit: str | float | None) -> tuple[float, str]:
    """Bytes that a limit allows (as `require_memory` takes it), and what to say of it.

    Raises:
        UserError: the limit is no such value.
    """
    return _allowed(limit)


def free_memory(cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Bytes that this process can still get: what the machine has, or less where its control groups say so.

    Args:
        cgroups: Where the control groups are mounted.
        membership: The file that names the process's own ones.
    """
    rooms = [_room(folder, version) for folder, version in _groups(cgroups, membership)]
    return max(min([int(psutil.virtual_memory().available), *(room for room in rooms if room is not None)]), 0)


def shown(size: float) -> str:
    """A number of bytes for people, in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def _allowed(limit: str | float | None) -> tuple[float, str]:
    """Bytes that a limit allows, and what to say of it."""
    if isinstance(limit, str) and (hit := _SIZE.fullmatch(limit.strip())):
        size = float(hit[1]) * (1024 if hit[3] else 1000) ** ("kmgt".index(hit[2].lower()) + 1)
        return size, f"the memory limit is {shown(size)} ({shown(free_memory())} are free)"
    try:
        share = FREE_SHARE if limit is None else float(limit)
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 1.0:
        raise UserError(
            f"memory_limit is {limit!r}.",
            remedy="Give a size such as 8GB or 512MiB, or a share of the free memory above 0 and at most 1.",
            code="bad-value",
        )
    free = free_memory()
    return share * free, f"{share:.3g} of the {shown(free)} of free memory is {shown(share * free)}"


def _largest(bytes_for: Callable[[int], int], allowed: float, rows: int, num_envs: int) -> int:
    """The largest multiple of `num_envs`, below `rows * num_envs`, that fits; 0 where none does."""
    low, high = 0, rows
    while low < high:
        middle = (low + high + 1) // 2
        if bytes_for(middle * num_envs) <= allowed:
            low = middle
        else:
            high = middle - 1
    return low * num_envs


def _groups(cgroups: Path, membership: Path) -> list[tuple[Path, int]]:
    """Control groups over this process's memory, each with its version: its own, and all above up to the mount."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    found = []
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers == "":
            roots, version = [cgroups, cgroups / "unified"], 2
        elif "memory" in controllers.split(","):
            roots, version = [cgroups / "memory"], 1
        else:
            continue
        own = Path(path.lstrip("/"))
        found += [(root / part, version) for root in roots for part in (own, *own.parents)]
    return found


def _room(folder: Path, version: int) -> int | None:
    """Bytes left below a group's limit; None where there is no limit or it cannot be read."""
    limit, used, cache = _FILES[version]
    try:
        most, now = int((folder / limit).read_text()), int((folder / used).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - now + int(stat.get(cache, 0))
    except (OSError, ValueError):  # `max` is no number: there is no limit
        return None
