"""Whole trainings on the native kernels and on PyTorch: the same numbers, and the same bits whatever the threads."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import steadyrl as srl
from steadyrl import kernels
from steadyrl.errors import UserError
from steadyrl.training.agent import Agent
from steadyrl.training.events import Event, MetricsLogged, Notice
from support.kernels import needs_native
from support.off_policy import agent_of

SHORT: dict[str, Any] = {"seed": 3, "eval_freq": 0}
NORM: dict[str, Any] = {"layer_norm": True}
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
    "ppo-norm": ("ppo", "CartPole-v1", 256, {"num_envs": 4, "n_steps": 32, "batch_size": 60, "n_epochs": 2, **NORM}),
    "a2c-norm": ("a2c", "Pendulum-v1", 256, {"num_envs": 4, "n_steps": 8, **NORM}),
    "dqn-norm": ("dqn", "CartPole-v1", 140, NORM),
    "ddpg-norm": ("ddpg", "Pendulum-v1", 130, NORM),
    "td3-norm": ("td3", "Pendulum-v1", 130, NORM),
    "sac-norm": ("sac", "Pendulum-v1", 130, NORM),
}


def made(name: str, **options: Any) -> tuple[Agent, int]:
    algo, env, steps, settings = TRAININGS[name]
    settings = {**SHORT, **settings, **options}
    if algo in ("ppo", "a2c"):
        return {"ppo": srl.PPO, "a2c": srl.A2C}[algo](env, preset="none", **settings), steps
    return agent_of(algo, env, **settings), steps


def trained(name: str, folder: Path | None = None, heard: list[Event] | None = None, **options: Any) -> Agent:
    agent, steps = made(name, **options)
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
@pytest.mark.parametrize("name", ["ppo-gaussian", "sac", "ppo-norm", "sac-norm"])
def test_the_bits_do_not_follow_the_threads(name: str) -> None:
    wide: dict[str, Any] = {"net_arch": (256, 256), "batch_size": 256 if name.startswith("sac") else 128}
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


def test_loading_with_an_unknown_choice_is_refused(tmp_path: Path) -> None:
    path = trained("ppo", kernels="torch").save(tmp_path / "agent")
    with pytest.raises(UserError, match="kernels is 'nonsense', but it must be one of auto, native, torch") as caught:
        srl.load(path, kernels="nonsense")
    assert caught.value.code == "bad-value"


MODES = [pytest.param("native", marks=needs_native), "torch"]


def assign(net: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    net.load_state_dict(weights, assign=True)


def set_data(net: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    for name, p in net.named_parameters():
        p.data = weights[name]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", [assign, set_data])
def test_weights_put_in_place_of_the_agents_are_used_and_trained(
    mode: str, change: Callable[[torch.nn.Module, dict[str, torch.Tensor]], None]
) -> None:
    agent, other = (
        srl.PPO("Pendulum-v1", preset="none", seed=seed, n_steps=32, batch_size=32, kernels=mode) for seed in (0, 1)
    )
    obs = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
    change(agent.policy.net, {name: x.clone() for name, x in other.policy.net.state_dict().items()})
    np.testing.assert_array_equal(agent.value(obs), other.value(obs))
    before = agent.policy.sha256()
    agent.policy.net.zero_grad()
    agent.learn(32)
    assert agent.policy.sha256() != before
    assert agent.policy.parts["net"].flat.intact()


@pytest.mark.parametrize("mode", MODES)
def test_weights_that_a_callback_put_in_place_are_trained(mode: str) -> None:
    agent = srl.PPO("Pendulum-v1", preset="none", seed=0, n_steps=32, batch_size=32, kernels=mode)
    zeros = {name: torch.zeros_like(x) for name, x in agent.policy.net.state_dict().items()}

    def callback(event: Event) -> None:
        if isinstance(event, MetricsLogged) and event.updates == 1:
            set_data(agent.policy.net, zeros)

    agent.learn(64, callback=callback)
    assert agent.policy.parts["net"].flat.intact()
    assert 0.0 < agent.policy.parts["net"].flat.data.abs().max().item() < 0.1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["ppo-gaussian", "ppo-norm", "a2c", "dqn", "sac-n-step", "td3"])
def test_a_deep_copy_acts_alike_and_trains_apart(name: str, mode: str) -> None:
    agent, steps = made(name, kernels=mode)
    agent.learn(steps)
    before = agent.policy.sha256()
    twin = copy.deepcopy(agent)
    obs = np.zeros((3, agent.policy.obs_spec.leaves[0].size), np.float32)
    np.testing.assert_array_equal(twin.predict(obs, deterministic=True)[0], agent.predict(obs, deterministic=True)[0])
    twin.learn(steps)
    assert twin.policy.native == (mode == "native")
    assert twin.policy.sha256() != before
    assert agent.policy.sha256() == before
    # What shares memory in the original shares memory in the copy too: else it would train on what it had before.
    assert agent.learn(steps).policy.sha256() == twin.policy.sha256()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["ppo-gaussian", "dqn-c51", "sac"])
def test_torchs_default_type_changes_no_bit(name: str, mode: str) -> None:
    wanted = trained(name, kernels=mode).policy.sha256()
    torch.set_default_dtype(torch.float64)
    try:
        assert trained(name, kernels=mode).policy.sha256() == wanted
    finally:
        torch.set_default_dtype(torch.float32)
