"""A call of `Agent.learn` from start to end: the run folder that it writes, and the signal that it ends with."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from pathlib import Path

from steadyrl.errors import UserError
from steadyrl.training.ending import recorded
from steadyrl.training.learning import Learning
from steadyrl.training.lock import writing
from steadyrl.training.plan import make_folder
from steadyrl.training.setup import Setup
from steadyrl.training.signals import release


def run_call(learning: Learning, setup: Setup, run_dir: Path | None) -> None:
    """Train, into a run folder where one is named.

    Raises:
        UserError: the folder cannot be made, or videos are asked for without one.
        RunFailedError: as `Learning.run`.
        KeyboardInterrupt, SystemExit: a signal ended the call, once the step was finished and the agent saved.
    """
    folder = None
    if run_dir is not None:
        folder = make_folder(setup.over(learning.total), run_dir=run_dir, generators="script")
    elif setup.settings.capture_video:
        raise UserError(
            "capture_video has no effect without a run folder to write videos into.",
            remedy="Pass run_dir to learn, or leave capture_video out.",
            code="no-run-dir",
        )
    record = nullcontext() if folder is None else recorded(folder)
    with record, nullcontext() if folder is None else writing(folder.path, folder.shown):
        outcome = learning.run(folder=folder)
        release()
    if outcome.signal == "SIGINT":
        raise KeyboardInterrupt
    if outcome.signal:
        raise SystemExit(128 + getattr(signal, outcome.signal))
