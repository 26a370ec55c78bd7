"""A run that was stopped, taken up again from its newest whole checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from steadyrl.envs.choice import Choice
from steadyrl.envs.snapshots.values import unflatten
from steadyrl.errors import SteadyRLError, UserError
from steadyrl.strict_json import strict_object
from steadyrl.training.checkpoint import DamagedError, newest_whole, steps_in
from steadyrl.training.chunks import FOLDER, ChunkStore, named_chunks, read_rings
from steadyrl.training.durable import set_aside
from steadyrl.training.events import Notice
from steadyrl.training.files import write_json
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.provenance import provenance
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import ARRAYS, LOGS, STATE
from steadyrl.training.setup import Setup, prepare_training
from steadyrl.training.state import restore_training

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent

_MAX_STATE = 1 << 30
_MAX_DEPTH = 200  # an environment holds objects that hold objects
_DAMAGED = (DamagedError, SafetensorError, ValueError, KeyError, TypeError, OSError)
_COMPARED = ("python", "packages", "cpu", "native_kernels", "platform", "git")


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint with everything in it but the replay's rings, which are read when there is room for them."""

    folder: Path
    step: int
    about: Mapping[str, Any]
    state: dict[str, Any]


def setup_of(folder: RunFolder, total_timesteps: int | None = None) -> Setup:
    """The setup of a run as its `config.json` tells it.

    Raises:
        UserError: it cannot be made again, as with an environment that was an object or a function of a script.
    """
    config = folder.config
    settings = dict(config["settings"])
    env = settings.pop("env")
    for name in ("run_dir", "name"):
        settings.pop(name, None)
    total = config["total_timesteps"] if total_timesteps is None else total_timesteps
    options = settings | config["hyperparameters"]
    setup = prepare_training(config["algo"], env, options, preset="none", total_timesteps=total)
    taken = setup.settings.vec, setup.settings.num_workers
    return replace(setup, choice=Choice.of_json(config.get("backend", {}), *taken))


def newest(folder: RunFolder, say: Callable[[Notice], None]) -> Checkpoint:
    """The newest checkpoint that everything can be read of; damaged ones that are newer are set aside, and it is said.

    Raises:
        UserError: there is none.
    """
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
        except _DAMAGED as damage:
            aside = set_aside(path, "damaged")
            text = f"The checkpoint {path} is damaged and was set aside as {aside.name}: {damage}."
            say(Notice("damaged-checkpoint", text, "warning"))
    what = "only saved policies, which lack what a training goes on from" if policies_only else "no whole checkpoint"
    raise UserError(
        f"The run {folder.shown} holds {what}.",
        remedy="Train again; or learn on from the policy with steadyrl.load(path, env=...).learn(...).",
        code="no-such-checkpoint",
    )


def read_state(path: Path) -> dict[str, Any]:
    """The state in a checkpoint folder that was verified. Raises what damaged files raise."""
    value = strict_object((path / STATE).read_bytes(), max_bytes=_MAX_STATE, max_depth=_MAX_DEPTH)
    state: dict[str, Any] = unflatten(value, load_arrays((path / ARRAYS).read_bytes()))
    return state


def put_back(agent: Agent, checkpoint: Checkpoint) -> None:
    """Let an agent that has not yet learnt go on from a checkpoint.

    Raises:
        UserError: it is of another configuration, or a part of the replay is missing.
        RunFailedError: an environment does not come to the state that it was in.
    """
    loop = agent.loop
    try:
        if isinstance(loop, OffPolicyLoop):
            store = ChunkStore(checkpoint.folder.parent / FOLDER)
            rings = read_rings(checkpoint.about["replay"], store, loop.replay)
            loop.replay.load_state_dict(rings | checkpoint.state["replay"])
        restore_training(agent, checkpoint.state)
    except SteadyRLError:
        raise
    except _DAMAGED as error:
        raise UserError(
            f"The checkpoint {checkpoint.folder} cannot be taken up: {type(error).__name__}: {error}.",
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
    for kind in ("best", "final"):
        for step, saved in steps_in(folder.checkpoints / kind).items():
            if step > checkpoint.step:
                set_aside(saved, "superseded")
    return missing


def note_lineage(folder: RunFolder, checkpoint: Checkpoint, total: int, here: Path) -> list[str]:
    """Write into the manifest that the run goes on, and return what differs from before, in words."""
    manifest, now = folder.manifest, provenance(here)
    differs = _differences(manifest, now)
    entry = {
        "resumed": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "from_step": checkpoint.step,
        "was": manifest["status"],
        "total_timesteps": [manifest.get("total_timesteps"), total],
        "differs": differs,
    } | {name: now[name] for name in ("command_line", "git")}
    lineage = [*manifest.get("lineage", []), entry]
    changed = {"status": "running", "ended": None, "signal": None, "total_timesteps": total, "lineage": lineage}
    write_json(folder.path / "manifest.json", manifest | changed)
    if folder.config["total_timesteps"] != total:
        write_json(folder.path / "config.json", folder.config | {"total_timesteps": total})
    return differs


def differences(manifest: Mapping[str, Any], here: Path) -> list[str]:
    """What of versions, code and hardware is not as a manifest says, in words."""
    return _differences(manifest, provenance(here))


def _differences(manifest: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} was {_short(manifest.get(name))} and is {_short(now.get(name))}"
        for name in _COMPARED
        if manifest.get(name) != now.get(name)
    ]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
