"""What parent and worker say to each other: one byte where that is enough, else a byte, a length and a pickle.

A pickle goes from a parent to its own child and back, never to or from a disk or a network.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any

STEP, CALL, SEED = b"s", b"c", b"r"  # from the parent
DONE, TOLD, FAILED = b".", b"+", b"!"  # from a worker

Message = tuple[bytes, Any]

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
        self._unread: deque[Message] = deque()

    def poke(self, kind: bytes) -> None:
        """Send a message without content."""
        os.write(self.file, kind)

    def say(self, kind: bytes, content: Any) -> None:
        """Send a message with content."""
        self.socket.sendall(packed(kind, content))

    def take(self) -> list[Message]:
        """Read once, and return the messages that are complete, in order.

        Raises:
            EOFError: the other end is closed.
        """
        read = os.read(self.file, 1 << 16 if not self._come else 1 << 20)
        if not read:
            raise EOFError
        if len(read) == 1 and not self._come and read[0] in _BARE:
            return [(read, None)]
        self._come += read
        messages = []
        while (message := self._first()) is not None:
            messages.append(message)
        return messages

    def wait(self) -> Message:
        """The next message, however long it takes.

        Raises:
            EOFError: the other end is closed.
        """
        while not self._unread:
            self._unread += self.take()
        return self._unread.popleft()

    def _first(self) -> Message | None:
        """Take the first message from what has come, if it is complete."""
        come = self._come
        if come and come[0] in _BARE:
            end, content = 1, None
        else:
            end = _HEAD + int.from_bytes(come[1:_HEAD], "little")
            if len(come) < max(_HEAD, end):
                return None
            content = ForkingPickler.loads(bytes(come[_HEAD:end]))
        kind = bytes(come[:1])
        del come[:end]
        return kind, content

    def close(self) -> None:
        """Close this end."""
        self.socket.close()
