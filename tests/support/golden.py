"""Short runs whose weights are known by hash: in an environment of sums and products alone, in each kernel mode."""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

import steadyrl as srl
from steadyrl import kernels
from steadyrl.training.events import EvaluationEnded, Event
from support.envs import Reset, Stepped

STORED = Path(__file__).parent.parent / "artefacts" / "golden.json"
BLESS = "python benchmarks/golden.py --bless"
ON: dict[str, Any] = {"num_envs": 4, "n_steps": 32, "net_arch": (32, 32)}
OFF: dict[str, Any] = {"num_envs": 4, "learning_starts": 64, "batch_size": 32, "buffer_size": 512, "net_arch": (32, 32)}
ALGOS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ppo": (srl.PPO, {**ON, "batch_size": 64, "n_epochs": 2, "normalize_obs": True, "normalize_reward": True}),
    "a2c": (srl.A2C, ON),
    "dqn": (srl.DQN, {**OFF, "train_freq": 8}),
    "ddpg": (srl.DDPG, {**OFF, "train_freq": 8}),
    "td3": (srl.TD3, {**OFF, "train_freq": 8}),
    "sac": (srl.SAC, {**OFF, "train_freq": 8}),
}
STEPS = 512


class Drift(gym.Env[npt.NDArray[np.float32], Any]):
    """Three numbers that decay, are pushed by the action and by noise; products and sums of float64, one by one.

    No library of mathematics and no matrix product has a part in it, so that its bits are those of IEEE 754.
    """

    def __init__(self, discrete: bool = False) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(3) if discrete else spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.discrete = discrete
        self.x = [0.0, 0.0, 0.0]
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.x = [float(v) for v in self.np_random.uniform(-1.0, 1.0, 3)]
        self.t = 0
        return self._obs(), {}

    def step(self, action: Any) -> Stepped:
        push = float(action) - 1.0 if self.discrete else float(action[0])
        a, b, c = self.x
        noise = [0.1 * float(v) for v in self.np_random.uniform(-1.0, 1.0, 3)]
        self.x = [0.9 * a + 0.1 * b + noise[0], 0.9 * b + 0.25 * push + noise[1], 0.8 * c - 0.1 * a + noise[2]]
        self.t += 1
        return self._obs(), 1.0 - abs(self.x[0]) - abs(self.x[2]), abs(self.x[0]) > 2.0, self.t >= 25, {}

    def _obs(self) -> npt.NDArray[np.float32]:
        return np.array(self.x, dtype=np.float32)


def discrete() -> Drift:
    """With three actions."""
    return Drift(discrete=True)


def key(mode: str) -> str:
    """What decides the bits besides the code: torch's version, and the instruction sets in use."""
    ours = kernels.isa() if mode == "native" else "none"
    theirs = torch.backends.cpu.get_cpu_capability()
    return f"torch {torch.__version__}, PyTorch on {theirs}, kernels on {ours}, {platform.machine()}"


def run(algo: str, mode: str) -> dict[str, Any]:
    """One short run: a hash of its final weights and its evaluations, and how much happened.

    Args:
        algo: One of `ALGOS`.
        mode: `native` or `torch`.
    """
    make, options = ALGOS[algo]
    evaluations: list[tuple[float, ...]] = []

    def hear(event: Event) -> None:
        if isinstance(event, EvaluationEnded):
            evaluations.append(event.returns)

    agent = make(
        discrete if algo == "dqn" else Drift,
        preset="none",
        kernels=mode,
        threads=1,
        vec="sync",
        seed=11,
        eval_freq=STEPS // 2,
        eval_episodes=2,
        **options,
    )
    agent.learn(STEPS, callback=hear)
    agent.close()
    hashed = hashlib.sha256(agent.policy.sha256().encode())
    hashed.update(json.dumps(evaluations).encode())
    return {"sha256": hashed.hexdigest(), "updates": agent.loop.counters.updates, "evaluations": len(evaluations)}


def stored() -> dict[str, Any]:
    """The blessed hashes: by key, each with the CPU on which it was blessed and a hash of each algorithm."""
    return dict(json.loads(STORED.read_text(encoding="utf-8"))) if STORED.exists() else {}
