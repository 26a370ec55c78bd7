"""Commands in environments that hang or end the process: the environment is named, and one signal ends them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import steadyrl as steadyrl_package
from support.leftovers import gone, until

MINE = """
import ctypes, os, sys
import gymnasium as gym, numpy as np

class Mine(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)
    t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {{}}

    def step(self, action):
        Mine.t += 1
        if Mine.t == {at}:
            print("here", file=sys.stderr, flush=True)
            {fault}
        return np.zeros(1, np.float32), 1.0, False, False, {{}}
"""
LATE = 5000  # beyond the first steps, which are taken elsewhere: in the process that measures
IN_C = "ctypes.PyDLL(None).pause()"  # holds the interpreter's lock, so that Python handles no signal
BENCH = ["bench", "--seconds", "0.5", "--num-envs", "1"]
TRAIN = ["train", "ppo", "--num-envs", "2", "--total-timesteps", "200", "--name", "x"]


def command(words: list[str], folder: Path, fault: str, at: int) -> tuple[list[str], dict[str, Any]]:
    (folder / "mine.py").write_text(MINE.format(fault=fault, at=at))
    position = 2 if words[0] == "train" else 1
    line = [sys.executable, "-m", "steadyrl", *words[:position], "mine.py:Mine", *words[position:]]
    path = os.pathsep.join([str(Path(steadyrl_package.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    return line, {"cwd": folder, "env": {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}, "text": True}


def ended(words: list[str], folder: Path, fault: str, at: int) -> subprocess.CompletedProcess[str]:
    line, options = command(words, folder, fault, at)
    return subprocess.run(line, capture_output=True, check=False, timeout=60, **options)


@pytest.mark.parametrize(
    ("fault", "at", "said"),
    [
        ("os._exit(0)", 5, "ended by itself (exit status 0) in step 5 of its episode"),
        ("os._exit(0)", LATE, "ended the process that measured it (exit status 0)"),
        ("os.abort()", LATE, "ended the process that measured it (signal SIGABRT)"),
        ("while True: pass", 5, "did not answer within 1 s in step 5 of its episode"),
        (IN_C, LATE, "did not answer within 1 s while it was measured"),
    ],
)
def test_bench_names_an_environment_that_hangs_or_ends_the_process(
    fault: str, at: int, said: str, tmp_path: Path
) -> None:
    done = ended([*BENCH, "--env-timeout", "1"], tmp_path, fault, at)
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert said in line
    assert "Mine" in line
    assert "Traceback" not in done.stderr


def test_bench_says_it_in_json_too(tmp_path: Path) -> None:
    done = ended([*BENCH, "--json"], tmp_path, "os._exit(0)", LATE)
    assert done.returncode == 3
    assert json.loads(done.stdout)["error"]["code"] == "env-exit"


def test_what_bench_measures_elsewhere_arrives(tmp_path: Path) -> None:
    done = ended([*BENCH, "--json"], tmp_path, "pass", 1)
    assert (done.returncode, json.loads(done.stdout)["rows"][0]["num_envs"]) == (0, 1)
    done = ended(BENCH, tmp_path, "raise ValueError('no simulator')", LATE)
    assert (done.returncode, done.stdout.count("Measuring")) == (3, 1)
    assert "raised ValueError in step" in done.stderr


@pytest.mark.parametrize(
    ("words", "fault", "at"),
    [(BENCH, "while True: pass", 5), (BENCH, IN_C, LATE), (TRAIN, IN_C, 5)],
)
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_one_signal_ends_what_hangs(words: list[str], fault: str, at: int, number: str, tmp_path: Path) -> None:
    line, options = command(words, tmp_path, fault, at)
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as program:
        assert program.stderr is not None
        while "here" not in (said := program.stderr.readline()):
            assert said, "it ended"
        children = {child.pid for child in psutil.Process(program.pid).children(recursive=True)}
        program.send_signal(getattr(signal, number))
        rest = program.communicate(timeout=20)[1]
    assert program.returncode == 128 + getattr(signal, number)
    assert ("Interrupted." if number == "SIGINT" else "Ended by SIGTERM.") in rest
    assert "Traceback" not in rest
    assert until(lambda: gone(children))


def test_a_training_names_an_environment_that_hangs_in_its_first_steps(tmp_path: Path) -> None:
    done = ended([*TRAIN, "--env-timeout", "1"], tmp_path, "while True: pass", 5)
    assert done.returncode == 3
    assert "did not answer within 1 s in step 5 of its episode" in done.stderr
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    assert json.loads(manifest.read_text())["status"] == "failed"
