"""Reading what a run left, at the edges: on the stored run of an earlier version, so that nothing has to be trained."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from steadyrl.errors import UserError
from steadyrl.training import durable, lock, resuming
from steadyrl.training.checkpoint import (
    INDEX,
    DamagedError,
    _sealed,
    find_checkpoint,
    newest_whole,
    read_index,
    require_file,
    steps_in,
    unreadable,
    verify,
)
from steadyrl.training.comparing import compared, first_difference
from steadyrl.training.durable import make_folder, remove_folders, set_aside, sweep, sync_file, sync_folder
from steadyrl.training.generators import generators_state, restore_generators
from steadyrl.training.resuming import cut_back, differences, newest, read_state
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import ARRAYS, STATE, keep_newest, not_finite
from steadyrl.training.state import require_alike

DATA = Path(__file__).parent.parent / "artefacts"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "run-version-2", tmp_path / "run"))


def resealed(run: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The stored run's checkpoint with another index."""
    folder = run / "checkpoints" / "step_40"
    index = json.loads((folder / INDEX).read_text())
    del index["checksum"]
    change(index)
    (folder / INDEX).write_bytes(_sealed(index))
    return folder


def refusing(error: OSError) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise error

    return refuse


DENIED = PermissionError(errno.EACCES, "Permission denied")


# The index


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"about": []}, r"says \[\] of 'about'"),
        ({"about": {"algo": 1}}, "says 1 of 'algo'"),
        ({"about": {"logs": []}}, r"says \[\] of 'logs'"),
        ({"about": {"holds": {}}}, "says {} of 'holds'"),
        ({"steadyrl": 1}, "does not tell the version that made it"),
        ({"step": True}, "does not tell its step"),
        ({"step": -1}, "does not tell its step"),
        ({"files": {}}, "does not describe policy.srl"),
        ({"version": 2.0}, "is not of version 2"),
        ({"version": True}, "is not of version 2"),
        ({"version": 0}, "is not of version 2"),
        ({"format": "x", "version": 3}, "is not of version 2"),
        ({"more": 1}, "does not have its checksum"),
    ],
)
def test_an_index_of_another_form_is_damaged(changes: dict[str, Any], told: str, run: Path) -> None:
    folder = resealed(run, lambda index: index.update(changes))
    with pytest.raises(DamagedError, match=told) as caught:
        read_index(folder)
    assert str(folder / INDEX) in str(caught.value)
    assert caught.value.for_good


def test_a_later_version_is_not_damaged(run: Path) -> None:
    folder = resealed(run, lambda index: index.update(version=3))
    with pytest.raises(DamagedError, match="is of version 3, which a later steadyrl reads") as caught:
        read_index(folder)
    assert not caught.value.for_good


def test_step_zero_and_unknown_remarks_are_taken(run: Path) -> None:
    folder = resealed(run, lambda index: (index.update(step=0), index["about"].update(remark=1)))
    assert read_index(folder)["step"] == 0


@pytest.mark.parametrize(
    ("facts", "good"),
    [
        ({"size": 0, "sha256": "0" * 64}, True),
        ({"size": 64 << 30, "sha256": "0" * 64}, True),
        ({"size": (64 << 30) + 1, "sha256": "0" * 64}, False),
        ({"size": -1, "sha256": "0" * 64}, False),
        ({"size": True, "sha256": "0" * 64}, False),
        ({"size": 1, "sha256": "0" * 63}, False),
        ({"size": 1, "sha256": "g" * 64}, False),
        ({"size": 1, "sha256": None}, False),
        ({"size": 1}, False),
        ([], False),
    ],
)
def test_files_are_measured_by_size_and_hash(facts: Any, good: bool, run: Path) -> None:
    folder = resealed(run, lambda index: index["files"].update(more=facts))
    if good:
        assert "more" in read_index(folder)["files"]
    else:
        with pytest.raises(DamagedError, match="does not describe more"):
            read_index(folder)


def test_files_at_their_largest(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"123")
    assert require_file(path, 3) == 3
    with pytest.raises(DamagedError, match="x has 3 bytes, more than the 2 that it may have"):
        require_file(path, 2)
    with pytest.raises(DamagedError, match="is no plain file"):
        require_file(tmp_path, 9)
    with pytest.raises(DamagedError, match=r"nothing cannot be read \(No such file or directory\)") as caught:
        require_file(tmp_path / "nothing", 9)
    assert caught.value.for_good


