"""Files that are whole or not there, strict JSON, and the room on the disk."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.files import (
    MIN_FREE_BYTES,
    jsonable,
    read_json,
    require_free_space,
    write_atomic,
    write_json,
)


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"one")
    write_atomic(path, b"two, longer")
    assert path.read_bytes() == b"two, longer"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_a_fault_leaves_what_was_there(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(RunFailedError, match="No space left on device") as caught:
        write_atomic(path, b"new")
    assert str(path) in caught.value.message
    assert caught.value.code == "cannot-write"
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")

    def killed(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match="No such file"):
        write_atomic(tmp_path / "no" / "a.bin", b"x")


def test_json_without_nan(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    data = {
        "nan": float("nan"),
        "inf": [float("inf"), -float("inf"), 1.5],
        "tuple": (1, (2, 3)),
        "path": Path("a/b"),
        "numpy": [np.float32(0.5), np.int64(3), np.bool_(True), np.float64("nan")],
        "plain": [None, True, 2, "x"],
        7: "key",
    }
    write_json(path, data)
    assert read_json(path) == {
        "nan": None,
        "inf": [None, None, 1.5],
        "tuple": [1, [2, 3]],
        "path": str(Path("a/b")),
        "numpy": [0.5, 3, True, None],
        "plain": [None, True, 2, "x"],
        "7": "key",
    }
    assert path.read_text().endswith("}\n")
    assert jsonable(np.float32(0.5)) == 0.5


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"3", b"\xff\xfe{}", b"[" * 100_000],
    ids=["empty", "cut", "list", "number", "bytes", "deep"],
)
def test_an_unreadable_file_is_a_user_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read") as caught:
        read_json(path)
    assert str(path) in caught.value.message
    assert caught.value.code == "unreadable"


def test_a_missing_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist") as caught:
        read_json(tmp_path / "a.json")
    assert caught.value.code == "no-such-file"


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_full_disk_is_seen_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def usage(free: int) -> None:
        def disk_usage(place: Path) -> Usage:
            asked.append(Path(place))
            return Usage(2**40, 0, free)

        monkeypatch.setattr(shutil, "disk_usage", disk_usage)

    usage(MIN_FREE_BYTES - 2**20)
    with pytest.raises(UserError, match=r"31\.0 MiB free") as caught:
        require_free_space(tmp_path / "not" / "yet" / "there")
    assert caught.value.code == "no-disk-space"
    assert asked == [tmp_path]
    assert list(tmp_path.iterdir()) == []
    usage(MIN_FREE_BYTES)
    require_free_space(tmp_path / "x")


def test_a_relative_folder_is_measured_where_it_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[Path] = []

    def disk_usage(place: Path) -> Usage:
        asked.append(Path(place))
        return Usage(2**40, 0, 2**40)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    require_free_space(Path("runs/x"))
    assert asked == [tmp_path]


def test_the_written_json_is_strict(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": float("nan")})

    def no(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads((tmp_path / "a.json").read_text(), parse_constant=no) == {"x": None}
