"""What was named as a saved agent and is something else: the error that says what it is, and how that is loaded."""

from __future__ import annotations

from pathlib import Path

from steadyrl.bundle import SUFFIX
from steadyrl.errors import UserError
from steadyrl.training.checkpoint import POLICY

_MARKS = ("config.json", "manifest.json")  # of a run folder
_NOT_HERE = ("no-such-file", "bad-bundle")


def better_told(given: Path, error: UserError) -> UserError | None:
    """The error for what was given to `load` where it is a folder of a run or another library's file, else None.

    Args:
        given: As the user wrote it.
        error: Why it could not be read as a bundle.
    """
    if error.code not in _NOT_HERE:
        return None
    if given.is_dir() and all((given / mark).is_file() for mark in _MARKS):
        return UserError(
            f"{given} is a run folder, not a saved agent.",
            remedy=f'Use steadyrl.Run.open("{given}").load_agent().',
            code="not-a-bundle",
        )
    if given.is_dir() and (given / POLICY).is_file():
        return UserError(
            f"{given} is the folder of a checkpoint, not a saved agent.",
            remedy=f'Use steadyrl.load("{given / POLICY}").',
            code="not-a-bundle",
        )
    archive = _archive(given)
    if archive is None:
        return None
    return UserError(
        f"{archive} is no saved agent of this library (NAME{SUFFIX}); Stable-Baselines3 saves as NAME.zip.",
        remedy="What Stable-Baselines3 saved cannot be taken over: train again, as docs/migration.md shows.",
        code="not-a-bundle",
    )


def _archive(given: Path) -> Path | None:
    """The ZIP that was named: with its suffix, or without it as Stable-Baselines3 takes it."""
    if given.suffix == ".zip":
        return given
    beside = given.with_name(f"{given.name}.zip")
    return beside if beside.is_file() and given.suffix != SUFFIX and not given.exists() else None
