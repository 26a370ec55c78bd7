"""How an environment of a file is called where its run is taken up from the working folder."""

from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.errors import RunFailedError
from steadyrl.training.plan import from_here

FAULTY = """
import gymnasium as gym, numpy as np
class Faulty(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}
    def step(self, action):
        import os
        if os.path.exists("broken"):
            raise ValueError("the motor fell off")
        return np.zeros(2, np.float32), 1.0, True, False, {}
"""


def test_only_a_file_below_the_working_folder_is_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert from_here(f"{tmp_path}/envs/walk.py:Walk") == "envs/walk.py:Walk"
    for env in ("/elsewhere/walk.py:Walk", "walk.py:Walk", "CartPole-v1", "package.module:Id-v0"):
        assert from_here(env) == env


def test_an_error_of_a_loaded_agents_environment_names_it_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faulty.py").write_text(FAULTY)
    options: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "num_envs": 1, "eval_freq": 0}
    run = srl.train("ppo", "faulty.py:Faulty", total_timesteps=16, run_dir="run", preset="none", **options)
    Path("broken").touch()
    with pytest.raises(RunFailedError) as caught:
        srl.evaluate(srl.Run.open(run.path).load_agent(), 1)
    assert "faulty.py:Faulty" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
