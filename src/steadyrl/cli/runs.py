"""From the word RUN on the command line to a run folder."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from steadyrl.errors import UserError

_MARKS = ("config.json", "manifest.json")
_DEPTH = 5  # levels below a folder that are searched: a run lies four below the one where it was started
_EVALUATED = "steadyrl.evaluate(agent)."
_OF_AN_AGENT = {
    "resume": "agent.learn(100_000), with a fresh optimiser; what a run folder holds goes on exactly.",
    "record": 'env = agent.make_env("rgb_array") shows what agent.predict does; videos are made of run folders only.',
}  # command -> what is done with a saved agent instead


@dataclass(frozen=True)
class Found:
    """The run that a word means, and what the user should know of how it was chosen."""

    path: Path
    note: str = ""


def find_run(word: str | None, command: str, usable: Callable[[Path], bool] = lambda run: True) -> Found:
    """The run that `word` means: a run folder, the newest usable run below a folder, or `latest` for `runs`.

    Args:
        word: What was typed.
        command: Which command asks, for its errors.
        usable: Whether a run has what the command needs; a run that is named itself is taken as it is.

    Raises:
        UserError: An empty word, no such folder, or no usable run in it.
    """
    if word is None:
        raise UserError(
            f"`steadyrl {command}` needs a run folder.", remedy=f"For example: steadyrl {command} latest.", code="usage"
        )
    path = _folder(word, command)
    if (path / _MARKS[0]).is_file():
        return Found(path)
    runs = _newest_first(path)
    if not runs:
        raise UserError(
            f"{path} is not a run folder: it has no {_MARKS[0]}, and no run lies up to {_DEPTH} levels below it.",
            remedy=_suggestion(command),
            code="not-a-run",
        )
    for skipped, run in enumerate(runs):
        if usable(run):
            note = f"Passed over {_counted(skipped)} without a usable agent; taken: {run}." if skipped else ""
            return Found(run, note)
    raise _no_agent(path, runs[0], command)


def runs_below(word: str | None, command: str) -> list[Path]:
    """Every run below a folder, the oldest first.

    Raises:
        UserError: An empty word, no such folder, or no run in it.
    """
    if word is None:
        raise UserError(
            f"`steadyrl {command}` needs a folder of runs.",
            remedy=f"For example: steadyrl {command} runs.",
            code="usage",
        )
    path = _folder(word, command)
    runs = [path] if (path / _MARKS[0]).is_file() else _newest_first(path)[::-1]
    if not runs:
        raise UserError(f"No run lies below {path}.", remedy=_suggestion(command), code="not-a-run")
    return runs


def _folder(word: str, command: str) -> Path:
    """The folder that a word names; none at all, such as a script's unset variable, is not the current folder."""
    if not word:
        raise UserError(
            f"`steadyrl {command}` has '' as its run folder.",
            remedy=f"Name one, or latest: steadyrl {command} latest. A script's variable may be unset.",
            code="usage",
        )
    path = Path("runs") if word == "latest" and not Path(word).exists() else Path(os.path.expanduser(word))
    if not path.is_dir():
        raise _no_folder(path, command)
    return path


def _no_agent(path: Path, run: Path, command: str) -> UserError:
    """The error where no run has the agent: what the newest one has instead, as a killed run has its checkpoints."""
    from steadyrl.training.checkpoint import steps_in
    from steadyrl.training.finding import kept_ends, to_its_end, whole_steps

    text = f"No run below {path} has the agent that is asked for; the newest is {run} ({_status(run)})"
    saved = steps_in(run / "checkpoints")
    steps = whole_steps(saved)
    if not steps:
        damaged = ", and its checkpoints are damaged" if saved else ""
        return UserError(f"{text}{damaged}.", remedy="Name another --checkpoint, or train again.", code="not-a-run")
    place = shlex.quote(str(run))
    ends = kept_ends(run / "checkpoints")
    kept = f" Its {' and '.join(ends)} agent{'s' * (len(ends) == 2)} can be taken too." if ends else ""
    which = ", ".join(steps)
    return UserError(
        f"{text}, which has {'a checkpoint of step' if len(steps) == 1 else 'checkpoints of the steps'} {which}.",
        remedy=f"Take one: steadyrl {command} {place} --checkpoint {steps[-1]}.{kept}{to_its_end(run / 'checkpoints')}",
        code="not-a-run",
    )


def _counted(runs: int) -> str:
    return "a newer run" if runs == 1 else f"{runs} newer runs"


def _newest_first(path: Path) -> list[Path]:
    """The runs below a folder, the one that began last first."""
    return sorted(_runs_below(path, _DEPTH), key=lambda run: (_started(run), run.name), reverse=True)


def _runs_below(path: Path, depth: int) -> Iterator[Path]:
    with suppress(OSError):
        for folder in sorted(path.iterdir()):
            if folder.name.startswith(".") or folder.is_symlink() or not folder.is_dir():
                continue
            if all((folder / mark).is_file() for mark in _MARKS):
                yield folder
            elif depth > 1:
                yield from _runs_below(folder, depth - 1)


def _started(run: Path) -> float:
    """When a run began, in seconds since 1970: as its manifest says, else the time of that file."""
    try:
        return datetime.fromisoformat(_manifest(run)["started"]).timestamp()
    except (KeyError, TypeError, ValueError, OverflowError):
        return (run / _MARKS[1]).stat().st_mtime


def _status(run: Path) -> str:
    return str(_manifest(run).get("status", "unknown"))


def _manifest(run: Path) -> dict[str, str]:
    try:
        manifest = json.loads((run / _MARKS[1]).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _no_folder(path: Path, command: str) -> UserError:
    if path.suffix == ".srl":
        return UserError(
            f"{path} is a saved agent, and `steadyrl {command}` takes a run folder.",
            remedy=f'In Python: agent = steadyrl.load("{path}", env=...); {_OF_AN_AGENT.get(command, _EVALUATED)}',
            code="not-a-run",
        )
    kind = "is a file, no run folder" if path.is_file() else "does not exist"
    return UserError(f"{path} {kind}.", remedy=_suggestion(command), code="not-a-run")


def _suggestion(command: str) -> str:
    runs = _newest_first(Path("runs"))
    if not runs:
        return "Train one first: steadyrl train ppo CartPole-v1."
    return f"The newest run here is {runs[0]}: steadyrl {command} latest."
