"""A small sound environment, and for each rule one like it with a single fault. They import no torch."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Told = tuple[Any, Any, Any, Any, Any]


class Walk(gym.Env[Any, Any]):
    """Sound: a walker on a line of [-1, 1] is pushed about; over the edge the episode ends."""

    metadata: dict[str, Any] = {"render_modes": [], "render_fps": None}  # noqa: RUF012 - as Gymnasium declares it
    horizon = 12

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space: Any = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space: Any = spaces.Box(-1, 1, (1,), np.float32)
        self.x = self.wind = 0.0
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        self.begin()
        return self.observe(), self.info()

    def begin(self) -> None:
        self.x, self.wind = self.np_random.uniform(-0.5, 0.5, 2)

    def step(self, action: Any) -> Told:
        self.t += 1
        reward = self.move(action)
        terminated = bool(abs(self.x) >= 1)
        self.x = float(np.clip(self.x, -1, 1))
        return self.observe(), reward, terminated, not terminated and self.t >= self.horizon, self.info()

    def push(self, action: Any) -> float:
        return float(np.asarray(action).ravel()[0])

    def move(self, action: Any) -> Any:
        self.x += 0.15 * self.push(action) + 0.1 * self.wind
        return -abs(self.x)

    def observe(self) -> Any:
        return np.array([self.x, self.wind], np.float32)

    def info(self) -> dict[str, Any]:
        return {}


class Hops(Walk):
    """Sound, with two discrete actions."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.action_space = spaces.Discrete(2)

    def push(self, action: Any) -> float:
        return 2.0 * int(action) - 1.0


class Rounds(Hops):
    """Sound: ten rounds by the rules of the game, and the round is observed."""

    def step(self, action: Any) -> Told:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.t >= 10, False, info

    def observe(self) -> Any:
        return np.array([self.x, self.t / 10], np.float32)


class Fixed(Rounds):
    """Sound: nothing is random, so all seeds give the same episode."""

    def begin(self) -> None:
        self.x, self.wind = 0.1, 0.2


def variant(base: type[Walk] = Walk, **members: Any) -> type[Walk]:
    """A subclass with these members."""
    return type("Variant", (base,), members)


