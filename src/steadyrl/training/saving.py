"""Checkpoints as a run goes: taken between two steps, written by a thread, old ones pruned once the new one is read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save as save_arrays

from steadyrl.bundle import to_bytes
from steadyrl.envs.snapshots.values import digest, flatten
from steadyrl.errors import NonFiniteError, RunFailedError, SteadyRLError
from steadyrl.training.checkpoint import Contents, DamagedError, read_index, save_checkpoint, steps_in, verify
from steadyrl.training.chunks import FOLDER, ChunkStore, Layout, ReplayCapture, named_chunks
from steadyrl.training.durable import make_folder, remove_folders, sweep, sync_file, sync_folder
from steadyrl.training.files import json_bytes
from steadyrl.training.inventory import inventory
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.state import training_state
from steadyrl.training.state_limits import require_readable

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent

STATE, ARRAYS = "state.json", "state.safetensors"
LOGS = ("metrics.jsonl", "episodes.jsonl", "evals.jsonl")
CLOCKS = ("elapsed",)  # what of a session no two runs share


class _AbandonedError(Exception):
    """Nobody waits for this checkpoint any more."""


@dataclass
class _Taken:
    """A checkpoint that is still to be written; nothing in it is the training's own memory."""

    step: int
    policy: bytes
    state: dict[str, Any]
    session: dict[str, Any]
    about: dict[str, Any]
    layouts: dict[str, Layout] | None


class Saver:
    """Writes the full checkpoints of one run, one at a time.

    Args:
        agent: Whose training is kept.
        run: The run folder, which no other process writes; its logs are flushed before their lengths are noted.
        keep_last: How many to keep; None keeps all.
        background: Write while the training goes on.

    Raises:
        RunFailedError: the disk or the permissions do not allow the first one.
    """

    def __init__(self, agent: Agent, run: Path, *, keep_last: int | None, background: bool = True) -> None:
        self._agent = agent
        self._run = run
        self._parent = run / "checkpoints"
        self._abandoned = threading.Event()
        self._store = ChunkStore(self._parent / FOLDER, self._go_on)
        self._keep_last = keep_last
        self._background = background
        loop = agent.loop
        self._capture = ReplayCapture(loop.replay) if isinstance(loop, OffPolicyLoop) else None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        try:
            make_folder(self._parent)
            sync_folder(run)  # whoever made these folders may have been killed before they were flushed
            sync_folder(run.parent)
            sweep(self._parent)
            self._prune_chunks()
        except OSError as error:
            raise _not_written(self._parent, error) from error

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

    def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None = None
    ) -> None:
        """As the exit of a `with` block: waits, but not for what somebody who interrupts a second time gives up.

        What goes wrong is raised, or said together with the error that there is already.
        """
        if isinstance(error, KeyboardInterrupt):
            self._abandoned.set()
        try:
            self.wait()
        except _AbandonedError:
            pass
        except Exception as late:
            if error is None:
                raise
            if isinstance(error, SteadyRLError):
                error.remedy = f"{error.remedy} Besides: {late}".lstrip()
            else:
                error.add_note(str(late))

    def _go_on(self) -> None:
        if self._abandoned.is_set():
            raise _AbandonedError

    def _take(self, session: Mapping[str, Any]) -> _Taken:
        agent = self._agent
        agent.loop.begin()
        ability = agent.loop.venv.ability()
        state = training_state(agent, ability)
        layouts = None
        if isinstance(agent.loop, OffPolicyLoop):
            assert self._capture is not None
            replay, layouts = agent.loop.replay, self._capture.take(self._store)
            state["replay"] = {k: v for k, v in replay.state_dict(copy=False).items() if k not in replay.rings}
        require_finite(state)
        logs = {name: (self._run / name).stat().st_size for name in LOGS if (self._run / name).exists()}
        about = {
            "algo": agent.algo,
            "env": agent.require_setup().settings.env,
            "logs": logs,
            "environments": ability._asdict(),
            **inventory(agent, ability),
        }
        return _Taken(agent.num_timesteps, to_bytes(agent.bundle()), state, dict(session), about, layouts)

    def _write_caught(self, taken: _Taken) -> None:
        try:
            self._write(taken)
        except BaseException as error:  # told by `check`, in the thread of the training
            self._error = error

    def _write(self, taken: _Taken) -> None:
        try:
            self._write_all(taken)
        except OSError as error:
            with suppress(OSError):
                self._prune_chunks()  # room for whoever goes on
            raise _not_written(self._parent, error) from error

    def _write_all(self, taken: _Taken) -> None:
        about, compared = taken.about, {k: v for k, v in taken.session.items() if k not in CLOCKS}
        about["parts"] = {name: digest(part) for name, part in [*taken.state.items(), ("session", compared)]}
        for name in about["logs"]:
            sync_file(self._run / name)
        sync_folder(self._run)
        if taken.layouts is not None:
            assert self._capture is not None
            about["replay"] = described = self._capture.store(taken.layouts, self._store)
            about["parts"]["rings"] = digest(described)
        value, arrays = flatten(taken.state | {"session": taken.session})
        files = {STATE: json_bytes(value), ARRAYS: save_arrays(arrays)}
        require_readable(value, files[STATE], files[ARRAYS], f"{self._parent / f'step_{taken.step}'}")
        path = save_checkpoint(self._parent, taken.step, taken.policy, Contents(files, about), self._go_on)
        self._prune(path)

    def _prune(self, newest: Path) -> None:
        """Remove the oldest ones beyond `keep_last`, if the newest one can be read back; never the last whole one."""
        if self._keep_last is None:
            return
        full = [folder for folder in steps_in(self._parent).values() if _is_full(folder)]
        if len(full) <= self._keep_last or full[-1] != newest:
            return
        try:
            index = verify(newest)
        except DamagedError:
            return
        if self._store.read_back(named_chunks(index)):
            remove_folders(self._parent, [folder.name for folder in full[: -self._keep_last]])
            self._prune_chunks()

    def _prune_chunks(self) -> None:
        """Remove chunks that no checkpoint names; none at all where one cannot be read, which may name any of them.

        Raises OSError.
        """
        named: set[str] = set()
        try:
            for folder in steps_in(self._parent).values():
                named |= named_chunks(read_index(folder))
        except DamagedError:
            return
        for aside in self._parent.glob("step_*.*"):  # what was set aside keeps what can still be told to be its own
            with suppress(DamagedError):
                named |= named_chunks(read_index(aside))
        self._store.prune(named)


