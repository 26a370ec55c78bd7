"""Files and folders that outlive a crash: written under another name, flushed to the disk, then renamed.

The order is that of every sound write protocol (Pillai et al. 2014, "All file systems are not created equal"): data,
its flush, the folder's flush, the rename, the parent's flush. Nothing that has its final name is ever changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

Part = bytes | memoryview


def write_file(path: Path, parts: Iterable[Part]) -> tuple[int, str]:
    """Write a new file and flush it to the disk; its size and SHA-256. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with open(path, "xb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
            size += len(part)
        file.flush()
        os.fsync(file.fileno())
    return size, digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk. Raises OSError."""
    if os.name == "nt":
        return  # Windows opens no folders, and its renames need no flush
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they outlive a crash. Raises OSError."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        sync_folder(made.parent)


def commit_file(path: Path, parts: Iterable[Part]) -> None:
    """Make a file that is whole or not there. Raises OSError; nothing half-written is left."""
    staged = path.with_name(f".{path.name}.partial")
    staged.unlink(missing_ok=True)  # what a killed run left
    try:
        write_file(staged, parts)
        os.replace(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def commit_folder(folder: Path, files: Mapping[str, Iterable[Part]]) -> None:
    """Make a folder with these files that is whole or not there. Raises OSError; nothing half-written is left.

    Args:
        folder: Must not exist.
        files: Content by name.
    """
    make_folder(folder.parent)
    staged = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(staged, ignore_errors=True)  # what a killed run left
    try:
        staged.mkdir()
        for name, parts in files.items():
            write_file(staged / name, parts)
        sync_folder(staged)
        os.rename(staged, folder)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    sync_folder(folder.parent)


def set_aside(path: Path, why: str) -> Path:
    """Give a file or folder a name that nobody looks for, such as `step_5.damaged-1`; what is left is not lost."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}-{number}")).exists():
        number += 1
    os.rename(path, aside)
    return aside
