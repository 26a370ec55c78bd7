"""What an environment does wrong in the middle of a training is a failed run, and is written down however it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steadyrl.cli.main import main

LATE = """
import gymnasium as gym
import numpy as np


class Late(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)

    def __init__(self, how="shape", at=30):
        self.how, self.at, self.t = how, at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        obs, reward = np.zeros(2, np.float32), 1.0
        if self.t == self.at:
            if self.how == "half":
                raise ValueError("a name such as \\ud800")
            obs, reward = (np.zeros(3, np.float32), 1.0) if self.how == "shape" else (obs, None)
        return obs, reward, False, False, {}
"""
TRAIN = "train ppo late.py:Late --n-steps 16 --batch-size 16 --run-dir run --quiet --eval-freq 0 --total-timesteps 200"


@pytest.mark.parametrize(("how", "said"), [("shape", "has shape (3,)"), ("reward", "The reward of"), ("half", "ud800")])
@pytest.mark.parametrize("vec", ["sync", "async"])
def test_the_run_has_failed(
    how: str, said: str, vec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("late.py").write_text(LATE)
    assert main([*TRAIN.split(), "--vec", vec, "--num-envs", "2", "--env-kwargs", f"how={how}"]) == 3
    assert said in capsys.readouterr().err
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert (manifest["status"], said in manifest["message"]) == ("failed", True)
    assert manifest["timesteps"] > 0


def test_what_is_wrong_from_the_first_step_on_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("late.py").write_text(LATE)
    assert main([*TRAIN.split(), "--env-kwargs", "how=shape", "at=1"]) == 2
    assert not Path("run").exists()


def test_half_a_character_in_a_first_step_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("late.py").write_text(LATE)
    options = ["--num-envs", "2", "--env-kwargs", "how=half", "at=1", "--on-env-error", "restart"]
    assert main([*TRAIN.split(), *options, "--env-restart-budget", "3"]) == 3
    assert "ud800" in capsys.readouterr().err
