"""What parent and worker say to each other: one byte where that is enough, else a byte, a length and a pickle.

A pickle goes from a parent to its own child and back, never to or from a disk or a network.
"""

from __future__ import annotations

import os
import socket
from multiprocessing.reduction import ForkingPickler
from typing import Any

STEP, CALL, SEED = b"s", b"c", b"r"  # from the parent
DONE, TOLD, FAILED = b".", b"+", b"!"  # from a worker

_BARE = frozenset(STEP + DONE)
_HEAD = 9  # bytes: the kind and the length


def packed(kind: bytes, content: Any) -> bytes:
    """A message with content.

    Raises:
        Exception: whatever keeps it from being pickled.
    """
    data = ForkingPickler.dumps(content)
    return b"".join((kind, len(data).to_bytes(_HEAD - 1, "little"), data))


class Channel:
    """One end of the connection between the parent and a worker.

    Args:
        end: Of a pair of sockets. With a time-out, `say` keeps to it.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.file = end.fileno()
        self._come = bytearray()

    def poke(self, kind: bytes) -> None:
        """Send a message without content."""
        os.write(self.file, kind)

    def say(self, kind: bytes, content: Any) -> None:
        """Send a message with content."""
        self.socket.sendall(packed(kind, content))

    def take(self) -> tuple[bytes, Any] | None:
        """Read once, and return the message where it is complete.

        Raises:
            EOFError: the other end is closed.
        """
        if not self._come:
            first = os.read(self.file, 65536)
            if len(first) == 1 and first[0] in _BARE:
                return first, None
            self._come += first
        else:
            first = os.read(self.file, 1 << 20)
            self._come += first
        if not first:
            raise EOFError
        if self._come[0] in _BARE:
            kind = bytes(self._come[:1])
            del self._come[:1]
            return kind, None
        end = _HEAD + int.from_bytes(self._come[1:_HEAD], "little")
        if len(self._come) < max(_HEAD, end):
            return None
        kind, content = bytes(self._come[:1]), ForkingPickler.loads(memoryview(self._come)[_HEAD:end].tobytes())
        del self._come[:end]
        return kind, content

    def wait(self) -> tuple[bytes, Any]:
        """The next message, however long it takes.

        Raises:
            EOFError: the other end is closed.
        """
        while (message := self.take()) is None:
            pass
        return message

    def close(self) -> None:
        """Close this end."""
        self.socket.close()
