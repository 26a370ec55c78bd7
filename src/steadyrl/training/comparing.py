"""Two runs held beside each other: the first difference in what they logged, then in what their checkpoints hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steadyrl.envs.snapshots.values import digest
from steadyrl.errors import UserError
from steadyrl.training.checkpoint import DamagedError, read_index, steps_in
from steadyrl.training.jsonlines import read_jsonl
from steadyrl.training.resuming import read_state
from steadyrl.training.saving import CLOCKS, LOGS, STATE

_CLOCKS = ("time/", "system/")  # tags that no two runs share
_CLOCK_KEYS = {"time_s", "failure"}  # a failure's record is named by when it came
_SHOWN = 80
SPACE = "~space"  # what a snapshot calls the state of a space


@dataclass(frozen=True)
class Difference:
    """Where two runs part.

    Attributes:
        step: Environment steps at that point.
        where: A log, or a checkpoint.
        name: The metric, or the part of the state.
        first: As the first run has it.
        second: As the second run has it.
    """

    step: int
    where: str
    name: str
    first: str
    second: str

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"step {self.step}, {self.where}, {self.name}: {self.first} and {self.second}"


def first_difference(first: Path, second: Path, without: Collection[str] = ()) -> Difference | None:
    """The earliest difference between two run folders; None where nothing differs that is not a time.

    Args:
        first: A run folder.
        second: Another one of the same configuration.
        without: Parts of the state that are not compared.
    """
    found = [
        difference
        for difference in (
            *(_in_log(first, second, name) for name in LOGS),
            _in_checkpoints(first / "checkpoints", second / "checkpoints", without),
        )
        if difference is not None
    ]
    return min(found, key=lambda difference: difference.step, default=None)


def compared(first: Path, second: Path) -> dict[str, int]:
    """How much there was to compare: rows of each log, and checkpoints that both have."""
    counts = {name: min(len(rows_of(first / name)), len(rows_of(second / name))) for name in LOGS}
    both = steps_in(first / "checkpoints").keys() & steps_in(second / "checkpoints").keys()
    return counts | {"checkpoints": len(both)}


def no_part_of_a_run(place: str, name: str) -> bool:
    """Whether what is called `name` in a row of a log or in a part of a state is a time, or a hash of the rest."""
    if place in LOGS:
        return name in _CLOCK_KEYS or name.startswith(_CLOCKS)
    return name == "checksum" or (place == "session" and name in CLOCKS)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a log, each with its step; none where there is no such file."""
    rows = read_jsonl(path) if path.exists() else []
    for number, row in enumerate(rows, start=1):
        if type(row.get("step")) is not int:
            raise UserError(
                f"Line {number} of {path} does not tell its step.",
                remedy="Restore the file from a copy: a run only ever appends whole lines to it.",
                code="damaged-file",
            )
    return rows


def _in_log(first: Path, second: Path, name: str) -> Difference | None:
    ours, theirs = (rows_of(run / name) for run in (first, second))
    for a, b in zip(ours, theirs, strict=False):
        for key in [*a, *(key for key in b if key not in a)]:
            if no_part_of_a_run(name, key):
                continue
            if key not in a or key not in b or a[key] != b[key]:
                return Difference(int(a["step"]), name, key, _shown(a.get(key)), _shown(b.get(key)))
    if len(ours) != len(theirs):
        longer = (ours if len(ours) > len(theirs) else theirs)[min(len(ours), len(theirs))]
        return Difference(int(longer["step"]), name, "rows", str(len(ours)), str(len(theirs)))
    return None


def _in_checkpoints(first: Path, second: Path, without: Collection[str]) -> Difference | None:
    ours, theirs = steps_in(first), steps_in(second)
    for step in sorted(ours.keys() & theirs.keys()):
        where = f"checkpoint step_{step}"
        try:
            leaf = _apart(ours[step], theirs[step], without)
        except (DamagedError, OSError) as error:
            leaf = "index", str(error), ""
        if leaf is not None:
            return Difference(step, where, *leaf)
    return None


def _apart(first: Path, second: Path, without: Collection[str]) -> tuple[str, str, str] | None:
    """Name and both values of the first part of two checkpoints of a step that differs."""
    a, b = _parts(first), _parts(second)
    for part in [*a, *(part for part in b if part not in a)]:
        if a.get(part) != b.get(part) and part not in without:
            found = _part(first, part), _part(second, part)
            if part == "session" and any(isinstance(side, dict) and side.get("owed") for side in found):
                continue  # taken as an evaluation was cut off, whose result the other one has: its row is compared
            leaf = next(_leaves_apart(*found, part), None)
            if leaf is not None:
                return leaf
            if found[0] is None and found[1] is None:
                return part, str(a.get(part)), str(b.get(part))
    return None


def _parts(folder: Path) -> dict[str, Any]:
    """The hashes of the parts of a checkpoint, as its index tells them; one of version 1 tells none."""
    parts = read_index(folder)["about"].get("parts")
    return parts if isinstance(parts, dict) else {}


def _part(folder: Path, part: str) -> Any:
    """A part of a checkpoint's state; None for one that lies elsewhere, such as a replay's rings."""
    return read_state(folder).get(part) if (folder / STATE).exists() else None


def _leaves_apart(a: Any, b: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """Place and both values of each leaf that differs, bit for bit."""
    if isinstance(a, dict) and isinstance(b, dict):
        if SPACE in a and SPACE in b:
            return  # its generator is only for sampling from it, and starts anywhere unless somebody seeds it
        for name in [*a, *(name for name in b if name not in a)]:
            if no_part_of_a_run(place, name):
                continue
            yield from _leaves_apart(a.get(name), b.get(name), f"{place}/{name}")
    elif isinstance(a, list | tuple) and type(a) is type(b) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _leaves_apart(x, y, f"{place}/{i}")
    elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.shape, a.dtype) == (b.shape, b.dtype):
        bits = [np.frombuffer(x.tobytes(), np.uint8).reshape(x.size, x.itemsize) for x in (a, b)]
        apart = (bits[0] != bits[1]).any(axis=1) if a.size else np.zeros(0, dtype=np.bool_)
        if apart.any():
            at = int(apart.argmax())
            yield f"{place}[{at}]", _shown(a.ravel()[at]), _shown(b.ravel()[at])
    elif digest(a) != digest(b):  # which tells the zeros from each other, and takes NaN for itself
        yield place, _shown(a), _shown(b)


def _shown(value: Any) -> str:
    text = repr(value.item()) if isinstance(value, np.generic) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
