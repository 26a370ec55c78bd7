"""Named arrays of a fixed layout, in memory or in files that are mapped into it."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from steadyrl.errors import UserError

Arrays = dict[str, npt.NDArray[Any]]
State = dict[str, npt.NDArray[Any] | int]
_FILES = "[0-9][0-9]-*.npy"


class ArraySpec(NamedTuple):
    """Shape and element type of one array."""

    shape: tuple[int, ...]
    dtype: npt.DTypeLike

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


Layout = dict[str, ArraySpec]


def layout_bytes(layout: Layout) -> int:
    """Size of all the arrays, in bytes."""
    return sum(spec.nbytes for spec in layout.values())


def in_memory(layout: Layout) -> Arrays:
    """Zeros; the system hands out a page when it is first written."""
    return {name: np.zeros(spec.shape, dtype=spec.dtype) for name, spec in layout.items()}


def on_disk(layout: Layout, directory: Path, *, reuse: bool) -> Arrays:
    """Arrays that live in `.npy` files of a directory, which is made where it does not exist.

    The disk's blocks are reserved at once: a disk that fills up later would otherwise kill the process by a signal.

    Args:
        layout: Arrays by name; the files are named after their position and the first part of their name.
        directory: Where the files are.
        reuse: Take files that are there, whatever they hold, instead of refusing them.

    Raises:
        UserError: files are there and `reuse` is off, or they are of another layout; the disk is too small or cannot
            be written. Nothing half-made is left.
    """
    paths = {name: directory / f"{number:02d}-{name.partition('/')[0]}.npy" for number, name in enumerate(layout)}
    found = sorted(directory.glob(_FILES))
    if found and not reuse:
        raise UserError(
            f"{directory} already holds a replay ({found[0].name} and others).",
            remedy="Choose an empty directory, or delete these files.",
            code="replay-exists",
        )
    if found:
        return {name: _open(paths[name], spec, found, set(paths.values())) for name, spec in layout.items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _require_disk(layout, directory)
        return {name: _create(paths[name], spec) for name, spec in layout.items()}
    except OSError as error:
        for path in paths.values():
            path.unlink(missing_ok=True)
        raise UserError(
            f"A replay of {layout_bytes(layout) / 1e9:.3f} GB cannot be made in {directory}: "
            f"{error.strerror or error}.",
            remedy="Free some disk space, lower buffer_size (--buffer-size), or choose another directory.",
            code="cannot-write",
        ) from error


def entry(state: State, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of a saved state.

    Raises:
        UserError: it is missing, or of another shape or type.
    """
    found = state.get(name)
    if not isinstance(found, np.ndarray):
        raise bad_state(name, "missing")
    if found.shape != shape or found.dtype != dtype:
        raise bad_state(name, f"{found.dtype} of shape {found.shape}, not {np.dtype(dtype)} of shape {shape}")
    return found


def bad_state(name: str, found: str) -> UserError:
    """The error for an entry of a saved state that cannot be used."""
    return UserError(
        f"The replay's saved '{name}' is {found}.",
        remedy="Load a state that was saved with the same buffer_size, num_envs and spaces.",
        code="bad-state",
    )


def _require_disk(layout: Layout, directory: Path) -> None:
    needed, free = layout_bytes(layout), shutil.disk_usage(directory).free
    if needed > free:
        raise UserError(
            f"A replay of {needed / 1e9:.3f} GB does not fit on the disk of {directory}, "
            f"which has {free / 1e9:.3f} GB free.",
            remedy="Lower buffer_size (--buffer-size), or choose another directory.",
            code="no-disk-space",
        )


def _create(path: Path, spec: ArraySpec) -> npt.NDArray[Any]:
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(spec.dtype), shape=spec.shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, array.offset + array.nbytes)
    return np.asarray(array)


def _open(path: Path, spec: ArraySpec, found: list[Path], expected: set[Path]) -> npt.NDArray[Any]:
    """An existing file, looked at without writing first: opening a short file for writing would lengthen it."""
    try:
        there = np.lib.format.open_memmap(path, mode="r")
        fits = (
            set(found) == expected
            and there.shape == spec.shape
            and there.dtype == np.dtype(spec.dtype)
            and not there.flags.fnc
            and path.stat().st_size == there.offset + there.nbytes
        )
    except (OSError, ValueError):
        fits = False
    if not fits:
        raise UserError(
            f"The replay in {path.parent} does not fit: {path.name} is missing, damaged or not {spec.dtype} "
            f"of shape {spec.shape}.",
            remedy="Give the buffer_size, num_envs and spaces that it was made for, or choose an empty directory.",
            code="bad-replay",
        )
    return np.asarray(np.lib.format.open_memmap(path, mode="r+"))
