"""What wrappers of this library draw: from generators of their own, whatever an environment makes of its seed."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from steadyrl.envs.convert import copied

_WRAPPERS = "wrappers"  # key of a recorded random state: those of the wrappers that draw, outermost first

RandomState = dict[str, Any]


class StickyActions(gym.Wrapper[Any, Any, Any, Any]):
    """The action that was taken last is taken again with some probability (Machado et al. 2018, section 5.2).

    Gymnasium's wrapper draws from the generator of the environment, which one with a generator of its own never seeds.

    Args:
        env: The environment.
        probability: Of the last action instead of the chosen one.

    Attributes:
        generator: Seeded by every reset with a seed, another stream than the environment's; it goes on without one.
    """

    def __init__(self, env: gym.Env[Any, Any], probability: float) -> None:
        super().__init__(env)
        self.generator = np.random.default_rng()
        self._probability = probability
        self._begun = False
        self._last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Nothing was taken yet."""
        result = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self.generator = _stream(seed, "sticky actions")
        self._begun, self._last = False, None
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take this action or the last one."""
        if self._begun and self.generator.random() < self._probability:
            action = self._last
        self._begun, self._last = True, copied(action)  # environments may write into what they are given
        return self.env.step(action)


def drawing_in(env: gym.Env[Any, Any]) -> list[StickyActions]:
    """The wrappers around an environment that draw, outermost first."""
    found = []
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, StickyActions):
            found.append(layer)
        layer = layer.env
    return found


def with_wrappers(own: RandomState | None, drawing: list[StickyActions]) -> RandomState:
    """The random state of an environment (None where it has none) together with those of its wrappers."""
    return {**(own or {}), _WRAPPERS: [layer.generator.bit_generator.state for layer in drawing]}


def parted(state: Mapping[str, Any]) -> tuple[RandomState | None, list[Any]]:
    """What `with_wrappers` put together.

    Raises:
        ValueError: those of the wrappers are no list.
    """
    own = {key: value for key, value in state.items() if key != _WRAPPERS}
    wrappers = state.get(_WRAPPERS, [])
    if not isinstance(wrappers, list):
        raise ValueError(f"its '{_WRAPPERS}' is a {type(wrappers).__name__}")
    return own if own or _WRAPPERS not in state else None, wrappers


def lend(env: gym.Env[Any, Any], lent: np.random.Generator | None, seed: int) -> np.random.Generator | None:
    """Give an environment that is about to be reset the generator that it should make of the seed.

    It replaces it, unless it makes nothing of its seed: others around it may draw from it all the same. One that the
    environment has made itself is left alone.

    Args:
        env: The environment itself.
        lent: What this function gave it before.
        seed: Of the reset.

    Returns:
        The generator that it was given; None where it has one of its own.
    """
    inner: Any = env
    if getattr(type(inner), "np_random", None) is not gym.Env.np_random:
        return None
    if inner._np_random is not None and inner._np_random is not lent:
        return None
    inner._np_random, inner._np_random_seed = gym.utils.seeding.np_random(seed)
    given: np.random.Generator = inner._np_random
    return given


def _stream(seed: int, name: str) -> np.random.Generator:
    """A stream of this name: not that which an environment makes of the same seed."""
    sequence = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),))
    return np.random.Generator(np.random.PCG64(sequence))
