"""What an environment shares with the rest of its process: global generators, output, memory, open files."""

from __future__ import annotations

import gc
import os
import random
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

_HEAD = 400  # characters of printed text that are kept
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def generators() -> dict[str, Any]:
    """The states of the process-wide generators, as values that can be compared."""
    state: Any = np.random.get_state(legacy=False)
    states = {
        "numpy.random": (state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"]),
        "random": random.getstate(),
    }
    torch: Any = sys.modules.get("torch")  # of interest only where the environment has imported it
    if torch is not None and hasattr(torch, "get_rng_state"):
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


def shared() -> dict[str, str]:
    """What else all code of this process shares, in words: an environment that alters it alters its neighbours."""
    folder = "none"
    with suppress(OSError):
        folder = os.getcwd()
    torch: Any = sys.modules.get("torch")
    return {
        "the working directory": folder,
        "NumPy's handling of errors": repr(np.geterr()),
        "NumPy's way to print": repr(sorted(np.get_printoptions().items(), key=str)),
        "garbage collection": str(gc.isenabled()),
        "the limit of recursion": str(sys.getrecursionlimit()),
        "the handler of SIGINT": repr(signal.getsignal(signal.SIGINT)),
        "the handler of SIGTERM": repr(signal.getsignal(signal.SIGTERM)),
        "sys.stdout": f"{type(sys.stdout).__name__} {id(sys.stdout)}",
        "torch's default dtype": str(torch.get_default_dtype()) if hasattr(torch, "get_default_dtype") else "",
    }


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of the generators that went on."""
    return [name for name, state in before.items() if after.get(name) != state]


def pin_generators(seed: int) -> None:
    """Seed the process-wide generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(seed)


def memory() -> int:
    """Bytes of memory that this process holds; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE
    return 0


def open_files() -> int:
    """Descriptors that are open here; 0 where the system does not tell."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(folder))
    return 0


def children() -> int:
    """Processes below this one, also those that ended and were not waited for; 0 where the system does not tell."""
    here, count = os.getpid(), 0
    session = here if hasattr(os, "getsid") and os.getsid(0) == here else -1  # of the checker alone where it leads one
    for entry in os.scandir("/proc") if os.path.isdir("/proc/self") else ():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError), open(f"{entry.path}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
            count += int(entry.name) != here and (int(words[1]) == here or int(words[3]) == session)
    return count


@contextmanager
def another_day() -> Iterator[None]:
    """Python's clock is some days ahead meanwhile, at another hour, minute and second."""
    ahead, seconds, nanoseconds = 3 * 86_400 + 5 * 3_600 + 1_117, time.time, time.time_ns
    time.time = lambda: seconds() + ahead
    time.time_ns = lambda: nanoseconds() + ahead * 10**9
    try:
        yield
    finally:
        time.time, time.time_ns = seconds, nanoseconds


def allow_many_files() -> None:
    """As many open files as the system allows, so that an environment that leaks them is seen doing so."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Output:
    """Counts what is written to a descriptor, by Python, by C code and by child processes, and keeps its beginning.

    Args:
        number: The descriptor: 1 or 2. It is this process's from then on.
    """

    def __init__(self, number: int) -> None:
        self._come = 0
        self.head = b""
        self._read, write = os.pipe()
        os.dup2(write, number)
        os.close(write)
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        with suppress(OSError):
            while data := os.read(self._read, 1 << 16):
                if len(self.head) < _HEAD:
                    self.head += data[:_HEAD]
                self._come += len(data)

    @property
    def count(self) -> int:
        """Bytes so far."""
        import fcntl  # not on Windows
        import termios

        waiting = fcntl.ioctl(self._read, termios.FIONREAD, b"\0\0\0\0")
        return self._come + int(struct.unpack("i", waiting)[0])


class Silence:
    """Stands for `Output` where the streams are the caller's own and nothing is counted."""

    count = 0
    head = b""


def flush() -> None:
    """What Python still holds of its streams is written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


class Copies:
    """Counts the copies of this process that come back from a call of the environment: `os.fork()` without an end."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self._process = os.getpid()

    def stay(self) -> None:
        """This process is a copy that was made on purpose."""
        self._process = os.getpid()

    def end_copy(self) -> None:
        """Where this is a copy, it is told and ended."""
        if os.getpid() != self._process:
            with suppress(OSError):
                os.write(self._write, b"c")
            os._exit(0)

    @property
    def count(self) -> int:
        """How many there were."""
        with suppress(OSError):
            return len(os.read(self._read, 4096))
        return 0


COPIES = Copies()
