"""The run folder: its name, what is in it from the start, and what happens when it cannot be made."""

from __future__ import annotations

import os
import re
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from steadyrl.errors import RunFailedError, UserError
from steadyrl.training import files, run_folder
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.signals import Preempted, signals_raise


def create(run_dir: Path | None = None, **changed: Any) -> RunFolder:
    arguments: dict[str, Any] = {
        "algo": "ppo",
        "env": "CartPole-v1",
        "seed": 3,
        "run_dir": run_dir,
        "name": None,
        "config": {"gamma": 0.9},
        "manifest": {"seeds": {"root": 3}},
    }
    return RunFolder.create(**(arguments | changed))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_folder() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    folder = create()
    assert folder.shown.parent == Path("runs/CartPole-v1/ppo")
    assert folder.path == Path.cwd() / folder.shown
    hit = re.fullmatch(r"(\d{8}T\d{6}Z)-seed3", folder.path.name)
    assert hit
    stamp = datetime.strptime(hit[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert before <= stamp <= before + timedelta(seconds=30)
    assert {path.name for path in folder.path.iterdir()} == {"config.json", "manifest.json"}
    assert folder.config == {"gamma": 0.9}
    manifest = folder.manifest
    assert (manifest["version"], manifest["status"], manifest["ended"]) == (1, "running", None)
    assert manifest["seeds"] == {"root": 3}
    assert {"command_line", "git", "packages", "platform", "python"} <= manifest.keys()
    assert folder.checkpoints == folder.path / "checkpoints"


def test_a_second_one_in_the_same_second_gets_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "_stamp", lambda seed, name: f"20260131T235959Z-seed{seed}")
    found = [create().path.name for _ in range(3)] + [create(seed=4).path.name]
    assert found == [
        "20260131T235959Z-seed3",
        "20260131T235959Z-seed3-2",
        "20260131T235959Z-seed3-3",
        "20260131T235959Z-seed4",
    ]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("ALE/Pong-v5", "ALE-Pong-v5"),
        ("package.module:Id-v0", "package.module-Id-v0"),
        ("some/../file.py:Class", "some-..-file.py-Class"),
        ("C:\\envs\\file.py:Class", "C--envs-file.py-Class"),
        ("../up.py:Class", "..-up.py-Class"),
    ],
)
def test_ids_become_one_name(env: str, expected: str, elsewhere: Path) -> None:
    folder = create(env=env)
    assert folder.shown.parts[:3] == ("runs", expected, "ppo")
    assert [path.name for path in elsewhere.iterdir()] == ["runs"]


def test_a_tag_ends_the_name() -> None:
    assert create(name="a/b:c").path.name.endswith("-seed3-a-b-c")


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    assert create(tmp_path / "x" / "y").path == tmp_path / "x" / "y"


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_one_that_exists_is_refused_and_untouched(kind: str, tmp_path: Path) -> None:
    there = tmp_path / "mine"
    if kind == "folder":
        there.mkdir()
        (there / "notes").write_text("keep")
    else:
        there.write_text("keep")
    with pytest.raises(UserError, match="exists already") as caught:
        create(there)
    assert caught.value.code == "run-folder-exists"
    assert str(there) in caught.value.message
    kept = there / "notes" if kind == "folder" else there
    assert kept.read_text() == "keep"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be made") as caught:
        create(tmp_path / "file" / "run")
    assert caught.value.code == "cannot-write"


def test_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdir(self: Path, *args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(UserError, match="Permission denied") as caught:
        create(tmp_path / "run")
    assert caught.value.code == "cannot-write"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_in_a_folder_that_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(UserError, match="Permission denied"):
        create(tmp_path / "closed" / "run")


def test_on_a_full_disk_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    for run_dir in (None, tmp_path / "x"):
        with pytest.raises(UserError, match=r"0\.0 MiB free") as caught:
            create(run_dir)
        assert caught.value.code == "no-disk-space"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", ["config.json", "manifest.json"])
def test_a_fault_while_it_is_filled_leaves_no_folder(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = files.write_json

    def write(path: Path, data: Any) -> None:
        if path.name == failing:
            raise RunFailedError("the disk is full")
        real(path, data)

    monkeypatch.setattr(run_folder, "write_json", write)
    with pytest.raises(RunFailedError, match="the disk is full"):
        create(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_the_end_is_written_down() -> None:
    folder = create()
    before = folder.manifest
    folder.finish("interrupted", signal="SIGINT", weights_sha256="ab")
    after = folder.manifest
    assert (after["status"], after["signal"], after["weights_sha256"]) == ("interrupted", "SIGINT", "ab")
    assert datetime.fromisoformat(after["ended"]) >= datetime.fromisoformat(after["started"])
    assert {key: after[key] for key in before if key not in ("status", "ended")} == {
        key: before[key] for key in before if key not in ("status", "ended")
    }


def test_opening_one() -> None:
    folder = create()
    assert RunFolder.open(folder.path).config == folder.config
    with pytest.raises(UserError, match=r"is not a run folder: it holds no config\.json") as caught:
        RunFolder.open(folder.path.parent)
    assert caught.value.code == "no-such-run"
    with pytest.raises(UserError, match="does not exist"):
        RunFolder.open(Path("nowhere"))


def test_only_what_was_not_set_aside_can_be_gone_on_from(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name, can in (("step_20.damaged-1", False), ("step_x", False), ("step_20", True)):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        assert not folder.can_go_on
        (tmp_path / "checkpoints" / name / "state.json").touch()
        assert folder.can_go_on is can


def test_a_damaged_configuration_is_a_user_error() -> None:
    folder = create()
    for content in ("[1, 2]", "{", ""):
        (folder.path / "config.json").write_text(content)
        with pytest.raises(UserError, match=r"config\.json cannot be read"):
            assert folder.config


def test_the_folder_is_where_it_was_made_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(Path("out"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    folder.finish("finished")
    assert folder.path == tmp_path / "out"
    assert str(folder.shown) == "out"
    assert create(Path("x"), here=tmp_path).path == tmp_path / "x"


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert create(Path("~/mine")).path == tmp_path / "mine"
    assert RunFolder.open(Path("~/mine")).path == tmp_path / "mine"


def test_a_name_with_a_nul_is_a_user_error() -> None:
    for run_dir, name in ((Path("a\0b"), None), (None, "a\0b")):
        with pytest.raises(UserError, match="cannot be made"):
            create(run_dir, name=name)


def test_a_working_folder_that_is_gone_is_a_user_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UserError, match="does not exist any more"):
        create()


def test_removing_takes_away_what_was_made_for_it_and_nothing_else(elsewhere: Path) -> None:
    first, second = create(Path("a/b/one")), create(Path("a/c/two"))
    second.remove()
    assert first.path.is_dir()
    assert not (elsewhere / "a/c").exists()
    first.remove()
    assert list(elsewhere.iterdir()) == []


def test_a_signal_while_the_folder_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, written = files.write_json, []

    def write(path: Path, data: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        real(path, data)
        written.append(path.name)

    monkeypatch.setattr(run_folder, "write_json", write)
    with pytest.raises(Preempted), signals_raise():
        create(tmp_path / "run")
    assert written == ["manifest.json", "config.json"]  # the signal waited
    assert list(tmp_path.iterdir()) == []
