"""What becomes of a failed environment's record: a file in the run folder, and the words that point to it. No torch."""

from __future__ import annotations

import shlex

from steadyrl.envs import failures
from steadyrl.envs.failure import Failure
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.types import BrokenEpisode
from steadyrl.errors import SteadyRLError
from steadyrl.training.run_folder import RunFolder

FOLDER = "failures"
MAX_RESTARTS_KEPT = 20  # files of failures that led to a restart; that which ends the run has one in any case


class FailureFiles:
    """Writes records into the folder `failures` of a run.

    Args:
        folder: The run's; None writes nothing.
        source: What makes the training environments; a vector environment's failures have no record.
    """

    def __init__(self, folder: RunFolder | None, source: object) -> None:
        self._folder = folder
        self._source = source
        self._kept = 0

    def keep_restart(self, episode: BrokenEpisode) -> str | None:
        """The file of a failure that led to a restart, as a user types it; None after `MAX_RESTARTS_KEPT` of them."""
        if episode.failure is None or self._kept >= MAX_RESTARTS_KEPT:
            return None
        self._kept += 1
        try:
            return self._write(episode.failure, self._source)
        except OSError:
            return None  # the training goes on, and episodes.jsonl, which must be written, has the reason

    def explain(self, error: BaseException, source: object) -> None:
        """Add to an error of an environment that `source` made how it is run again."""
        failure = getattr(error, "failure", None)
        if not isinstance(error, SteadyRLError) or not isinstance(failure, Failure):
            return
        if self._folder is None:
            told = "With a run folder (run_dir=) the failure is kept in a file, which `steadyrl replay` runs again."
        else:
            try:
                path = self._write(failure, source)
            except OSError as problem:
                told = f"Its record cannot be written: {problem.strerror or problem}."
            else:
                told = "" if path is None else f"Run it again: `{command(path)}`."
        error.remedy = f"{error.remedy} {told}".strip()

    def _write(self, failure: Failure, source: object) -> str | None:
        if self._folder is None or not isinstance(source, EnvFactory):
            return None
        path = failures.write(self._folder.path / FOLDER, failure, failures.Origin.of(source))
        return str(self._folder.shown / FOLDER / path.name)


def command(file: str) -> str:
    """What runs a failure again."""
    return f"steadyrl replay {shlex.quote(file)}"


def restart_notice(episode: BrokenEpisode, restarts: int, file: str) -> str:
    """What is said at the first restart, and at each doubling of their number."""
    phase = episode.failure.phase if episode.failure else "step"
    place = f"in step {episode.length + 1} of its episode" if phase == "step" else "as its episode began"
    told = "" if restarts == 1 else f" Restarts so far: {restarts}."
    again = f" Run it again: `{command(file)}`." if file else ""
    return (
        f"Environment {episode.env_index} failed {place} ({episode.reason}) and was started anew; "
        f"that episode is left out.{told}{again}"
    )
