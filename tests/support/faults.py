"""An environment that fails in any way, where and when it is told to. It imports no torch."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import threading
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from support.envs import Reset, Stepped

FAULTS = (
    "raise", "SIGKILL", "SIGSEGV", "SIGSTOP", "os._exit", "loop", "loop in C", "unpicklable info", "wrong shape", "NaN"
)  # fmt: skip
HANGS = ("SIGSTOP", "loop", "loop in C")
SAFE_IN_CLOSE = ("unpicklable info", "wrong shape", "NaN")  # closing tells nothing


class MotorError(LookupError):
    """An exception of the user's own."""


class Faulty(gym.Env[Any, Any]):
    """Moves by its action until the fault; what it observes depends on its seed, its actions and its own draws.

    Args:
        fault: One of `FAULTS`, or empty.
        where: `make`, `reset`, `step` or `close`.
        at: The step of each episode, or the episode, in which it comes.
        bad_seed: Only in an environment that was started with this seed; None is in all.
        horizon: Steps of an episode.
        delay: Seconds, at most, that a step takes; drawn at random, not from the environment's generator.
    """

    def __init__(
        self,
        fault: str = "",
        where: str = "step",
        at: int = 3,
        bad_seed: int | None = None,
        horizon: int = 7,
        delay: float = 0.0,
    ) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.fault, self.where, self.at, self.bad_seed = fault, where, at, bad_seed
        self.horizon, self.delay = horizon, delay
        self.seed: int | None = None
        self.episode = 0
        self.t = 0
        self.position = 0.0
        self._fail("make", 0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.seed = self.seed if seed is None else seed
        self.episode += 1
        self.t = 0
        self.position = float(self.np_random.normal())
        obs, info = self._fail("reset", self.episode)
        return obs, info

    def step(self, action: Any) -> Stepped:
        self.t += 1
        if self.delay:
            time.sleep(self.delay * int.from_bytes(os.urandom(1), "little") / 255)
        self.position += (int(action) - 1) * 0.1 + 0.01 * float(self.np_random.normal())
        obs, info = self._fail("step", self.t)
        return obs, -abs(self.position), False, self.t >= self.horizon, info

    def close(self) -> None:
        self._fail("close", 0)

    def _fail(self, where: str, at: int) -> tuple[Any, dict[str, Any]]:
        obs: Any = np.array([self.position, self.t, self.episode], dtype=np.float32)
        here = where == self.where and (where in ("make", "close") or at == self.at)
        if not here or self.bad_seed not in (None, self.seed):
            return obs, {}
        if self.fault == "raise":
            raise MotorError("the motor fell off")
        if self.fault in ("SIGKILL", "SIGSTOP"):
            os.kill(os.getpid(), getattr(signal, self.fault))
        if self.fault == "SIGSEGV":
            ctypes.string_at(0)
        if self.fault == "os._exit":
            os._exit(7)
        if self.fault == "sleep":
            time.sleep(1e6)
        while self.fault == "loop":
            pass
        if self.fault == "loop in C":
            any(itertools.repeat(False))  # no signal handler of Python's runs in it
        if self.fault == "wrong shape":
            return obs[:2], {}
        if self.fault == "NaN":
            obs[1] = np.nan
        return obs, {"action_mask": np.array([threading.Lock()])} if self.fault == "unpicklable info" else {}
