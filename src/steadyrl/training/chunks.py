"""A replay on the disk: immutable files named by their hash, of which a further checkpoint writes only what changed."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.data.arrays import State
from steadyrl.data.replay import Replay
from steadyrl.training.checkpoint import DamagedError
from steadyrl.training.durable import Part, commit_file, make_folder, sync_folder

CHUNK_BYTES = 4 << 20
MOST_COPIED = 512 << 20  # of a replay at a time; beyond it the training waits for the disk
FOLDER = "chunks"
_NAME = re.compile("[0-9a-f]{64}")
# Arrays that `Replay.add` alone writes, so that its count of steps tells which rows changed; the others are small.
_ADDED_ONLY = ("obs/", "next_obs/")


class ChunkStore:
    """The files of one run.

    Args:
        folder: Made when the first chunk is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[str] = set()  # written or verified by this process

    def put(self, data: Part) -> str:
        """The hash of a chunk that is on the disk afterwards. Raises OSError."""
        name = hashlib.sha256(data).hexdigest()
        if name in self._known:
            return name
        path = self.folder / name
        if not self._is_there(path, name):
            make_folder(self.folder)
            path.unlink(missing_ok=True)  # damaged: the name says what belongs there
            commit_file(path, [data])
        self._known.add(name)
        return name

    @staticmethod
    def _is_there(path: Path, name: str) -> bool:
        try:
            return hashlib.sha256(path.read_bytes()).hexdigest() == name
        except OSError:
            return False

    def get(self, name: str, size: int) -> bytes:
        """A chunk of this many bytes.

        Raises:
            DamagedError: it is missing, or is not what its name says.
        """
        path = self.folder / name
        try:
            if path.is_symlink() or path.stat().st_size != size:
                raise DamagedError(f"{path} does not have the size of its chunk")
            data = path.read_bytes()
        except OSError as error:
            raise DamagedError(f"{path} cannot be read ({error.strerror or error})") from error
        if hashlib.sha256(data).hexdigest() != name:
            raise DamagedError(f"{path} is not what its name says")
        return data

    def check(self, names: set[str]) -> None:
        """Raises DamagedError for a chunk that is missing or is not what its name says."""
        for name in sorted(names):
            path = self.folder / name
            if not _NAME.fullmatch(name) or path.is_symlink() or not self._is_there(path, name):
                raise DamagedError(f"the chunk {path} is missing or damaged")

    def prune(self, named: set[str]) -> None:
        """Remove the chunks that no index names; other files are left alone. Raises OSError."""
        if not self.folder.is_dir():
            return
        for path in list(self.folder.iterdir()):
            if _NAME.fullmatch(path.name) and path.name not in named:
                path.unlink(missing_ok=True)
                self._known.discard(path.name)
        sync_folder(self.folder)


@dataclass
class Layout:
    """Which chunks an array consists of: rows `[i * chunk_rows, (i + 1) * chunk_rows)` each."""

    dtype: str
    row: tuple[int, ...]  # shape of one row
    rows: int
    chunk_rows: int
    chunks: list[str | bytes] = field(default_factory=list)  # hashes; bytes where one is still to be written


class ReplayCapture:
    """Takes what a replay holds, again and again, without looking at what cannot have changed.

    Args:
        replay: Its rings.
    """

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._written = 0
        self._hashes: dict[tuple[str, int, int], str] = {}  # array, chunk, rows in it

    def take(self, store: ChunkStore) -> dict[str, Layout]:
        """The rings as they are now; what may have changed is copied, to be written later. Raises OSError."""
        replay, layouts, copied = self._replay, {}, 0
        for name, array in replay.rings.items():
            row_bytes = max(array[:1].nbytes, 1)
            chunk_rows = max(CHUNK_BYTES // row_bytes, 1)
            layout = Layout(str(array.dtype), array.shape[1:], replay.filled, chunk_rows)
            for start in range(0, replay.filled, chunk_rows):
                rows = min(chunk_rows, replay.filled - start)
                known = self._hashes.get((name, start // chunk_rows, rows))
                if known is not None and self._same(name, start, rows):
                    layout.chunks.append(known)
                    continue
                data = array[start : start + rows].tobytes()
                copied += len(data)
                layout.chunks.append(data if copied <= MOST_COPIED else store.put(data))
            layouts[name] = layout
        self._written = replay.written
        return layouts

    def _same(self, name: str, start: int, rows: int) -> bool:
        """Whether these rows of the array were not written since the last time."""
        if not name.startswith(_ADDED_ONLY):
            return False
        fresh = self._replay.written - self._written
        first = self._written % self._replay.rows
        ahead = (start - first) % self._replay.rows  # rows from the first fresh one to this chunk
        return fresh < self._replay.rows and ahead >= fresh and ahead + rows <= self._replay.rows

    def store(self, layouts: dict[str, Layout], store: ChunkStore) -> dict[str, Any]:
        """Write what is new; the layouts as JSON values for the index. Raises OSError."""
        described = {}
        for name, layout in layouts.items():
            names = []
            for i, chunk in enumerate(layout.chunks):
                names.append(store.put(chunk) if isinstance(chunk, bytes) else chunk)
                rows = min(layout.chunk_rows, layout.rows - i * layout.chunk_rows)
                self._hashes[name, i, rows] = names[-1]
            described[name] = {
                "dtype": layout.dtype,
                "row": list(layout.row),
                "rows": layout.rows,
                "chunk_rows": layout.chunk_rows,
                "chunks": names,
            }
        return described


def named_chunks(index: Mapping[str, Any]) -> set[str]:
    """The chunks that a checkpoint needs."""
    found: set[str] = set()
    for layout in (index["about"].get("replay") or {}).values():
        found.update(layout["chunks"])
    return found


def read_rings(described: Mapping[str, Any], store: ChunkStore, replay: Replay) -> State:
    """The rings of a checkpoint, for `Replay.load_state_dict`.

    Raises:
        DamagedError: a chunk is missing or damaged, or they are no rings of this replay.
    """
    rings: State = {}
    if described.keys() != replay.rings.keys():
        raise DamagedError("its index does not describe the replay of this configuration")
    for name, own in replay.rings.items():
        with suppress(KeyError, TypeError):
            rings[name] = _read(described[name], store, own, replay.rows)
        if name not in rings:
            raise DamagedError(f"its index does not describe the replay's '{name}' rightly")
    return rings


def _read(facts: Mapping[str, Any], store: ChunkStore, own: npt.NDArray[Any], most: int) -> npt.NDArray[Any]:
    """One ring; KeyError where the facts do not fit it."""
    rows, chunk_rows, names = facts["rows"], facts["chunk_rows"], facts["chunks"]
    fits = facts["dtype"] == str(own.dtype) and tuple(facts["row"]) == own.shape[1:]
    fits &= type(rows) is int and type(chunk_rows) is int and 0 <= rows <= most and chunk_rows > 0
    if not fits or len(names) != math.ceil(rows / chunk_rows) or not all(map(_NAME.fullmatch, names)):
        raise KeyError
    array = np.empty((rows, *own.shape[1:]), dtype=own.dtype)
    for i, name in enumerate(names):
        part = array[i * chunk_rows : (i + 1) * chunk_rows]
        part[:] = np.frombuffer(store.get(name, part.nbytes), dtype=own.dtype).reshape(part.shape)
    return array
