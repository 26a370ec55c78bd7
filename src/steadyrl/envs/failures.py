"""An environment's failure as a file that `steadyrl replay` runs again. Strict JSON, no pickle."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

import gymnasium as gym
import numpy as np

from steadyrl._version import __version__
from steadyrl.envs.columns import columns, rows
from steadyrl.envs.failure import Failure
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.recorded import MAX_DEPTH, decoded, encoded
from steadyrl.errors import LONGEST, UserError
from steadyrl.strict_json import strict_object

FORMAT, VERSION = "steadyrl-failure", 1
MAX_BYTES = 2**29
_PHASES = get_args(get_type_hints(Failure)["phase"])
_CODED = ("options", "random_state", "actions")  # fields that hold more than JSON does
_TYPES: dict[str, tuple[type, ...]] = {
    "format": (str,),
    "version": (int,),
    "versions": (dict,),
    "recorded": (str,),
    "env": (dict,),
    "env_index": (int,),
    "worker": (int, type(None)),
    "phase": (str,),
    "step": (int,),
    "seed": (int, type(None)),
    "options": (dict, type(None)),
    "random_state": (dict, type(None)),
    "actions": (dict, type(None)),
    "whole": (bool,),
    "error": (str,),
    "traceback": (str,),
}
_ENV_TYPES: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "address": (str, type(None)),
    "kwargs": (dict,),
    "max_episode_steps": (int, type(None)),
}


@dataclass(frozen=True)
class Origin:
    """How the environment that failed was made.

    Attributes:
        id: How errors call it.
        address: What finds it from anywhere: an id, or an absolute path with a class; None for what has no such name.
        kwargs: Its arguments.
        max_episode_steps: Where its episodes were truncated, instead of at its own limit.
        wrappers: What went around it, as `WrapperSettings.said` tells it; None for nothing.
    """

    id: str
    address: str | None
    kwargs: Mapping[str, Any]
    max_episode_steps: int | None
    wrappers: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, factory: EnvFactory) -> Origin:
        """That of the environments that a factory makes."""
        wrappers = None if factory.wrappers is None else factory.wrappers.said
        return cls(factory.id, factory.address, factory.env_kwargs, factory.max_episode_steps, wrappers)


@dataclass(frozen=True)
class Record:
    """The content of a file.

    Attributes:
        failure: What failed; `actions` are the rows of one array.
        origin: How it was made.
        recorded: When, in UTC.
        versions: Of the packages that took part.
    """

    failure: Failure
    origin: Origin
    recorded: str
    versions: dict[str, str]


def versions() -> dict[str, str]:
    """Those of the packages that decide what an environment does."""
    return {
        "steadyrl": __version__,
        "python": platform.python_version(),
        "gymnasium": gym.__version__,
        "numpy": np.__version__,
    }


def write(folder: Path, failure: Failure, origin: Origin) -> Path:
    """Write `<UTC time>-env<i>.json` into a folder, which is made if it is not there; a name in use gets a number.

    Actions are kept as arrays, with parts as dictionaries and tuples of them. Those that differ in type or shape are
    left out, and `whole` is false then. Of a very long traceback the middle is left out, and the text says how much.

    Raises:
        OSError: the disk or the permissions do not allow it; nothing half-written is left.
    """
    now = datetime.now(UTC)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "versions": versions(),
        "recorded": now.isoformat(timespec="seconds"),
        "env": {
            "id": origin.id,
            "address": origin.address,
            "kwargs": encoded(dict(origin.kwargs)),
            "max_episode_steps": origin.max_episode_steps,
            "wrappers": None if origin.wrappers is None else dict(origin.wrappers),
        },
        **{field.name: getattr(failure, field.name) for field in dataclasses.fields(failure)},
    }
    document["actions"] = _coded(failure.actions)
    document["whole"] = failure.whole and document["actions"] is not None
    document["traceback"] = _cut(failure.traceback)
    document["options"], document["random_state"] = encoded(failure.options), encoded(failure.random_state)
    data = json.dumps(document, indent=1, allow_nan=False).encode()
    folder.mkdir(parents=True, exist_ok=True)
    return _placed(folder, f"{now:%Y%m%dT%H%M%SZ}-env{failure.env_index}", data)


def read(path: Path) -> Record:
    """A failure that `write` wrote.

    Raises:
        UserError: there is no such file, or it is not one; the field that is wrong is named.
    """
    try:
        if not stat.S_ISREG((status := path.stat()).st_mode):  # a pipe or a device may have no end
            raise _bad(path, "it is no regular file")
        if status.st_size > MAX_BYTES:
            raise _bad(path, f"it is larger than {MAX_BYTES} bytes")
        document = strict_object(path.read_bytes(), max_bytes=MAX_BYTES, max_depth=2 * MAX_DEPTH + 2)
    except FileNotFoundError as error:
        raise UserError(
            f"There is no file {path}.",
            remedy="Failures of a run are in the folder failures of its run folder.",
            code="no-such-file",
        ) from error
    except UserError:
        raise
    except ValueError as error:
        raise _bad(path, f"it {error}") from error
    except OSError as error:
        raise _bad(path, str(error.strerror or error)) from error
    if document.get("format") != FORMAT:
        raise _bad(path, f"its 'format' is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise _bad(path, f"its 'version' is {str(document.get('version'))[:20]}, and this library reads {VERSION}")
    _insist_on_fields(path, document, _TYPES, "")
    wrappers = document["env"].pop("wrappers", None)
    if type(wrappers) not in (dict, type(None)):  # files of earlier versions have none
        raise _bad(path, f"its field 'env.wrappers' is a {type(wrappers).__name__}, not dict or null")
    _insist_on_fields(path, document["env"], _ENV_TYPES, "env.")
    values = {name: document[name] for name in (field.name for field in dataclasses.fields(Failure))}
    if values["phase"] not in _PHASES:
        raise _bad(path, f"its 'phase' is {values['phase'][:20]!r}, not one of {', '.join(_PHASES)}")
    for name in _CODED:
        values[name] = _decoded(path, name, document[name])
    values["actions"] = _rows(path, values)
    origin = {name: document["env"][name] for name in _ENV_TYPES}
    origin["kwargs"] = _decoded(path, "env.kwargs", origin["kwargs"])
    if not all(isinstance(version, str) for version in document["versions"].values()):
        raise _bad(path, "its 'versions' are not text")
    return Record(Failure(**values), Origin(**origin, wrappers=wrappers), document["recorded"], document["versions"])


def _insist_on_fields(path: Path, found: dict[str, Any], types: Mapping[str, tuple[type, ...]], where: str) -> None:
    for name, kinds in types.items():
        if name not in found:
            raise _bad(path, f"its field '{where}{name}' is missing")
        if type(found[name]) not in kinds:
            names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise _bad(path, f"its field '{where}{name}' is a {type(found[name]).__name__}, not {names}")
        if type(found[name]) is int and found[name] < 0:
            raise _bad(path, f"its field '{where}{name}' is {found[name]}, below 0")
    for name in found.keys() - types.keys():
        raise _bad(path, f"it has an unknown field '{where}{name[:40]}'")


def _decoded(path: Path, name: str, value: Any) -> Any:
    try:
        return decoded(value)
    except ValueError as error:
        raise _bad(path, f"its field '{name}' cannot be read: {error}") from error


def _rows(path: Path, values: dict[str, Any]) -> list[Any]:
    """The actions, one for each step of the episode."""
    actions = values["actions"]
    if actions is None and not values["whole"]:
        return []
    try:
        kept = rows(actions)
    except ValueError as error:
        raise _bad(path, f"its field 'actions' is no array, nor a structure of them: {error}") from error
    taken = values["step"] if values["phase"] in ("step", "close") else 0
    if values["whole"] and len(kept) != taken:
        raise _bad(path, f"its field 'actions' has {len(kept)} rows, but 'step' says {taken}")
    return kept


def _coded(actions: list[Any]) -> Any:
    """The actions in JSON; None where they have no form that comes back."""
    try:
        coded = encoded(columns(actions))
        decoded(coded)
    except ValueError:
        return None
    return coded


def _cut(text: str) -> str:
    """A text of at most about 2 x `LONGEST` characters: beginning and end of a longer one."""
    left_out = len(text) - 2 * LONGEST
    if left_out <= 0:
        return text
    return f"{text[:LONGEST]}\n... ({left_out:,} characters are left out here)\n{text[-LONGEST:]}"


def _placed(folder: Path, stem: str, data: bytes) -> Path:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{stem}.", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        path, number = folder / f"{stem}.json", 1
        while path.exists():
            number += 1
            path = folder / f"{stem}-{number}.json"
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _bad(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} is no record of a failure: {why}.",
        remedy="Give a file that a run wrote into its folder failures.",
        code="bad-failure",
    )
