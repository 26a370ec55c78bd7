"""Files of one strict JSON object per line: no NaN, appended to as a run goes, readable after a crash."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.events import EpisodeBroken, EpisodeEnded
from steadyrl.training.files import require_regular


def json_line(row: Mapping[str, Any]) -> str:
    """The row as one line of strict JSON.

    A key whose value is, or holds, a number that is not finite is listed in `nonfinite`, and the number becomes null.
    NumPy scalars become Python numbers; anything that JSON has no form for becomes its text.
    """
    try:
        return json.dumps(row, allow_nan=False) + "\n"
    except (TypeError, ValueError):
        clean = {str(key): _clean(value) for key, value in row.items()}
    nonfinite = [key for key, (_, finite) in clean.items() if not finite]
    named = {"nonfinite": nonfinite} if nonfinite else {}
    return json.dumps({key: value for key, (value, _) in clean.items()} | named, allow_nan=False) + "\n"


def _clean(value: Any) -> tuple[Any, bool]:
    """The value as JSON can hold it, and whether every number in it was finite."""
    if value is None or isinstance(value, str | bool | int):
        return value, True
    if isinstance(value, float):
        return (value, True) if math.isfinite(value) else (None, False)
    if isinstance(value, Mapping):
        items = {str(key): _clean(item) for key, item in value.items()}
        return {key: item for key, (item, _) in items.items()}, all(finite for _, finite in items.values())
    if isinstance(value, Sequence):
        cleaned = [_clean(item) for item in value]
        return [item for item, _ in cleaned], all(finite for _, finite in cleaned)
    if hasattr(value, "tolist"):
        return _clean(value.tolist())
    return str(value), True


def episode_line(episode: EpisodeEnded) -> str:
    """The episode's line of `episodes.jsonl`; `success` is there only where the environment says it.

    Spelt out, because `json_line` takes three times as long, and there are many episodes.
    """
    known = episode.success is not None
    if not math.isfinite(episode.return_):
        success = {"success": bool(episode.success)} if known else {}
        facts = {"step": episode.step, "env_index": episode.env_index, "return": None, "length": episode.length}
        flags = {"terminated": bool(episode.terminated), "truncated": bool(episode.truncated)}
        return json_line(facts | flags | success | {"nonfinite": ["return"]})
    success_text = f', "success": {"true" if episode.success else "false"}' if known else ""
    return (
        f'{{"step": {episode.step}, "env_index": {episode.env_index}, "return": {float(episode.return_)!r}, '
        f'"length": {episode.length}, "terminated": {"true" if episode.terminated else "false"}, '
        f'"truncated": {"true" if episode.truncated else "false"}{success_text}}}\n'
    )


def broken_line(episode: EpisodeBroken) -> str:
    """The line of `episodes.jsonl` for an episode that its environment's failure cut off."""
    facts = {"step": episode.step, "env_index": episode.env_index, "return": episode.return_, "length": episode.length}
    named = {"failure": f"failures/{Path(episode.file).name}"} if episode.file else {}
    return json_line(
        facts | {"terminated": False, "truncated": False, "broken": True, "reason": episode.reason} | named
    )


def read_jsonl(path: Path | str) -> list[dict[str, Any]]:
    """Every row of the file; a last line without its line break is what a killed run leaves, and is left out.

    Raises:
        UserError: A whole line is not a JSON object, or it is no file.
        FileNotFoundError: There is no such file.
    """
    require_regular(Path(path))
    lines = Path(path).read_bytes().split(b"\n")
    rows = []
    for index, line in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(line, parse_constant=_refused)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UserError(
                f"Line {index} of {path} is not a JSON object.",
                remedy="Restore the file from a copy: a run only ever appends whole lines to it.",
                code="damaged-file",
            )
        rows.append(row)
    return rows


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no number")


class AppendFile:
    """A file that is appended to in whole records; what `write` was given is with the operating system afterwards.

    Args:
        path: Made if it does not exist. The torn record at the end that a killed run may have left is cut off.

    Raises:
        RunFailedError: The file cannot be opened or written; it names the file and the cause.
    """

    def __init__(self, path: Path, *, torn_tail: bool = True) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115
            if torn_tail:
                self._cut_torn_tail()
        except OSError as error:
            raise write_failed(path, error) from error

    def write(self, data: bytes) -> None:
        """Append all of the data."""
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise write_failed(self.path, error) from error

    def close(self) -> None:
        """Close the file; again does nothing."""
        self._file.close()

    def _cut_torn_tail(self) -> None:
        end = size = self._file.seek(0, os.SEEK_END)
        block = 65536
        while end > 0:
            start = max(end - block, 0)
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            self._file.truncate(end)


def write_failed(path: Path, error: OSError) -> RunFailedError:
    """The error for a file of the run folder that could not be written."""
    cause = error.strerror or str(error)
    return RunFailedError(
        f"Cannot write {path}: {cause}.",
        remedy="Free space there or make it writable, or choose another place with --run-dir.",
        code="cannot-write",
    )
