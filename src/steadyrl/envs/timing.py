"""How long steps of environments take: random actions through a vector's own interface, in short turns."""

from __future__ import annotations

import importlib.util
import random
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from steadyrl.envs.allowed import Chooser
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.masks import KEY
from steadyrl.envs.types import BoolArray
from steadyrl.spaces.action_tree import tree_of_actions
from steadyrl.spaces.tree import Tree

_resource: Any = importlib.import_module("resource") if importlib.util.find_spec("resource") else None  # not on Windows

_BATCHES = 32  # different actions that a measurement goes round
_PIECE_S = 1e-3  # how long a piece of that is
_ONE_S = 0.03  # how long a single environment is stepped to learn what a step costs
_ONE_STEPS = 2000  # the same in steps
SEED = 20_260_000  # of environments that are only timed


class Steps(Protocol):
    """What can be timed: one vector step at a time."""

    num_envs: int

    def step(self, actions: npt.NDArray[Any]) -> Any:
        """Step every environment."""
        ...


@dataclass(frozen=True)
class Cost:
    """What one environment costs.

    Attributes:
        make_s: Seconds to make it.
        step_s: Seconds of a step, resets at the ends of episodes included.
        busy: Which share of a step the CPU works for it; the rest it waits (for a server, a device, a clock).
        draws: Whether it draws from the process's own generators, which other processes do not share.
    """

    make_s: float
    step_s: float
    busy: float
    draws: bool


class Timed:
    """A vector that is stepped with random actions, a short turn at a time.

    Args:
        envs: The vector, reset already.
        space: Action space of one environment.
        clock: Tells seconds; None is the wall's.
        masks: Gives what is allowed now, [N, width]; then actions are drawn from that, while the clock does not count.
            None allows everything.
    """

    def __init__(
        self,
        envs: Steps,
        space: gym.Space[Any],
        clock: Callable[[], float] | None = None,
        masks: Callable[[], BoolArray] | None = None,
    ) -> None:
        self._clock = clock or perf_counter
        self._step = envs.step
        self.num_envs = envs.num_envs
        self._masks = masks
        self._choose = None if masks is None else Chooser(space)
        self._actions = actions_for(space, envs.num_envs)
        self._at = 0
        self.rates: list[float] = []

    def turn(self, seconds: float) -> float:
        """Step for about so long, once at least; returns environment steps per second."""
        start, now, count = self._clock(), 0.0, 0
        while not count or now < seconds:
            if self._masks is not None and self._choose is not None:
                paused = self._clock()
                actions = self._choose(self._masks())
                start += self._clock() - paused
            else:
                actions = self._actions[self._at % _BATCHES]
            self._step(actions)
            self._at += 1
            count += 1
            now = self._clock() - start
        self.rates.append(count * self.num_envs / now)
        return self.rates[-1]

    @property
    def rate(self) -> float:
        """Environment steps per second: the median of the turns."""
        return statistics.median(self.rates)

    @property
    def spread(self) -> float:
        """How far the turns lie apart: half the distance between their quartiles, as a share of the median."""
        if len(self.rates) < 2:
            return 0.0
        low, middle, high = statistics.quantiles(self.rates, n=4)
        return (high - low) / 2 / middle


def in_turns(timed: Sequence[Timed], seconds: float, rounds: int) -> None:
    """Time several vectors for about so long together: they alternate, so that what disturbs one disturbs all."""
    for _ in range(rounds):
        for each in timed:
            each.turn(seconds / rounds / len(timed))


def actions_for(space: gym.Space[Any], num_envs: int) -> list[npt.NDArray[Any]]:
    """Random actions for `num_envs` environments, the same at each call; batches of [N, ...], as policies give them."""
    batched = gym.vector.utils.batch_space(space, num_envs)
    batched.seed(SEED)
    sampled = [batched.sample() for _ in range(_BATCHES)]
    if not isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return sampled
    tree, packed = Tree.of(space), np.zeros((_BATCHES, num_envs), tree_of_actions(space).env_dtype)
    for batch, sample in zip(packed, sampled, strict=True):
        for path, part in tree.flat(sample).items():
            batch[path] = part
    return list(packed)


