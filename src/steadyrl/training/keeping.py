"""Where a run saves its agent: full checkpoints as it goes, the policies of the final and the best agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steadyrl.configs.run import RunSettings
from steadyrl.training.checkpoint import save_checkpoint
from steadyrl.training.logging import RunWriter
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import Saver, keep_newest
from steadyrl.training.session import Session

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent


class Keeper:
    """Saves an agent into its run folder.

    Args:
        agent: Who is saved.
        settings: Of the run.
        folder: The run's.
        saver: Writes full checkpoints.
        writer: Writes the run's rows, which a full checkpoint counts.
        session: What drives the training; its state belongs to a full checkpoint.
    """

    def __init__(
        self,
        agent: Agent,
        settings: RunSettings,
        folder: RunFolder,
        saver: Saver,
        writer: RunWriter,
        session: Session,
    ) -> None:
        self._agent, self._settings, self._folder = agent, settings, folder
        self._saver, self._writer, self._session = saver, writer, session

    def save(self, kind: str) -> Path:
        """Save as `step`, `best` or `final`; returns where.

        Raises:
            RunFailedError: the disk or the permissions do not allow it.
        """
        agent, settings = self._agent, self._settings
        if kind == "step" and settings.save_state:
            self._writer.flush()
            return self._saver.save(self._session.state_dict())
        if kind == "final":
            self._saver.wait()
        parent = self._folder.checkpoints if kind == "step" else self._folder.checkpoints / kind
        path = save_checkpoint(parent, agent.num_timesteps, agent.bundle())
        if kind == "best" and settings.keep_best is not None:
            keep_newest(parent, settings.keep_best)
        return path
