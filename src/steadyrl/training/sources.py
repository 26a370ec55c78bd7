"""The code that a run runs: a hash of each file, and what differs from the commit, kept in the run folder."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import steadyrl
from steadyrl.training.files import read_json, write_atomic, write_json

CODE, PATCH = "code.json", "git.patch"
_MAX_PATCH = 32 << 20
_MAX_SHOWN = 5


def write_sources(run: Path, env: str, working_directory: str, wrappers: Iterable[str] = ()) -> None:
    """Write `code.json`, and `git.patch` where the working folder is a repository that differs from its commit.

    What is there already, as in a run that is resumed, stays.

    Raises:
        RunFailedError: the disk or the permissions do not allow it.
    """
    if not (run / CODE).exists():
        write_json(run / CODE, {"version": 1, "files": code_hashes(env, wrappers)})
        patch = _diff(working_directory)
        if patch and len(patch) <= _MAX_PATCH:
            write_atomic(run / PATCH, patch)


def code_hashes(env: str, wrappers: Iterable[str] = ()) -> dict[str, str]:
    """SHA-256 of each file of this package, and of those of the environment and its wrappers, by name."""
    package = Path(steadyrl.__file__).parent
    paths = {f"steadyrl/{path.relative_to(package).as_posix()}": path for path in sorted(package.rglob("*.py"))}
    paths |= {f"steadyrl/{path.relative_to(package).as_posix()}": path for path in sorted(package.rglob("_native*"))}
    for named in (env, *wrappers):
        file, _, _ = named.rpartition(":")
        if file.endswith(".py"):
            paths[file] = Path(file)
        elif file and (origin := _origin(file)) is not None:
            paths[file] = origin
    found = {}
    for name, path in paths.items():
        with suppress(OSError):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _origin(module: str) -> Path | None:
    """The file of a module that an environment's id names, such as `package.module` of `package.module:Id-v0`."""
    with suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            return Path(spec.origin)
    return None


def changed_code(run: Path, env: str, wrappers: Iterable[str] = ()) -> list[str]:
    """Which files are not as they were when the run began, in words; nothing where it did not say."""
    try:
        before: dict[str, Any] = read_json(run / CODE)["files"]
        now = code_hashes(env, wrappers)
        names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    more = [f"{len(names) - _MAX_SHOWN} more files of code differ"] if len(names) > _MAX_SHOWN else []
    return [f"the code of {name} is another one" for name in names[:_MAX_SHOWN]] + more


def _diff(working_directory: str) -> bytes:
    command = ("git", "diff", "--binary", "HEAD")
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, cwd=working_directory, capture_output=True, timeout=10, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""
