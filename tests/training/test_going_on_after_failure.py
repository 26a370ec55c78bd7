"""A run that failed says how to go on, once there is something to go on from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.errors import NonFiniteError, RunFailedError
from steadyrl.training.events import Event

FLAKY = """
import pathlib

import gymnasium as gym
import numpy as np


class Flaky(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        told = pathlib.Path(__file__).with_name("told")
        value = told.read_text() if told.exists() and self.steps > 100 else ""
        if value == "raise":
            raise ValueError("the motor is broken")
        return np.full(1, np.nan if value == "nan" else 0.1, np.float32), 1.0, self.steps % 9 == 0, False, {}
"""
OPTIONS: dict[str, Any] = {
    "preset": "none", "n_steps": 16, "batch_size": 16, "vec": "sync", "eval_freq": 0, "num_envs": 1
}  # fmt: skip


@pytest.fixture
def env(tmp_path: Path) -> str:
    (tmp_path / "flaky.py").write_text(FLAKY)
    return f"{tmp_path / 'flaky.py'}:Flaky"


def train(env: str, run: Path, checkpoint_freq: int = 40) -> srl.Run:
    return srl.train("ppo", env, total_timesteps=200, run_dir=run, checkpoint_freq=checkpoint_freq, **OPTIONS)


@pytest.mark.parametrize(("value", "kind"), [("raise", RunFailedError), ("nan", NonFiniteError)])
def test_a_failed_run_offers_to_be_resumed_and_can_be(
    value: str, kind: type[Exception], env: str, tmp_path: Path
) -> None:
    run = tmp_path / "my run"
    (tmp_path / "told").write_text(value)
    with pytest.raises(kind) as caught:
        train(env, run)
    remedy: str = caught.value.remedy  # type: ignore[attr-defined]
    assert remedy.endswith(f" Then go on: steadyrl resume '{run}'")
    assert (f"Traceback: {run / 'error.txt'}. Then" in remedy) is (value == "raise")
    assert srl.Run.open(run).status == "failed"
    (tmp_path / "told").unlink()
    assert srl.resume(run).status == "finished"
    whole = train(env, tmp_path / "whole")
    assert srl.Run.open(run).manifest["weights_sha256"] == whole.manifest["weights_sha256"]


def test_before_the_first_checkpoint_nothing_is_offered(env: str, tmp_path: Path) -> None:
    (tmp_path / "told").write_text("raise")
    with pytest.raises(RunFailedError, match="the motor is broken") as caught:
        train(env, tmp_path / "run", checkpoint_freq=150)
    assert "resume" not in caught.value.remedy


def test_the_command_line_offers_it_too_also_after_an_error_that_nobody_foresaw(
    env: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    (tmp_path / "told").write_text("raise")
    flags = ["--preset", "none", "--n-steps", "16", "--batch-size", "16", "--vec", "sync", "--eval-freq", "0"]
    command = ["train", "ppo", env, "--total-timesteps", "200", "--checkpoint-freq", "40", "--quiet", *flags]
    assert main([*command, "--run-dir", str(run)]) == 3
    error = capsys.readouterr().err
    assert f"Then go on: steadyrl resume {run}" in error
    assert "Traceback (most recent call last)" not in error
    (tmp_path / "told").unlink()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise ArithmeticError("a fault of ours")

    monkeypatch.setattr("steadyrl.training.learning.write_curve", fail)
    other = tmp_path / "other"
    assert main([*command, "--run-dir", str(other), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)["error"]
    assert found["message"] == "Unexpected ArithmeticError: a fault of ours"
    assert f"go on: steadyrl resume {other}" in found["remedy"]


def test_a_display_is_an_argument_and_a_wrong_one_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, display: Any) -> srl.Run:
        return srl.train("ppo", "CartPole-v1", total_timesteps=64, run_dir=tmp_path / name, display=display, **OPTIONS)

    for wrong in ("plan", "bar", "", 3, True, None, ["plain"]):
        with pytest.raises(srl.UserError, match="There is no display") as caught:
            run("wrong", wrong)
        assert "Choose one of auto, live, plain, notebook, json, none." in caught.value.remedy
        assert not (tmp_path / "wrong").exists()
    with pytest.raises(srl.UserError, match="There is no display") as caught:
        run("wrong", "plan")
    assert caught.value.remedy.startswith("Did you mean plain?")
    capsys.readouterr()
    assert run("plain", "plain").status == "finished"
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "event=start" in shown.err
    assert "event=end status=finished" in shown.err
    assert run("none", "none").status == "finished"
    assert "event=" not in capsys.readouterr().err
    agent = srl.PPO("CartPole-v1", **OPTIONS)
    with pytest.raises(srl.UserError, match="learn has no argument 'display'") as caught:
        agent.learn(16, display="plain")
    assert "make_display" in caught.value.remedy


def test_a_listener_beside_a_display_hears_the_same(tmp_path: Path) -> None:
    heard: list[Event] = []
    srl.train(
        "ppo", "CartPole-v1", total_timesteps=64, run_dir=tmp_path / "run", display="plain", callback=heard.append,
        **OPTIONS,
    )  # fmt: skip
    assert type(heard[0]).__name__ == "RunStarted"
    assert type(heard[-1]).__name__ == "RunEnded"
