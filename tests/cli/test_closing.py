"""A command closes the training environments that it made, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

CLOSER = """
import os
import time

import gymnasium as gym
import numpy as np


class Closer(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)

    def __init__(self, fails=0, slow=False):
        self.fails, self.slow, self.t = fails, slow, 0
        self.tell("made")

    def tell(self, what):
        with open("told.txt", "a") as file:
            file.write(f"{what} {os.getpid()} {id(self)}\\n")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == self.fails:
            raise ValueError("the motor fell off")
        if self.slow:
            time.sleep(0.02)
            self.tell("stepped") if self.t == 3 else None
        return np.zeros(2, np.float32), 1.0, self.t % 7 == 0, False, {}

    def close(self):
        self.tell("closed")
"""
TRAIN = "train ppo closer.py:Closer --n-steps 16 --batch-size 16 --num-envs 2 --run-dir run --quiet --eval-freq 0"


def told(folder: Path, what: str) -> list[str]:
    lines = (folder / "told.txt").read_text().splitlines()
    return sorted(line.partition(" ")[2] for line in lines if line.startswith(what))


def command(folder: Path, *words: str) -> list[str]:
    (folder / "closer.py").write_text(CLOSER)
    return [sys.executable, "-m", "steadyrl", *words]


@pytest.mark.parametrize(
    ("vec", "more", "status"), [("sync", "", 0), ("async", "", 0), ("sync", "--env-kwargs fails=9", 3)], ids=str
)
def test_environments_are_closed_at_the_end(vec: str, more: str, status: int, tmp_path: Path) -> None:
    words = f"{TRAIN} --total-timesteps 64 --vec {vec} {more}".split()
    done = subprocess.run(command(tmp_path, *words), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert told(tmp_path, "made") == told(tmp_path, "closed")
    if not status:
        resume = command(tmp_path, "resume", "run", "--total-timesteps", "96", "--quiet")
        subprocess.run(resume, cwd=tmp_path, check=True, capture_output=True)
        assert told(tmp_path, "made") == told(tmp_path, "closed")


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_environments_are_closed_after_a_signal(vec: str, tmp_path: Path) -> None:
    words = f"{TRAIN} --total-timesteps 100000 --vec {vec} --env-kwargs slow=True".split()
    with subprocess.Popen(command(tmp_path, *words), cwd=tmp_path, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "told.txt").exists() or not told(tmp_path, "stepped"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert told(tmp_path, "made") == told(tmp_path, "closed")


STARTS = """
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np


class Starts(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)

    def __init__(self):
        self.program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
        with open("programs.txt", "a") as file:
            file.write(f"{self.program.pid}\\n")
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        time.sleep(0.002)
        self.t += 1
        return np.zeros(2, np.float32), 1.0, self.t % 50 == 0, False, {}

    def close(self):
        self.program.terminate()
        self.program.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("words", ["bench starts.py:Starts --num-envs 2 --seconds 20", "eval run --episodes 10000"])
def test_what_environments_started_ends_with_a_command_that_a_signal_ends(
    words: str, number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "starts.py").write_text(STARTS)
    python = [sys.executable, "-m", "steadyrl"]
    if words.startswith("eval"):
        train = TRAIN.replace("closer.py:Closer", "starts.py:Starts")
        subprocess.run(
            [*python, *train.split(), "--total-timesteps", "32"], cwd=tmp_path, check=True, capture_output=True
        )
    programs, before = tmp_path / "programs.txt", 0
    if programs.exists():
        before = len(programs.read_text().split())
    with subprocess.Popen(
        [*python, *words.split()],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        deadline = time.monotonic() + 60
        while not programs.exists() or len(programs.read_text().split()) == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == 128 + number
    started = [int(word) for word in programs.read_text().split()]
    deadline = time.monotonic() + 20
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in started):
        assert time.monotonic() < deadline, "a program was left running"
        time.sleep(0.1)
