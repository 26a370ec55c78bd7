"""Which checkpoint of a run a word means, and what there is where it means none."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from steadyrl.errors import UserError
from steadyrl.training.checkpoint import POLICY, damage_of, is_whole, steps_in
from steadyrl.training.lock import is_written

_ENDS = "final", "best"
_ASIDE = re.compile("step_([0-9]{1,19})[.]damaged-([0-9]{1,9})")
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
    if found := whole_one(checkpoints, which, say):
        return found
    steps = steps_in(checkpoints)
    others = {step: folder for step, folder in steps.items() if not _means(which, step)}
    there = [*(end for end in kept_ends(checkpoints) if end != which), *whole_steps(others, say)]
    if there:
        remedy = f"Choose one of: {', '.join(there)}."
    elif steps or set_aside_in(checkpoints) or any(steps_in(checkpoints / end) for end in _ENDS):
        remedy = "All that it saved is damaged: train again."
    else:
        remedy = "The run saved none: train again."
    remedy += to_its_end(checkpoints)
    raise UserError(f"{checkpoints} holds no whole checkpoint '{which}'.", remedy=remedy, code="no-such-checkpoint")


def whole_one(checkpoints: Path, which: str, say: Callable[[str], None] = _unsaid) -> Path | None:
    """As `find_checkpoint`; None where there is none."""
    if which in _ENDS:
        found = list(steps_in(checkpoints / which).values())
    else:
        found = [folder for step, folder in steps_in(checkpoints).items() if _means(which, step)]
    return next((folder / POLICY for folder in reversed(found) if _is_whole(folder, say)), None)


def kept_ends(checkpoints: Path) -> list[str]:
    """Which of `final` and `best` there are, whole."""
    return [end for end in _ENDS if whole_one(checkpoints, end)]


def whole_steps(steps: Mapping[int, Path], say: Callable[[str], None] = _unsaid) -> list[str]:
    """Whole checkpoints as an error names them: the newest of many; older ones are not looked at.

    Args:
        steps: As of `steps_in`, the oldest first.
        say: Told of each damaged one that is passed over.
    """
    words: list[str] = []
    for step, folder in reversed([*steps.items()]):
        if _is_whole(folder, say):
            if len(words) == _MOST_NAMED:
                return ["...", *words]
            words.insert(0, str(step))
    return words


def set_aside_in(checkpoints: Path) -> list[Path]:
    """Checkpoints that were set aside because they are damaged, under the names that they have now, by their steps."""
    hits = [(hit, path) for path in checkpoints.glob("step_*.*") if (hit := _ASIDE.fullmatch(path.name))]
    return [path for hit, path in sorted(hits, key=lambda found: tuple(map(int, found[0].groups())))]


def to_its_end(checkpoints: Path) -> str:
    """How a run without a final agent comes to one, as the end of a remedy; empty where it has one or cannot go on."""
    run = checkpoints.parent
    if (checkpoints / "final").is_dir():
        return ""
    if is_written(run):
        return " Or wait for its end: another process is training it just now."
    if any((folder / "state.json").exists() and is_whole(folder) for folder in steps_in(checkpoints).values()):
        return f" Or let the run go on to its end: steadyrl resume {shlex.quote(str(run))}."
    return ""


def _means(which: str, step: int) -> bool:
    return str(step) == which.removeprefix("step_")


def _is_whole(folder: Path, say: Callable[[str], None]) -> bool:
    damage = damage_of(folder)
    if damage is not None:
        how = "is damaged" if damage.for_good else "cannot be used"
        say(f"The checkpoint {folder} {how}, so it is passed over: {damage}.")
    return damage is None
