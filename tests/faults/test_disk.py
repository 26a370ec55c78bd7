"""Whatever the disk does while a checkpoint is written and an old one pruned, there is one to go on from."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.errors import RunFailedError
from steadyrl.training import chunks
from steadyrl.training.checkpoint import steps_in
from support.checkpoints import SESSION, Work, files, found
from support.disk import WRITING, Call, Counter, Machine, watched, written
from support.killing import finish, forked

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    before = chunks.CHUNK_BYTES
    yield Work(tmp_path_factory.mktemp("work"))
    chunks.CHUNK_BYTES = before


def calls_of(work: Work, run: Path) -> list[Call]:
    """Every change of the file system that one save and the pruning after it make."""
    found: list[Call] = []
    saver = work.saver(run)
    with watched(run, found.append):
        saver.save(SESSION)
    return found


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_save_writes_flushes_renames_and_prunes(work: Work, tmp_path: Path) -> None:
    calls = calls_of(work, work.copy(tmp_path / "run"))
    names = [call.name for call in calls]
    assert {"open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir"} == set(names)
    assert len(calls) > 60
    assert list(steps_in(tmp_path / "run" / "checkpoints")) == [120]
    committed = next(i for i, call in enumerate(calls) if call.other.endswith("step_120"))
    removed = [i for i, call in enumerate(calls) if call.name in ("unlink", "rmdir") and ".partial" not in call.path]
    assert committed < min(removed)  # nothing old goes before the new one has its name


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.soak)])
def test_a_kill_at_every_call_leaves_a_checkpoint(stride: int, work: Work, tmp_path: Path) -> None:
    total = len(calls_of(work, work.copy(tmp_path / "counted")))
    steps = []
    for at in [*range(1, total + 1, stride), total + 1]:
        run = work.copy(tmp_path / "run")
        saver = work.saver(run)

        def save(saver: object = saver, at: int = at, run: Path = run) -> None:
            with watched(run, Counter(at, die)):
                saver.save(SESSION)  # type: ignore[attr-defined]

        status = finish(forked(save, tmp_path / "log.txt"))
        assert status == (-signal.SIGKILL if at <= total else 0)
        said: list[str] = []
        checkpoint = found(run, said)
        assert checkpoint is not None
        assert said == []  # the newest one is readable: nothing had to be passed over
        steps.append(checkpoint.step)
        work.saver(run, keep_last=2).save(SESSION)
        left = [name for name in files(run) if ".partial" in name or ".pruned" in name]
        assert left == []
        shutil.rmtree(run)
    assert steps == sorted(steps)
    assert {80, 120} == set(steps)


@pytest.mark.parametrize("number", ERRORS, ids=[errno.errorcode[number] for number in ERRORS])
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.soak)])
def test_a_fault_at_every_call_is_seen_and_harms_nothing(stride: int, number: int, work: Work, tmp_path: Path) -> None:
    run = work.copy(tmp_path / "counted")
    total = sum(call.name in WRITING for call in calls_of(work, run))
    before = files(work.run)
    silent = 0

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    for at in range(1 + ERRORS.index(number) % stride, total + 1, stride):
        run = work.copy(tmp_path / f"run{at}")
        saver = work.saver(run, background=True)
        with watched(run, Counter(at, fail, WRITING)):
            saver.save(SESSION)
            assert saver._thread is not None
            saver._thread.join()
            try:
                saver.check()  # as the next step does
                silent += 1
            except RunFailedError as error:
                assert os.strerror(number) in error.message  # noqa: PT017
        checkpoint = found(run)
        assert checkpoint is not None
        if checkpoint.step == 80:
            now = files(run)
            assert {name: now[name] for name in before} == before
            assert not [name for name in now if ".partial" in name]
        shutil.rmtree(run)
    assert silent == 0


def test_a_crash_of_the_machine_at_any_moment_leaves_a_checkpoint(work: Work, tmp_path: Path) -> None:
    _crash_everywhere(work, tmp_path, most=16)


@pytest.mark.soak
def test_a_crash_of_the_machine_leaves_a_checkpoint_in_many_more_ways(work: Work, tmp_path: Path) -> None:
    _crash_everywhere(work, tmp_path, most=60)


def _crash_everywhere(work: Work, tmp_path: Path, most: int) -> None:
    run = work.copy(tmp_path / "run")
    machine, draw, states, steps = Machine(run), random.Random(0), 0, set()
    seen: set[int] = set()
    for call in [*calls_of(work, run), Call("fsync", str(run))]:
        for tree in machine.crashes(draw, most):
            key = hash(tuple(sorted((name, content) for name, content in tree.items() if content is not None)))
            if key in seen:
                continue
            seen.add(key)
            states += 1
            written(tree, tmp_path / "crashed")
            checkpoint = found(tmp_path / "crashed")
            assert checkpoint is not None, f"after {states} states, at {call}"
            steps.add(checkpoint.step)
            shutil.rmtree(tmp_path / "crashed")
        machine.apply(call)
    print(f"{states} states, of {len(seen)} kinds")
    assert states >= 100
    assert steps == {80, 120}


def test_the_machine_loses_what_was_not_flushed(tmp_path: Path) -> None:
    """The simulation itself: without the flush before the rename there are states with an empty file."""
    (tmp_path / "run").mkdir()
    machine, name = Machine(tmp_path / "run"), str(tmp_path / "run" / "x")
    calls = [
        Call("open", f"{name}.new"),
        Call("write", f"{name}.new", data=b"all"),
        Call("replace", f"{name}.new", name),
    ]
    for call in calls:
        machine.apply(call)
    found = {tuple(sorted(tree.items())) for tree in machine.crashes(random.Random(0), 20)}
    assert {(("x", b""),), (("x", b"all"),), ()} <= found


def test_a_full_disk(tmp_path: Path) -> None:
    """A real one: the run says so, and after making room goes on to the same end."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no file system may be mounted here")
    options: dict[str, Any] = {
        "total_timesteps": 400,
        "checkpoint_freq": 40,
        "seed": 2,
        "preset": "none",
        "eval_freq": 0,
        "n_steps": 8,
    }
    try:
        whole = srl.train("ppo", "CartPole-v1", run_dir=tmp_path / "whole", batch_size=8, **options)

        def fill(event: object) -> None:
            if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= 120:
                with open(disk / "ballast", "ab") as file:
                    try:
                        while True:
                            file.write(b"0" * 4096)
                            file.flush()
                    except OSError:
                        pass

        with pytest.raises(RunFailedError, match="No space left"):
            srl.train("ppo", "CartPole-v1", run_dir=disk / "run", batch_size=8, callback=fill, **options)
        (disk / "ballast").unlink()
        done = srl.resume(disk / "run")
        assert 0 < done.manifest["lineage"][0]["from_step"] < 400
        assert done.manifest["weights_sha256"] == whole.manifest["weights_sha256"]
    finally:
        subprocess.run(["umount", disk], check=False)


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("call", ["fsync", "rename", "mkdir", "unlink,unlinkat,rmdir"])
def test_a_kill_by_the_kernel_at_system_calls(call: str, tmp_path: Path) -> None:
    """The same without hooks of ours: strace kills a whole `steadyrl train` at its n-th call of one kind."""
    command = [
        "train", "dqn", "CartPole-v1", "--total-timesteps", "200", "--checkpoint-freq", "40", "--keep-last", "1",
        "--learning-starts", "20", "--batch-size", "8", "--buffer-size", "100", "--eval-freq", "0", "--preset", "none",
        "--quiet",
    ]  # fmt: skip
    kills = checkpoints = 0
    for at in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89):
        run = tmp_path / f"run{at}"
        traced = [
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            f"trace={call}",
            "-e",
            f"inject={call}:signal=KILL:when={at}",
        ]
        train = [sys.executable, "-m", "steadyrl", *command, "--run-dir", str(run)]
        done = subprocess.run([*traced, *train], capture_output=True, check=False)
        kills += done.returncode in (-signal.SIGKILL, 137)
        if (run / "checkpoints").is_dir() and steps_in(run / "checkpoints"):
            said: list[str] = []
            assert found(run, said) is not None, at
            assert said == []
            checkpoints += 1
        if done.returncode == 0:
            break  # there are fewer such calls
    assert kills > 0
    assert checkpoints > 0
