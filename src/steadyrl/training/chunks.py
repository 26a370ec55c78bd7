"""A replay on the disk: immutable files named by their hash, of which a further checkpoint writes only what changed."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.data.arrays import State
from steadyrl.data.replay import Replay
from steadyrl.errors import NonFiniteError
from steadyrl.training.checkpoint import DamagedError, require_file, unreadable
from steadyrl.training.durable import Part, commit_file, make_folder, sweep, sync_folder

CHUNK_BYTES = 4 << 20
CHUNK_BYTES_MOST = 1 << 30  # a chunk holds at least one row, however large
MOST_COPIED = 512 << 20  # of a replay at a time; beyond it the training waits for the disk
FOLDER = "chunks"
_NAME = re.compile("[0-9a-f]{64}")
# Arrays that `Replay.add` alone writes, so that its count of steps tells which rows changed; the others are small.
_ADDED_ONLY = ("obs/", "next_obs/", "frames", "ends")


class ChunkStore:
    """The files of one run.

    Args:
        folder: Made when the first chunk is.
        go_on: Called between blocks of what is written; raises to stop.
    """

    def __init__(self, folder: Path, go_on: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self._go_on = go_on
        self._known: dict[str, int] = {}  # sizes of those written or verified by this process
        self._fresh: set[str] = set()  # written, and not yet read back

    def put(self, data: Part) -> str:
        """The hash of a chunk that is on the disk afterwards. Raises OSError."""
        name = hashlib.sha256(data).hexdigest()
        if name in self._known:
            return name
        path = self.folder / name
        if not self._is_there(path, name):
            make_folder(self.folder)
            commit_file(path, [data], self._go_on)  # in place of one that is damaged: the name says what belongs there
            self._fresh.add(name)
        self._known[name] = len(data)
        return name

    @staticmethod
    def _is_there(path: Path, name: str) -> bool:
        try:
            return not path.is_symlink() and hashlib.sha256(path.read_bytes()).hexdigest() == name
        except OSError:
            return False

    def get(self, name: str, size: int) -> bytes:
        """A chunk of this many bytes.

        Raises:
            DamagedError: it is missing, or is not what its name says.
        """
        path = self.folder / name
        if require_file(path, size) != size:
            raise DamagedError(f"{path} does not have the size of its chunk")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise unreadable(path, error) from error
        if hashlib.sha256(data).hexdigest() != name:
            raise DamagedError(f"{path} is not what its name says")
        return data

    def check(self, names: set[str]) -> None:
        """Raises DamagedError for a chunk that is missing or is not what its name says."""
        for name in sorted(names):
            path = self.folder / name
            self.get(name, require_file(path, CHUNK_BYTES_MOST))

    def read_back(self, names: set[str]) -> bool:
        """Whether these chunks, put by this process, are on the disk: fresh ones are read, of others the size is asked.

        Every byte of a replay at each checkpoint would cost more than all the rest.
        """
        try:
            for name in names:
                size = self._known[name]
                if name in self._fresh:
                    self.get(name, size)
                elif require_file(self.folder / name, size) != size:
                    return False
        except (DamagedError, KeyError):
            return False
        self._fresh -= names
        return True

    def prune(self, named: set[str]) -> None:
        """Remove the chunks that no index names; other files are left alone. Raises OSError."""
        if not self.folder.is_dir():
            return
        sweep(self.folder)
        for path in list(self.folder.iterdir()):
            if _NAME.fullmatch(path.name) and path.name not in named:
                path.unlink(missing_ok=True)
                self._known.pop(path.name, None)
                self._fresh.discard(path.name)
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
        self._written: dict[str, int] = {}
        self._hashes: dict[tuple[str, int, int], str] = {}  # array, chunk, rows in it

    def take(self, store: ChunkStore) -> dict[str, Layout]:
        """The rings as they are now; what may have changed is copied, to be written later.

        Raises:
            OSError: so much changed that it was written at once, and could not be.
            NonFiniteError: a transition that counts holds a number that is not finite.
        """
        replay, layouts, copied = self._replay, {}, 0
        for name, array in replay.rings.items():
            row_bytes = max(array[:1].nbytes, 1)
            chunk_rows = max(CHUNK_BYTES // row_bytes, 1)
            filled = min(replay.written_to(name), len(array))
            layout = Layout(str(array.dtype), array.shape[1:], filled, chunk_rows)
            for start in range(0, filled, chunk_rows):
                rows = min(chunk_rows, filled - start)
                known = self._hashes.get((name, start // chunk_rows, rows))
                if known is not None and self._same(name, start, rows):
                    layout.chunks.append(known)
                    continue
                self._hashes.pop((name, start // chunk_rows, rows), None)  # if writing fails, the old one must not stay
                self._require_finite(name, array, start, rows)
                data = array[start : start + rows].tobytes()
                copied += len(data)
                layout.chunks.append(data if copied <= MOST_COPIED else store.put(data))
            layouts[name] = layout
        self._written = {name: replay.written_to(name) for name in replay.rings}
        return layouts

    def _require_finite(self, name: str, array: npt.NDArray[Any], start: int, rows: int) -> None:
        part, counts = (ring[start : start + rows] for ring in (array, self._replay.rings["valid"]))
        if not _is_finite(part) and _matters(part, counts):
            raise NonFiniteError(
                f"The checkpoint's replay '{name}' would hold numbers that are not finite, so it is not written.",
                remedy="Go on from the one before it, and look at what the environment gave.",
                code="non-finite",
            )

    def _same(self, name: str, start: int, rows: int) -> bool:
        """Whether these rows of the array were not written since the last time."""
        if not name.startswith(_ADDED_ONLY):
            return False
        size, before = len(self._replay.rings[name]), self._written.get(name, 0)
        fresh = self._replay.written_to(name) - before
        ahead = (start - before % size) % size  # rows from the first fresh one to this chunk
        return fresh == 0 or (fresh < size and ahead >= fresh and ahead + rows <= size)

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


def _is_finite(part: npt.NDArray[Any]) -> bool:
    return part.dtype.kind != "f" or bool(np.isfinite(part).all())


def _matters(part: npt.NDArray[Any], counts: npt.NDArray[np.bool_]) -> bool:
    """Whether rows that count hold what is not finite; `counts` [rows, N] says which do."""
    return part.shape[:2] != counts.shape or not np.isfinite(part[counts]).all()


def named_chunks(index: Mapping[str, Any]) -> set[str]:
    """The chunks that a checkpoint needs.

    Raises:
        DamagedError: its index does not describe its replay.
    """
    found: set[str] = set()
    described = index["about"].get("replay") or {}
    for layout in described.values() if type(described) is dict else [None]:
        names = layout.get("chunks") if type(layout) is dict else None
        if type(names) is not list or not all(type(name) is str and _NAME.fullmatch(name) for name in names):
            raise DamagedError("its index does not describe its replay")
        found.update(names)
    return found


def read_rings(described: Mapping[str, Any], store: ChunkStore, replay: Replay) -> State:
    """The rings of a checkpoint, for `Replay.load_state_dict`, read into the replay's own memory.

    Raises:
        DamagedError: a chunk is missing or damaged, they are no rings of this replay, or a transition that counts holds
            a number that is not finite.
    """
    read: dict[str, npt.NDArray[Any]] = {}
    odd: list[tuple[str, slice]] = []
    if described.keys() != replay.rings.keys():
        raise DamagedError("its index does not describe the replay of this configuration")
    for name, own in replay.rings.items():
        with suppress(KeyError, TypeError):
            ring, places = _read(described[name], store, own, len(own))
            read[name] = ring.copy() if name == "valid" else ring  # which `load_state_dict` clears before it copies
            odd += [(name, place) for place in places]
        if name not in read:
            raise DamagedError(f"its index does not describe the replay's '{name}' rightly")
    for name, place in odd:
        if _matters(read[name][place], read["valid"][place]):
            raise DamagedError(f"the replay's '{name}' holds numbers that are not finite")
    return {**read}


def _read(
    facts: Mapping[str, Any], store: ChunkStore, own: npt.NDArray[Any], most: int
) -> tuple[npt.NDArray[Any], list[slice]]:
    """One ring, and which rows of it hold numbers that are not finite; KeyError where the facts do not fit it."""
    rows, chunk_rows, names = facts["rows"], facts["chunk_rows"], facts["chunks"]
    fits = facts["dtype"] == str(own.dtype) and tuple(facts["row"]) == own.shape[1:]
    fits &= type(rows) is int and type(chunk_rows) is int and 0 <= rows <= most and 0 < chunk_rows < 1 << 40
    if not fits or len(names) != math.ceil(rows / chunk_rows) or not all(map(_NAME.fullmatch, names)):
        raise KeyError
    array, odd = own[:rows], []
    for i, name in enumerate(names):
        place = slice(i * chunk_rows, (i + 1) * chunk_rows)
        part = array[place]
        part[:] = np.frombuffer(store.get(name, part.nbytes), dtype=own.dtype).reshape(part.shape)
        if not _is_finite(part):
            odd.append(place)
    return array, odd
