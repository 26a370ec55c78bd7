"""A goal environment whose reward says nothing until the goal is reached."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Reach(gym.Env[Any, Any]):
    """A point should reach a goal within 25 steps and stay: -1 a step away from it, 0 on it, no other hint."""

    def __init__(self) -> None:
        point = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        parts: dict[str, gym.Space[Any]] = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), point)
        self.observation_space = gym.spaces.Dict(parts)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.point, self.goal, self.time = self.np_random.uniform(-1, 1, 2), self.np_random.uniform(-1, 1, 2), 0
        return self._obs(), {}

    def step(self, action: np.ndarray) -> Any:
        self.point = np.clip(self.point + 0.15 * np.asarray(action, dtype=np.float64), -1, 1)
        self.time += 1
        reward = float(self.compute_reward(self.point, self.goal, {}))
        return self._obs(), reward, False, self.time >= 25, {"is_success": reward == 0.0}

    def compute_reward(self, achieved: Any, desired: Any, info: dict[str, Any]) -> Any:
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float64)

    def _obs(self) -> dict[str, np.ndarray]:
        return {"observation": self.point.copy(), "achieved_goal": self.point.copy(), "desired_goal": self.goal.copy()}


class Shrunk(gym.ObservationWrapper[Any, Any, Any]):
    """Gives goals in another unit than the environment's."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        small = gym.spaces.Box(-1.0, 1.0, space["achieved_goal"].shape, np.float64)
        self.observation_space = gym.spaces.Dict({**space.spaces, "achieved_goal": small, "desired_goal": small})

    def observation(self, observation: Any) -> Any:
        return {key: value if key == "observation" else value / 10.0 for key, value in observation.items()}
