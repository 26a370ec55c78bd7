"""What the logs of a run that is taken up again tell of it so far, for displays that count on."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from steadyrl.training.events import EpisodeEnded, EvaluationEnded, History

RECENT = 100  # episodes; displays show the mean of so many
_BROKEN = b'"broken": true'  # of an episode that its environment's failure cut off, which counts nowhere


def history_of(run: Path) -> History:
    """The history of a run whose logs end where it goes on.

    A row that is none is left out: it is shown only, and nothing of the training hangs on it.
    """
    count, last = 0, deque[bytes](maxlen=RECENT)
    for line in _lines(run / "episodes.jsonl"):
        if _BROKEN not in line:
            count += 1
            last.append(line)
    recent, evaluations = list[EpisodeEnded](), list[EvaluationEnded]()
    for line in last:
        with suppress(ValueError, KeyError, TypeError):
            recent.append(_episode(json.loads(line)))
    for line in _lines(run / "evals.jsonl"):
        with suppress(ValueError, KeyError, TypeError):
            evaluations.append(_evaluation(json.loads(line)))
    return History(count, tuple(recent), tuple(evaluations))


def _lines(path: Path) -> Iterator[bytes]:
    """The lines one by one: a long run has millions."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        yield from file


def _number(value: Any) -> float:
    """A number of a log, where one that is not finite is null."""
    return math.nan if value is None else float(value)


def _episode(row: dict[str, Any]) -> EpisodeEnded:
    return EpisodeEnded(
        int(row["step"]),
        int(row["env_index"]),
        _number(row["return"]),
        int(row["length"]),
        bool(row["terminated"]),
        bool(row["truncated"]),
        row.get("success"),
    )


def _evaluation(row: dict[str, Any]) -> EvaluationEnded:
    low, high = row["ci95"]
    return EvaluationEnded(
        int(row["step"]),
        _number(row["mean"]),
        _number(row["std"]),
        (_number(low), _number(high)),
        tuple(map(_number, row["returns"])),
        tuple(map(int, row["lengths"])),
        bool(row["best"]),
        _number(row["time_s"]),
        row.get("success_rate"),
    )
