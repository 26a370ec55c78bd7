"""What is kept of a batch whose numbers were bad: its arrays, and the words that say where it came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save as save_arrays

from steadyrl.errors import NonFiniteError, SteadyRLError
from steadyrl.training.checkpoint import save_checkpoint
from steadyrl.training.events import EventStream, Notice
from steadyrl.training.files import jsonable, write_atomic
from steadyrl.training.run_folder import RunFolder

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent

FOLDER = "failures"
LIMIT = 64 << 20  # bytes of one saved batch
MOST = 20  # batches of one run


class Failures:
    """What a run does about bad numbers besides leaving them out or stopping.

    Args:
        agent: Who learns.
        folder: Where batches and checkpoints are saved, or None.
        events: Who is told.
    """

    def __init__(self, agent: Agent, folder: RunFolder | None, events: EventStream) -> None:
        self._agent = agent
        self._folder = folder
        self._events = events
        self._said = False

    def skipped(self, error: NonFiniteError) -> None:
        """A minibatch was left out: it is saved, and the first time that is said."""
        where = self._save(error)
        if not self._said:
            self._said = True
            text = f"{error.message} Training goes on without it; train/nonfinite_batches counts such batches.{where}"
            self._events.emit(Notice("nonfinite-batch", text, "warning"))

    def stopped(self, error: NonFiniteError) -> None:
        """The run ends: the batch is saved, the agent as well where its own numbers are good, and the error says so."""
        where = self._save(error)
        if self._folder is not None:
            try:
                path = save_checkpoint(self._folder.checkpoints, self._agent.num_timesteps, self._agent.bundle())
                where += f" The agent as it was before is saved in {self._shown(path)}."
            except (SteadyRLError, OSError):
                pass  # its numbers are bad too, or the disk is full: what was saved before stays the newest
        error.remedy = f"{error.remedy}{where}".lstrip()

    def _save(self, error: NonFiniteError) -> str:
        path = None if self._folder is None else save_failure(self._folder.path, self._agent.num_timesteps, error)
        return "" if path is None else f" The batch is saved in {self._shown(path)}."

    def _shown(self, path: Path) -> Path:
        assert self._folder is not None
        return self._folder.shown / path.relative_to(self._folder.path)


def save_failure(run: Path, step: int, error: NonFiniteError) -> Path | None:
    """Write `failures/nonfinite-step<N>.safetensors` and, beside it, the same name with `.json`.

    Arrays that do not fit within the limit are cut to their first rows, and the JSON file says so.

    Args:
        run: The run folder.
        step: Environment steps so far.
        error: Brings the arrays and the facts.

    Returns:
        The file, or None where there is nothing to save, this run has saved enough, or the disk does not allow it: the
        error itself is more important.
    """
    folder = run / FOLDER
    if not error.batch or len(list(folder.glob("nonfinite-*.json"))) >= MOST:
        return None
    arrays, cut = _within(error.batch)
    words = {
        "step": step,
        "message": error.message,
        "remedy": error.remedy,
        "code": error.code,
        **error.facts,
        "arrays": {name: list(array.shape) for name, array in arrays.items()},
        "cut": cut,
        "config_sha256": _sha256(run / "config.json"),
    }
    try:
        folder.mkdir(exist_ok=True)
        path = _free(folder, step)
        write_atomic(path, save_arrays(arrays))
        write_atomic(path.with_suffix(".json"), json.dumps(jsonable(words), indent=2, allow_nan=False).encode())
    except (OSError, SteadyRLError):
        return None
    return path


def _within(batch: Mapping[str, Any]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, int]]:
    """The arrays, each with as many of its first rows as its share of the limit holds; and how many rows those had."""
    share = LIMIT // len(batch)
    arrays, cut = {}, {}
    for name, part in batch.items():
        array = np.ascontiguousarray(np.asarray(part.detach().cpu() if hasattr(part, "detach") else part))
        if array.nbytes > share:
            cut[name] = len(array)
            array = array[: max(share // (array.nbytes // len(array)), 1)]
        arrays[name] = np.array(array)
    return arrays, cut


def _free(folder: Path, step: int) -> Path:
    path, number = folder / f"nonfinite-step{step}.safetensors", 1
    while path.exists():
        number += 1
        path = folder / f"nonfinite-step{step}-{number}.safetensors"
    return path


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
