"""Cases 12, 13 and 14 over their whole kind: what a saved or stopped agent goes on with is what it had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steadyrl as srl
from steadyrl.training.comparing import first_difference
from steadyrl.training.events import Event, MetricsLogged
from support.scales import scales_for

ALGOS: dict[str, Any] = {
    "ppo": srl.PPO, "a2c": srl.A2C, "dqn": srl.DQN, "ddpg": srl.DDPG, "td3": srl.TD3, "sac": srl.SAC
}  # fmt: skip
ON: dict[str, Any] = {"preset": "none", "num_envs": 2, "n_steps": 16, "net_arch": (16,), "vec": "sync", "seed": 2}
OFF: dict[str, Any] = {
    "preset": "none", "learning_starts": 40, "batch_size": 16, "buffer_size": 300, "net_arch": (16,), "vec": "sync",
    "eval_freq": 0, "seed": 2,
}  # fmt: skip
EVALUATE = """
import json, sys
import steadyrl as srl
from support.scales import scales_for

print(json.dumps({
    algo: srl.evaluate(srl.load(path), episodes=4, env=scales_for(algo)).returns.tolist()
    for algo, path in json.loads(sys.argv[1]).items()
}))
"""


def options_of(algo: str) -> dict[str, Any]:
    return ON if algo in ("ppo", "a2c") else OFF


def stop_at(step: int) -> Any:
    return lambda event: False if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= step else None


def test_case_12_statistics_go_with_the_policy_into_a_fresh_process(tmp_path: Path) -> None:
    """vwxyzjn/cleanrl#532: evaluation made fresh statistics. Here all six algorithms, from run folders and files."""
    paths, expected = {}, {}
    for algo in ALGOS:
        options = options_of(algo) | {"normalize_obs": True, "eval_freq": 0}
        run = srl.train(algo, scales_for(algo), total_timesteps=200, run_dir=tmp_path / algo, **options)
        stored = srl.Run.open(run.path).path / "checkpoints" / "final" / "step_200" / "policy.srl"
        paths[algo] = str(stored if algo in ("ppo", "dqn") else run.agent.save(tmp_path / f"{algo}-saved"))
        expected[algo] = srl.evaluate(run.agent, episodes=4, env=scales_for(algo)).returns.tolist()
        obs = np.array([[1e-3, -900.0], [-1e-3, 900.0], [5e-4, 100.0]])
        normalizer = run.agent.policy.normalizer
        assert normalizer is not None
        known = run.agent.value(obs) if algo in ("ppo", "a2c", "dqn") else run.agent.predict(obs, deterministic=True)[0]
        fresh = ALGOS[algo](scales_for(algo), **options)  # fresh statistics, and the weights that were trained
        for name, tensor in run.agent.policy.net.state_dict().items():
            fresh.policy.net.state_dict()[name].copy_(tensor)
        other = fresh.value(obs) if algo in ("ppo", "a2c", "dqn") else fresh.predict(obs, deterministic=True)[0]
        assert not np.array_equal(known, other), algo  # so that the statistics have a part in what is compared
        fresh.close()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", EVALUATE, json.dumps(paths)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


def test_case_13_exploration_stays_past_its_decay_when_a_saved_agent_learns_on(tmp_path: Path) -> None:
    options = OFF | {"exploration_fraction": 0.1, "exploration_final_eps": 0.05, "log_interval": 40}
    agent = srl.DQN("CartPole-v1", **options)
    agent.learn(600)
    loaded = srl.load(agent.save(tmp_path / "dqn"), env="CartPole-v1", vec="sync")
    assert loaded.num_timesteps == 600
    rates: list[float] = []

    def hear(event: Event) -> None:
        if isinstance(event, MetricsLogged) and "rollout/exploration_rate" in event.metrics:
            rates.append(event.metrics["rollout/exploration_rate"])

    loaded.learn(200, callback=hear)
    assert rates
    assert max(rates) == pytest.approx(0.05)


SCHEDULES: dict[str, tuple[str, dict[str, Any], str]] = {
    "ppo, clip_range": ("CartPole-v1", {"clip_range": srl.LinearSchedule(0.3, 0.1)}, "train/clip_range"),
    "a2c, learning_rate": ("CartPole-v1", {}, "train/learning_rate"),
    "dqn, exploration": ("CartPole-v1", {"exploration_fraction": 0.3}, "rollout/exploration_rate"),
    "dqn, beta": (
        "CartPole-v1",
        {"prioritized": True, "prioritized_beta": srl.LinearSchedule(0.4, 1.0)},
        "train/learning_rate",
    ),
    "ddpg, noise": ("Pendulum-v1", {"action_noise_std": srl.LinearSchedule(0.3, 0.0)}, "train/learning_rate"),
    "td3, noise": ("Pendulum-v1", {"action_noise_std": srl.LinearSchedule(0.3, 0.0)}, "train/learning_rate"),
    "sac, learning_rate": ("Pendulum-v1", {}, "train/learning_rate"),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_case_13_every_schedule_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    algo = name.partition(",")[0]
    env, more, tag = SCHEDULES[name]
    options = {
        **options_of(algo),
        "learning_rate": srl.LinearSchedule(1e-3, 0.0),
        "checkpoint_freq": 60,
        "eval_freq": 0,
        "log_interval": 2 if algo in ("ppo", "a2c") else 40,
        **more,
    }
    whole = srl.train(algo, env, total_timesteps=360, run_dir=tmp_path / "whole", **options)
    srl.train(algo, env, total_timesteps=360, run_dir=tmp_path / "run", callback=stop_at(180), **options)
    done = srl.resume(tmp_path / "run")
    values = [[row[tag] for row in run.metrics() if tag in row] for run in (whole, done)]
    assert len(set(values[0])) > 1  # it moves
    assert values[0] == values[1]
    assert first_difference(whole.path, done.path) is None


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_case_14_the_temperature_learns_on_after_every_way_of_going_on(env: str, tmp_path: Path) -> None:
    """DLR-RM/stable-baselines3#391. Continuous and discrete actions, resumed and loaded from a file."""
    options = OFF | {"checkpoint_freq": 60, "log_interval": 20}
    run = tmp_path / "run"
    srl.train("sac", env, total_timesteps=300, run_dir=run, callback=stop_at(180), **options)
    done = srl.resume(run)
    values = [row["train/ent_coef"] for row in done.metrics() if row["step"] > 180 and "train/ent_coef" in row]
    assert len(values) >= 3
    assert len(set(values)) == len(values)
    loaded = srl.load(done.agent.save(tmp_path / "sac"), env=env, vec="sync")
    learnt: list[float] = []

    def hear(event: Event) -> None:
        if isinstance(event, MetricsLogged) and "train/ent_coef" in event.metrics:
            learnt.append(event.metrics["train/ent_coef"])

    loaded.learn(150, callback=hear)
    assert len(set(learnt)) == len(learnt) >= 3
