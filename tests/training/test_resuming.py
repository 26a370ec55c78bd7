"""What a run that cannot be taken up says: why it has no checkpoint, and what lies in the place of its files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import steadyrl as srl
from steadyrl.errors import UserError
from steadyrl.training.resuming import newest
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import STATE
from support.stored_run import stored_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return stored_run(tmp_path)


def test_why_a_run_has_none_is_told_as_far_as_it_is_known(run: Path) -> None:
    ended = "it ended before its first one was written"
    for folder in (run / "checkpoints").iterdir():
        shutil.rmtree(folder)
    assert why_none(run) == f"{ended}, or what it wrote was taken away."
    (run / "checkpoints").rmdir()
    assert why_none(run) == f"{ended}, or what it wrote was taken away."  # it is said to have been stopped
    RunFolder(run).add(status="running")  # as if it had been killed
    assert why_none(run) == f"{ended}."


def test_a_run_whose_checkpoints_are_all_damaged_says_so_again_and_again(run: Path) -> None:
    whole = run / "checkpoints" / "step_40"
    RunFolder(run).add(status="running")
    (whole / STATE).write_text("")
    for _ in range(2):
        assert why_none(run) == "its only one is damaged (set aside as step_40.damaged-1)."
    for step in (100, 5):
        shutil.copytree(run / "checkpoints" / "step_40.damaged-1", run / "checkpoints" / f"step_{step}")
    names = "step_5.damaged-1, step_40.damaged-1, step_100.damaged-1"
    for _ in range(2):
        assert why_none(run) == f"all 3 are damaged (set aside as {names})."


def why_none(run: Path) -> str:
    with pytest.raises(UserError, match="holds no whole checkpoint: ") as caught:
        newest(RunFolder.open(run), lambda notice: None)
    return caught.value.message.partition("no whole checkpoint: ")[2]


@pytest.mark.parametrize("name", ["metrics.jsonl", "episodes.jsonl", "evals.jsonl"])
def test_a_folder_in_the_place_of_a_log_is_named_before_anything_changes(name: str, run: Path) -> None:
    (run / "checkpoints" / "step_40" / STATE).write_text("")
    (run / name).unlink()
    (run / name).mkdir()
    before = {path: path.is_file() and path.read_bytes() for path in run.rglob("*")}
    with pytest.raises(UserError, match=f"{name} cannot be read: it is a folder") as caught:
        srl.resume(run, say=lambda notice: None)
    assert (caught.value.code, caught.value.exit_status) == ("unreadable", 2)
    assert {path: path.is_file() and path.read_bytes() for path in run.rglob("*")} == before
    with pytest.raises(UserError, match=f"{name} cannot be read: it is a folder"):
        getattr(srl.Run.open(run), name.partition(".")[0])()


def test_a_pipe_in_the_place_of_a_log_is_not_waited_for(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    with pytest.raises(UserError, match=r"metrics\.jsonl cannot be read: it is no regular file"):
        srl.Run.open(run).metrics()


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
def test_a_folder_in_the_place_of_a_record_is_named(name: str, run: Path) -> None:
    (run / name).unlink()
    (run / name).mkdir()
    with pytest.raises(UserError, match=f"{name} cannot be read: it is "):
        srl.resume(run, say=lambda notice: None)