def is_gymnasiums(factory: EnvFactory) -> bool:
    """Whether the environment comes with Gymnasium, whose first steps neither hang nor end the process."""
    entry = None if factory.registered is None else factory.registered.entry_point
    return isinstance(entry, str) and entry.startswith("gymnasium.envs.")


def cost_of(factory: Callable[[], Any]) -> Cost:
    """Make one environment, step it for some hundredths of a second, close it.

    Raises:
        SteadyRLError: it cannot be made, or fails.
    """
    with undisturbed():
        before = _global_state()
        start = perf_counter()
        env = factory()
        make_s = perf_counter() - start
        try:
            _, info = env.reset(seed=SEED)
            step_s, busy = _step_cost(_Stepped(env, info))
        finally:
            env.close()
        return Cost(make_s, step_s, busy, draws=_differs(before, _global_state()))


class _Stepped:
    """One environment that is stepped with random actions, of what its masks allow where it gives any.

    Attributes:
        paused: Seconds in which actions were chosen under masks: the CPU's, not the environment's.

    Args:
        env: The environment, reset already.
        info: What its reset told.
    """

    def __init__(self, env: gym.Env[Any, Any], info: dict[str, Any]) -> None:
        self.paused = 0.0
        self._env = env
        self._mask = info.get(KEY)
        chosen = isinstance(env.action_space, gym.spaces.Discrete | gym.spaces.MultiDiscrete)
        self._choose = Chooser(env.action_space) if chosen and self._mask is not None else None
        self._actions = actions_for(env.action_space, 1)

    def seconds(self, count: int) -> float:
        """Seconds of so many steps, with the resets in between."""
        env, actions, choose = self._env, self._actions, self._choose
        before, start = self.paused, perf_counter()
        for i in range(count):
            action = actions[i % _BATCHES][0] if choose is None else self._allowed(choose, i)
            *_, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                _, info = env.reset()
            if choose is not None:
                self._mask = info.get(KEY)
        return perf_counter() - start - (self.paused - before)

    def _allowed(self, choose: Chooser, i: int) -> Any:
        """What the mask allows; any action where there was none."""
        start = perf_counter()
        action = self._actions[i % _BATCHES][0] if self._mask is None else choose(self._mask[None])[0]
        self.paused += perf_counter() - start
        return action


def _step_cost(stepped: _Stepped) -> tuple[float, float]:
    """Seconds of a step, and which share of it the CPU works.

    The time is the median over pieces of a millisecond, most of which no other process cuts into. An environment that
    never gives the CPU away by itself works all the time, however often others take it away.
    """
    stepped.seconds(1)  # the first step often builds something
    start, cpu, waits, paused = perf_counter(), process_time(), _waits(), stepped.paused
    pieces = [stepped.seconds(1)]
    length, total = max(1, round(_PIECE_S / max(pieces[0], 1e-7))), 1
    while perf_counter() - start < _ONE_S and total < _ONE_STEPS:
        pieces.append(stepped.seconds(length) / length)
        total += length
    chose = stepped.paused - paused
    wall, used = perf_counter() - start - chose, process_time() - cpu - chose
    gave_away = total if _resource is None else _waits() - waits
    busy = 1.0 if gave_away < total / 10 else min(1.0, max(used, 0.0) / wall)
    return statistics.median(pieces[1:] or pieces), busy


def _waits() -> int:
    """How often this process gave the CPU away to wait for something; 0 where the system does not tell."""
    return 0 if _resource is None else int(_resource.getrusage(_resource.RUSAGE_SELF).ru_nvcsw)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Python's and NumPy's own generators are as before afterwards, and what is timed says nothing."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _global_state() -> tuple[Any, Mapping[str, Any]]:
    state: Any = np.random.get_state(legacy=False)
    return random.getstate(), state


def _differs(one: tuple[Any, Mapping[str, Any]], other: tuple[Any, Mapping[str, Any]]) -> bool:
    """Whether a generator went on from one state to the other."""
    inner, outer = one[1]["state"], other[1]["state"]
    return one[0] != other[0] or inner["pos"] != outer["pos"] or not np.array_equal(inner["key"], outer["key"])