def changed(method: str, change: Callable[[Any, Any], Any], base: type[Walk] = Walk) -> type[Walk]:
    """A subclass whose method's result goes through `change(self, result)`."""

    def around(self: Any, *args: Any, **kwargs: Any) -> Any:
        return change(self, getattr(super(made, self), method)(*args, **kwargs))

    made = variant(base, **{method: around})
    if method == "reset":  # the signature is looked at

        def reset(self: Any, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return change(self, base.reset(self, seed=seed, options=options))

        made.reset = reset  # type: ignore[method-assign]
    return made


def with_spaces(base: type[Walk] = Walk, observation: Any = None, action: Any = None) -> type[Walk]:
    """A subclass with another space."""

    def __init__(self: Any, render_mode: str | None = None) -> None:  # noqa: N807 - becomes a method
        base.__init__(self, render_mode)
        self.observation_space = observation or self.observation_space
        self.action_space = action or self.action_space

    return variant(base, __init__=__init__)


def at(step: int, act: Callable[[Any], Any], base: type[Walk] = Walk) -> type[Walk]:
    """A subclass that does something in this step of every episode."""

    def move(self: Any, action: Any) -> Any:
        if self.t == step:
            act(self)
        return base.move(self, action)

    return variant(base, move=move)


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise error

    return function


class Picky(spaces.Box):
    """A space whose `sample` was not adapted to its `contains`."""

    def contains(self, x: Any) -> bool:
        return super().contains(x) and abs(float(np.ravel(x)[0])) < 0.9


class Shared(Walk):
    """Every instance has the same walker."""

    place: dict[str, float] = {}  # noqa: RUF012 - the fault

    @property
    def x(self) -> float:
        return self.place.get("x", 0.0)

    @x.setter
    def x(self, value: float) -> None:
        self.place["x"] = value


class Numbered(Walk):
    """The wind depends on how many instances there were."""

    made = 0

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        Numbered.made += 1
        self.number = Numbered.made

    def begin(self) -> None:
        super().begin()
        self.wind = (self.number % 7) / 10


class Buffer(Walk):
    """All instances write into one array."""

    buffer = np.zeros(2, np.float32)

    def observe(self) -> Any:
        self.buffer[:] = super().observe()
        return self.buffer


class World:
    """Part of an environment, with a generator of its own."""

    __slots__ = ("__dict__", "dice")

    def __init__(self, seed: int | None) -> None:
        self.dice = np.random.default_rng(seed)
        self.rng = self.dice


class Nested(Walk):
    """Sound: a part of it draws the gusts, and goes on with its generator where no seed is given."""

    world = World(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.world = World(seed)
        return super().reset(seed=seed, options=options)

    def move(self, action: Any) -> Any:
        self.x += float(self.world.dice.uniform(-0.05, 0.05))
        return super().move(action)


class Hidden(Walk):
    """Sound: all chance comes from a generator that cannot be found, as in a simulator of another language."""

    draw: Callable[[], float]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            dice = np.random.default_rng(seed)
            self.draw = lambda: float(dice.uniform(-0.5, 0.5))
        super().reset(seed=seed)
        self.x, self.wind = self.draw(), self.draw()
        return self.observe(), {}

    def begin(self) -> None:
        """Draws nothing."""

    def move(self, action: Any) -> Any:
        self.x += 0.1 * self.draw()
        return super().move(action)


class Goal(Walk):
    """Sound: the place to reach is observed."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        one = spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = spaces.Dict(observation=one, achieved_goal=one, desired_goal=one)

    def observe(self) -> Any:
        x, goal = np.array([self.x], np.float32), np.array([self.wind], np.float32)
        return {"observation": x, "achieved_goal": x.copy(), "desired_goal": goal}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.abs(achieved - desired)[..., 0]

    def step(self, action: Any) -> Told:
        obs, _, terminated, truncated, info = super().step(action)
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], info))
        return obs, reward, terminated, truncated, info


class Painted(Walk):
    """Sound: it draws itself."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 5}  # noqa: RUF012

    def render(self) -> Any:
        if self.render_mode == "ansi":
            return f"{self.x:+.2f}"
        picture = np.zeros((4, 21, 3), np.uint8)
        picture[:, round(10 * self.x) + 10] = 255
        return picture


class Masked(Hops):
    """Sound: the mask leaves out the step over the edge."""

    def info(self) -> dict[str, Any]:
        return {"action_mask": np.array([self.x > -0.8, self.x < 0.8], np.int8)}


class Leaky(Walk):
    """Keeps four kilobytes a step."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.kept: list[Any] = []

    def move(self, action: Any) -> Any:
        self.kept.append(np.ones(512))
        return super().move(action)


class Opening(Walk):
    """Opens a file a step."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.files: list[int] = []

    def move(self, action: Any) -> Any:
        self.files.append(os.open(os.devnull, os.O_RDONLY))
        return super().move(action)

    def close(self) -> None:
        for file in self.files:
            os.close(file)
        self.files.clear()


class Lambda(Walk):
    """Cannot be pickled."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.shape = lambda x: x


class Forgetful(Walk):
    """A copy has lost its wind."""

    strength = 1.0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "strength": 0.0}

    def move(self, action: Any) -> Any:
        self.x += 0.1 * self.strength
        return super().move(action)


class Loud(Walk):
    """Prints on every step."""

    def move(self, action: Any) -> Any:
        os.write(1, b"a step\n")
        return super().move(action)


class Sleepy(Walk):
    """Sleeps in every tenth step."""

    taken = 0

    def move(self, action: Any) -> Any:
        self.taken += 1
        if self.taken % 10 == 0:
            time.sleep(0.03)
        return super().move(action)


class Deaf2(Walk):
    """Two actions, of which the second does nothing."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)


class Wild(Walk):
    """Draws what happens from Python's own generator."""

    def begin(self) -> None:
        super().begin()
        self.wind = random.uniform(-0.5, 0.5)


class Hashed(Walk):
    """The wind follows the hash of a text, as whatever follows the order of a set does."""

    def begin(self) -> None:
        super().begin()
        self.wind = 1e-6 * (hash("a") % 100_000)


def hang(env: Any) -> None:
    """Never comes back."""
    while True:
        time.sleep(0.01)


def fork(env: Any) -> None:
    """Leaves a copy of the process behind, which goes on in the caller's code."""
    os.fork()


def die(env: Any) -> None:
    """Ends the process."""
    os._exit(7)


def shout(env: Any) -> None:
    """Megabytes, past `sys.stdout`."""
    for _ in range(64):
        os.write(1, b"x" * 65536)


def leave(env: Any) -> None:
    """Asks to end the process."""
    sys.exit(0)


Hanging, Forking, Dying, Shouting, Leaving = (at(5, act) for act in (hang, fork, die, shout, leave))
for _name, _made in (("Hanging", Hanging), ("Forking", Forking), ("Dying", Dying), ("Shouting", Shouting)):
    _made.__name__ = _made.__qualname__ = _name


class MaskInObs(Hops):
    """Its mask is a part of the observation, as PettingZoo has it."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.observation_space = spaces.Dict(place=self.observation_space, action_mask=spaces.MultiBinary(2))

    def observe(self) -> Any:
        return {"place": super().observe(), "action_mask": np.array([self.x > -0.8, self.x < 0.8], np.int8)}
