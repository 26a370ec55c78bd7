"""A run that was stopped, taken up again from its newest whole checkpoint."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadyrl.envs.snapshots.state import plain_id
from steadyrl.envs.snapshots.values import unflatten
from steadyrl.errors import RunFailedError, UserError
from steadyrl.strict_json import strict_object
from steadyrl.strict_tensors import strict_tensors
from steadyrl.training.checkpoint import DamagedError, newest_whole, require_file, steps_in, unreadable
from steadyrl.training.chunks import FOLDER, ChunkStore, named_chunks, read_rings
from steadyrl.training.computing import computing_facts
from steadyrl.training.durable import set_aside
from steadyrl.training.events import Notice
from steadyrl.training.files import require_regular, write_json
from steadyrl.training.finding import set_aside_in
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.provenance import provenance
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import ARRAYS, LOGS, STATE, not_finite
from steadyrl.training.session_form import require_session
from steadyrl.training.sources import changed_code
from steadyrl.training.state import restore_training
from steadyrl.training.state_limits import MAX_DEPTH, MAX_STATE
from steadyrl.training.taking_up import changed_settings
from steadyrl.training.wrapped import wrapper_names

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent

_ALIKE = (
    "python",
    "packages",
    "installed",
    "lock",
    "blas",
    "computing",
    "cpu",
    "cpu_flags",
    "gpu",
    "native_kernels",
    "platform",
    "variables",
    "git",
)
_MOST = 20  # differences, or names, that are told


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint with everything in it but the replay's rings, which are read when there is room for them."""

    folder: Path
    step: int
    about: Mapping[str, Any]
    state: dict[str, Any]


def newest(folder: RunFolder, say: Callable[[Notice], None]) -> Checkpoint:
    """The newest checkpoint that everything can be read of; damaged ones that are newer are set aside, and it is said.

    Raises:
        UserError: there is none, or something else lies in the place of a log.
    """
    for name in LOGS:
        require_regular(folder.path / name)
    policies_only = False
    for path, index in newest_whole(folder.checkpoints):
        try:
            if isinstance(index, DamagedError):
                raise index
            if STATE not in index["files"]:
                policies_only = True
                continue
            ChunkStore(folder.checkpoints / FOLDER).check(named_chunks(index))
            return Checkpoint(path, index["step"], index["about"], read_state(path))
        except (DamagedError, OSError) as error:
            damage = unreadable(path, error) if isinstance(error, OSError) else error
            if not damage.for_good:
                raise UserError(
                    f"The checkpoint {path} cannot be taken up: {damage}.",
                    remedy="Mend the cause, or move it elsewhere to go on from the one before it.",
                    code="checkpoint-unreadable",
                ) from error
            aside = _aside(path, "damaged")
            text = f"The checkpoint {path} is damaged and was set aside as {aside.name}: {damage}."
            say(Notice("damaged-checkpoint", text, "warning"))
    if policies_only:
        raise UserError(
            f"The run {folder.shown} holds only saved policies, which lack what a training goes on from.",
            remedy="Train again; or learn on from the policy with steadyrl.load(path, env=...).learn(...).",
            code="no-such-checkpoint",
        )
    command = " ".join(["steadyrl", *map(shlex.quote, map(str, folder.manifest.get("command_line", [])[1:]))])
    again = f": {command}" if command.startswith("steadyrl train ") else ""
    raise UserError(
        f"The run {folder.shown} holds no whole checkpoint: {_why_none(folder)}.",
        remedy=f"Start it again from the beginning, into another folder or after removing this one{again}.",
        code="no-such-checkpoint",
    )


def _why_none(folder: RunFolder) -> str:
    """Why a run holds no checkpoint that is not set aside, as far as it can be told."""
    if lost := [path.name for path in set_aside_in(folder.checkpoints)]:
        names = ", ".join(lost if len(lost) <= _MOST else [*lost[:_MOST], "..."])
        return f"{'its only one is' if len(lost) == 1 else f'all {len(lost)} are'} damaged (set aside as {names})"
    ended = "it ended before its first one was written"
    if folder.manifest.get("status") in ("running", "failed") and not folder.checkpoints.exists():
        return ended
    return f"{ended}, or what it wrote was taken away"


def _aside(path: Path, why: str) -> Path:
    try:
        return set_aside(path, why)
    except OSError as error:
        raise UserError(
            f"{path} has to be set aside, and cannot be renamed: {error.strerror or error}.",
            remedy="Mend the permissions, or move it elsewhere.",
            code="cannot-write",
        ) from error


def read_state(path: Path) -> dict[str, Any]:
    """The state in a checkpoint folder that was verified. Raises what damaged files raise."""
    require_file(path / STATE, MAX_STATE)
    try:
        value = strict_object((path / STATE).read_bytes(), max_bytes=MAX_STATE, max_depth=MAX_DEPTH)
    except ValueError as error:
        raise DamagedError(f"{path / STATE} {error}") from error
    try:
        arrays = strict_tensors((path / ARRAYS).read_bytes(), max_index=MAX_STATE)
    except ValueError as error:
        raise DamagedError(f"{path / ARRAYS} {error}") from error
    try:
        state = unflatten(value, arrays, whole=True)
    except UserError as error:
        raise DamagedError(f"{path / STATE}: {error.message}") from error
    if not isinstance(state, dict) or not isinstance(state.get("session"), dict):
        raise DamagedError(f"{path / STATE} lacks 'session'")
    for place in not_finite(state):
        raise DamagedError(f"{path / STATE}: '{place}' holds numbers that are not finite")
    return state


