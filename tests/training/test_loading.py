"""Reading what a run left, at the edges: on the stored run of an earlier version, so that nothing has to be trained."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import steadyrl as srl
from steadyrl.errors import RunFailedError, UserError
from steadyrl.training import resuming
from steadyrl.training.checkpoint import (
    INDEX,
    POLICY,
    DamagedError,
    newest_whole,
    read_index,
    require_file,
    save_checkpoint,
    unreadable,
    verify,
)
from steadyrl.training.finding import find_checkpoint, to_its_end
from steadyrl.training.generators import generators_state, restore_generators
from steadyrl.training.lock import is_written, writing
from steadyrl.training.resuming import cut_back, differences, newest, read_state
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import ARRAYS, STATE, not_finite
from steadyrl.training.state import require_alike
from support.stored_run import refusing, resealed, stored_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return stored_run(tmp_path)


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
    folder, real = run / "checkpoints" / "step_40", Path.open

    def opened(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.name == POLICY:
            raise DENIED
        return real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(DamagedError, match=r"policy.srl cannot be read \(Permission denied\)") as caught:
        verify(folder)
    assert not caught.value.for_good


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
    folder = run / "checkpoints" / "step_40"
    assert said == [f"The checkpoint {folder} is damaged, so it is passed over: {folder} is a link."]
    assert caught.value.remedy == "All that it saved is damaged: train again."


def test_of_many_checkpoints_the_newest_are_named(tmp_path: Path) -> None:
    for step in range(100, 900, 100):
        save_checkpoint(tmp_path / "run" / "checkpoints", step, b"policy")
    with pytest.raises(UserError) as caught:
        find_checkpoint(tmp_path / "run" / "checkpoints", "final")
    assert caught.value.remedy == "Choose one of: ..., 400, 500, 600, 700, 800."


def test_of_a_run_that_goes_on_its_end_is_waited_for(run: Path) -> None:
    checkpoints = run / "checkpoints"
    assert to_its_end(checkpoints) == f" Or let the run go on to its end: steadyrl resume {run}."
    with writing(run, run):
        assert to_its_end(checkpoints) == " Or wait for its end: another process is training it just now."
    (checkpoints / "final").mkdir()
    assert to_its_end(checkpoints) == ""


def test_a_run_that_is_not_there_is_written_by_nobody(tmp_path: Path) -> None:
    assert not is_written(tmp_path / "none")


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
    assert cut_back(RunFolder.open(run), checkpoint) == []
    assert (run / "episodes.jsonl").stat().st_size == lengths["episodes.jsonl"] < before
    (run / "episodes.jsonl").write_bytes(b"{}\n")
    lost = lengths["episodes.jsonl"] - 3
    assert cut_back(RunFolder.open(run), checkpoint) == [f"{lost} bytes at the end of episodes.jsonl"]


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


# Where an environment's state could not be saved, and what a refusal passes on


def test_a_log_that_is_not_there_yet_has_no_length(run: Path) -> None:
    folder = resealed(run, lambda index: index["about"].update(logs={}))
    for name in ("metrics.jsonl", "evals.jsonl", "episodes.jsonl"):
        (run / name).unlink()
    (run / "checkpoints" / "best").mkdir()
    for step in (30, 50):
        shutil.copytree(folder, run / "checkpoints" / "best" / f"step_{step}")
    assert cut_back(RunFolder.open(run), newest(RunFolder.open(run), lambda notice: None)) == []
    assert {path.name for path in (run / "checkpoints" / "best").iterdir()} == {"step_30", "step_50.superseded-1"}


@pytest.mark.parametrize("logs", [{"other.jsonl": 1}, {"metrics.jsonl": -1}, {"metrics.jsonl": True}])
def test_lengths_of_logs_are_numbers_of_these_logs(logs: dict[str, Any], run: Path) -> None:
    resealed(run, lambda index: index["about"].update(logs=logs))
    with pytest.raises(UserError, match="its index does not tell the lengths of the logs") as caught:
        srl.resume(run, say=lambda notice: None)
    assert caught.value.code == "bad-state"


def test_what_an_environment_refuses_is_passed_on(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = RunFailedError("It does not come back.", code="snapshot")
    monkeypatch.setattr(resuming, "restore_training", refusing(failed))
    with pytest.raises(RunFailedError) as caught:
        srl.resume(run, say=lambda notice: None)
    assert caught.value is failed
    monkeypatch.setattr(resuming, "restore_training", refusing(UserError("Another one.", remedy="Look.", code="x")))
    with pytest.raises(UserError, match=r"step_40 cannot be taken up: Another one\.") as told:
        srl.resume(run, say=lambda notice: None)
    assert (told.value.remedy, told.value.code) == ("Look.", "x")
    monkeypatch.setattr(resuming, "restore_training", refusing(KeyError("part")))
    with pytest.raises(UserError, match="step_40 cannot be taken up: it lacks 'part'") as told:
        srl.resume(run, say=lambda notice: None)
    assert told.value.code == "bad-state"


def test_without_a_state_of_the_environments_episodes_start_anew(run: Path) -> None:
    def without(state: dict[str, Any], arrays: dict[str, Any]) -> None:
        state["envs"] = None
        for name in [name for name in arrays if name.startswith("envs/")]:
            del arrays[name]

    folder = rewrite(run, without)
    for name in (STATE, ARRAYS):
        data = (folder / name).read_bytes()
        facts = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        resealed(run, lambda index, name=name, facts=facts: index["files"].update({name: facts}))  # type: ignore[misc]
    said: list[str] = []
    done = srl.resume(run, say=lambda notice: said.append(notice.message))
    assert done.status == "finished"
    assert any(
        text.startswith("Episodes start anew, as the state of the environment could not be saved") for text in said
    )
