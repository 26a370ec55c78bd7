"""Runs with images, texts, actions with parts and own encoders go on to the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.errors import UserError
from steadyrl.training.events import Progress

FILE = """
import numpy as np
from gymnasium import spaces as gs

from support.trees import ACTION_TREE, Sampler

SPACE = gs.Dict({"eye": gs.Box(0, 255, (6, 5, 3), np.uint8), "arm": gs.Tuple((gs.Box(-1, 1, (2,)), gs.Text(4)))})


class Parts(Sampler):
    def __init__(self):
        super().__init__(SPACE, ACTION_TREE)


class Choice(Sampler):
    def __init__(self):
        super().__init__(SPACE, gs.Discrete(3, start=-1))
"""
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("Parts", {"n_steps": 20, "batch_size": 16, "n_epochs": 2, "normalize_obs": True}),
    "dqn": ("Choice", {"learning_starts": 6, "batch_size": 4, "buffer_size": 30}),
}


def train(algo: str, folder: Path, name: str, stop_at: int | None = None, **more: Any) -> srl.Run:
    env, options = OPTIONS[algo]
    return srl.train(
        algo, f"{folder / 'envs.py'}:{env}", total_timesteps=60, run_dir=folder / name, preset="none", seed=4,
        num_envs=2, net_arch=(8,), eval_freq=0, checkpoint_freq=40, vec="sync", **options, **more,
        callback=lambda event: not (stop_at and isinstance(event, Progress) and event.step >= stop_at),
    )  # fmt: skip


@pytest.mark.parametrize("algo", OPTIONS)
def test_a_stopped_run_goes_on_to_the_same_bits(algo: str, tmp_path: Path) -> None:
    (tmp_path / "envs.py").write_text(FILE)
    whole = train(algo, tmp_path, "whole")
    stopped = train(algo, tmp_path, "stopped", stop_at=1)
    assert stopped.status == "stopped"
    assert 0 < stopped.agent.num_timesteps < 60
    resumed = srl.resume(tmp_path / "stopped", say=lambda notice: None)
    assert resumed.agent.num_timesteps == 60
    assert resumed.agent.policy.sha256() == whole.agent.policy.sha256() != stopped.agent.policy.sha256()


def test_a_run_with_an_own_encoder_asks_for_its_class(tmp_path: Path) -> None:
    from support.encoders import Brightness

    (tmp_path / "envs.py").write_text(FILE)
    encoders = {"eye": Brightness}
    whole = train("ppo", tmp_path, "whole", encoders=encoders)
    assert whole.config["encoders"] == {"eye": "support.encoders.Brightness"}
    train("ppo", tmp_path, "stopped", stop_at=1, encoders=encoders)
    with pytest.raises(UserError, match="Brightness, which no file holds") as caught:
        srl.resume(tmp_path / "stopped", say=lambda notice: None)
    assert "encoders={'eye': Brightness}" in (caught.value.remedy or "")
    resumed = srl.resume(tmp_path / "stopped", encoders=encoders, say=lambda notice: None)
    assert resumed.agent.policy.sha256() == whole.agent.policy.sha256()
    with pytest.raises(UserError, match="which no file holds"):
        srl.Run.open(tmp_path / "whole").load_agent()
    loaded = srl.Run.open(tmp_path / "whole").load_agent(encoders=encoders)
    assert loaded.policy.sha256() == whole.agent.policy.sha256()
