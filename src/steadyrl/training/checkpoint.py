"""Plain checkpoints of the policy: a new folder each time, whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from steadyrl.bundle import Bundle, to_bytes
from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.files import write_atomic

POLICY, INDEX = "policy.srl", "checkpoint.json"
_NAME = re.compile("step_(0|[1-9][0-9]*)")


def save_checkpoint(parent: Path, step: int, bundle: Bundle) -> Path:
    """Write `parent/step_<N>/`: the policy, and an index of sizes and checksums.

    A whole one that exists is kept as it is; a damaged one is set aside under another name.

    Raises:
        RunFailedError: the disk or the permissions do not allow it; nothing half-written is left.
    """
    target = parent / f"step_{step}"
    if _is_whole(target):
        return target
    data = to_bytes(bundle)
    index = {
        "version": 1,
        "step": step,
        "files": {POLICY: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}},
    }
    staged = parent / f".step_{step}.partial"
    shutil.rmtree(staged, ignore_errors=True)  # what a killed run left
    try:
        staged.mkdir(parents=True)
        write_atomic(staged / POLICY, data)
        write_atomic(staged / INDEX, json.dumps(index, indent=2).encode())
        if target.exists():
            _set_aside(target)
        os.replace(staged, target)
    except (OSError, RunFailedError) as error:
        shutil.rmtree(staged, ignore_errors=True)
        if isinstance(error, RunFailedError):
            raise
        raise RunFailedError(
            f"The checkpoint {target} cannot be written: {error.strerror or error}.",
            remedy="Free some disk space, or mend the permissions.",
            code="cannot-write",
        ) from error
    return target


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
    steps = _steps(checkpoints)
    if which in ("final", "best"):
        found = list(_steps(checkpoints / which).values())
    else:
        found = [folder for step, folder in steps.items() if str(step) == which.removeprefix("step_")]
    for folder in reversed(found):
        if _is_whole(folder):
            return folder / POLICY
        say(f"The checkpoint {folder} is damaged, so it is passed over.")
    there = [name for name in ("final", "best") if (checkpoints / name).is_dir()] + [str(step) for step in steps]
    raise UserError(
        f"{checkpoints} holds no whole checkpoint '{which}'.",
        remedy=f"Choose one of: {', '.join(there)}." if there else "The run saved none: train again.",
        code="no-such-checkpoint",
    )


def _steps(parent: Path) -> dict[int, Path]:
    """The checkpoints in a folder, the oldest first; other names are left alone."""
    found = {int(hit[1]): folder for folder in parent.glob("step_*") if (hit := _NAME.fullmatch(folder.name))}
    return dict(sorted(found.items()))


def _set_aside(folder: Path) -> None:
    """Give a damaged checkpoint a name that nobody looks for; what is left of it is not lost."""
    number = 1
    while (aside := folder.with_name(f"{folder.name}.damaged-{number}")).exists():
        number += 1
    os.replace(folder, aside)


def _is_whole(folder: Path) -> bool:
    try:
        index = json.loads((folder / INDEX).read_bytes())["files"][POLICY]
        return bool(hashlib.sha256((folder / POLICY).read_bytes()).hexdigest() == index["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
