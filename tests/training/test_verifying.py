"""The trial by kills, with a stand-in for the command line: what is counted, when it ends, and what ends it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steadyrl.errors import RunFailedError
from steadyrl.training import verifying
from steadyrl.training.comparing import Difference
from steadyrl.training.verifying import Kill, Verdict, last_step, verify_resume

# Writes what a run writes, a checkpoint every 10 of 60 steps; the slow one stops after each, to be killed.
RUN = """
import json, sys, time
from pathlib import Path
word, rest, pause = sys.argv[1], sys.argv[2:], float(sys.argv[2])
run = Path(rest[-1])
folder = run / "checkpoints"
folder.mkdir(parents=True, exist_ok=True)
begun = max((int(path.name[5:]) for path in folder.glob("step_*")), default=0)
slow = run.name == "killed"
for step in range(begun + 10, 61, 10):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": step}) + "\\n")
    (folder / f"step_{step}").mkdir()
    if slow:
        time.sleep(pause)
(run / "manifest.json").write_text(json.dumps({"status": "finished", "wall_s": 0.05, "timesteps": 60}))
"""


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The commands that were started."""
    started: list[list[str]] = []

    def command(arguments: Sequence[str]) -> list[str]:
        started.append([*arguments])
        run = arguments[-1]
        (Path(run)).mkdir(exist_ok=True)
        if not (Path(run) / "manifest.json").exists():
            (Path(run) / "manifest.json").write_text(json.dumps({"status": "running"}))
        return [sys.executable, "-S", "-c", RUN, arguments[0], PAUSE[0], run]

    monkeypatch.setattr(verifying, "_command", command)
    return started


PAUSE = ["30"]


def test_kills_are_counted_and_resumed_from_the_newest_checkpoint(
    trial: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(verifying, "first_difference", lambda first, second: None)
    verdict = verify_resume(["ppo", "X"], tmp_path, kills=3, seed=1, say=said.append)
    assert verdict.kills == [Kill(10, 10), Kill(20, 20), Kill(30, 30)]
    assert [words[0] for words in trial] == ["train", "train", "resume", "resume", "resume"]
    assert trial[0] == ["train", "ppo", "X", "--run-dir", str(tmp_path / "whole")]
    assert trial[1] == ["train", "ppo", "X", "--run-dir", str(tmp_path / "killed")]
    assert trial[2] == ["resume", str(tmp_path / "killed")]
    assert said[0] == "The run that is left alone took 0.1 s."
    assert said[1] == "Killed after step 10; going on from the checkpoint of step 10."
    assert len(said) == 4
    assert verdict.wall_s == 0.05


@pytest.fixture(autouse=True)
def quick_end(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The last resume, which nobody kills, does not stop on the way."""
    real = verifying._run

    def run(arguments: Sequence[str]) -> None:
        before, PAUSE[0] = PAUSE[0], "0"
        try:
            real(arguments)
        finally:
            PAUSE[0] = before

    monkeypatch.setattr(verifying, "_run", run)


def test_a_run_that_ends_before_is_killed_no_more(
    trial: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "first_difference", lambda first, second: None)
    monkeypatch.setitem(globals(), "PAUSE", ["0"])
    monkeypatch.setattr(random, "Random", _Late)
    verdict = verify_resume(["ppo", "X"], tmp_path, kills=3, say=lambda text: None)
    assert verdict.kills == []
    assert [words[0] for words in trial] == ["train", "train"]  # it finished by itself


class _Late:
    def __init__(self, seed: int) -> None:
        pass

    def uniform(self, low: float, high: float) -> float:
        return 30.0


def test_a_kill_after_the_last_checkpoint_is_none(
    trial: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(arguments: Sequence[str], run: Path, delay: float) -> int:
        (run / "checkpoints" / "step_60").mkdir(parents=True)
        (run / "manifest.json").write_text(json.dumps({"status": "running"}))
        return 60

    monkeypatch.setattr(verifying, "first_difference", lambda first, second: None)
    monkeypatch.setattr(verifying, "_killed", killed)
    verdict = verify_resume(["ppo", "X"], tmp_path, kills=3, say=lambda text: None)
    assert verdict.kills == []
    assert [words[0] for words in trial] == ["train", "resume"]


def test_a_command_that_fails_ends_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        verifying, "_command", lambda arguments: [sys.executable, "-S", "-c", "import sys; sys.exit(' no such env ')"]
    )
    with pytest.raises(RunFailedError) as caught:
        verify_resume(["ppo", "X"], tmp_path, kills=1, say=lambda text: None)
    assert caught.value.message == (
        f"`steadyrl train ppo X --run-dir {tmp_path / 'whole'}` ended with exit status 1: no such env"
    )
    assert (caught.value.remedy, caught.value.code) == ("Make this command work first.", "run-failed")


def test_who_gives_up_leaves_nothing_running(
    trial: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    real = subprocess.Popen

    def popen(*args: Any, **kwargs: Any) -> Any:
        started.append(real(*args, **kwargs))
        return started[-1]

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verifying._killed(["train", str(tmp_path / "killed")], tmp_path / "killed", 0.0)
    assert started[0].returncode == -9


def test_the_command_is_this_library_run_by_this_python() -> None:
    assert verifying._command(["train", "ppo"]) == [sys.executable, "-m", "steadyrl", "train", "ppo", "--quiet"]
    assert verifying._command(["train", "--quiet=True"]) == [sys.executable, "-m", "steadyrl", "train", "--quiet=True"]


def test_the_last_step_is_the_largest_of_whole_lines(tmp_path: Path) -> None:
    assert last_step(tmp_path) == 0
    (tmp_path / "metrics.jsonl").write_text('{"step": 3}\n{"step": 5}\n{"step": 9')
    (tmp_path / "evals.jsonl").write_text('{"step": 4}\n')
    (tmp_path / "episodes.jsonl").write_text("")
    assert last_step(tmp_path) == 5


def test_a_verdict_says_what_it_found() -> None:
    difference = Difference(5, "metrics.jsonl", "loss", "1", "2")
    assert Verdict([Kill(3, 2)], difference, {"checkpoints": 1}, 1.0, ("the weather",)).to_json() == {
        "identical": False,
        "kills": [{"after_step": 3, "resumed_from": 2}],
        "first_difference": {"step": 5, "where": "metrics.jsonl", "name": "loss", "first": "1", "second": "2"},
        "compared": {"checkpoints": 1},
        "inexact": ["the weather"],
    }
    assert Verdict([], None, {}, 1.0).to_json()["identical"]
