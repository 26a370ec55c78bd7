"""A failure of an environment whose actions have parts, from the training that met it to `steadyrl replay`."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.envs import failures
from support.envs import Reset, Stepped

SPACES: dict[str, gym.Space[Any]] = {
    "Dict": gym.spaces.Dict({"move": gym.spaces.Box(-2.0, 2.0, (2,)), "grip": gym.spaces.Discrete(3, start=1)}),
    "Tuple": gym.spaces.Tuple(
        (gym.spaces.MultiBinary(2), gym.spaces.Dict({"to": gym.spaces.Box(0.0, 1.0, (2,), np.float64)}))
    ),
}


class Arm(gym.Env[Any, Any]):
    """Fails in the sixth step of an episode and tells what was done so far; `dies` takes its process along."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, actions: str = "Dict", dies: bool = False) -> None:
        self.action_space = SPACES[actions]
        self.dies = dies
        self.done: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.done = []
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> Stepped:
        assert self.action_space.contains(action)
        self.done.append(action)
        if len(self.done) == 6 and self.dies and "STEADYRL_TEST_LIVES" not in os.environ:
            os._exit(7)
        if len(self.done) == 6:
            raise ValueError(f"no way after {self.done}")
        return np.zeros(1, dtype=np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("actions", SPACES)
def test_every_action_is_kept_and_done_again(
    actions: str, dies: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = srl.A2C(partial(Arm, actions, dies), preset="none", num_envs=2, vec="async", eval_freq=0)
    with pytest.raises(srl.RunFailedError, match="ended by itself" if dies else "no way after"):
        agent.learn(100, run_dir=tmp_path / "run")
    (file,) = (tmp_path / "run" / "failures").iterdir()
    record = failures.read(file)
    assert (record.failure.whole, len(record.failure.actions)) == (True, 6)
    told = {} if dies else {"error": record.failure.error}
    monkeypatch.setenv("STEADYRL_TEST_LIVES", "1")
    capsys.readouterr()
    env = ["--env", f"{__file__}:{actions}Arm"]
    assert main(["replay", str(file), *env, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["failed"], document["steps"]) == (True, 6)
    assert document["result"] == ("other" if dies else "same")
    assert told.items() <= document["found"].items()


class DictArm(Arm):
    """As a file names it."""


class TupleArm(Arm):
    """As a file names it."""

    def __init__(self, actions: str = "Tuple", dies: bool = False) -> None:
        super().__init__(actions, dies)
