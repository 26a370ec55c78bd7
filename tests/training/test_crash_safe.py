"""Files that outlive a crash, at the edges: systems that cannot flush, leftovers, what cannot be renamed."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from steadyrl.training import durable, lock
from steadyrl.training.checkpoint import (
    steps_in,
)
from steadyrl.training.durable import make_folder, remove_folders, set_aside, sweep, sync_file, sync_folder
from steadyrl.training.saving import STATE, keep_newest
from support.stored_run import refusing, stored_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return stored_run(tmp_path)


DENIED = PermissionError(errno.EACCES, "Permission denied")


def test_a_folder_that_cannot_be_flushed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (errno.EINVAL, errno.ENOTSUP):
        monkeypatch.setattr(os, "fsync", refusing(OSError(number, "cannot")))
        sync_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", refusing(OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken"):
        sync_folder(tmp_path)
    opened = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with pytest.raises(OSError, match="broken"):
        sync_folder(tmp_path)
    assert not opened or len(os.listdir("/proc/self/fd")) == opened
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(os, "open", refusing(DENIED))
    sync_folder(tmp_path)  # Windows opens no folders


def test_macos_flushes_the_drive_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    asked: list[int] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: asked.append(command))
    (tmp_path / "x").write_bytes(b"1")
    sync_file(tmp_path / "x")
    assert asked == [51]


def test_leftovers_are_swept_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(tmp_path / "nothing")
    for name in (".x.partial", ".x.pruned", "x.partial", ".x.other", ".partial"):
        (tmp_path / name).write_bytes(b"1")
    (tmp_path / ".d.partial").mkdir()
    (tmp_path / ".d.partial" / "f").write_bytes(b"1")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "f").write_bytes(b"1")
    (tmp_path / ".l.partial").symlink_to(tmp_path / "kept")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refusing(DENIED))
        sweep(tmp_path)
    assert (tmp_path / ".x.partial").exists()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"x.partial", ".x.other", ".partial", "kept"}
    assert (tmp_path / "kept" / "f").exists()


def test_folders_are_taken_away_by_a_name_that_nobody_looks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", ".a.pruned"):
        (tmp_path / name).mkdir()
    flushed: list[Path] = []
    monkeypatch.setattr(durable, "sync_folder", lambda folder: flushed.append(folder))
    remove_folders(tmp_path, [])
    assert flushed == []
    with monkeypatch.context() as patch:
        patch.setattr(
            shutil, "rmtree", lambda folder, ignore_errors=False: None if ignore_errors else refusing(DENIED)()
        )
        shutil_left = tmp_path / ".a.pruned"
        shutil_left.rmdir()
        with pytest.raises(PermissionError):
            remove_folders(tmp_path, ["a"])
    assert {path.name for path in tmp_path.iterdir()} == {".a.pruned", "b"}
    remove_folders(tmp_path, ["b"])
    assert flushed == [tmp_path, tmp_path]


def test_each_folder_that_was_made_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr(durable, "sync_folder", lambda folder: flushed.append(folder))
    make_folder(tmp_path / "a" / "b")
    assert flushed == [tmp_path, tmp_path / "a"]
    make_folder(tmp_path / "a")
    (tmp_path / "x").write_bytes(b"1")
    set_aside(tmp_path / "x", "damaged")
    assert flushed == [tmp_path, tmp_path / "a", tmp_path]


def test_keeping_the_newest_waits_for_one_that_can_be_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = run / "checkpoints"
    shutil.copytree(parent / "step_40", parent / "step_30")
    keep_newest(parent, 2)
    assert [*steps_in(parent)] == [30, 40]
    kept = (parent / "step_40" / STATE).read_bytes()
    (parent / "step_40" / STATE).write_bytes(b"")
    keep_newest(parent, 1)
    assert [*steps_in(parent)] == [30, 40]
    (parent / "step_40" / STATE).write_bytes(kept)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refusing(DENIED))
        with pytest.raises(Exception, match="cannot be written: Permission denied"):
            keep_newest(parent, 1)
    keep_newest(parent, 1)
    assert [*steps_in(parent)] == [40]


def test_where_nothing_locks_nobody_is_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    with lock.writing(tmp_path, tmp_path), lock.writing(tmp_path, tmp_path):
        pass


def test_a_system_without_locks_has_no_module_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fcntl", None)
        importlib.reload(lock)
        assert vars(lock)["fcntl"] is None  # as on Windows
    importlib.reload(lock)
    assert vars(lock)["fcntl"] is not None
