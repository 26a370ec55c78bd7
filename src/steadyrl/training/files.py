"""Files that are either whole or not there."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

from steadyrl.errors import RunFailedError, UserError
from steadyrl.strict_json import strict_object

MIN_FREE_BYTES = 32 * 2**20
MAX_JSON = 64 * 2**20  # of a file that describes a run


def jsonable(value: Any) -> Any:
    """`value` with tuples as lists, paths as text and non-finite numbers as null, so that strict JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    numpy = sys.modules.get("numpy")  # displays, which read files of runs, start without it
    if numpy is not None and isinstance(value, numpy.generic):
        return jsonable(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return str(value)


def write_atomic(path: Path, data: bytes) -> None:
    """Write to a temporary name, flush to the disk, rename.

    Raises:
        RunFailedError: the disk or the permissions do not allow it; what was there before is untouched.
    """
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise RunFailedError(
            f"{path} cannot be written: {error.strerror or error}.",
            remedy="Move that folder away." if path.is_dir() else "Free some disk space, or choose another place.",
            code="cannot-write",
        ) from error


def json_bytes(data: Any) -> bytes:
    """Strict JSON without white space."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()


def write_json(path: Path, data: Any) -> None:
    """`write_atomic` of indented, strict JSON."""
    write_atomic(path, (json.dumps(jsonable(data), indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        UserError: the file is missing, is no regular file, or holds no object in strict JSON.
    """
    try:
        return strict_object(read_regular(path, MAX_JSON), max_bytes=MAX_JSON)
    except FileNotFoundError as error:
        raise UserError(
            f"{path} does not exist.", remedy="Name a run folder that `steadyrl train` made.", code="no-such-file"
        ) from error
    except (ValueError, OSError) as error:
        why = f"it {error}" if isinstance(error, ValueError) else error.strerror or error
        raise UserError(
            f"{path} cannot be read: {why}.", remedy="Restore the file, or train again.", code="unreadable"
        ) from error


def require_regular(path: Path) -> None:
    """Raises UserError for a folder, a pipe or the like in the place of a file; none may be there."""
    if path.exists() and not path.is_file():
        raise UserError(
            f"{path} cannot be read: it is {'a folder' if path.is_dir() else 'no regular file'}.",
            remedy="Take it away, and restore the file if there is a copy.",
            code="unreadable",
        )


def read_regular(path: Path, most: int) -> bytes:
    """The content of a regular file of at most so many bytes; reading a pipe would wait for ever.

    Raises:
        OSError: the system does not give it.
        ValueError: it is something else, in the middle of a sentence.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("is no regular file")
    if about.st_size > most:
        raise ValueError(f"has {about.st_size} bytes, more than the {most} that it may have")
    return path.read_bytes()


def from_anywhere(name: str, here: Path) -> str:
    """What `name` names, such as file.py:Class, so that it is found from every working folder: by its absolute path."""
    path, _, class_name = name.rpartition(":")
    return f"{here / path}:{class_name}" if path.endswith(".py") else name


def working_folder() -> Path:
    """The working folder. Raises UserError where it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UserError(
            "The working folder does not exist any more.",
            remedy="Change into a folder that exists.",
            code="no-such-folder",
        ) from error


def expanded(path: Path) -> Path:
    """The path with a leading `~` as the home folder. Raises UserError where nobody's home is known."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise UserError(
            f"{path} cannot be resolved: {error}", remedy="Write the folder out.", code="bad-value"
        ) from error


def require_free_space(directory: Path) -> None:
    """Raises UserError unless the disk of `directory` (or of its nearest existing parent) has room for a run."""
    place = directory.absolute()
    while not os.path.exists(place):  # unlike Path.exists, no error below a folder that may not be searched
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < MIN_FREE_BYTES:
        raise UserError(
            f"The disk of {place} has {free / 2**20:.1f} MiB free, "
            f"and a run needs at least {MIN_FREE_BYTES // 2**20} MiB.",
            remedy="Free some disk space, or choose another place with --run-dir.",
            code="no-disk-space",
        )
