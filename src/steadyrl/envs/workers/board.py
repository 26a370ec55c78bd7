"""Memory that the parent and its workers share: what each environment is doing, and the arrays of a step.

It is anonymous, so that nothing stays behind whichever process is killed.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

IDLE, STARTING, MAKE, RESET, STEP, CLOSE = range(6)  # what a worker is doing

_SLOT = 4096  # bytes for how an episode began; the state of NumPy's largest generator takes 2,600
_LINE = 64  # arrays of two workers do not share a cache line more often than needed


class Array(NamedTuple):
    """One array of the shared memory."""

    shape: tuple[int, ...]
    dtype: Any  # as `numpy.dtype` takes it


class Start(NamedTuple):
    """How an episode began, as in `EpisodeTrace`."""

    seed: int | None
    options: dict[str, Any] | None
    random_state: dict[str, Any] | None


def anonymous_file(size: int = 0) -> int:
    """A file descriptor of memory (a deleted file where the system has no such thing) that no name leads to."""
    if sys.platform == "linux":
        file = os.memfd_create("steadyrl", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as opened:
            file = os.dup(opened.fileno())
    os.ftruncate(file, size)
    return file


class Board:
    """What the environments are doing, written by the workers and read by the parent.

    A plain store costs tens of nanoseconds, so that it can be kept up at every step.

    Attributes:
        began: Per worker, when its environment began what it is doing, in seconds of `time.monotonic`.
        current: Per worker, the number of the environment that is at work.
        phase: Per worker, one of the constants above.
        total: Per environment, vector steps that it has begun.
        origin: Per environment, `total` where its episode began.

    Args:
        file: Shared memory of at least `Board.size(...)` bytes.
        num_envs: N.
        workers: W.
    """

    def __init__(self, file: int, num_envs: int, workers: int) -> None:
        self._memory = mmap.mmap(file, Board.size(num_envs, workers))
        view = memoryview(self._memory)
        parts = [view[8 * start : 8 * (start + count)] for start, count in _parts(num_envs, workers)]
        self.began = parts[0].cast("d")
        self.current, self.phase, self.total, self.origin = (part.cast("q") for part in parts[1:])
        self._slots = view[8 * (3 * workers + 2 * num_envs) :]

    @staticmethod
    def size(num_envs: int, workers: int) -> int:
        """Bytes, in whole pages."""
        wanted = 8 * (3 * workers + 2 * num_envs) + _SLOT * num_envs
        return -(-wanted // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY

    def begin(self, worker: int, index: int, phase: int) -> None:
        """Note that this environment of this worker is at something from now on."""
        self.began[worker] = time.monotonic()
        self.current[worker] = index
        self.phase[worker] = phase

    def put_start(self, index: int, start: Start) -> None:
        """Note how the episode begins, before it does; what is too large is left out."""
        slot = self._slots[_SLOT * index : _SLOT * (index + 1)]
        slot[:2] = bytes(2)  # nothing is to be read while it is written
        with suppress(Exception):
            data = ForkingPickler.dumps(start)
            slot[2 : 2 + len(data)] = data
            slot[:2] = len(data).to_bytes(2, "little")

    def start(self, index: int) -> Start | None:
        """How the episode of this environment began; None where that was left out."""
        slot = self._slots[_SLOT * index : _SLOT * (index + 1)]
        size = int.from_bytes(slot[:2], "little")
        return ForkingPickler.loads(slot[2 : 2 + size]) if size else None

    def forget_start(self, index: int) -> None:
        """The environment goes on from a state that another episode led to."""
        self._slots[_SLOT * index : _SLOT * index + 2] = bytes(2)

    def close(self) -> None:
        """Give the memory and its descriptor back."""
        for view in (self.began, self.current, self.phase, self.total, self.origin, self._slots):
            view.release()
        with suppress(BufferError):
            self._memory.close()

    def elapsed(self, index: int) -> int:
        """Steps that the episode of this environment has begun."""
        return self.total[index] - self.origin[index]


def arrays_size(arrays: list[Array]) -> int:
    """Bytes that `arrays_in` needs."""
    return sum(_bytes(array) for array in arrays)


def arrays_in(file: int, offset: int, arrays: list[Array]) -> list[npt.NDArray[Any]]:
    """These arrays in the shared memory from `offset` (a multiple of the page size) on."""
    memory = mmap.mmap(file, arrays_size(arrays), offset=offset)
    found, start = [], 0
    for array in arrays:
        found.append(np.ndarray(array.shape, array.dtype, memory, start))
        start += _bytes(array)
    return found


def _bytes(array: Array) -> int:
    size = int(np.prod(array.shape, dtype=np.int64)) * int(np.dtype(array.dtype).itemsize)
    return max(1, -(-size // _LINE)) * _LINE


def _parts(num_envs: int, workers: int) -> list[tuple[int, int]]:
    counts = [workers, workers, workers, num_envs, num_envs]
    return [(sum(counts[:i]), count) for i, count in enumerate(counts)]
