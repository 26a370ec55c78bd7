"""A training with action masks beneath wrappers that hold actions does not begin, from Python and the command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.cli.main import main
from support import masked
from support.masked import Masked

SMALL: dict[str, Any] = {"preset": "none", "num_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 1, "threads": 1}


class Lenient(Masked):
    """Takes what was forbidden as the first allowed action, and counts that."""

    forbidden = 0

    def step(self, action: Any) -> Any:
        if not self.masks[-1][int(action)]:
            Lenient.forbidden += 1
            action = int(self.masks[-1].argmax())
        return super().step(action)


@pytest.mark.parametrize("vec", ["auto", "sync", "async"])
@pytest.mark.parametrize("masks", ["auto", "on"])
@pytest.mark.parametrize("settings", [{"action_repeat": 3}, {"delay_actions": 1}, {"sticky_actions": 0.25}], ids=str)
def test_nothing_is_trained(settings: dict[str, Any], masks: str, vec: str, tmp_path: Path) -> None:
    agent = srl.PPO(Lenient, **SMALL, **settings, vec=vec, action_masks=masks)
    with pytest.raises(srl.UserError, match="gives action masks, but") as caught:
        agent.learn(64, run_dir=tmp_path / "run")
    assert next(iter(settings)) in caught.value.remedy
    assert agent.num_timesteps == 0
    assert list(tmp_path.iterdir()) == []
    agent.close()


def test_a_method_is_refused_as_the_agent_is_made() -> None:
    with pytest.raises(srl.UserError, match="delay_actions takes actions later"):
        srl.DQN(partial(Masked, method=True), delay_actions=2, preset="none")


@pytest.mark.parametrize("method", [False, True])
def test_without_masks_the_same_is_trained(method: bool) -> None:
    Lenient.forbidden = 0
    agent = srl.PPO(partial(Lenient, method=method), **SMALL, vec="sync", action_repeat=3, action_masks="off")
    agent.learn(64)
    assert agent.num_timesteps == 64
    assert Lenient.forbidden > 0
    agent.close()


def test_without_such_wrappers_nothing_forbidden_reaches_the_environment() -> None:
    Lenient.forbidden = 0
    agent = srl.PPO(Lenient, **SMALL, vec="sync", delay_obs=1, reward_scale=0.5)
    agent.learn(64)
    assert (agent.policy.masked, Lenient.forbidden) == (True, 0)
    agent.close()


def test_the_command_line_says_it_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    env = f"{masked.__file__}:Masked"
    words = ["--action-repeat", "2", "--num-envs", "2", "--vec", "sync", "--total-timesteps", "64", "--quiet"]
    assert main(["train", "ppo", env, *words]) == 2
    told = capsys.readouterr().err.splitlines()[-2:]
    assert told == [
        f"error: {env} (environment 0) gives action masks, but action_repeat takes each action several times, "
        "whatever the masks forbid by then.",
        "Leave action_repeat (--action-repeat) out, or train without masks: action_masks='off' (--action-masks off).",
    ]
    assert list(tmp_path.rglob("*.json*")) == []
