"""TensorBoard event files, through tensorboardX's records.

Its `SummaryWriter` hands every scalar to a thread over a pickling queue, where a full disk is only a traceback on
stderr. Here a whole row is one record, written at once (about 50 us for 20 scalars), and an error reaches the run.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from steadyrl.training.jsonlines import AppendFile

_FILE_NUMBERS = itertools.count()


class TensorBoardFile:
    """One event file in the folder. Importing tensorboardX takes a while without torch, so make this when it is needed.

    Args:
        folder: Where.
        since: A step after which what earlier files tell is void (`purge_step`); None for a run from its start.

    Raises:
        RunFailedError: The file cannot be written.
    """

    def __init__(self, folder: Path, *, since: int | None = None) -> None:
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.proto.summary_pb2 import Summary
        from tensorboardX.record_writer import masked_crc32c

        self._event, self._summary, self._crc = Event, Summary, masked_crc32c
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_FILE_NUMBERS):06d}"
        self._file = AppendFile(folder / name, torn_tail=False)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        if since is not None:
            start = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=since + 1, session_log=start).SerializeToString())

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write one value per tag at this step."""
        pairs = [self._summary.Value(tag=tag, simple_value=float(value)) for tag, value in values.items()]
        event = self._event(wall_time=time.time(), step=step, summary=self._summary(value=pairs))
        self._write(event.SerializeToString())

    def close(self) -> None:
        """Close the file; again does nothing."""
        self._file.close()

    def _write(self, record: bytes) -> None:
        """A TFRecord: length, its checksum, the bytes, their checksum."""
        header = struct.pack("<Q", len(record))
        checksums = [struct.pack("<I", self._crc(part)) for part in (header, record)]
        self._file.write(header + checksums[0] + record + checksums[1])
