"""Whatever ends a run, its manifest says so. No torch."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from steadyrl.errors import RunFailedError, SteadyRLError, UserError, words
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.signals import Signalled, signalled, signals_held, signals_raise

ERROR_FILE = "error.txt"
_UNKNOWN: dict[str, Any] = {"timesteps": 0, "wall_s": 0.0, "weights_sha256": None, "eval": None}


@contextmanager
def recorded(folder: RunFolder, *, fresh: bool = True) -> Iterator[None]:
    """What ends the block early stands in the manifest afterwards, and is raised on.

    A signal gives `interrupted` or `preempted`, an error `failed` with its traceback in `error.txt`. Wrong input that
    shows before the first step takes a `fresh` folder away. Where the run had ended already, an error changes nothing.

    Raises:
        Signalled: a signal came, whatever error it led to.
    """
    with signals_raise() as guard:
        try:
            yield
        except BaseException as error:
            ended_by = error
            if guard.reason and not isinstance(error, Signalled):
                ended_by = signalled(guard.reason)  # such as that of a worker that the same signal ended
            with signals_held(), suppress(SteadyRLError):  # a full disk must not hide the error itself
                _record(folder, ended_by, fresh)
            if ended_by is error:
                raise
            raise ended_by from error


def _record(folder: RunFolder, error: BaseException, fresh: bool) -> None:
    manifest = folder.manifest
    known = _UNKNOWN | {name: manifest[name] for name in _UNKNOWN if name in manifest}
    if isinstance(error, KeyboardInterrupt | Signalled):
        name = error.name if isinstance(error, Signalled) else "SIGINT"
        folder.finish(signalled(name).status, signal=name, **known)
    elif isinstance(error, UserError) and fresh and not known["timesteps"]:
        folder.remove()
    elif manifest["status"] in ("running", "failed"):
        if isinstance(error, UserError) and manifest["status"] == "failed":
            error.exit_status = RunFailedError.exit_status  # it came in the middle of the training
        path = _write_traceback(folder, error)
        message = f"{type(error).__name__}: {words(error)}"
        folder.finish("failed", message=message, error_file=path and path.name, **known)
        if isinstance(error, SteadyRLError):
            # The command comes last: what followed it would look like its arguments.
            go_on = f"Then go on: steadyrl resume {shlex.quote(str(folder.shown))}" if folder.can_go_on else ""
            where = f"Traceback: {folder.shown / path.name}{'.' if go_on else ''}" if path else ""
            error.remedy = " ".join(filter(None, (error.remedy, where, go_on)))


def _write_traceback(folder: RunFolder, error: BaseException) -> Path | None:
    """The file with the traceback; None for an error that says everything itself, or where it cannot be written."""
    plain = error.__cause__ is None and not getattr(error, "__notes__", None)
    if isinstance(error, SteadyRLError) and (plain or error.code == "cannot-write"):
        return None
    path = folder.path / ERROR_FILE
    try:
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8", errors="backslashreplace")
    except OSError:
        return None
    return path
