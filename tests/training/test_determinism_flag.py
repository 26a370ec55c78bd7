"""`--deterministic`: what PyTorch needs for a GPU that repeats is set while an agent computes, and put back."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

import steadyrl as srl
from steadyrl.cli.train_command import parse
from steadyrl.errors import UserError
from steadyrl.training.determinism import WORKSPACE, repeatable
from steadyrl.training.events import Event
from steadyrl.training.setup import prepare_training

SMALL: dict[str, Any] = {"preset": "none", "n_steps": 16, "num_envs": 2, "seed": 3, "vec": "sync"}


def flags() -> dict[str, Any]:
    return {
        "algorithms": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn deterministic": torch.backends.cudnn.deterministic,
        "cudnn benchmark": torch.backends.cudnn.benchmark,
        "workspace": os.environ.get(WORKSPACE),
    }


SET = {
    "algorithms": True,
    "warn only": False,
    "cudnn deterministic": True,
    "cudnn benchmark": False,
    "workspace": ":4096:8",
}


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKSPACE, raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_all_of_it_is_set_while_an_agent_learns_and_put_back(algo: str) -> None:
    before, seen = flags(), []

    def look(event: Event) -> None:
        seen.append(flags())

    options = {"ppo": SMALL, "sac": {"preset": "none", "learning_starts": 10, "batch_size": 8, "vec": "sync"}}[algo]
    agent = {"ppo": srl.PPO, "sac": srl.SAC}[algo]("CartPole-v1", deterministic=True, **options)
    agent.learn(64, callback=look)
    assert len(seen) > 2
    assert all(found == SET for found in seen)
    assert flags() == before != SET
    seen.clear()
    agent = {"ppo": srl.PPO, "sac": srl.SAC}[algo]("CartPole-v1", **options)
    agent.learn(64, callback=look)
    assert all(found == before for found in seen)


def test_an_error_puts_it_back_too_and_a_workspace_that_repeats_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKSPACE, ":16:8")
    before = flags()
    seen = []

    def fail() -> None:
        with repeatable(True):
            seen.append(flags())
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert seen == [SET | {"workspace": ":16:8"}]
    assert flags() == before


def test_a_workspace_that_does_not_repeat_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKSPACE, ":0:0")
    with pytest.raises(UserError, match="CUBLAS_WORKSPACE_CONFIG is ':0:0'") as caught, repeatable(True):
        pass
    assert ":4096:8" in caught.value.remedy
    with repeatable(False):
        assert os.environ[WORKSPACE] == ":0:0"


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_on_a_cpu_it_changes_no_bit(kernels: str) -> None:
    def weights(**options: Any) -> str:
        agent = srl.PPO("CartPole-v1", kernels=kernels, **SMALL, **options)
        agent.learn(128)
        return agent.policy.sha256()

    assert weights(deterministic=True) == weights() != weights(gamma=0.5)


def test_its_price_is_said_before_the_start_and_it_is_a_flag() -> None:
    setup = prepare_training("ppo", "CartPole-v1", {"deterministic": True})
    told = [notice.message for notice in setup.notices if notice.code == "deterministic"]
    assert len(told) == 1
    assert "slower" in told[0]
    assert "24 MiB" in told[0]
    assert setup.to_json()["settings"]["deterministic"] is True
    plain = prepare_training("ppo", "CartPole-v1", {})
    assert not [notice for notice in plain.notices if notice.code == "deterministic"]
    assert parse(["ppo", "CartPole-v1", "--deterministic"])[2] == {"deterministic": True}
