"""What an episode was made of: how it began and every action since, so that it can be run again."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

MAX_ACTIONS = 1_000_000  # an episode without an end must not fill the memory
MARK_EVERY = 64  # steps between two marks of the hash over the observations


@dataclass
class EpisodeTrace:
    """The record of one episode of one environment.

    Attributes:
        seed: What reset was given; None where the environment drew on.
        options: What reset was given.
        random_state: Of the environment's own generator just before reset, and of wrappers that draw (`drawing.py`);
            None where a seed was given or there is none.
        actions: As the environment got them, in order.
        whole: False where actions beyond `MAX_ACTIONS` were not kept.
        begun: Whether there was a reset.
        start: What could be read of the environment just before reset (`snapshots.replay`); None where nobody asked.
        seen: A hash over all observations and rewards so far; None where it does not cover the whole episode.
        marks: That hash at reset and after every `MARK_EVERY` steps.
    """

    seed: int | None = None
    options: dict[str, Any] | None = None
    random_state: dict[str, Any] | None = None
    actions: list[Any] = field(default_factory=list)
    whole: bool = True
    begun: bool = False
    start: Any = None
    seen: int | None = None
    marks: list[int] = field(default_factory=list)

    @classmethod
    def beginning(cls, env: gym.Env[Any, Any], seed: int | None, options: dict[str, Any] | None) -> EpisodeTrace:
        """The record of the episode that `env.reset(seed=seed, options=options)` is about to start."""
        generator = None if seed is not None else getattr(env.unwrapped, "_np_random", None)
        bits = getattr(generator, "bit_generator", None)
        return cls(seed, options, None if bits is None else bits.state, begun=True)

    def start_hash(self, obs: Any) -> None:
        """Begin the hash with the observation of reset."""
        self.seen = hash_of(obs, 0)
        self.marks.append(self.seen)

    def see(self, obs: Any, reward: float) -> None:
        """Go on with the hash after a step: about half a microsecond, and one more for each kilobyte or so."""
        if self.seen is None:
            return
        start = self.seen ^ (hash(reward) & 0xFFFFFFFF)
        plain = type(obs) is np.ndarray and obs.flags.c_contiguous
        self.seen = zlib.crc32(obs, start) if plain else hash_of(obs, start)
        if len(self.actions) % MARK_EVERY == 0:
            self.marks.append(self.seen)


def hash_of(obs: Any, start: int) -> int:
    """A 32-bit hash of an observation, going on from another."""
    if type(obs) is np.ndarray:
        return zlib.crc32(obs.tobytes(), start)
    if type(obs) is dict:
        for part in obs.values():
            start = hash_of(part, start)
        return start
    if isinstance(obs, tuple):  # a graph is a named one
        for part in obs:
            start = hash_of(part, start)
        return start
    if isinstance(obs, np.generic):
        return zlib.crc32(obs.tobytes(), start)
    return zlib.crc32(repr(obs).encode(), start)