@pytest.mark.parametrize("number", ["EACCES", "EPERM", "EMFILE", "ENFILE", "ENOMEM", "ENODEV", "ESTALE"])
def test_what_another_time_may_go_is_not_damage(number: str) -> None:
    assert not unreadable(Path("x"), OSError(getattr(errno, number), "words")).for_good
    assert unreadable(Path("x"), OSError(errno.EIO, "words")).for_good
    assert str(unreadable(Path("x"), OSError("bare"))) == "x cannot be read (bare)"


def test_a_file_that_cannot_be_opened_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run / "checkpoints" / "step_40"
    monkeypatch.setattr(Path, "open", refusing(DENIED))
    with pytest.raises(DamagedError, match=r"cannot be read \(Permission denied\)"):
        verify(folder)


def test_a_folder_that_cannot_be_listed_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", refusing(DENIED))
    ((folder, damage),) = newest_whole(run / "checkpoints")
    assert isinstance(damage, DamagedError)
    assert (folder.name, damage.for_good) == ("step_40", False)


def test_a_folder_of_another_step_is_damaged(run: Path) -> None:
    os.rename(run / "checkpoints" / "step_40", run / "checkpoints" / "step_41")
    ((_, damage),) = newest_whole(run / "checkpoints")
    assert "checkpoint.json is of step 40" in str(damage)


def test_a_link_is_no_checkpoint(run: Path) -> None:
    os.rename(run / "checkpoints" / "step_40", run / "real")
    (run / "checkpoints" / "step_40").symlink_to(run / "real")
    with pytest.raises(DamagedError, match="step_40 is a link"):
        verify(run / "checkpoints" / "step_40")
    said: list[str] = []
    with pytest.raises(UserError, match=r"holds no whole checkpoint 'step_40'\.") as caught:
        find_checkpoint(run / "checkpoints", "step_40", said.append)
    assert said == [f"The checkpoint {run / 'checkpoints' / 'step_40'} is damaged, so it is passed over."]
    assert caught.value.remedy == "Choose one of: 40."


# The state


def rewrite(run: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    folder = run / "checkpoints" / "step_40"
    state, arrays = json.loads((folder / STATE).read_text()), load_arrays((folder / ARRAYS).read_bytes())
    change(state, arrays)
    (folder / STATE).write_text(json.dumps(state))
    (folder / ARRAYS).write_bytes(save_arrays(arrays))
    return folder


WEIGHT = "policy/net.q.advantage_head.bias/tensor"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda state, arrays: arrays.update(more=np.zeros(1)), "the array 'more', which belongs nowhere,"),
        (lambda state, arrays: arrays.pop(WEIGHT), f"the array '{WEIGHT}', which is missing or used twice,"),
        (lambda state, arrays: state.update(x=state["policy"]), "which is missing or used twice,"),
        (lambda state, arrays: state.update(session=[]), "lacks 'session'"),
        (lambda state, arrays: state.pop("session"), "lacks 'session'"),
        (lambda state, arrays: arrays[WEIGHT].fill(np.nan), f"'{WEIGHT}' holds numbers that are not finite"),
        (lambda state, arrays: state.update(value_scale={"$float": "000000000000f07f"}), "'value_scale' holds numbers"),
    ],
)
def test_a_state_of_another_form_is_damaged(change: Any, told: str, run: Path) -> None:
    def changed(state: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays.update({name: array.copy() for name, array in arrays.items()})
        change(state, arrays)

    folder = rewrite(run, changed)
    with pytest.raises(DamagedError) as caught:
        read_state(folder)
    assert told in str(caught.value)
    assert str(folder / STATE) in str(caught.value)


@pytest.mark.parametrize("text", ['{"$tuple": []}', '{"$int": "5"}', '{"$float": "000000000000f07f"}'])
def test_a_state_that_is_no_table_is_damaged(text: str, run: Path) -> None:
    folder = run / "checkpoints" / "step_40"
    (folder / STATE).write_text(text)
    (folder / ARRAYS).write_bytes(save_arrays({}))
    with pytest.raises(DamagedError, match=r"state.json lacks 'session'"):
        read_state(folder)


def test_the_file_of_arrays_is_named(run: Path) -> None:
    folder = run / "checkpoints" / "step_40"
    (folder / ARRAYS).write_bytes(b"x")
    with pytest.raises(DamagedError, match=r"state.safetensors does not begin with an index"):
        read_state(folder)
    (folder / STATE).write_text("{")
    with pytest.raises(DamagedError, match=r"state.json is not strict JSON"):
        read_state(folder)


def test_where_numbers_are_not_finite_is_told() -> None:
    state = {"policy": {"a": np.array([1.0, np.inf]), "b": np.array([1])}, "loop": {"x": {"y": np.nan}}, "envs": np.nan}
    assert [*not_finite(state)] == ["policy/a", "loop/x/y"]
    assert [*not_finite({"replay": np.array([-np.inf], dtype=np.float32), "value_scale": np.inf})] == [
        "value_scale",
        "replay",
    ]


# Taking up


def test_damage_that_cannot_be_set_aside_is_an_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "checkpoints" / "step_40" / STATE).unlink()
    monkeypatch.setattr(os, "rename", refusing(DENIED))
    with pytest.raises(
        UserError, match="step_40 has to be set aside, and cannot be renamed: Permission denied"
    ) as caught:
        newest(RunFolder.open(run), lambda notice: None)
    assert caught.value.code == "cannot-write"


