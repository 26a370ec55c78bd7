"""A run as a chain of hashes, one link an interval between two checkpoints: equal chains are equal runs so far."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steadyrl.training.checkpoint import read_index, steps_in
from steadyrl.training.comparing import SPACE, no_part_of_a_run, rows_of
from steadyrl.training.resuming import read_state
from steadyrl.training.saving import LOGS, STATE


@dataclass(frozen=True)
class Link:
    """All that a run logged and held up to a step.

    Attributes:
        step: Environment steps at the end of the interval.
        sha256: Hash of the link before it, of the interval's rows and of the state at its end.
    """

    step: int
    sha256: str


def shared_steps(*runs: Path) -> set[int]:
    """The steps of which all these run folders have a whole training state."""
    found = [{step for step, path in steps_in(run / "checkpoints").items() if (path / STATE).exists()} for run in runs]
    return set.intersection(*found)


def chain(run: Path, steps: Collection[int] | None = None, without: Collection[str] = ()) -> list[Link]:
    """The links of a run folder; the last one is of what comes after the last checkpoint.

    What no two runs share is left out: times, speeds, and generators that are only for sampling from a space.

    Args:
        run: The run folder.
        steps: Of the checkpoints that end an interval; None is all.
        without: Parts of the state that are left out.

    Raises:
        DamagedError: a checkpoint cannot be read.
    """
    rows = [(int(row["step"]), name, row) for name in LOGS for row in rows_of(run / name)]
    links, before, since = [], b"", -1
    ends: list[int] = sorted(shared_steps(run) if steps is None else set(steps))
    for end in [*ends, None]:
        hashed = hashlib.sha256(before)
        for step, name, row in rows:
            if step > since and (end is None or step <= end):
                compared = {key: value for key, value in row.items() if not no_part_of_a_run(name, key)}
                hashed.update(json.dumps([name, compared], sort_keys=True).encode())
        if end is not None:
            for piece in _state(run / "checkpoints" / f"step_{end}", without):
                hashed.update(piece)
        before, since = hashed.digest(), since if end is None else end
        last = max((step for step, _, _ in rows), default=0) if end is None else end
        links.append(Link(last, before.hex()))
    return links


def parted_after(first: list[Link], second: list[Link]) -> tuple[int, int] | None:
    """The interval in which two chains part: its first and last step; None where they do not."""
    since = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            return since, max(a.step, b.step)
        since = a.step
    return None if len(first) == len(second) else (since, max(first[-1].step, second[-1].step))


def _state(folder: Path, without: Collection[str]) -> Iterator[bytes]:
    parts = read_index(folder)["about"].get("parts", {})
    yield str(parts.get("rings")).encode()  # a replay, whose chunks are named by their hash
    for name, part in read_state(folder).items():
        if name not in without:
            yield from _leaves(part, name)


def _leaves(value: Any, place: str) -> Iterator[bytes]:
    if isinstance(value, dict):
        for name, entry in value.items() if SPACE not in value else ():
            if not no_part_of_a_run(place, name):
                yield from _leaves(entry, f"{place}/{name}")
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from _leaves(entry, f"{place}/{i}")
    elif isinstance(value, np.ndarray):
        yield f"{place} {value.dtype} {value.shape}".encode()
        yield value.tobytes()
    else:
        yield f"{place} {type(value).__name__} {value!r}".encode()
