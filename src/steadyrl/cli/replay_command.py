"""`steadyrl replay FILE`: a recorded failure of an environment, run again in the open."""

from __future__ import annotations

import faulthandler
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadyrl.cli.parser import understood
from steadyrl.cli.session import Session
from steadyrl.cli.streams import tell, visible
from steadyrl.errors import UserError

if TYPE_CHECKING:
    from types import TracebackType

    from steadyrl.envs.failures import Record
    from steadyrl.envs.make import EnvFactory
    from steadyrl.envs.replay import Outcome

_DESCRIPTION = """Runs a recorded failure of an environment again: in this process, without learning.
Exit status: 0 where it does not fail any more, 1 where it fails again."""

_BEFORE = {
    "hung": "\nIf it hangs again, Ctrl-C tells where.",
    "ended": "\nIf nothing follows, it ended this process too.",
    "raised": "",
}


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What `steadyrl replay` takes."""

    env: str | None = None
    """Where the environment is found now, an id or file.py:Class; left out, where it was."""
    render: bool = False
    """Shows the episode in a window (render_mode human)."""
    pdb: bool = False
    """Python's debugger at the line that raised the error."""
    json: bool = False
    """One JSON document on stdout."""


def run(args: list[str], session: Session) -> int:
    """Runs the failure and says whether it happened again."""
    line = understood(
        args,
        ReplayOptions,
        "steadyrl replay",
        usage="steadyrl replay FILE [flags]",
        description=_DESCRIPTION,
        example="  steadyrl replay runs/walk/failures/20260131T235959Z-env1.json --pdb",
        positionals={"FILE": "a record in the folder failures of a run"},
    )
    if line is None:
        return 0
    positionals, options = line
    if not positionals:
        raise UserError(
            "`steadyrl replay` needs the file of a failure.",
            remedy="Failures of a run are in the folder failures of its run folder.",
            code="usage",
        )
    if options.pdb and session.json:
        raise UserError("--pdb talks on stdout, which --json keeps.", remedy="Leave one of them out.", code="usage")
    from steadyrl.envs.failures import read
    from steadyrl.envs.replay import replay

    record = read(Path(positionals[0]).expanduser())
    factory = _factory(record, options.env)
    if not session.json:
        print(visible(_heading(record)), flush=True)  # before it begins: it may take this process along
    with suppress(OSError, ValueError):
        if sys.__stderr__ is not None:
            faulthandler.enable(sys.__stderr__)  # where a signal ends this process, its stack is all that tells why
    try:
        outcome = replay(record, factory, "human" if options.render else None)
    except KeyboardInterrupt as error:
        tell(f"\nWhat it was doing:\n{_stack(error)}", sys.stderr)
        raise
    if session.json:
        session.emit(_document(positionals[0], record, outcome))
    else:
        print(visible(_told(record, outcome)), flush=True)
    if options.pdb:
        _debug(outcome)
    return 0 if outcome.result == "none" else 1


def _factory(record: Record, env: str | None) -> EnvFactory:
    """What makes the environment of the record, or the one that is named instead.

    Raises:
        UserError: it has no name, or is not found by it.
    """
    from steadyrl.config import wrappers_from
    from steadyrl.envs.make import make_env_factory

    origin, name = record.origin, env or record.origin.address
    if name is None:
        raise UserError(
            f"The environment of this failure, {origin.id}, was made by a function or given ready-made, "
            "which a file cannot hold.",
            remedy=f"Say where it is found: --env path/to/file.py:{origin.id if origin.id.isidentifier() else 'NAME'}.",
            code="no-env",
        )
    try:
        return make_env_factory(
            name,
            env_kwargs=origin.kwargs,
            max_episode_steps=origin.max_episode_steps,
            wrappers=None if origin.wrappers is None else wrappers_from(origin.wrappers),
        )
    except UserError as error:
        if env is None and error.code in ("unknown-env", "env-file", "env-module"):
            cure = "Or say where it is found now: --env package.module:Id-v0 or --env path/to/file.py:Class."
            error.remedy = f"{error.remedy} {cure}".strip()
        raise


def _place(phase: str, step: int) -> str:
    return {"make": "as it was made", "reset": "in reset()", "close": "in close()"}.get(phase, f"in step {step}")


def _heading(record: Record) -> str:
    from steadyrl.envs.workers.loss import kind_of

    failure = record.failure
    seed = "" if failure.seed is None else f", seed {failure.seed}"
    good = _steps(max(failure.step - 1, 0)).replace("step", "good step")
    return (
        f"{record.origin.id}, environment {failure.env_index}{seed}, recorded {record.recorded}:\n"
        f"  {failure.error}\n  {_place(failure.phase, failure.step)}, after {good}.{_BEFORE[kind_of(failure)]}"
    )


def _stack(error: KeyboardInterrupt) -> str:
    """The traceback of an environment that was interrupted, from its own first frame on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and _ours(frames):
        frames = frames.tb_next
    return "".join(traceback.format_tb(frames)).rstrip()


def _ours(frames: TracebackType) -> bool:
    return str(frames.tb_frame.f_globals.get("__name__")).startswith("steadyrl.")


def _told(record: Record, outcome: Outcome) -> str:
    """The outcome in words, with the traceback of what the environment raised, now or then."""
    now, then = outcome.failure, record.failure
    if now is None:
        lines = [
            f"It did not fail this time: {_steps(outcome.steps)} taken.",
            outcome.note,
            "If nothing was mended, the failure hangs on more than seed and actions: on another generator, or on what "
            "is kept from one episode to the next.",
        ]
        lines += [_versions(record), "The traceback in the record:" if then.traceback else "", then.traceback]
    elif outcome.result == "same":
        lines = [f"It failed again {_place(now.phase, now.step)}, with the same error.", now.traceback]
    else:
        place = _place(now.phase, now.step)
        lines = [f"It failed {place}, but not as recorded: {now.error}", _versions(record), now.traceback]
    return "\n".join(line.rstrip() for line in lines if line)


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _versions(record: Record) -> str:
    """In words, the packages that have another version now."""
    from steadyrl.envs.failures import versions

    now = versions()
    other = [f"{name} {then}, now {now[name]}" for name, then in record.versions.items() if now.get(name, then) != then]
    return f"Recorded with {'; '.join(other)}." if other else ""


def _document(file: str, record: Record, outcome: Outcome) -> dict[str, Any]:
    now, then = outcome.failure, record.failure
    return {
        "file": file,
        "env": record.origin.id,
        "env_index": then.env_index,
        "seed": then.seed,
        "failed": now is not None,
        "result": outcome.result,
        "steps": outcome.steps,
        "recorded": {"phase": then.phase, "step": then.step, "error": then.error, "traceback": then.traceback},
        "found": now and {"phase": now.phase, "step": now.step, "error": now.error, "traceback": now.traceback},
        "note": outcome.note,
    }


def _debug(outcome: Outcome) -> None:
    """The debugger where the environment raised its error."""
    if outcome.cause is None or outcome.cause.__traceback__ is None:
        print("There is nothing to debug: no error was raised.", file=sys.stderr)
        return
    import pdb

    pdb.post_mortem(outcome.cause.__traceback__)
