"""Trainings in forked processes, killed with SIGKILL and resumed, beside one that is left alone.

A fork of a process that has imported everything starts at once, so that hundreds of kills take minutes. Nothing may
have computed in the parent: threads do not come along.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import steadyrl as srl
from steadyrl.training.checkpoint import steps_in
from steadyrl.training.comparing import compared, first_difference
from steadyrl.training.saving import LOGS
from steadyrl.training.verifying import last_step

ON = {"num_envs": 2, "n_steps": 32}
OFF = {"num_envs": 2, "learning_starts": 64, "batch_size": 16, "buffer_size": 400, "net_arch": (16,)}
SMALL: dict[str, dict[str, Any]] = {
    "ppo": {**ON, "batch_size": 32, "n_epochs": 2},
    "a2c": {"num_envs": 2, "n_steps": 8},
    "dqn": OFF,
    "ddpg": OFF,
    "td3": OFF,
    "sac": OFF,
}
ENVS: dict[str, tuple[str, dict[str, Any]]] = {
    "CartPole": ("CartPole-v1", {}),
    "Pendulum": ("Pendulum-v1", {}),
    "HalfCheetah": ("HalfCheetah-v5", {}),
    "LunarLander": ("LunarLander-v3", {}),
    "LunarLander, continuous": ("LunarLander-v3", {"continuous": True}),
}
DISCRETE, CONTINUOUS = ("CartPole", "LunarLander"), ("Pendulum", "HalfCheetah", "LunarLander, continuous")


def envs_for(algo: str) -> tuple[str, ...]:
    """The environments that an algorithm can act in."""
    if algo == "dqn":
        return DISCRETE
    return CONTINUOUS if algo in ("ddpg", "td3") else DISCRETE + CONTINUOUS


@dataclass(frozen=True)
class Case:
    """One training; `total` environment steps."""

    algo: str
    env: str
    normalised: bool = False
    vec: str = "sync"
    total: int = 1200
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return ", ".join([self.algo, self.env, "normalised" if self.normalised else "raw", self.vec])

    def train(self, path: Path) -> None:
        env, kwargs = ENVS[self.env]
        options: dict[str, Any] = {
            "preset": "none",
            "eval_freq": self.total // 3,
            "eval_episodes": 1,
            "max_episode_steps": 60,
            "checkpoint_freq": self.total // 8,
            "keep_last": 3,
            "seed": 5,
            "vec": self.vec,
            "num_workers": 2 if self.vec == "async" else None,
            "env_kwargs": kwargs,
            "normalize_obs": self.normalised,
            **SMALL[self.algo],
            **({"normalize_reward": True} if self.normalised and self.algo in ("ppo", "a2c") else {}),
            **self.more,
        }
        srl.train(self.algo, env, total_timesteps=self.total, run_dir=path, **options)


def forked(work: Callable[[], object], log: Path) -> int:
    """Run it in a fork, whose id is returned; its exit status is 0 where it came to its end."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
        work()
        status = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def finish(child: int) -> int:
    """Wait for it; its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@dataclass
class Verdict:
    """What killing and resuming led to."""

    case: str
    kills: list[tuple[int, int]]  # last step told, step resumed from
    problem: str
    compared: dict[str, int]


def try_kills(case: Case, folder: Path, kills: int, draw: random.Random) -> Verdict:
    """Train twice, the second time with up to this many kills at random moments after a checkpoint."""
    folder.mkdir(exist_ok=True)
    whole, killed, log = folder / "whole", folder / "killed", folder / "log.txt"
    start = time.perf_counter()
    if finish(forked(lambda: case.train(whole), log)) != 0:
        return Verdict(case.name, [], f"it does not train: {log.read_text()[-500:]}", {})
    seconds = time.perf_counter() - start
    done: list[tuple[int, int]] = []
    work: Callable[[], object] = lambda: case.train(killed)  # noqa: E731
    for _ in range(10 * kills):
        before = newest(killed)
        child = forked(work, log)
        if len(done) < kills and (step := _killed(child, killed, before, draw.uniform(0, 0.8 * seconds / kills))):
            done.append((step, newest(killed)))
        elif len(done) >= kills and finish(child) != 0:
            return Verdict(case.name, done, f"it does not go on: {log.read_text()[-500:]}", {})
        elif newest(killed) == before:
            return Verdict(case.name, done, f"it makes no way: {log.read_text()[-500:]}", {})
        if newest(killed) == case.total:
            break
        work = lambda: srl.resume(killed)  # noqa: E731
        if not steps_in(killed / "checkpoints"):
            return Verdict(case.name, done, f"no checkpoint: {log.read_text()[-500:]}", {})
    if srl.Run.open(killed).status != "finished":  # killed after its last checkpoint, with nothing left to train
        finish(forked(lambda: srl.resume(killed), log))
    difference = first_difference(whole, killed)
    return Verdict(case.name, done, "" if difference is None else str(difference), compared(whole, killed))


def newest(run: Path) -> int:
    return max(steps_in(run / "checkpoints"), default=0)


def _killed(child: int, run: Path, before: int, delay: float) -> int:
    """Kill it so many seconds after it wrote a new checkpoint; the last step it told of, or 0 where it had ended."""
    while newest(run) <= before:
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            return 0
        time.sleep(0.002)
    deadline = time.perf_counter() + delay
    while time.perf_counter() < deadline:
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            return 0
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    finish(child)
    return max(last_step(run), newest(run))


__all__ = ["CONTINUOUS", "DISCRETE", "LOGS", "SMALL", "Case", "Verdict", "envs_for", "finish", "forked", "try_kills"]
