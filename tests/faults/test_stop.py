"""Signals at random moments, two resumes at once, kill -9: the run goes on to the same bits."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.errors import UserError
from steadyrl.training.checkpoint import steps_in
from steadyrl.training.comparing import compared, first_difference
from support.killing import SMALL, Case, envs_for, finish, forked, try_kills

EXIT = {"SIGINT": (130, "interrupted"), "SIGTERM": (143, "preempted"), "SIGUSR1": (138, "preempted")}
TOTAL = 1200
LIMIT_S = 10.0


def command(run: Path) -> list[str]:
    return [
        "train", "dqn", "CartPole-v1", "--run-dir", str(run), "--total-timesteps", str(TOTAL), "--seed", "4",
        "--preset", "none", "--checkpoint-freq", "100", "--keep-last", "2", "--eval-freq", "400",
        "--eval-episodes", "2", "--learning-starts", "64", "--batch-size", "16", "--buffer-size", "400",
        "--net-arch", "16", "--num-envs", "2", "--vec", "sync", "--display", "none",
    ]  # fmt: skip


def through_the_command_line(args: list[str]) -> None:
    """The exit status of `steadyrl`, as that of the process."""
    sys.argv = ["steadyrl", *args]
    status = main()
    sys.stdout.flush()
    os._exit(status)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A run left alone, and how long it took."""
    run = tmp_path_factory.mktemp("whole") / "run"
    start = time.perf_counter()
    assert finish(forked(lambda: through_the_command_line(command(run)), run.parent / "log.txt")) == 0
    return run, time.perf_counter() - start


@pytest.mark.parametrize("count", [9, pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.parametrize("twice", [False, True])
def test_a_signal_at_any_moment(count: int, twice: bool, whole: tuple[Path, float], tmp_path: Path) -> None:
    """A checkpoint within seconds, the documented exit status, the command to go on told, the same run in the end."""
    reference, seconds = whole
    draw, resumed = random.Random(count + twice), 0
    for number in range(count):
        name = list(EXIT)[number % 3]
        run, log = tmp_path / f"run{number}", tmp_path / f"log{number}.txt"
        child = forked(lambda run=run: through_the_command_line(command(run)), log)  # type: ignore[misc]
        while not (run / "metrics.jsonl").exists():  # before that there is no run to stop
            time.sleep(0.001)
        time.sleep(draw.uniform(0.0, 0.8 * seconds))
        sent = time.monotonic()
        os.kill(child, getattr(signal, name))
        if twice:
            time.sleep(draw.uniform(0.0, 0.02))
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, getattr(signal, name))
        status = finish(child)
        assert time.monotonic() - sent < LIMIT_S
        said = log.read_text()
        assert "Traceback" not in said
        manifest = json.loads((run / "manifest.json").read_text())
        if manifest["status"] == "finished":  # it came too late
            assert status in (0, EXIT[name][0])
            continue
        assert (status, manifest["status"]) == EXIT[name], said
        steps = steps_in(run / "checkpoints")
        if manifest.get("timesteps") and not (twice and name == "SIGINT"):
            assert max(steps) == manifest["timesteps"], f"{name} in run {number}"
        if not steps:
            assert "steadyrl resume" not in said
            continue
        assert f"steadyrl resume {run}" in said
        done = srl.resume(run, say=lambda notice: None)
        difference = first_difference(reference, done.path)
        assert difference is None, f"{name} in run {number}: {difference}"
        assert compared(reference, done.path)["checkpoints"] >= 1
        resumed += done.manifest["lineage"][0]["from_step"] > 0
        shutil.rmtree(run)
    assert resumed >= max(count // 10, 1)


def test_of_two_resumes_one_is_refused(tmp_path: Path) -> None:
    case = Case("ppo", "CartPole", total=4000)
    run, log = tmp_path / "run", tmp_path / "log.txt"
    child = forked(lambda: case.train(run), log)
    while not steps_in(run / "checkpoints"):
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    finish(child)
    first = forked(lambda: through_the_command_line(["resume", str(run), "--display", "none"]), tmp_path / "first.txt")
    while json.loads((run / "manifest.json").read_text()).get("lineage") is None:
        time.sleep(0.002)
    second = forked(lambda: through_the_command_line(["resume", str(run)]), tmp_path / "second.txt")
    assert finish(second) == 2
    assert "Another process is writing the run" in (tmp_path / "second.txt").read_text()
    assert finish(first) == 0
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert len(manifest["lineage"]) == 1


CASES = [
    Case("ppo", "CartPole", total=1200),
    Case("a2c", "Pendulum", normalised=True, total=1200),
    Case("dqn", "LunarLander", total=1000),
    Case("ddpg", "Pendulum", total=800),
    Case("td3", "HalfCheetah", normalised=True, vec="async", total=600),
    Case("sac", "Pendulum", total=800),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_killed_anywhere_and_resumed_is_the_same_run(case: Case, tmp_path: Path) -> None:
    verdict = try_kills(case, tmp_path, 2, random.Random(3))
    assert verdict.problem == ""
    assert verdict.compared["checkpoints"] >= 2
    assert verdict.compared["evals.jsonl"] >= 2
    assert all(resumed_from > 0 for _, resumed_from in verdict.kills)


@pytest.mark.soak
@pytest.mark.parametrize("algo", SMALL)
def test_a_hundred_kills(algo: str, tmp_path: Path) -> None:
    draw, kills = random.Random(0), 0
    kinds = itertools.product(envs_for(algo), (False, True), ("sync", "async"))
    cases = [Case(algo, *kind) for kind in kinds]
    for number in range(1000):
        if kills >= 100:
            break
        verdict = try_kills(cases[number % len(cases)], tmp_path / str(number), 3, draw)
        assert verdict.problem == "", verdict.case
        kills += len(verdict.kills)
        shutil.rmtree(tmp_path / str(number))
    assert kills >= 100


def test_a_run_killed_before_its_first_checkpoint_says_what_to_do(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = command(run)
    words[words.index("--checkpoint-freq") + 1] = "0"
    child = forked(lambda: through_the_command_line(words), tmp_path / "log.txt")
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    finish(child)
    with pytest.raises(UserError, match="ended before its first one was written") as caught:
        srl.resume(run)
    assert "Start it again" in caught.value.remedy
