"""Trainings in environments that take a random time for each step, by sync and by async with 1, 2 and 4 workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import steadyrl as srl
from support import delays

BACKENDS: dict[str, dict[str, Any]] = {
    "sync": {"vec": "sync"},
    "async, 1 worker": {"vec": "async", "num_workers": 1},
    "async, 2 workers": {"vec": "async", "num_workers": 2},
    "async, 4 workers": {"vec": "async", "num_workers": 4},
}
_OFF: dict[str, Any] = {"learning_starts": 32, "batch_size": 16, "buffer_size": 400, "train_freq": 4, "net_arch": (16,)}
ALGOS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ppo": (delays.cartpole, {"n_steps": 16, "batch_size": 32, "n_epochs": 2}),
    "a2c": (delays.pendulum, {"n_steps": 8, "normalize_obs": True, "normalize_reward": True}),
    "dqn": (delays.cartpole, _OFF),
    "sac": (delays.pendulum, _OFF | {"normalize_obs": True}),
}
STEPS = 320


def train_delayed(algo: str, path: Path, **how: Any) -> srl.Run:
    """One run of 320 steps in four environments, with 3 checkpoints and 2 evaluations at least."""
    env, options = ALGOS[algo]
    settings = {"num_envs": 4, "checkpoint_freq": 80, "eval_freq": 160, "eval_episodes": 1, "seed": 3, "preset": "none"}
    return srl.train(algo, env, total_timesteps=STEPS, run_dir=path, **{**settings, **options, **how})
