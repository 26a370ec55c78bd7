"""Checkpoints: folders with checksums over everything in them, whole or not there, never overwritten."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steadyrl._version import __version__
from steadyrl.bundle import Bundle, to_bytes
from steadyrl.errors import RunFailedError, UserError
from steadyrl.strict_json import strict_object
from steadyrl.training.durable import Part, commit_folder, set_aside

POLICY, INDEX = "policy.srl", "checkpoint.json"
FORMAT, VERSION = "steadyrl-checkpoint", 2
_KEYS = {"format", "version", "steadyrl", "step", "files", "about", "checksum"}
_NAME = re.compile("step_(0|[1-9][0-9]*)")
_MAX_INDEX = 64 << 20  # a replay of terabytes has a million chunks
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Contents:
    """What a checkpoint holds besides the policy.

    Attributes:
        files: Content by name.
        about: JSON values for the index.
    """

    files: Mapping[str, Part] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


NOTHING = Contents()


class DamagedError(Exception):
    """Why a checkpoint is not used, in the middle of a sentence; it names the file."""


def save_checkpoint(parent: Path, step: int, policy: Bundle | bytes, contents: Contents = NOTHING) -> Path:
    """Write `parent/step_<N>/`: the policy, further contents, and an index of sizes and checksums.

    A whole one that exists is kept as it is; a damaged one is set aside under another name.

    Raises:
        RunFailedError: the disk or the permissions do not allow it; nothing half-written is left.
    """
    target = parent / f"step_{step}"
    if is_whole(target):
        return target
    data = policy if isinstance(policy, bytes) else to_bytes(policy)
    files: dict[str, Part] = {POLICY: data, **contents.files}
    index = {
        "format": FORMAT,
        "version": VERSION,
        "steadyrl": __version__,
        "step": step,
        "files": {name: _described(data) for name, data in files.items()},
        "about": dict(contents.about),
    }
    try:
        if target.exists():
            set_aside(target, "damaged")
        commit_folder(target, {name: [data] for name, data in (files | {INDEX: _sealed(index)}).items()})
    except OSError as error:
        raise RunFailedError(
            f"The checkpoint {target} cannot be written: {error.strerror or error}.",
            remedy="Free some disk space, or mend the permissions.",
            code="cannot-write",
        ) from error
    return target


def _described(data: Part) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _sealed(index: dict[str, Any]) -> bytes:
    """The index as text, with a checksum of itself."""
    checksum = hashlib.sha256(_text(index)).hexdigest()
    return _text(index | {"checksum": checksum})


def _text(index: Mapping[str, Any]) -> bytes:
    return (json.dumps(index, indent=1, allow_nan=False) + "\n").encode()


def read_index(folder: Path) -> dict[str, Any]:
    """The index of a checkpoint, whose every byte its checksum vouches for.

    Raises:
        DamagedError: it is missing, damaged, or of another version.
    """
    path = folder / INDEX
    try:
        data = path.read_bytes()
        index = strict_object(data, max_bytes=_MAX_INDEX)
    except OSError as error:
        raise DamagedError(f"{path} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise DamagedError(f"{path} {error}") from error
    if index.get("version") == 1 and "format" not in index:
        return _migrated(path, index)
    if index.get("format") != FORMAT or type(index.get("version")) is not int or index["version"] != VERSION:
        raise DamagedError(f"{path} is not of version {VERSION} of {FORMAT}")
    if index.keys() != _KEYS or _sealed({name: index[name] for name in index if name != "checksum"}) != data:
        raise DamagedError(f"{path} does not have its checksum")
    return index


def _migrated(path: Path, index: dict[str, Any]) -> dict[str, Any]:
    """An index of version 1, which held the policy alone and no checksum of itself."""
    files = index.get("files")
    if not isinstance(files, dict) or files.keys() != {POLICY} or not isinstance(files[POLICY], dict):
        raise DamagedError(f"{path} does not describe {POLICY}")
    return {"version": 1, "step": index.get("step"), "files": files, "about": {}}


def verify(folder: Path) -> dict[str, Any]:
    """The index of a checkpoint whose files all have their sizes and checksums.

    Raises:
        DamagedError: one has not, or there are other files.
    """
    index = read_index(folder)
    for name, facts in index["files"].items():
        path = folder / name
        if Path(name).name != name or path.is_symlink() or not path.is_file():
            raise DamagedError(f"{path} is missing or no plain file")
        if path.stat().st_size != facts["size"] or _sha256(path) != facts["sha256"]:
            raise DamagedError(f"{path} does not have the size and checksum that {INDEX} names")
    if odd := sorted({path.name for path in folder.iterdir()} - {INDEX, *index["files"]}):
        raise DamagedError(f"{folder / odd[0]} does not belong to it")
    return index


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def is_whole(folder: Path) -> bool:
    """Whether it is a checkpoint that `verify` finds nothing wrong with."""
    try:
        verify(folder)
    except (DamagedError, OSError, KeyError, TypeError):
        return False
    return True


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
    there = [name for name in ("final", "best") if (checkpoints / name).is_dir()] + [str(step) for step in steps]
    raise UserError(
        f"{checkpoints} holds no whole checkpoint '{which}'.",
        remedy=f"Choose one of: {', '.join(there)}." if there else "The run saved none: train again.",
        code="no-such-checkpoint",
    )


def newest_whole(checkpoints: Path) -> Iterator[tuple[Path, dict[str, Any] | DamagedError]]:
    """The step folders, the newest first, each with its verified index or what is wrong with it."""
    for folder in reversed(list(steps_in(checkpoints).values())):
        try:
            yield folder, verify(folder)
        except DamagedError as damage:
            yield folder, damage
        except (OSError, KeyError, TypeError) as error:
            yield folder, DamagedError(f"{folder / INDEX} does not describe it ({error})")


def steps_in(parent: Path) -> dict[int, Path]:
    """The checkpoints in a folder, the oldest first; other names are left alone."""
    found = {int(hit[1]): folder for folder in parent.glob("step_*") if (hit := _NAME.fullmatch(folder.name))}
    return dict(sorted(found.items()))
