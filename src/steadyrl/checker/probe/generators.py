"""The random generators that an environment keeps, wherever in it they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Driver
from steadyrl.checker.probe.play import over
from steadyrl.checker.probe.policies import act, at_random

_DEPTH = 5
_MOST = 5_000  # objects that are looked at
_KINDS = (np.random.Generator, np.random.RandomState, random.Random)


def own_generators(driver: Driver) -> dict[str, Any]:
    """The generators that can be reached from the environment itself, by path."""
    seen: set[int] = set()
    return dict(_walk(driver.env.unwrapped, "", _DEPTH, seen))


def _walk(value: Any, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _KINDS):
        yield path, value
        return
    if depth == 0 or id(value) in seen or len(seen) > _MOST:
        return
    seen.add(id(value))
    for name, part in _parts(value):
        yield from _walk(part, f"{path}.{name}" if path else name, depth - 1, seen)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(key), part) for key, part in list(value.items()))
    elif isinstance(value, list | tuple):
        yield from ((str(i), part) for i, part in enumerate(value))
    elif hasattr(value, "__dict__") and not isinstance(value, type | gym.Space):
        yield from list(vars(value).items())


def generator_state(generator: Any) -> str:
    """The state of a generator, to be compared."""
    if isinstance(generator, random.Random):
        return repr(generator.getstate())
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    state: Any = generator.get_state(legacy=False)
    return repr((state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"]))


def set_generator(generator: Any, seed: int) -> bool:
    """Bring a generator into the state that follows from a seed; False for a kind that is not known."""
    if isinstance(generator, random.Random | np.random.RandomState):
        generator.seed(seed)
        return True
    if isinstance(generator, np.random.Generator):
        kind: Any = type(generator.bit_generator)
        generator.bit_generator.state = kind(seed).state
        return True
    return False


def is_drawn_from(driver: Driver, name: str) -> bool:
    """Whether a reset brings this generator back to where it was, or a reset and some steps move it."""
    value = own_generators(driver)[name]
    before = generator_state(value)
    value.random()
    driver.reset(seed=SEED)
    now = own_generators(driver).get(name)
    if now is not None and generator_state(now) == before:
        return True
    before = generator_state(now)
    acting = at_random(driver.env.action_space)(SEED)
    driver.reset()
    for _ in range(20):
        if over(driver.step(act(acting, driver))):
            break
    now = own_generators(driver).get(name)
    return now is not None and generator_state(now) != before
