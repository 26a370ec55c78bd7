"""`steadyrl resume RUN`: goes on from the newest whole checkpoint, to the same bits as without the stop."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from steadyrl.cli.parser import understood
from steadyrl.cli.runs import find_run
from steadyrl.cli.session import Session, exits_are_errors
from steadyrl.cli.streams import tell
from steadyrl.cli.train_command import closing, display_for, status_of, warn
from steadyrl.configs.validate import at_least_one
from steadyrl.errors import RunFailedError

if TYPE_CHECKING:
    from steadyrl.training.events import Listener


@dataclass(frozen=True, kw_only=True)
class ResumeOptions:
    """What `steadyrl resume` takes."""

    total_timesteps: int | None = None
    """Environment steps of the whole run; another total than before stretches the schedules over the new one."""
    display: Literal["auto", "live", "plain", "json", "none"] = "auto"
    """How progress is shown; auto is live in a terminal and plain elsewhere."""
    quiet: bool = False
    """No progress, only how the run is set up and how it ended."""
    json: bool = False
    """One JSON document on stdout at the end; everything else goes to stderr."""

    def __post_init__(self) -> None:
        if self.total_timesteps is not None:
            at_least_one(self, "total_timesteps")


def run(args: list[str], session: Session) -> int:
    """Trains on and returns the exit status of how the run ended."""
    line = understood(
        args,
        ResumeOptions,
        "steadyrl resume",
        usage="steadyrl resume RUN [flags]",
        description="Goes on with a run from its newest whole checkpoint, as if it had never been stopped.",
        example="  steadyrl resume latest\n  steadyrl resume latest --total-timesteps 200000",
        positionals={"RUN": "a run folder, a folder of runs (its newest), or latest"},
    )
    if line is None:
        return 0
    positionals, options = line
    found = find_run(positionals[0] if positionals else None, "resume")
    if found.note:
        tell(found.note, sys.stderr)
    session.run_dir = found.path
    session.say(f"Run folder: {found.path}")

    from steadyrl.training.going_on import resume
    from steadyrl.training.run_folder import RunFolder

    display = display_for(options.display, options.quiet, session)
    listeners: list[Listener] = [display, *([warn] if options.quiet or options.display == "none" else [])]
    try:
        with exits_are_errors(RunFailedError, "the environment"):
            finished = resume(
                found.path,
                options.total_timesteps,
                callback=listeners,
                say=lambda notice: session.say(notice.message),
            )
    finally:
        display.close()
    summary = finished.summary()
    session.say(closing(RunFolder.open(found.path), summary, finished.agent.setup))
    if session.json:
        session.emit(summary)
    finished.close()
    return status_of(summary)
