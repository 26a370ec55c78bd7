"""Ways to act: at random, at the corners, always the same, rarely changing, and by looking."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.checker.probe.driver import Driver
from steadyrl.checker.probe.features import Features
from steadyrl.checker.probe.masks import mask_of, mask_parts, permitted

Policy = Callable[[Any, Any], Any]  # observation, mask (None where there is none) -> action
Maker = Callable[[int], Policy]  # seed -> a policy that always acts alike

_HOLD = 0.9  # probability that a sticky policy keeps its action
_MOST_CORNERS = 16


def act(policy: Policy, driver: Driver) -> Any:
    """The action of a policy where an instance is."""
    env = driver.env
    return policy(driver.obs, mask_of(env.action_space, driver.obs, driver.info, env))


def at_random(space: gym.Space[Any]) -> Maker:
    """Samples of the space, of those that a mask allows."""

    def make(seed: int) -> Policy:
        own = copy.deepcopy(space)
        own.seed(seed)
        dice = np.random.default_rng(seed)

        def act(obs: Any, mask: Any) -> Any:
            parts = mask_parts(space, mask)
            if parts is None:
                return own.sample()
            chosen = [int(dice.choice(np.flatnonzero(part))) for part in parts]
            if isinstance(space, spaces.Discrete):
                return _nth(space, chosen[0])
            start = np.asarray(getattr(space, "start", 0))
            return (start + np.reshape(chosen, space.shape or ())).astype(space.dtype)

        return act

    return make


def sticky(space: gym.Space[Any]) -> Maker:
    """A random action that is kept for some ten steps."""

    def make(seed: int) -> Policy:
        sample, dice = at_random(space)(seed), np.random.default_rng(seed)
        held: list[Any] = []

        def act(obs: Any, mask: Any) -> Any:
            if not held or mask is not None or dice.random() > _HOLD:
                held[:] = [sample(obs, mask)]
            return copy.deepcopy(held[0])

        return act

    return make


def always(space: gym.Space[Any], action: Any) -> Maker:
    """One action, where a mask allows it."""

    def make(seed: int) -> Policy:
        sample = at_random(space)(seed)

        def act(obs: Any, mask: Any) -> Any:
            return copy.deepcopy(action) if permitted(space, mask, action) else sample(obs, mask)

        return act

    return make


def looking(space: gym.Space[Any], features: Features, mean: Any, spread: Any) -> Maker | None:
    """Linear in the observation's features, with weights drawn anew for each seed; None for other spaces.

    Args:
        space: Action space, Discrete or Box.
        features: Of the observations.
        mean: Of each feature, [D].
        spread: Standard deviation of each, [D].
    """
    if not features.names or not isinstance(space, spaces.Discrete | spaces.Box):
        return None
    size = int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape))

    def make(seed: int) -> Policy:
        weights = np.random.default_rng(seed).standard_normal((size, len(features.names)))
        sample = at_random(space)(seed)
        bounds: Any = _finite_bounds(space) if isinstance(space, spaces.Box) else None

        def act(obs: Any, mask: Any) -> Any:
            row = features.row(obs)
            if row is None or not np.isfinite(row).all():
                return sample(obs, mask)
            scores = weights @ ((row - mean) / spread)
            if isinstance(space, spaces.Discrete):
                parts = mask_parts(space, mask)
                return _nth(space, int(np.argmax(scores if parts is None else np.where(parts[0], scores, -np.inf))))
            low, high = bounds
            share = (np.tanh(scores).reshape(space.shape) + 1) / 2
            return np.clip(low + share * (high - low), low, high).astype(space.dtype)

        return act

    return make


def _finite_bounds(space: spaces.Box) -> tuple[Any, Any]:
    low = np.where(np.isfinite(space.low), space.low, np.where(np.isfinite(space.high), space.high - 2.0, -1.0))
    high = np.where(np.isfinite(space.high), space.high, low + 2.0)
    return low.astype(np.float64), high.astype(np.float64)


def _nth(space: spaces.Discrete, i: int) -> Any:
    return np.dtype(space.dtype).type(int(space.start) + i)


def corners(space: gym.Space[Any]) -> Iterator[tuple[str, Any]]:
    """The extreme actions of a space, each with a name; every action of a small Discrete."""
    if isinstance(space, spaces.Discrete):
        n = int(space.n)
        chosen = range(n) if n <= 4 * _MOST_CORNERS else [*range(8), *range(n - 8, n)]
        for i in chosen:
            yield f"action {int(space.start) + i}", _nth(space, i)
    elif isinstance(space, spaces.Box):
        low, high = _finite_bounds(space)
        yield "the lowest action", low.astype(space.dtype)
        yield "the highest action", high.astype(space.dtype)
        if space.is_bounded():
            yield "the middle action", ((low + high) / 2).astype(space.dtype)
        size = int(np.prod(space.shape))
        if 1 < size <= _MOST_CORNERS:
            for i, top in itertools.product(range(size), (False, True)):
                corner = (low if top else high).ravel().copy()
                corner[i] = (high if top else low).ravel()[i]
                yield (
                    f"{'the highest' if top else 'the lowest'} value in dimension {i}",
                    (corner.reshape(space.shape).astype(space.dtype)),
                )
    elif isinstance(space, spaces.MultiBinary):
        yield "all zeros", np.zeros(space.shape, space.dtype)
        yield "all ones", np.ones(space.shape, space.dtype)
    elif isinstance(space, spaces.MultiDiscrete):
        start = np.broadcast_to(np.asarray(space.start), space.nvec.shape)
        yield "the lowest choices", start.astype(space.dtype)
        yield "the highest choices", (start + space.nvec - 1).astype(space.dtype)
        for i in range(min(space.nvec.size, _MOST_CORNERS)):
            choice = start.ravel().copy()
            choice[i] += space.nvec.ravel()[i] - 1
            yield f"the highest choice in dimension {i}", choice.reshape(space.shape).astype(space.dtype)
    elif isinstance(space, spaces.Dict | spaces.Tuple):
        yield from _corners_of_parts(space)


def _corners_of_parts(space: spaces.Dict | spaces.Tuple[Any]) -> Iterator[tuple[str, Any]]:
    """All parts at their first corner, all at their second, then each part at each of its corners, the others first."""
    keys: list[Any] = list(space.spaces) if isinstance(space, spaces.Dict) else list(range(len(space.spaces)))
    parts = {key: list(corners(space[key])) for key in keys}
    if not all(parts.values()):
        return

    def whole(chosen: dict[Any, Any]) -> Any:
        told = {key: copy.deepcopy(chosen.get(key, parts[key][0][1])) for key in keys}
        return told if isinstance(space, spaces.Dict) else tuple(told.values())

    yield "the lowest of every part", whole({})
    yield "the highest of every part", whole({key: ends[min(1, len(ends) - 1)][1] for key, ends in parts.items()})
    for key, ends in parts.items():
        for name, value in ends[1:_MOST_CORNERS]:
            yield f"{name} of part {key!r}", whole({key: value})
