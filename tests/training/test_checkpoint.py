"""Checkpoints: whole or not there, never overwritten, and a damaged one is passed over."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from steadyrl.bundle import Bundle, read_bundle, to_bytes
from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.checkpoint import (
    INDEX,
    POLICY,
    Contents,
    DamagedError,
    read_index,
    save_checkpoint,
    verify,
)
from steadyrl.training.finding import find_checkpoint
from support.policies import CPU, make_policy

ABOUT: dict[str, Any] = {"algo": "ppo", "config": {}}


def bundle(seed: int = 0) -> Bundle:
    return Bundle(make_policy(seed=seed), ABOUT)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_checkpoint_holds_the_policy_and_its_checksum(tmp_path: Path) -> None:
    target = save_checkpoint(tmp_path / "checkpoints", 100, bundle())
    assert target == tmp_path / "checkpoints" / "step_100"
    assert names(target.parent) == {"step_100"}
    assert names(target) == {POLICY, INDEX}
    index = json.loads((target / INDEX).read_text())
    assert (index["format"], index["version"], index["step"]) == ("steadyrl-checkpoint", 2, 100)
    assert index["files"][POLICY]["size"] == (target / POLICY).stat().st_size
    found = find_checkpoint(tmp_path / "checkpoints", "100")
    assert found == target / POLICY
    assert read_bundle(found, CPU).policy.sha256() == make_policy().sha256()


def test_a_whole_one_is_never_overwritten(tmp_path: Path) -> None:
    target = save_checkpoint(tmp_path, 1, bundle(0))
    before = (target / POLICY).read_bytes()
    assert save_checkpoint(tmp_path, 1, bundle(1)) == target
    assert (target / POLICY).read_bytes() == before
    assert names(tmp_path) == {"step_1"}


def test_a_damaged_one_is_set_aside_and_written_anew(tmp_path: Path) -> None:
    for number in (1, 2):
        target = save_checkpoint(tmp_path, 1, bundle(0))
        (target / POLICY).write_bytes(b"damaged")
        save_checkpoint(tmp_path, 1, bundle(1))
        assert (target / POLICY).read_bytes() == to_bytes(bundle(1))
        assert (tmp_path / f"step_1.damaged-{number}" / POLICY).read_bytes() == b"damaged"
    assert find_checkpoint(tmp_path, "1") == target / POLICY


@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("function", ["fsync", "rename"])
def test_a_fault_leaves_no_half_checkpoint(
    function: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th flush or rename fails: the error says so, nothing half-written is left, the older one is still found."""
    save_checkpoint(tmp_path / "final", 1, bundle(0))
    real, calls = getattr(os, function), [0]

    def fail(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == call + 1:
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(os, function, fail)
    if call < (4 if function == "fsync" else 1):
        with pytest.raises(RunFailedError, match="No space left on device"):
            save_checkpoint(tmp_path / "final", 2, bundle(1))
        named = function == "fsync" and call == 3  # what fails is the flush of a rename that was made
        assert names(tmp_path / "final") == ({"step_1", "step_2"} if named else {"step_1"})
        assert find_checkpoint(tmp_path, "final").parent.name == ("step_2" if named else "step_1")
    else:
        save_checkpoint(tmp_path / "final", 2, bundle(1))
        assert find_checkpoint(tmp_path, "final").parent.name == "step_2"


@pytest.mark.parametrize("function", ["rename", "fsync", "mkdir"])
def test_a_killed_run_leaves_nothing_that_is_found(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        setattr(os, function, killed)
        save_checkpoint(tmp_path, 5, bundle())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with pytest.raises(UserError, match="holds no whole checkpoint '5'"):
        find_checkpoint(tmp_path, "5")
    target = save_checkpoint(tmp_path, 5, bundle())
    assert names(tmp_path) == {"step_5"}
    assert names(target) == {POLICY, INDEX}


def test_an_index_of_the_first_version_is_still_read(tmp_path: Path) -> None:
    """As 0.1 wrote it before checkpoints held more than the policy."""
    data = to_bytes(bundle())
    folder = tmp_path / "final" / "step_3"
    folder.mkdir(parents=True)
    (folder / POLICY).write_bytes(data)
    facts = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / INDEX).write_text(json.dumps({"version": 1, "step": 3, "files": {POLICY: facts}}, indent=2))
    assert find_checkpoint(tmp_path, "final") == folder / POLICY
    (folder / POLICY).write_bytes(data[:-1])
    with pytest.raises(UserError, match="no whole checkpoint"):
        find_checkpoint(tmp_path, "final")


def test_every_damage_to_the_index_is_seen(tmp_path: Path) -> None:
    target = save_checkpoint(tmp_path / "final", 2, bundle(), Contents({"x": b"1"}, {"about": [1, None]}))
    data = (target / INDEX).read_bytes()
    assert read_index(target)["about"] == {"about": [1, None]}
    for at in range(len(data)):
        for damaged in (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], data[:at]):
            (target / INDEX).write_bytes(damaged)
            with pytest.raises(DamagedError, match=INDEX):
                read_index(target)
    (target / INDEX).write_bytes(data + b" ")
    with pytest.raises(DamagedError, match="checksum"):
        read_index(target)


