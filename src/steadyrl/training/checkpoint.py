"""Checkpoints: folders with checksums over everything in them, whole or not there, never overwritten."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steadyrl._version import __version__
from steadyrl.bundle import Bundle, to_bytes
from steadyrl.errors import RunFailedError
from steadyrl.strict_json import strict_object
from steadyrl.training.durable import Part, commit_folder, set_aside

POLICY, INDEX = "policy.srl", "checkpoint.json"
FORMAT, VERSION = "steadyrl-checkpoint", 2
_KEYS = {"format", "version", "steadyrl", "step", "files", "about", "checksum"}
_TOLD: dict[type, tuple[str, ...]] = {
    str: ("algo", "env"),
    dict: ("logs", "environments", "parts", "replay"),
    list: ("holds", "left_out", "inexact"),
}
_ABOUT = {name: kind for kind, names in _TOLD.items() for name in names}
_NAME = re.compile("step_(0|[1-9][0-9]{0,18})")
_FILE = re.compile("[a-z][a-z0-9_]{0,31}([.][a-z0-9]{1,16})?")  # is one file on every system, within its folder
_HASH = re.compile("[0-9a-f]{64}")
_MAX_INDEX = 64 << 20  # a replay of terabytes has a million chunks
_MAX_FILE = 64 << 30
# The disk or the process is at fault, not the checkpoint: another time it can be read.
_NOT_NOW = {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENODEV, errno.ESTALE}
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
    """Why a checkpoint is not used, in the middle of a sentence; it names the file.

    Attributes:
        for_good: It is damaged. Else it only cannot be read here or now, and stays where it is.
    """

    def __init__(self, text: str, *, for_good: bool = True) -> None:
        super().__init__(text)
        self.for_good = for_good


def save_checkpoint(
    parent: Path,
    step: int,
    policy: Bundle | bytes,
    contents: Contents = NOTHING,
    go_on: Callable[[], None] = lambda: None,
) -> Path:
    """Write `parent/step_<N>/`: the policy, further contents, and an index of sizes and checksums.

    A whole one with the same files is kept as it is; another one of this step is set aside under another name.

    Args:
        parent: Made where it is not there.
        step: Environment steps.
        policy: As an object or as a file's content.
        contents: What else it holds.
        go_on: Called between blocks of what is written; raises to stop.

    Raises:
        RunFailedError: the disk or the permissions do not allow it; nothing half-written is left.
    """
    target = parent / f"step_{step}"
    whole = is_whole(target)
    if whole and contents.files.keys() <= read_index(target)["files"].keys():
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
        if target.exists() or target.is_symlink():
            set_aside(target, "superseded" if whole else "damaged")
        commit_folder(target, {name: [data] for name, data in (files | {INDEX: _sealed(index)}).items()}, go_on)
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
    require_file(path, _MAX_INDEX)
    try:
        data = path.read_bytes()
        index = strict_object(data, max_bytes=_MAX_INDEX)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise DamagedError(f"{path} {error}") from error
    version = index.get("version")
    if type(version) is int and version == 1 and "format" not in index:
        more = {"steadyrl": "", "about": {}}  # which it did not have
        return _checked(path, {"version": 1, "step": index.get("step"), "files": index.get("files")} | more)
    if index.get("format") == FORMAT and type(version) is int and version > VERSION:
        raise DamagedError(f"{path} is of version {version}, which a later steadyrl reads", for_good=False)
    if index.get("format") != FORMAT or type(version) is not int or version != VERSION:
        raise DamagedError(f"{path} is not of version {VERSION} of {FORMAT}")
    if index.keys() != _KEYS or _sealed({name: index[name] for name in index if name != "checksum"}) != data:
        raise DamagedError(f"{path} does not have its checksum")
    return _checked(path, index)


def _checked(path: Path, index: dict[str, Any]) -> dict[str, Any]:
    """The index, if everything in it that names or measures a file is of its form."""
    files = index["files"]
    if type(index["step"]) is not int or index["step"] < 0:
        raise DamagedError(f"{path} does not tell its step")
    if type(files) is not dict or POLICY not in files:
        raise DamagedError(f"{path} does not describe {POLICY}")
    about = index["about"]
    if type(about) is not dict:
        raise DamagedError(f"{path} says {about!r:.40} of 'about'")
    for name, kind in _ABOUT.items():
        if name in about and type(about[name]) is not kind:
            raise DamagedError(f"{path} says {about[name]!r:.40} of '{name}'")
    if type(index["steadyrl"]) is not str:
        raise DamagedError(f"{path} does not tell the version that made it")
    for name, facts in files.items():
        if not _FILE.fullmatch(name) or name == INDEX:
            raise DamagedError(f"{path} names {name[:80]!r}, which is no name of a checkpoint's file")
        size, hashed = (facts.get("size"), facts.get("sha256")) if type(facts) is dict else (None, None)
        if (
            type(size) is not int
            or not 0 <= size <= _MAX_FILE
            or type(hashed) is not str
            or not _HASH.fullmatch(hashed)
        ):
            raise DamagedError(f"{path} does not describe {name}")
    return index


def require_file(path: Path, most: int) -> int:
    """The size of a plain file of at most `most` bytes.

    Raises:
        DamagedError: it is none: reading a pipe would wait for ever, and a link leads elsewhere.
    """
    try:
        about = path.lstat()
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(about.st_mode):
        raise DamagedError(f"{path} is no plain file")
    if about.st_size > most:
        raise DamagedError(f"{path} has {about.st_size} bytes, more than the {most} that it may have")
    return about.st_size


def unreadable(path: Path, error: OSError) -> DamagedError:
    """The error for a file that the system does not give."""
    text = f"{path} cannot be read ({error.strerror or error})"
    return DamagedError(text, for_good=error.errno not in _NOT_NOW)


def verify(folder: Path) -> dict[str, Any]:
    """The index of a checkpoint whose files all have their sizes and checksums.

    Raises:
        DamagedError: one has not, or there are other files.
    """
    if folder.is_symlink():
        raise DamagedError(f"{folder} is a link")
    index = read_index(folder)
    for name, facts in index["files"].items():
        path = folder / name
        if require_file(path, _MAX_FILE) != facts["size"] or _sha256(path) != facts["sha256"]:
            raise DamagedError(f"{path} does not have the size and checksum that {INDEX} names")
    if odd := sorted({path.name for path in folder.iterdir()} - {INDEX, *index["files"]}):
        raise DamagedError(f"{folder / odd[0]} does not belong to it")
    return index


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise unreadable(path, error) from error
    return digest.hexdigest()


def damage_of(folder: Path) -> DamagedError | None:
    """What `verify` finds wrong with a checkpoint; None with a whole one."""
    try:
        verify(folder)
    except DamagedError as damage:
        return damage
    except OSError as error:
        return unreadable(folder, error)
    return None


def is_whole(folder: Path) -> bool:
    """Whether it is a checkpoint that `verify` finds nothing wrong with."""
    return damage_of(folder) is None


def newest_whole(checkpoints: Path) -> Iterator[tuple[Path, dict[str, Any] | DamagedError]]:
    """The step folders, the newest first, each with its verified index or what is wrong with it."""
    for folder in reversed(list(steps_in(checkpoints).values())):
        try:
            index = verify(folder)
            if f"step_{index['step']}" != folder.name:
                raise DamagedError(f"{folder / INDEX} is of step {index['step']}")
            yield folder, index
        except DamagedError as damage:
            yield folder, damage
        except OSError as error:
            yield folder, unreadable(folder, error)


def steps_in(parent: Path) -> dict[int, Path]:
    """The checkpoints in a folder, the oldest first; other names are left alone."""
    found = {int(hit[1]): folder for folder in parent.glob("step_*") if (hit := _NAME.fullmatch(folder.name))}
    return dict(sorted(found.items()))