def _is_full(folder: Path) -> bool:
    """Whether a training can go on from this checkpoint."""
    try:
        return STATE in read_index(folder)["files"]
    except DamagedError:
        return False


def keep_newest(parent: Path, count: int) -> None:
    """Remove all checkpoints but the newest, if the newest can be read back.

    Raises:
        RunFailedError: they cannot be removed.
    """
    steps = list(steps_in(parent).values())
    if len(steps) <= count:
        return
    try:
        verify(steps[-1])
        remove_folders(parent, [folder.name for folder in steps[:-count]])
    except DamagedError:
        return
    except OSError as error:
        raise _not_written(parent, error) from error


def require_finite(state: dict[str, Any]) -> None:
    """Raises NonFiniteError for a number in weights, optimisers or normalisers that is NaN or infinite."""
    for place in not_finite(state):
        raise NonFiniteError(
            f"The checkpoint's '{place}' would hold numbers that are not finite, so it is not written.",
            remedy="Go on from the one before it with a lower learning_rate.",
            code="non-finite",
        )


def not_finite(state: dict[str, Any]) -> Iterator[str]:
    """The places in weights, optimisers, normalisers and buffers that hold NaN or infinity."""
    for name in ("policy", "value_scale", "loop", "replay"):
        yield from _not_finite(state.get(name), name)


def _not_finite(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _not_finite(part, f"{place}/{name}")
    elif isinstance(value, float | np.ndarray) and not _finite(value):
        yield place


def _finite(value: float | np.ndarray[Any, Any]) -> bool:
    return bool(np.isfinite(value).all()) if isinstance(value, float) or value.dtype.kind == "f" else True


def _not_written(parent: Path, error: OSError) -> RunFailedError:
    return RunFailedError(
        f"A checkpoint in {parent} cannot be written: {error.strerror or error}.",
        remedy="Free some disk space, or mend the permissions; the ones before it are untouched.",
        code="cannot-write",
    )