@pytest.mark.parametrize("odd", ["extra", "link", "folder"])
def test_only_the_files_that_the_index_names_may_be_there(odd: str, tmp_path: Path) -> None:
    target = save_checkpoint(tmp_path, 2, bundle())
    if odd == "extra":
        (target / "extra").write_bytes(b"")
    else:
        (target / POLICY).rename(tmp_path / "elsewhere")
        if odd == "link":
            (target / POLICY).symlink_to(tmp_path / "elsewhere")
        else:
            (target / POLICY).mkdir()
    with pytest.raises(DamagedError, match="extra" if odd == "extra" else POLICY):
        verify(target)


def test_the_newest_whole_one_wins(tmp_path: Path) -> None:
    for kind in ("final", "best"):
        for step in (9, 100, 20):
            save_checkpoint(tmp_path / kind, step, bundle(step))
        folder = tmp_path / kind
        assert find_checkpoint(tmp_path, kind) == folder / "step_100" / POLICY
        data = bytearray((folder / "step_100" / POLICY).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / "step_100" / POLICY).write_bytes(data)
        assert find_checkpoint(tmp_path, kind) == folder / "step_20" / POLICY
        (folder / "step_20" / INDEX).unlink()
        assert find_checkpoint(tmp_path, kind) == folder / "step_9" / POLICY
        (folder / "step_9" / POLICY).write_bytes(b"")
        with pytest.raises(UserError, match=f"no whole checkpoint '{kind}'"):
            find_checkpoint(tmp_path, kind)


def test_every_damage_is_seen(tmp_path: Path) -> None:
    target = save_checkpoint(tmp_path / "final", 2, bundle())
    save_checkpoint(tmp_path / "final", 1, bundle())
    data, draw = (target / POLICY).read_bytes(), random.Random(0)
    for at in draw.sample(range(len(data)), 60):
        changed = bytearray(data)
        changed[at] ^= 1 << draw.randrange(8)
        for damaged in (bytes(changed), data[:at]):
            (target / POLICY).write_bytes(damaged)
            assert find_checkpoint(tmp_path, "final").parent.name == "step_1"
    (target / POLICY).write_bytes(data)
    assert find_checkpoint(tmp_path, "final").parent.name == "step_2"
    for index in (b"", b"[]", b"3", b'{"files": []}', b'{"files": {"policy.srl": 1}}', b"\xff", b"[" * 100_000):
        (target / INDEX).write_bytes(index)
        assert find_checkpoint(tmp_path, "final").parent.name == "step_1"


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "final", 3, bundle())
    save_checkpoint(tmp_path, 3, bundle())
    for odd in ("step_x", "step_", "step_-1", "step_03", "step_4.damaged-1", "step_٣", "notes"):
        (tmp_path / odd).mkdir()
        (tmp_path / "final" / odd).mkdir()
    (tmp_path / "final" / "step_7").write_text("a file")
    assert find_checkpoint(tmp_path, "final").parent.name == "step_3"
    assert find_checkpoint(tmp_path, "step_3").parent == tmp_path / "step_3"


@pytest.mark.parametrize("which", ["4", "latest", "", "../step_3", "03", "step_", "-1", "final/step_3", "/"])
def test_a_wrong_name_lists_what_there_is(which: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    save_checkpoint(tmp_path, 3, bundle())
    for step in (20, 3):
        save_checkpoint(run, step, bundle())
    save_checkpoint(run / "final", 20, bundle())
    with pytest.raises(UserError) as caught:
        find_checkpoint(run, which)
    assert caught.value.code == "no-such-checkpoint"
    assert f"'{which}'" in caught.value.message
    assert caught.value.remedy == "Choose one of: final, 3, 20."


def test_a_run_without_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        find_checkpoint(tmp_path / "checkpoints", "final")
    assert caught.value.remedy == "The run saved none: train again."


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFailedError, match="cannot be written"):
        save_checkpoint(tmp_path / "file", 1, bundle())


def test_a_damaged_checkpoint_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path / "final", step, bundle(step))
    policy = tmp_path / "final" / "step_2" / POLICY
    policy.write_bytes(b"damaged")
    told: list[str] = []
    assert find_checkpoint(tmp_path, "final", told.append).parent.name == "step_1"
    why = f"{policy} does not have the size and checksum that checkpoint.json names"
    assert told == [f"The checkpoint {policy.parent} is damaged, so it is passed over: {why}."]
