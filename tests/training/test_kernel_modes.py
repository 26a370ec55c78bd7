"""Whole trainings on the native kernels and on PyTorch: the same numbers, and the same bits whatever the threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import steadyrl as srl
from steadyrl import kernels
from steadyrl.errors import UserError
from steadyrl.training.agent import Agent
from steadyrl.training.events import Event, Notice
from support.kernels import needs_native
from support.off_policy import agent_of

SHORT: dict[str, Any] = {"seed": 3, "eval_freq": 0}
TRAININGS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "ppo": ("ppo", "CartPole-v1", 256, {"num_envs": 4, "n_steps": 32, "batch_size": 60, "n_epochs": 2}),
    "ppo-gaussian": ("ppo", "Pendulum-v1", 256, {"num_envs": 4, "n_steps": 32, "batch_size": 64, "n_epochs": 2}),
    "a2c": ("a2c", "CartPole-v1", 256, {"num_envs": 4, "n_steps": 8}),
    "dqn": ("dqn", "CartPole-v1", 140, {}),
    "dqn-c51": ("dqn", "CartPole-v1", 140, {"head": "c51", "v_min": 0.0, "v_max": 50.0}),
    "dqn-quantile": ("dqn", "CartPole-v1", 140, {"head": "quantile", "n_quantiles": 8}),
    "dqn-dueling": ("dqn", "CartPole-v1", 140, {"dueling": True}),
    "ddpg": ("ddpg", "Pendulum-v1", 130, {}),
    "td3": ("td3", "Pendulum-v1", 130, {}),
    "sac": ("sac", "Pendulum-v1", 130, {}),
    "sac-n-step": ("sac", "Pendulum-v1", 130, {"n_step": 3, "normalize_obs": True}),
    "sac-gsde": ("sac", "Pendulum-v1", 130, {"use_sde": True}),
    "sac-discrete": ("sac", "CartPole-v1", 130, {}),
}


def trained(name: str, folder: Path | None = None, heard: list[Event] | None = None, **options: Any) -> Agent:
    algo, env, steps, settings = TRAININGS[name]
    settings = {**SHORT, **settings, **options}
    if algo in ("ppo", "a2c"):
        agent: Agent = {"ppo": srl.PPO, "a2c": srl.A2C}[algo](env, preset="none", **settings)
    else:
        agent = agent_of(algo, env, **settings)
    agent.learn(steps, run_dir=folder, callback=None if heard is None else heard.append)
    agent.close()
    return agent


def rows_of(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@needs_native
@pytest.mark.parametrize("name", TRAININGS)
def test_both_modes_give_the_same_numbers(name: str, tmp_path: Path) -> None:
    native = trained(name, tmp_path / "native", kernels="native")
    plain = trained(name, tmp_path / "torch", kernels="torch")
    assert native.policy.native
    assert not plain.policy.native
    assert native.policy.sha256() != plain.policy.sha256() or name == "dqn"  # so it was another path
    for ours, theirs in zip(rows_of(tmp_path / "native"), rows_of(tmp_path / "torch"), strict=True):
        assert ours.keys() == theirs.keys()
        for metric, value in theirs.items():
            if not metric.startswith("time"):
                assert ours[metric] == pytest.approx(value, rel=2e-2, abs=2e-3), metric
    for key, weight in plain.policy.state_dict().items():
        torch.testing.assert_close(native.policy.state_dict()[key], weight, rtol=1e-2, atol=1e-3)


@needs_native
@pytest.mark.parametrize("name", ["ppo-gaussian", "sac"])
def test_the_bits_do_not_follow_the_threads(name: str) -> None:
    wide: dict[str, Any] = {"net_arch": (256, 256), "batch_size": 256 if name == "sac" else 128}
    one, two, every = (trained(name, **wide, threads=n) for n in (1, 2, None))
    assert one.policy.sha256() == two.policy.sha256() == every.policy.sha256()


@needs_native
@pytest.mark.parametrize("name", TRAININGS)
def test_a_saved_policy_plays_with_the_same_bits(name: str, tmp_path: Path) -> None:
    agent = trained(name)
    space = agent.policy.obs_spec.leaves[0]
    obs = np.random.default_rng(0).uniform(-0.1, 0.1, (17, space.size)).astype(np.float32)
    path = agent.save(tmp_path / "agent")
    loaded, plain = srl.load(path), srl.load(path, kernels="torch")
    assert loaded.policy.native
    np.testing.assert_array_equal(loaded.value(obs), agent.value(obs))
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
    assert not plain.policy.native
    np.testing.assert_allclose(plain.value(obs), agent.value(obs), rtol=1e-4, atol=1e-5)


@needs_native
def test_what_runs_through_pytorch_is_said_once() -> None:
    kernels.notes()
    for name, times in (("dqn-dueling", 1), ("dqn", 0)):
        heard: list[Event] = []
        trained(name, heard=heard)
        said = [event.message for event in heard if isinstance(event, Notice) and event.code == "torch-path"]
        assert len(said) == times
        assert all(text.startswith("PyTorch, not the native kernels, runs the QNetwork") for text in said)


def test_without_kernels_auto_is_pytorch_and_native_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "reason", lambda: "There was no compiler.")
    assert not trained("ppo").policy.native
    with pytest.raises(UserError, match=r"There was no compiler\.") as caught:
        trained("ppo", kernels="native")
    assert caught.value.code == "no-kernels"
    assert "--kernels auto" in (caught.value.remedy or "")
