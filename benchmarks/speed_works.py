"""The pieces of work that are timed: the same settings for every library; no library is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Work:
    """One training task: `warm` steps untimed, then `steps` timed."""

    algo: str
    env: str
    num_envs: int
    warm: int
    steps: int
    settings: dict[str, Any] = field(default_factory=dict)
    vec: Literal["sync", "native"] = "sync"  # how ours steps environments; the peers have only the first


WORKS = {
    "ppo-cartpole": Work(
        "ppo",
        "CartPole-v1",
        8,
        2048,
        40_960,
        {
            "n_steps": 32,
            "batch_size": 256,
            "n_epochs": 20,
            "gae_lambda": 0.8,
            "gamma": 0.98,
            "ent_coef": 0.0,
            "learning_rate": 1e-3,
            "clip_range": 0.2,
        },
    ),
    "ppo-halfcheetah": Work(
        "ppo", "HalfCheetah-v5", 1, 2048, 10_240, {"n_steps": 2048, "batch_size": 64, "n_epochs": 10}
    ),
    "a2c-cartpole": Work("a2c", "CartPole-v1", 8, 2000, 40_000, {"n_steps": 5, "learning_rate": 7e-4}),
    "sac-halfcheetah": Work(
        "sac",
        "HalfCheetah-v5",
        1,
        400,
        2500,
        {"batch_size": 256, "learning_starts": 100, "buffer_size": 100_000, "net_arch": (256, 256)},
    ),
    "td3-halfcheetah": Work(
        "td3",
        "HalfCheetah-v5",
        1,
        400,
        2500,
        {"batch_size": 256, "learning_starts": 100, "buffer_size": 100_000, "net_arch": (256, 256)},
    ),
    "dqn-cartpole": Work(
        "dqn",
        "CartPole-v1",
        1,
        2048,
        19_968,
        {
            "learning_rate": 2.3e-3,
            "batch_size": 64,
            "buffer_size": 100_000,
            "learning_starts": 1000,
            "gamma": 0.99,
            "target_update_interval": 10,
            "train_freq": 256,
            "gradient_steps": 128,
            "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04,
            "net_arch": (256, 256),
        },
    ),
}
WORKS["ppo-cartpole-native"] = replace(WORKS["ppo-cartpole"], vec="native")
