"""What the guard against bad numbers costs: the same training with and without it, in turn, in one process.

    python benchmarks/guards.py [--rounds 200] [--output benchmarks/results/guards.json]

Both agents do the same work bit for bit, and each round trains one after the other, in changing order. The figure is
the median over the rounds of the ratio of their times on the CPU (which other processes disturb less than the clock's).
There is no way to turn the guard off in the library: here its functions are replaced by empty ones.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any
from unittest import mock

import steadyrl as srl
from steadyrl.algorithms.guard import Guard
from steadyrl.envs.checks import Checks
from steadyrl.nn.normalizer import ObsNormalizer
from steadyrl.training import off_policy, on_policy
from steadyrl.training.agent import Agent
from steadyrl.training.stepping import Stepper

RESULTS = Path(__file__).parent / "results"
DECLARED = 10**7  # steps that schedules run over, so that every round is alike
WORKS: dict[str, tuple[Callable[[], Agent], int]] = {
    "PPO CartPole-v1": (lambda: srl.PPO("CartPole-v1", num_envs=8, threads=1), 512),
    "SAC HalfCheetah-v5": (lambda: srl.SAC("HalfCheetah-v5", preset="none", learning_starts=100, threads=1), 20),
}


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


def _stored(self: Checks, obs: Any, rows: Any = None) -> Any:
    return self._spec.store(obs, batch=True)


@contextmanager
def unguarded() -> Iterator[None]:
    """Nothing is looked at, and nothing is kept to go back to."""
    empty = [
        (Guard, "look"),
        (Guard, "begin"),
        (Checks, "leaves"),
        (Checks, "rewards"),
        (Stepper, "require_sane"),
        (on_policy, "require_sane_policy"),
        (on_policy, "require_sane_outputs"),
        (off_policy, "require_sane_policy"),
        (ObsNormalizer, "undo"),
    ]
    with mock.patch.multiple(
        Guard,
        minibatch=lambda self, *args: nullcontext(),
        provisional=_nothing,
        applied=lambda self, norm: norm,
        read=_nothing,
    ):
        patches = [mock.patch.object(owner, name, _nothing) for owner, name in empty]
        patches.append(mock.patch.object(Checks, "stored", _stored))
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()


def train(agent: Agent, steps: int, *, guarded: bool) -> tuple[float, float]:
    """Seconds on the CPU and on the clock of so many further steps."""
    with nullcontext() if guarded else unguarded():
        cpu, clock = process_time(), perf_counter()
        agent.learn(steps, schedule_steps=DECLARED)
        return process_time() - cpu, perf_counter() - clock


def measure(make: Callable[[], Agent], steps: int, rounds: int) -> dict[str, Any]:
    """The cost of the guard in percent of steps per second, medians and quartiles over the rounds."""
    agents = {True: make(), False: make()}
    for guarded, agent in agents.items():
        train(agent, steps, guarded=guarded)  # traces losses, fills caches
    seconds: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for i in range(rounds):
        for guarded in (True, False) if i % 2 == 0 else (False, True):
            seconds[guarded].append(train(agents[guarded], steps, guarded=guarded))
    hashes = {agent.policy.sha256() for agent in agents.values()}
    assert len(hashes) == 1, "the guard changed a training without bad numbers"
    pairs = [[100 * (a[k] / b[k] - 1) for a, b in zip(seconds[True], seconds[False], strict=True)] for k in (0, 1)]
    for agent in agents.values():
        agent.close()
    return {
        "cost_percent_cpu": round(median(pairs[0]), 2),
        "cost_percent_clock": round(median(pairs[1]), 2),
        "cost_percent_cpu_quartiles": [round(x, 2) for x in quantiles(pairs[0])],
        "cost_percent_of_fastest_cpu": round(100 * (min(seconds[True])[0] / min(seconds[False])[0] - 1), 2),
        "steps_per_round": steps,
        "same_weights": True,
    }


def main() -> None:
    """Measure both works."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--output", type=Path, default=RESULTS / "guards.json")
    options = parser.parse_args()
    works = {name: measure(make, steps, options.rounds) for name, (make, steps) in WORKS.items()}
    machine = {"cores": os.cpu_count(), "load_average": [round(x, 1) for x in os.getloadavg()]}
    text = json.dumps({"rounds": options.rounds, "machine": machine, "works": works}, indent=2)
    options.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
