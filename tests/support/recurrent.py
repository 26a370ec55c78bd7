"""Policies that remember, and environments that ask for it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from steadyrl.nn.distributions import Params
from steadyrl.nn.recurrent import RecurrentActorCritic
from support.envs import Reset, Stepped

KINDS = [("lstm", False), ("lstm", True), ("gru", False), ("gru", True)]


def options(kind: str, shared: bool, size: int = 6) -> dict[str, Any]:
    """Fields of an architecture."""
    return {"recurrent": kind, "recurrent_size": size, "recurrent_shared": shared}


def unrolled(
    net: RecurrentActorCritic, obs: dict[str, Tensor], starts: Any, states: Tensor
) -> tuple[Params, Tensor, Tensor]:
    """Step by step: parameters [T * n, ...], values [T * n] and the states after each step, [T, n, S].

    Args:
        net: The network.
        obs: Leaves [T * n, ...], in the order of time.
        starts: Where episodes start, [T, n].
        states: Before the first step, [n, S].
    """
    length, n = starts.shape
    params: list[Params] = []
    values, after = [], []
    for t in range(length):
        now = {path: leaf[t * n : (t + 1) * n] for path, leaf in obs.items()}
        found, value, states = net.step(now, states, torch.from_numpy(starts[t].copy()))
        params.append(found)
        values.append(value)
        after.append(states)
    together = tuple(parts[0] if parts[0].shape[0] != n else torch.cat(parts) for parts in zip(*params, strict=True))
    return together, torch.cat(values), torch.stack(after)


class Recall(gym.Env[Any, Any]):
    """Shows one of two cues at the start, then nothing for `wait` steps; the last action is to be the cue.

    Observation: [cue in {-1, 1} at the start else 0, 1 in the last step else 0]. The reward comes at the end: 1 for
    the cue, 0 else.
    """

    def __init__(self, wait: int = 3) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.wait = wait
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        self.cue = int(self.np_random.integers(2))
        return np.array([2.0 * self.cue - 1.0, 0.0], dtype=np.float32), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        over = self.t > self.wait
        obs = np.array([0.0, float(self.t == self.wait)], dtype=np.float32)
        return obs, float(over and int(action) == self.cue), over, False, {}
