"""A run made again from its own record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from steadyrl.errors import UserError
from steadyrl.training.ending import recorded
from steadyrl.training.events import Notice
from steadyrl.training.files import working_folder
from steadyrl.training.plan import Plan, make_folder
from steadyrl.training.provenance import provenance
from steadyrl.training.resuming import differences
from steadyrl.training.run import Run, execute
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.signals import signals_raise
from steadyrl.training.taking_up import setup_of


def reproduce(run: Path, target: Path, say: Callable[[Notice], None]) -> Run:
    """Train again with a run's configuration, to the step that it came to.

    Args:
        run: Its folder.
        target: The new run's folder.
        say: Told what is not as it was: versions, code, hardware.

    Raises:
        UserError: its environment cannot be made again, or it has not ended.
    """
    with signals_raise():
        folder = RunFolder.open(run)
        manifest = folder.manifest
        if manifest.get("status") == "running":
            raise UserError(
                f"The run {folder.shown} has not ended, or was killed.",
                remedy="Let it end, or go on with it: steadyrl resume.",
                code="run-not-ended",
            )
        setup = setup_of(folder)
        for text in differences(folder, provenance(working_folder())):
            say(Notice("not-the-same", f"Not as it was: {text}.", "warning"))
        setup = replace(setup, settings=replace(setup.settings, run_dir=target))
        plan = Plan(setup, make_folder(setup, run_dir=target))
        with recorded(plan.folder):
            return execute(plan, (), say)
