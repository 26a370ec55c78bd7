"""A small off-policy training with a run folder, whose next checkpoint prunes the one before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import steadyrl as srl
from steadyrl.errors import UserError
from steadyrl.training import chunks
from steadyrl.training.agent import Agent
from steadyrl.training.resuming import Checkpoint, newest
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import Saver

OFF: dict[str, Any] = {
    "num_envs": 2, "learning_starts": 20, "batch_size": 8, "buffer_size": 100, "net_arch": (8,), "preset": "none",
    "eval_freq": 0,
}  # fmt: skip
SESSION: dict[str, Any] = {
    "since_row": [], "elapsed": 1.0, "start_step": 0, "best": None, "evaluated_at": None, "evaluation": None,
    "said_long": False, "owed": False,
}  # fmt: skip
CHUNK = 256


class Work:
    """An agent that has a checkpoint of step 80 in `run` and stands at step 120.

    Args:
        folder: Where the run goes.
    """

    def __init__(self, folder: Path) -> None:
        chunks.CHUNK_BYTES = CHUNK
        self.run = folder / "run"
        self.agent: Agent = srl.DQN("CartPole-v1", seed=1, checkpoint_freq=1000, **OFF)
        self.agent.learn(80, schedule_steps=1000, run_dir=self.run)
        for name in ("final", "best"):
            shutil.rmtree(self.run / "checkpoints" / name, ignore_errors=True)
        RunFolder(self.run).add(target=1000)  # there is more to come
        self.agent.learn(40, schedule_steps=1000)

    def copy(self, target: Path) -> Path:
        """Another run folder like it."""
        shutil.copytree(self.run, target)
        return target

    def saver(self, run: Path, *, background: bool = False, keep_last: int | None = 1) -> Saver:
        return Saver(self.agent, run, keep_last=keep_last, background=background)


def found(run: Path, said: list[str] | None = None) -> Checkpoint | None:
    """The checkpoint that a resume would take; None where there is none."""
    notes: list[str] = [] if said is None else said
    try:
        return newest(RunFolder.open(run), lambda notice: notes.append(notice.message))
    except UserError:
        return None


def files(run: Path) -> dict[str, bytes]:
    """Every file of a run's checkpoints, by name."""
    return {
        str(path.relative_to(run)): path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()
    }
