"""One writer of a run folder at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steadyrl.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


# How file systems say that they lock no folders (NFS: only what is open for writing); there nobody is kept out.
_CANNOT = {errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


@contextmanager
def writing(run: Path, shown: Path) -> Iterator[None]:
    """Inside, no other process writes this run; the system lifts the lock however the process ends.

    Args:
        run: The run folder.
        shown: As the user wrote it.

    Raises:
        UserError: another one does.
    """
    if fcntl is None:
        yield
        return
    folder = os.open(run, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"Another process is writing the run {shown} just now.",
                remedy="Let it end, or stop it first.",
                code="run-in-use",
            ) from error
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
        yield
    finally:
        os.close(folder)


def is_written(run: Path) -> bool:
    """Whether another process writes this run just now; False where it cannot be known."""
    try:
        with writing(run, run):
            return False
    except UserError:
        return True
    except OSError:
        return False
