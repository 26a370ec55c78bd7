"""Files and folders that outlive a crash: written under another name, flushed to the disk, then renamed.

The order is that of every sound write protocol (Pillai et al. 2014, "All file systems are not created equal"): data,
its flush, the folder's flush, the rename, the parent's flush. Nothing that has its final name is ever changed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

Part = bytes | memoryview

_BLOCK = 4 << 20  # bytes that are written in one call, between two looks at whether to go on
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP}  # how file systems say that they cannot flush a folder
_LEFT = re.compile(r"\..+\.(partial|pruned)")


def _on() -> None:
    """Nobody wants writing to stop."""


def write_file(path: Path, parts: Iterable[Part], go_on: Callable[[], None] = _on) -> None:
    """Write a new file and flush it to the disk. Raises OSError.

    Args:
        path: Must not exist.
        parts: Content.
        go_on: Called between blocks; raises to stop.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        for part in parts:
            view = memoryview(part).cast("B")
            while view:
                go_on()
                view = view[os.write(descriptor, view[:_BLOCK]) :]
        _flush(descriptor)
    finally:
        os.close(descriptor)


def _flush(descriptor: int) -> None:
    os.fsync(descriptor)
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync leaves it in the drive's own memory there


def sync_file(path: Path) -> None:
    """Flush a file that somebody else writes to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        _flush(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, where its file system can do that. Raises OSError."""
    if os.name == "nt":
        return  # Windows opens no folders, and its renames need no flush
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they outlive a crash. Raises OSError."""
    if folder.is_dir():
        return
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        sync_folder(made.parent)


def commit_file(path: Path, parts: Iterable[Part], go_on: Callable[[], None] = _on) -> None:
    """Make a file that is whole or not there. Raises OSError; nothing half-written is left."""
    staged = path.with_name(f".{path.name}.partial")
    staged.unlink(missing_ok=True)  # what a killed run left
    try:
        write_file(staged, parts, go_on)
        os.replace(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def commit_folder(folder: Path, files: Mapping[str, Iterable[Part]], go_on: Callable[[], None] = _on) -> None:
    """Make a folder with these files that is whole or not there. Raises OSError; nothing half-written is left.

    Args:
        folder: Must not exist.
        files: Content by name.
        go_on: Called between blocks; raises to stop.
    """
    make_folder(folder.parent)
    staged = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(staged, ignore_errors=True)  # what a killed run left
    try:
        staged.mkdir()
        for name, parts in files.items():
            write_file(staged / name, parts, go_on)
        sync_folder(staged)
        os.rename(staged, folder)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    sync_folder(folder.parent)


def remove_folders(parent: Path, names: Iterable[str]) -> None:
    """Take folders away; if that is cut off, nothing with such a name is half there. Raises OSError."""
    doomed = []
    for name in names:
        doomed.append(parent / f".{name}.pruned")
        shutil.rmtree(doomed[-1], ignore_errors=True)  # what a killed run left
        os.rename(parent / name, doomed[-1])
    if doomed:
        sync_folder(parent)
    for folder in doomed:
        shutil.rmtree(folder)


def sweep(folder: Path) -> None:
    """Take away what killed runs left unfinished in a folder; what cannot be taken away stays."""
    if not folder.is_dir():
        return
    for path in [path for path in folder.iterdir() if _LEFT.fullmatch(path.name)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def set_aside(path: Path, why: str) -> Path:
    """Give a file or folder a name that nobody looks for, such as `step_5.damaged-1`. Raises OSError."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}-{number}")).exists():
        number += 1
    os.rename(path, aside)
    sync_folder(path.parent)
    return aside
