"""Two runs held beside each other: the first difference in what they logged, then in what their checkpoints hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steadyrl.training.checkpoint import DamagedError, read_index, steps_in
from steadyrl.training.jsonlines import read_jsonl
from steadyrl.training.resuming import read_state
from steadyrl.training.saving import CLOCKS, LOGS, STATE

_CLOCKS = ("time/", "system/")  # tags that no two runs share
_CLOCK_KEYS = {"time_s"}
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
    """Rows of a log; none where there is no such file."""
    return read_jsonl(path) if path.exists() else []


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
            a, b = (read_index(folder)["about"].get("parts", {}) for folder in (ours[step], theirs[step]))
        except DamagedError as error:
            return Difference(step, where, "index", str(error), "")
        for part in [*a, *(part for part in b if part not in a)]:
            if a.get(part) != b.get(part) and part not in without:
                found = _part(ours[step], part), _part(theirs[step], part)
                if part == "session" and any(isinstance(side, dict) and side.get("owed") for side in found):
                    continue  # taken as an evaluation was cut off, whose result the other one has: its row is compared
                leaf = next(_leaves_apart(*found, part), None)
                if leaf is not None:
                    return Difference(step, where, *leaf)
                if found == (None, None):
                    return Difference(step, where, part, str(a.get(part)), str(b.get(part)))
    return None


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
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _leaves_apart(x, y, f"{place}/{i}")
    elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.shape, a.dtype) == (b.shape, b.dtype):
        bits = [np.frombuffer(x.tobytes(), np.uint8).reshape(x.size, x.itemsize) for x in (a, b)]
        apart = (bits[0] != bits[1]).any(axis=1) if a.size else np.zeros(0, dtype=np.bool_)
        if apart.any():
            at = int(apart.argmax())
            yield f"{place}[{at}]", _shown(a.ravel()[at]), _shown(b.ravel()[at])
    elif type(a) is not type(b) or isinstance(a, np.ndarray) or a != b:
        yield place, _shown(a), _shown(b)


def _shown(value: Any) -> str:
    text = repr(value.item()) if isinstance(value, np.generic) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
