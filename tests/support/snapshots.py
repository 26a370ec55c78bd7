"""Environments of every kind of state, and the proof that a restored one goes on as the original does."""

from __future__ import annotations

import itertools
import json
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.envs.snapshot import State, flatten, restore, save, unflatten
from steadyrl.envs.wrappers import Canonical


def stored(state: State) -> State:
    """The state after a way through JSON text and arrays, as a checkpoint stores it."""
    packed, arrays = flatten(state.value())
    return State.of(unflatten(json.loads(json.dumps(packed, allow_nan=False)), arrays))


def follow(make: Callable[[], gym.Env[Any, Any]], points: int = 4, steps: int = 40, between: int = 30) -> set[str]:
    """Save at random points, restore in a fresh environment, and insist that both go on alike, resets included.

    Returns:
        The kinds of the states.
    """
    original = Canonical(make())
    original.action_space.seed(7)
    original.reset(seed=3)
    where = np.random.default_rng(1)
    kinds: set[str] = set()
    for _ in range(points):
        for _ in range(int(where.integers(1, between))):
            _, _, terminated, truncated, _ = original.step(original.action_space.sample())
            if terminated or truncated:
                original.reset()
        state = stored(save(original))
        kinds.add(state.kind)
        copy = Canonical(make())
        np.testing.assert_equal(restore(copy, state), original.last)
        assert copy.elapsed == original.elapsed
        both_go_on(original, copy, steps)
        copy.close()
    original.close()
    return kinds


def both_go_on(one: Canonical, other: Canonical, steps: int) -> None:
    """Insist on equal bits from both under the same actions."""
    for _ in range(steps):
        action = one.action_space.sample()
        result = one.step(action)
        np.testing.assert_equal(other.step(action), result)
        if result[2] or result[3]:
            np.testing.assert_equal(other.reset(), one.reset())


class Walk(gym.Env[Any, Any]):
    """A random walk whose episodes end by chance; a base for others."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(3)
        self.place = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.draw()
        return self.obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += float(action) - 1.0 + self.draw()
        return self.obs(), self.place, bool(self.draw() < 0.05), False, {}

    def draw(self) -> float:
        return float(self.np_random.random())

    def obs(self) -> Any:
        return np.array([self.place, self.place**2])


class Cell:
    """A part of an environment, a plain object."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.neighbours: list[Cell] = []


class Rich(Walk):
    """Attributes of every kind that can be read, some of which share others."""

    def __init__(self) -> None:
        super().__init__()
        self.past: deque[float] = deque(maxlen=3)
        self.table: dict[Any, Any] = {(0, 1): [1.0], "$x": np.nan, "~y": 2**100, 3: b"abc"}
        self.shared = self.table[(0, 1)]
        self.cells = [Cell(0.5), Cell(1.5)]
        self.cells[0].neighbours.append(self.cells[1])
        self.cells[1].neighbours.append(self.cells[0])
        self.own = random.Random(4)
        self.old = np.random.RandomState(5)
        self.fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        self.numbers = {1, 2, 3}
        self.count = 0

    def draw(self) -> float:
        self.count += 1
        self.shared.append(self.own.random())
        self.past.append(float(self.old.normal()))
        self.cells[0].neighbours[0].value += 0.25
        self.fortran[:, self.count % 3] += 0.1
        sizes = len(self.table[(0, 1)]) + self.cells[1].value
        return float(self.np_random.random() + sum(self.past) * 1e-3 + sizes * 1e-3 + self.fortran.sum() * 1e-3)


class Opaque(Walk):
    """One that holds something whose state cannot be read, but starts anew with each episode."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.steps = itertools.count() if options is None else itertools.count(options["first"])
        return super().reset(seed=seed, options=options)

    def obs(self) -> Any:
        return np.array([self.place, float(next(self.steps))])


class Remembering(Opaque):
    """Opaque, and its episodes depend on how many there were: not even running an episode again leads back."""

    def __init__(self) -> None:
        super().__init__()
        self.episode = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.episode += 1
        return super().reset(seed=seed, options={"first": self.episode})


class Silent(Remembering):
    """The same, but it shows only late."""

    def obs(self) -> Any:
        shown = super().obs()
        return shown if shown[1] - self.episode > 20 else shown * [1.0, 0.0]


class Outliving(Opaque):
    """What cannot be read outlives its episodes."""

    def __init__(self) -> None:
        super().__init__()
        self.episodes = iter(range(10**6))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=seed, options={"first": next(self.episodes)})


class Telling(Outliving):
    """The same, which tells its state itself."""

    def __init__(self) -> None:
        super().__init__()
        self.episode = self.step_count = 0

    def obs(self) -> Any:
        self.step_count += 1
        return super().obs()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.step_count = 0
        self.episode += 1
        return super().reset(seed=seed)

    def get_state(self) -> dict[str, Any]:
        return {"place": self.place, "episode": self.episode, "step_count": self.step_count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.place, self.episode, self.step_count = state["place"], state["episode"], state["step_count"]
        self.episodes = iter(range(self.episode, 10**6))
        self.steps = itertools.count(self.episode - 1 + self.step_count)


class Drawing(Walk):
    """One that draws from the generators that NumPy and Python keep for the process."""

    def draw(self) -> float:
        return float(np.random.random()) + random.random()
