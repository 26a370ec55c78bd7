"""Saved, loaded and saved again is the same file; stopped five times with four environments is the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.training.chain import chain, shared_steps
from steadyrl.training.comparing import first_difference
from steadyrl.training.ending import recorded
from steadyrl.training.extras import StopAt
from steadyrl.training.going_on import go_on
from steadyrl.training.plan import prepare
from steadyrl.training.resuming import read_state
from steadyrl.training.run import execute

ON: dict[str, Any] = {"n_steps": 16, "normalize_obs": True, "normalize_reward": True}
OFF: dict[str, Any] = {"learning_starts": 60, "batch_size": 16, "buffer_size": 300, "normalize_obs": True}
COMMON: dict[str, Any] = {
    "num_envs": 4, "net_arch": (16,), "vec": "sync", "seed": 2, "eval_freq": 160, "eval_episodes": 1,
    "max_episode_steps": 50, "checkpoint_freq": 80, "learning_rate": srl.LinearSchedule(1e-3, 0.0),
}  # fmt: skip
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", {**ON, "batch_size": 32, "n_epochs": 2}),
    "a2c": ("Pendulum-v1", ON),
    "dqn": ("CartPole-v1", {**OFF, "prioritized": True, "n_step": 3}),
    "ddpg": ("Pendulum-v1", OFF),
    "td3": ("Pendulum-v1", {**OFF, "action_noise_type": "ornstein-uhlenbeck"}),
    "sac": ("Pendulum-v1", OFF),
}
TOTAL, STOPS = 480, (84, 160, 252, 336, 408)


@pytest.mark.parametrize("algo", RUNS)
def test_five_cycles_with_four_environments_drift_nowhere(algo: str, tmp_path: Path) -> None:
    env, options = RUNS[algo]
    settings = COMMON | options
    whole = srl.train(algo, env, total_timesteps=TOTAL, run_dir=tmp_path / "whole", preset="none", **settings)
    run = tmp_path / "run"
    with recorded(
        (plan := prepare(algo, env, settings | {"run_dir": run}, total_timesteps=TOTAL, preset="none")).folder
    ):
        execute(plan, stop_at=StopAt(STOPS[0]))
    for step in STOPS[1:]:
        assert go_on(run, None, (), lambda notice: None, StopAt(step)).status == "stopped"
    done = srl.resume(run)
    assert [entry["from_step"] for entry in done.manifest["lineage"]] == list(STOPS)
    assert first_difference(whole.path, done.path) is None
    steps = shared_steps(whole.path, done.path)
    assert max(steps) == TOTAL
    last = [read_state(path / "checkpoints" / f"step_{TOTAL}") for path in (whole.path, done.path)]
    assert last[0]["loop"]["stepper"]["timesteps"] == TOTAL
    assert last[0].keys() == last[1].keys() >= {"policy", "loop", "envs", "generators", "session"}
    assert chain(whole.path, steps) == chain(done.path, steps)
    assert [row["return"] for row in whole.episodes()] == [row["return"] for row in done.episodes()]
    assert whole.manifest["weights_sha256"] == done.manifest["weights_sha256"]


@pytest.mark.parametrize("algo", RUNS)
def test_a_bundle_that_was_loaded_is_saved_to_the_same_bytes(algo: str, tmp_path: Path) -> None:
    env, options = RUNS[algo]
    make = {"ppo": srl.PPO, "a2c": srl.A2C, "dqn": srl.DQN, "ddpg": srl.DDPG, "td3": srl.TD3, "sac": srl.SAC}[algo]
    agent = make(env, preset="none", **COMMON, **options)
    agent.learn(160)
    first = agent.save(tmp_path / "first")
    second = srl.load(first).save(tmp_path / "second")
    third = srl.load(second, env=env, vec="sync").save(tmp_path / "third")
    assert second.read_bytes() == first.read_bytes()
    assert srl.load(third).policy.sha256() == agent.policy.sha256()
    agent.learn(40)
    assert agent.save(tmp_path / "later").read_bytes() != first.read_bytes()
    agent.close()
