"""Bad numbers put into every place of a training, and what a training has learnt and stored, for comparison.

Importing it imports no torch, so that workers can make its environment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

BAD = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e38": 1e38}
ALGOS = ("ppo", "a2c", "dqn", "ddpg", "td3", "sac")
LENGTH = 40  # steps of an episode of `Poisoned`

SMALL: dict[str, Any] = {"preset": "none", "net_arch": (8,), "eval_freq": 0, "seed": 1}
OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 8, "batch_size": 16, "n_epochs": 1},
    "a2c": {"n_steps": 8},
    "dqn": {"learning_starts": 20, "train_freq": 2, "batch_size": 8, "buffer_size": 500, "target_update_interval": 4},
    "ddpg": {"learning_starts": 20, "train_freq": 2, "batch_size": 8, "buffer_size": 500},
    "td3": {"learning_starts": 20, "train_freq": 2, "batch_size": 8, "buffer_size": 500},
    "sac": {"learning_starts": 20, "train_freq": 2, "batch_size": 8, "buffer_size": 500},
}


class Poisoned(gym.Env[Any, Any]):
    """Episodes of 40 steps; in step `at` of the environment's life, one number of what it tells is `value`.

    Args:
        where: observation, final (that of the last step of an episode, which ends there), reward or info.
        value: What is told there.
        at: Which step, from 1; 0 poisons the first reset.
        action: The action space, "box" or "discrete".
        tree: The observation is a dictionary, bad at the key "place".
        times: How many steps from `at` on are bad.
    """

    def __init__(
        self, where: str = "", value: float = 0.0, at: int = -1, action: str = "box", tree: bool = False, times: int = 1
    ) -> None:
        box = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.observation_space = (
            spaces.Dict({"goal": spaces.Box(-1.0, 1.0, (2,), np.float64), "place": box}) if tree else box
        )
        self.action_space = spaces.Discrete(3) if action == "discrete" else spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.where, self.value, self.at, self.tree, self.times = where, value, at, tree, times
        self.life = self.t = 0
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(bad=self.where == "observation" and self.life == self.at == 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.life += 1
        self.t += 1
        self.actions.append(action)
        now = self.at <= self.life < self.at + self.times
        reward = self.value if now and self.where == "reward" else float(self.np_random.normal())
        info = {"is_success": self.value} if now and self.where == "info" else {}
        ended = self.t >= LENGTH or (now and self.where == "final")
        return self._obs(bad=now and self.where in ("observation", "final")), reward, False, ended, info

    def _obs(self, *, bad: bool) -> Any:
        place = self.np_random.normal(size=3).astype(np.float32)
        if bad:
            place[1] = self.value
        return {"goal": np.zeros(2), "place": place} if self.tree else place


def action_of(algo: str) -> str:
    """Which actions of `Poisoned` an algorithm takes here."""
    return "discrete" if algo == "dqn" else "box"


def digest(state: Any) -> str:
    """A hash of nested dictionaries, lists, tensors and arrays, without the states of random streams."""
    found = hashlib.sha256()
    _feed(found, state)
    return found.hexdigest()


def _feed(found: Any, state: Any) -> None:
    if isinstance(state, dict):
        if "counter" in str(state.keys()) or "key" in state:  # a stream's state
            return
        for name in sorted(state):
            found.update(str(name).encode())
            _feed(found, state[name])
    elif isinstance(state, list | tuple):
        for part in state:
            _feed(found, part)
    else:
        found.update(np.asarray(state).tobytes() if not isinstance(state, str) else state.encode())


def learnt(agent: Any) -> str:
    """A hash of weights, observation statistics, optimiser moments, target networks and temperature."""
    algorithm = agent.loop.algorithm
    own = {name: part for name, part in algorithm.state_dict().items() if name not in STREAMS}
    return digest({"policy": agent.policy.state_dict(), "algorithm": own})


STREAMS = ("exploration", "order", "actions", "random", "sampling", "smoothing", "noise", "kept", "kept_for")


def stored(agent: Any) -> dict[str, Any]:
    """The arrays of the replay or rollout, as far as they are filled, and the reward statistic."""
    loop = agent.loop
    if hasattr(loop, "replay"):
        return dict(loop.replay.state_dict())
    rewards = loop.rewards.state_dict() if hasattr(loop.rewards, "state_dict") else {}
    return {**loop.rollout.state_dict(), **rewards}


def clean(arrays: dict[str, Any]) -> bool:
    """Whether every number in these arrays is finite and not absurd."""
    found = [np.asarray(array) for array in arrays.values() if not isinstance(array, str | dict)]
    return all(bool((np.abs(array) <= 1e18).all()) for array in found if array.dtype.kind == "f")


class Poison:
    """Makes the `at`-th call of a loss, or of an optimiser's step, meet a bad number.

    Args:
        value: The bad number.
        at: Which call, from 1.
        times: How many calls from there on.
    """

    def __init__(self, value: float, at: int, times: int = 1) -> None:
        self.value, self.at, self.times, self.calls = value, at, times, 0

    def due(self) -> bool:
        self.calls += 1
        return self.at <= self.calls < self.at + self.times

    def loss(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        """A loss whose value alone is bad: its gradient is as it was."""

        def call(*args: Any, **kwargs: Any) -> Any:
            value, *others = inner(*args, **kwargs)
            if not self.due():
                return value, *others
            if hasattr(value, "block"):  # the loss is the first of its metrics
                value.block[0] = self.value
                return value, *others
            return value * 0 + self.value, *others

        return call

    def gradient(self, optimizer: Any) -> None:
        """One entry of the gradient is bad in a step of this optimiser."""
        inner = optimizer.step

        def step(*args: Any, **kwargs: Any) -> Any:
            if self.due():
                optimizer._flat.grad[0] = self.value
            return inner(*args, **kwargs)

        optimizer.step = step


LOSSES: dict[str, tuple[str, ...]] = {
    "ppo": ("_loss",),
    "a2c": ("_loss",),
    "dqn": ("_loss",),
    "ddpg": ("_critic_loss", "_actor_loss"),
    "td3": ("_critic_loss", "_actor_loss"),
    "sac": ("_critic_loss", "_actor_loss"),
}
OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "ppo": ("_optimizer",),
    "a2c": ("_optimizer",),
    "dqn": ("_optimizer",),
    "ddpg": ("_critic_optimizer", "_actor_optimizer"),
    "td3": ("_critic_optimizer", "_actor_optimizer"),
    "sac": ("_critic_optimizer", "_actor_optimizer"),
}


@contextmanager
def watched(agent: Any) -> Iterator[dict[str, Any]]:
    """Inside, the dictionary holds what had been learnt before the newest step or minibatch, and stored before it."""
    loop = agent.loop
    seen: dict[str, Any] = {}
    step, minibatch = loop.step, loop.guard.minibatch

    def before_step(*args: Any) -> Any:
        seen.update(learnt=learnt(agent), stored=digest(stored(agent)), at=loop.counters.timesteps, during="step")
        return step(*args)

    def before_minibatch(*args: Any) -> Any:
        seen.update(learnt=learnt(agent), stored=digest(stored(agent)), at=loop.counters.timesteps, during="learn")
        return minibatch(*args)

    loop.step, loop.guard.minibatch = before_step, before_minibatch
    try:
        yield seen
    finally:
        loop.step, loop.guard.minibatch = step, minibatch


def poison_actions(agent: Any, poison: Poison, *, log_probs: bool = False) -> None:
    """Make the last environment's action, or the log-probability of it, bad in the call that is due."""
    on_policy = hasattr(agent.loop, "rollout")
    owner, name = (agent.policy, "act") if on_policy else (agent.loop.algorithm, "act")
    inner = getattr(owner, name)

    def act(*args: Any) -> Any:
        found = inner(*args)
        if poison.due():
            bad = found[1 if log_probs else 0] if on_policy else found
            bad[(-1,) if log_probs else (-1, 1)] = poison.value
        return found

    setattr(owner, name, act)