def test_what_cannot_be_read_now_stays(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "read_state", refusing(DENIED))
    with pytest.raises(UserError, match=r"cannot be taken up: .*Permission denied") as caught:
        newest(RunFolder.open(run), lambda notice: None)
    assert caught.value.code == "checkpoint-unreadable"
    assert (run / "checkpoints" / "step_40").is_dir()


@pytest.mark.parametrize(
    ("line", "told"), [(["steadyrl", "train", "dqn", "a b"], ": steadyrl train dqn 'a b'."), (["x.py", 1], "this one.")]
)
def test_a_run_without_any_says_how_to_begin_again(line: list[Any], told: str, run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    RunFolder(run).add(command_line=line)
    with pytest.raises(UserError, match="holds no whole checkpoint: it ended before its first one") as caught:
        newest(RunFolder.open(run), lambda notice: None)
    assert caught.value.remedy.endswith(told)


def test_a_run_of_policies_says_what_they_lack(run: Path) -> None:
    folder = run / "checkpoints" / "step_40"
    for name in (STATE, ARRAYS):
        (folder / name).unlink()
    resealed(run, lambda index: (index["files"].pop(STATE), index["files"].pop(ARRAYS)))
    with pytest.raises(UserError, match="holds only saved policies, which lack what a training goes on from"):
        newest(RunFolder.open(run), lambda notice: None)


def test_logs_that_lost_their_end_are_told_and_longer_ones_cut(run: Path) -> None:
    checkpoint = newest(RunFolder.open(run), lambda notice: None)
    lengths = dict(checkpoint.about["logs"])
    with (run / "episodes.jsonl").open("ab") as file:
        file.write(b"more")
    before = (run / "episodes.jsonl").stat().st_size
    (run / "metrics.jsonl").write_bytes(b"")
    missing = cut_back(RunFolder.open(run), checkpoint)
    assert (run / "episodes.jsonl").stat().st_size == lengths["episodes.jsonl"] < before
    short = [
        f"{length} bytes at the end of {name}" for name, length in lengths.items() if name == "metrics.jsonl" and length
    ]
    assert missing == short


def test_differences_are_told_up_to_a_number(run: Path) -> None:
    folder = RunFolder.open(run)
    packages = {f"p{i}": "1" for i in range(30)}
    folder.add(packages=packages, python="3", cpu={"a": 1})
    told = differences(folder, {"packages": {"new": "2"}, "python": "x" * 200, "cpu": {"a": 1}})
    assert len(told) == 21
    assert told[-1] == "and 11 more things differ" or told[-1].startswith("and ")
    assert "packages p0 was 1 and is absent" in told
    assert any(text.startswith("python was 3 and is " + "x" * 117 + "...") for text in told)
    assert len(differences(folder, {"packages": packages, "python": "3", "cpu": {"a": 1}})) < 20


# Comparing


def test_two_copies_are_alike_and_a_row_without_a_step_is_damage(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    assert first_difference(run, other) is None
    assert compared(run, other)["checkpoints"] == 1
    (other / "metrics.jsonl").write_text('{"step": 1}\n{"loss": 1}\n')
    with pytest.raises(UserError, match=r"Line 2 of .*metrics.jsonl does not tell its step") as caught:
        first_difference(run, other)
    assert caught.value.code == "damaged-file"


def test_a_checkpoint_that_cannot_be_read_is_a_difference(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    resealed(other, lambda index: index["about"]["parts"].update(policy="0" * 32))
    (other / "checkpoints" / "step_40" / STATE).write_text("{}")
    difference = first_difference(run, other)
    assert difference is not None
    assert (difference.step, difference.where, difference.name) == (40, "checkpoint step_40", "index")
    assert "state.safetensors" in difference.first or "state.json" in difference.first
    (other / "checkpoints" / "step_40" / INDEX).write_text("{}")
    assert "checkpoint.json" in first_difference(run, other).first  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0.0, -0.0, False),
        ({"$float": "000000000000f87f"}, {"$float": "000000000000f87f"}, True),
        ({"$tuple": [1, 2]}, {"$tuple": [1, 2]}, True),
        ({"$tuple": [1, 2]}, {"$tuple": [1, 3]}, False),
        ({"$tuple": [1]}, [1], False),
        ([1], [1, 2], False),
        (1, True, False),
    ],
)
def test_leaves_are_compared_to_the_bit(one: Any, other: Any, same: bool, run: Path, tmp_path: Path) -> None:
    second = Path(shutil.copytree(run, tmp_path / "other"))
    for place, value in ((run, one), (second, other)):
        rewrite(place, lambda state, arrays, value=value: state.update(extra=value))  # type: ignore[misc]
        resealed(place, lambda index, value=value: index["about"]["parts"].update(extra=repr(value)))  # type: ignore[misc]
    resealed(second, lambda index: index["about"]["parts"].update(extra="another hash"))
    difference = first_difference(run, second)
    assert (difference is None) == same
    if difference is not None:
        assert difference.name.startswith("extra")
        assert str(difference).startswith("step 40, checkpoint step_40, extra")


