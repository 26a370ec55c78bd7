"""Which checkpoint of a run a word means, and what there is where it means none."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from steadyrl.errors import UserError
from steadyrl.training.checkpoint import POLICY, is_whole, steps_in
from steadyrl.training.lock import is_written

_MOST_NAMED = 5  # steps in an error


def _unsaid(text: str) -> None:
    """Nobody is told."""


def find_checkpoint(checkpoints: Path, which: str, say: Callable[[str], None] = _unsaid) -> Path:
    """The policy file of a checkpoint.

    Args:
        checkpoints: The run's `checkpoints` folder.
        which: `final`, `best` (the newest whole one of either) or a step.
        say: Told of each damaged one that is passed over.

    Raises:
        UserError: there is none, or its file does not have the recorded checksum.
    """
    steps = steps_in(checkpoints)
    if which in ("final", "best"):
        found = list(steps_in(checkpoints / which).values())
    else:
        found = [folder for step, folder in steps.items() if str(step) == which.removeprefix("step_")]
    for folder in reversed(found):
        if is_whole(folder):
            return folder / POLICY
        say(f"The checkpoint {folder} is damaged, so it is passed over.")
    there = [*kept_ends(checkpoints), *named(steps)]
    remedy = f"Choose one of: {', '.join(there)}." if there else "The run saved none: train again."
    remedy += to_its_end(checkpoints)
    raise UserError(f"{checkpoints} holds no whole checkpoint '{which}'.", remedy=remedy, code="no-such-checkpoint")


def kept_ends(checkpoints: Path) -> list[str]:
    """Which of `final` and `best` there are."""
    return [name for name in ("final", "best") if (checkpoints / name).is_dir()]


def to_its_end(checkpoints: Path) -> str:
    """How a run without a final agent comes to one, as the end of a remedy; empty where it has one or cannot go on."""
    run = checkpoints.parent
    if "final" in kept_ends(checkpoints):
        return ""
    if is_written(run):
        return " Or wait for its end: another process is training it just now."
    if any(checkpoints.glob("step_*/state.json")):
        return f" Or let the run go on to its end: steadyrl resume {shlex.quote(str(run))}."
    return ""


def named(steps: Iterable[int]) -> list[str]:
    """Checkpoints as an error names them: the newest of many."""
    words = [str(step) for step in steps]
    return words if len(words) <= _MOST_NAMED else ["...", *words[-_MOST_NAMED:]]
