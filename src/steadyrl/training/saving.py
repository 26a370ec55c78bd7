"""Checkpoints as a run goes: taken between two steps, written by a thread, old ones pruned once the new one is read."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save as save_arrays

from steadyrl.bundle import to_bytes
from steadyrl.envs.snapshots.values import digest, flatten
from steadyrl.errors import NonFiniteError, RunFailedError
from steadyrl.training.checkpoint import Contents, is_whole, read_index, save_checkpoint, steps_in
from steadyrl.training.chunks import FOLDER, ChunkStore, Layout, ReplayCapture, named_chunks
from steadyrl.training.durable import sync_folder
from steadyrl.training.files import json_bytes
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.state import training_state

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent

STATE, ARRAYS = "state.json", "state.safetensors"
LOGS = ("metrics.jsonl", "episodes.jsonl", "evals.jsonl")


@dataclass
class _Taken:
    """A checkpoint that is still to be written."""

    step: int
    policy: bytes
    files: dict[str, bytes]
    about: dict[str, Any]
    layouts: dict[str, Layout] | None


class Saver:
    """Writes the full checkpoints of one run, one at a time.

    Args:
        agent: Whose training is kept.
        run: The run folder; its logs are flushed before their lengths are noted.
        keep_last: How many to keep; None keeps all.
        background: Write while the training goes on.
    """

    def __init__(self, agent: Agent, run: Path, *, keep_last: int | None, background: bool = True) -> None:
        self._agent = agent
        self._run = run
        self._parent = run / "checkpoints"
        self._store = ChunkStore(self._parent / FOLDER)
        self._keep_last = keep_last
        self._background = background
        loop = agent.loop
        self._capture = ReplayCapture(loop.replay) if isinstance(loop, OffPolicyLoop) else None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, session: Mapping[str, Any]) -> Path:
        """Take a checkpoint of the training as it is now; returns where it will be.

        Args:
            session: `Session.state_dict`.

        Raises:
            RunFailedError: the disk or the permissions did not allow an earlier one, or do not allow this one.
            NonFiniteError: the state holds a number that is not finite; nothing is written.
        """
        self.wait()
        try:
            taken = self._take(session)
        except OSError as error:
            raise _not_written(self._parent, error) from error
        if self._background:
            self._thread = threading.Thread(target=self._write_caught, args=(taken,), name="steadyrl-checkpoint")
            self._thread.start()
        else:
            self._write(taken)
        return self._parent / f"step_{taken.step}"

    def check(self) -> None:
        """Raises what went wrong in the thread, if anything did."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Until nothing is left to be written. Raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def _take(self, session: Mapping[str, Any]) -> _Taken:
        agent = self._agent
        state = training_state(agent)
        layouts = None
        if self._capture is not None:
            assert isinstance(agent.loop, OffPolicyLoop)
            replay, layouts = agent.loop.replay, self._capture.take(self._store)
            state["replay"] = {k: v for k, v in replay.state_dict(copy=False).items() if k not in replay.rings}
        require_finite(state)
        parts = {name: digest(part) for name, part in state.items()}
        value, arrays = flatten(state | {"session": dict(session)})
        files = {STATE: json_bytes(value), ARRAYS: save_arrays(arrays)}
        logs = {name: (self._run / name).stat().st_size for name in LOGS if (self._run / name).exists()}
        about = {"algo": agent.algo, "parts": parts, "logs": logs, "environments": agent.loop.venv.ability()._asdict()}
        return _Taken(agent.num_timesteps, to_bytes(agent.bundle()), files, about, layouts)

    def _write_caught(self, taken: _Taken) -> None:
        try:
            self._write(taken)
        except BaseException as error:  # told by `check`, in the thread of the training
            self._error = error

    def _write(self, taken: _Taken) -> None:
        try:
            for name in taken.about["logs"]:
                _sync(self._run / name)
            if taken.layouts is not None:
                assert self._capture is not None
                taken.about["replay"] = described = self._capture.store(taken.layouts, self._store)
                taken.about["parts"]["rings"] = digest(described)
            save_checkpoint(self._parent, taken.step, taken.policy, Contents(taken.files, taken.about))
            self._prune()
        except OSError as error:
            raise _not_written(self._parent, error) from error

    def _prune(self) -> None:
        """Remove the oldest ones beyond `keep_last`, if the newest one can be read back; never the last whole one."""
        if self._keep_last is None or not keep_newest(self._parent, self._keep_last):
            return
        named: set[str] = set()
        for folder in self._parent.glob("step_*"):
            try:
                named |= named_chunks(read_index(folder))
            except Exception:
                return  # one that cannot be read may name any of them
        self._store.prune(named)


def keep_newest(parent: Path, count: int) -> bool:
    """Remove all checkpoints but the newest, if the newest can be read back; whether any was. Raises OSError."""
    steps = list(steps_in(parent).values())
    if len(steps) <= count or not is_whole(steps[-1]):
        return False
    for folder in steps[:-count]:
        doomed = folder.with_name(f".{folder.name}.pruned")
        shutil.rmtree(doomed, ignore_errors=True)  # what a killed run left
        os.rename(folder, doomed)  # a folder that is half removed must not bear a checkpoint's name
        shutil.rmtree(doomed)
    sync_folder(parent)
    return True


def require_finite(state: dict[str, Any]) -> None:
    """Raises NonFiniteError for a number in weights, optimisers or normalisers that is NaN or infinite."""
    for name in ("policy", "loop"):
        _require_finite(state[name], name)


def _require_finite(value: Any, place: str) -> None:
    if isinstance(value, dict):
        for name, part in value.items():
            _require_finite(part, f"{place}/{name}")
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise NonFiniteError(
            f"The checkpoint's '{place}' would hold numbers that are not finite, so it is not written.",
            remedy="Go on from the one before it with a lower learning_rate.",
            code="non-finite",
        )


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _not_written(parent: Path, error: OSError) -> RunFailedError:
    return RunFailedError(
        f"A checkpoint in {parent} cannot be written: {error.strerror or error}.",
        remedy="Free some disk space, or mend the permissions; the ones before it are untouched.",
        code="cannot-write",
    )