def put_back(agent: Agent, checkpoint: Checkpoint) -> None:
    """Let an agent that has not yet learnt go on from a checkpoint.

    Raises:
        UserError: it is of another configuration, or a part of the replay is missing.
        RunFailedError: an environment does not come to the state that it was in.
    """
    loop, about = agent.loop, checkpoint.about
    try:
        for name, own in (("algo", agent.algo), ("env", agent.require_setup().settings.env)):
            if plain_id(about[name]) != plain_id(own):
                raise UserError(
                    f"The checkpoint {checkpoint.folder} is of the {name} {about[name]!r}, and the run's is {own!r}.",
                    remedy="It was put here from another run: take it away.",
                    code="other-run",
                )
        require_session(checkpoint.state["session"])
        logs = about["logs"]
        if not logs.keys() <= set(LOGS) or not all(type(length) is int and length >= 0 for length in logs.values()):
            raise ValueError("its index does not tell the lengths of the logs")
        if checkpoint.state["loop"]["stepper"]["timesteps"] != checkpoint.step:
            raise ValueError(f"'loop/stepper/timesteps' is not {checkpoint.step}, the step of its index")
        if isinstance(loop, OffPolicyLoop):
            store = ChunkStore(checkpoint.folder.parent / FOLDER)
            rings = read_rings(about["replay"], store, loop.replay)
            loop.replay.load_state_dict(rings | checkpoint.state["replay"])
        restore_training(agent, checkpoint.state)
    except UserError as error:
        if error.code == "other-run":
            raise
        raise UserError(
            f"The checkpoint {checkpoint.folder} cannot be taken up: {error.message}",
            remedy=error.remedy,
            code=error.code,
        ) from error
    except RunFailedError:
        raise
    except Exception as error:  # whatever a hostile state makes of the code that takes it
        why = f"it lacks {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
        raise UserError(
            f"The checkpoint {checkpoint.folder} cannot be taken up: {why}.",
            remedy="Take an older one away from it, or train again.",
            code="bad-state",
        ) from error


def cut_back(folder: RunFolder, checkpoint: Checkpoint) -> list[str]:
    """Take away what the run wrote after the checkpoint: rows of its logs, and saved agents, which are set aside.

    Returns:
        What is missing from the logs, in words; nothing unless the disk lost what was written.
    """
    missing = []
    for name in LOGS:
        path, length = folder.path / name, checkpoint.about["logs"].get(name, 0)
        size = path.stat().st_size if path.exists() else 0
        if size < length:
            missing.append(f"{length - size} bytes at the end of {name}")
        elif size > length:
            with path.open("r+b") as file:
                file.truncate(length)
    for parent in (folder.checkpoints, folder.checkpoints / "best", folder.checkpoints / "final"):
        for step, saved in steps_in(parent).items():
            if step > checkpoint.step:
                _aside(saved, "superseded")
    return missing


def note_lineage(folder: RunFolder, checkpoint: Checkpoint, total: int, here: Path) -> list[str]:
    """Write into the manifest that the run goes on, and return what differs from before, in words."""
    manifest, now = folder.manifest, provenance(here)
    differs = differences(folder, now)
    entry = {
        "resumed": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "from_step": checkpoint.step,
        "was": manifest["status"],
        "total_timesteps": [manifest.get("total_timesteps"), total],
        "target": manifest.get("target"),
        "episodes": "anew" if checkpoint.state["envs"] is None else "go on",
        "differs": differs,
    } | {name: now[name] for name in ("command_line", "git")}
    lineage = [*manifest.get("lineage", []), entry]
    changed = {"status": "running", "ended": None, "signal": None, "total_timesteps": total, "lineage": lineage}
    write_json(folder.path / "manifest.json", manifest | changed)
    if folder.config["total_timesteps"] != total:
        write_json(folder.path / "config.json", folder.config | {"total_timesteps": total})
    return differs


def differences(folder: RunFolder, now: Mapping[str, Any]) -> list[str]:
    """What of settings, versions, hardware and code is not as a run's record says, in words.

    What the record does not say is left out.
    """
    manifest, now = folder.manifest, {"computing": computing_facts(), **now}
    found = [
        *changed_settings(folder),
        *(text for name in _ALIKE if name in manifest for text in _apart(name, manifest[name], now.get(name))),
        *changed_code(folder.path, folder.config["settings"]["env"], wrapper_names(folder.config["settings"])),
    ]
    told = {text.replace("packages ", "installed ", 1) for text in found if text.startswith("packages ")}
    found = [text for text in found if text not in told]
    return found if len(found) <= _MOST else [*found[:_MOST], f"and {len(found) - _MOST} more things differ"]


def _apart(name: str, was: Any, found: Any) -> list[str]:
    if isinstance(was, dict) and isinstance(found, dict):
        keys = [*was, *(key for key in found if key not in was)]
        return [text for key in keys for text in _apart(f"{name} {key}", was.get(key), found.get(key))]
    if isinstance(was, list) and isinstance(found, list) and was != found:
        apart = {"lacks": [x for x in was if x not in found], "has besides": [x for x in found if x not in was]}
        return [f"{name} {how} {_short(' '.join(map(str, each)))}" for how, each in apart.items() if each]
    return [] if was == found else [f"{name} was {_short(was)} and is {_short(found)}"]


def _short(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
