"""The environments that come with Gymnasium, by family."""

from __future__ import annotations

import gymnasium as gym


def newest(name: str) -> str:
    """The id of the newest version here, which Gymnasium raises where the rules change; else the name itself."""
    found = [spec for spec in gym.registry.values() if spec.name == name and spec.namespace is None]
    return max(found, key=lambda spec: spec.version or 0).id if found else name


CLASSIC = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
TOY = [newest(name) for name in ("FrozenLake", "Taxi", "CliffWalking", "Blackjack")]
MUJOCO = [
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
]