def test_a_part_that_lies_elsewhere_is_named_by_its_hash(run: Path, tmp_path: Path) -> None:
    second = Path(shutil.copytree(run, tmp_path / "other"))
    resealed(second, lambda index: index["about"]["parts"].update(rings="0" * 32))
    difference = first_difference(run, second)
    assert difference is not None
    assert (difference.name, difference.second) == ("rings", "0" * 32)
    resealed(second, lambda index: index["about"].pop("parts"))
    found = first_difference(run, second)
    assert found is not None
    assert (found.name, found.second) == ("rings", "None")  # all the parts themselves are alike


# What a state has to be like


@pytest.mark.parametrize(
    ("own", "found", "told"),
    [
        ({"a": 1}, {"b": 1}, "The checkpoint's 'the state' is not the parts of this agent (a, b)."),
        ({"a": 1}, [], "'the state' is not the parts of this agent (all of it)"),
        ({"a": {"b": 1}}, {"a": {"b": "x"}}, "'a/b' is str, not int"),
        ({"a": 1}, {"a": True}, "'a' is bool, not int"),
        ({"a": "x"}, {"a": "y"}, "'a' is 'y', not 'x'"),
        ({"a": np.zeros(2)}, {"a": np.zeros(3)}, "'a' is ndarray float64 (3,), not ndarray float64 (2,)"),
        ({"a": np.zeros(2)}, {"a": np.zeros(2, np.float32)}, "'a' is ndarray float32 (2,), not"),
        ({"a": torch.zeros(2)}, {"a": np.zeros(2, np.float32)}, "'a' is ndarray float32 (2,), not Tensor float32 (2,)"),
        (
            {"s": {"name": "n", "key": [1], "counter": 0}},
            {"s": {"name": "n", "key": [2], "counter": 0}},
            "'s' is a random stream of another seed",
        ),
    ],
)
def test_a_state_is_of_this_agents_form(own: Any, found: Any, told: str) -> None:
    with pytest.raises(UserError) as caught:
        require_alike(own, found)
    assert told in caught.value.message
    assert caught.value.code == "bad-state"
    require_alike(own, own)
    require_alike(dict.fromkeys(own), dict.fromkeys(own, 1))


def test_pythons_generator_takes_a_number_or_none() -> None:
    state = generators_state()
    for gauss in (None, 0.5):
        restore_generators(state | {"python": state["python"] | {"gauss": gauss}})
    with pytest.raises(TypeError, match="'generators/python/gauss' is no number"):
        restore_generators(state | {"python": state["python"] | {"gauss": "os:system"}})
    restore_generators(state)


# Files that outlive a crash


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
    monkeypatch.setattr(durable.os, "name", "nt")
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
            durable.shutil, "rmtree", lambda folder, ignore_errors=False: None if ignore_errors else refusing(DENIED)()
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
