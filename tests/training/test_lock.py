"""One writer of a run folder; a file system that cannot lock folders stops nobody."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from steadyrl.errors import UserError
from steadyrl.training.lock import writing


def test_the_second_writer_is_refused_and_the_next_one_is_not(tmp_path: Path) -> None:
    first, second = writing(tmp_path, Path("shown")), writing(tmp_path, Path("shown"))
    with first, pytest.raises(UserError, match="is writing the run shown") as caught, second:
        pass
    assert caught.value.code == "run-in-use"
    with writing(tmp_path, Path("shown")):
        pass


def test_the_lock_goes_with_its_process(tmp_path: Path) -> None:
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with writing(tmp_path, tmp_path):
            os.write(ready[1], b"x")
            os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(UserError), writing(tmp_path, tmp_path):
        pass
    os.kill(child, 9)
    os.waitpid(child, 0)
    with writing(tmp_path, tmp_path):
        pass
    for descriptor in (*ready, *go):
        os.close(descriptor)


@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK])
def test_a_file_system_without_locks_is_written_all_the_same(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*args: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", cannot)
    with writing(tmp_path, tmp_path):
        pass
    monkeypatch.setattr(fcntl, "flock", lambda *args: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"), writing(tmp_path, tmp_path):
        pass
