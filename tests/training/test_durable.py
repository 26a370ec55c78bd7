"""Files and folders that are whole or not there, whatever goes wrong at whichever call."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steadyrl.training.durable import Part, commit_file, commit_folder, make_folder, set_aside

FILES: dict[str, list[Part]] = {"a": [b"one", memoryview(b"two")], "b": [b""]}
CALLS = ("fsync", "rename", "replace", "mkdir", "open")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def failing(function: str, at: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Let the call of this number fail; returns whether it came to that."""
    real, calls = getattr(os, function), [0]

    def call(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == at:
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(os, function, call)
    return lambda: calls[0] >= at


def test_a_folder_has_its_files(tmp_path: Path) -> None:
    commit_folder(tmp_path / "deep" / "x", FILES)
    assert content(tmp_path / "deep" / "x") == {"a": b"onetwo", "b": b""}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["x"]


def test_a_folder_that_exists_is_not_touched(tmp_path: Path) -> None:
    commit_folder(tmp_path / "x", FILES)
    with pytest.raises(OSError, match=r"not empty|exists"):
        commit_folder(tmp_path / "x", {"c": [b"other"]})
    assert content(tmp_path / "x") == {"a": b"onetwo", "b": b""}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("function", CALLS)
def test_a_fault_at_any_call_leaves_nothing_half_done(
    function: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"before")
    with monkeypatch.context() as patch:
        came = failing(function, at, patch)
        try:
            commit_folder(tmp_path / "x", FILES)
        except OSError:
            assert came()
        try:
            commit_file(tmp_path / "g", [b"new"])
        except OSError:
            assert came()
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"f", "x", "g"}
    assert (tmp_path / "f").read_bytes() == b"before"
    if "x" in left:
        assert content(tmp_path / "x") == {"a": b"onetwo", "b": b""}
    if "g" in left:
        assert (tmp_path / "g").read_bytes() == b"new"


def test_what_a_killed_run_left_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".x.partial").mkdir()
    (tmp_path / ".x.partial" / "junk").write_bytes(b"?")
    (tmp_path / ".g.partial").write_bytes(b"?")
    commit_folder(tmp_path / "x", FILES)
    commit_file(tmp_path / "g", [b"new"])
    assert content(tmp_path / "x") == {"a": b"onetwo", "b": b""}
    assert {path.name for path in tmp_path.iterdir()} == {"x", "g"}


def test_everything_is_flushed_before_the_name_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: order.append("fsync"))
    for function in ("rename", "replace"):
        real = getattr(os, function)

        def renamed(source: Any, target: Any, real: Any = real) -> None:
            order.append("rename")
            real(source, target)

        monkeypatch.setattr(os, function, renamed)
    commit_folder(tmp_path / "x", FILES)
    assert order == ["fsync", "fsync", "fsync", "rename", "fsync"]
    order.clear()
    commit_file(tmp_path / "g", [b"new"])
    assert order == ["fsync", "rename", "fsync"]


def test_folders_above_are_made_and_flushed(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_set_aside_takes_a_name_that_is_free(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "x").mkdir()
        assert set_aside(tmp_path / "x", "damaged") == tmp_path / f"x.damaged-{number}"
    assert not (tmp_path / "x").exists()
