"""CPU time of a step in this library's vector beside Gymnasium's SyncVectorEnv, both stepping the same environments.

    python benchmarks/adapter.py      # benchmarks/results/adapter.json; --seconds 10 an environment

Gymnasium's (SAME_STEP), ours and a plain loop over the bare environments take turns of 20 ms; each has stepped 1,010
times before (observations are looked at more closely in the first thousand). `over_gymnasium` is our time over
Gymnasium's, less 1: the median over pairs of neighbouring turns, with its quartiles. Ours also makes copies that no
environment can write into, looks for bad numbers, keeps the actions for `steadyrl replay`, and finds true successors.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium as gym

from steadyrl.bench.rows import Cell
from steadyrl.bench.split import Bare, _gymnasium, bare_env
from steadyrl.bench.sweep import open_cell
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.timing import SEED, Timed, undisturbed

RESULT = Path(__file__).parent / "results" / "adapter.json"
CASES = [
    ("CartPole-v1", 1),
    ("CartPole-v1", 8),
    ("CartPole-v1", 64),
    ("Pendulum-v1", 8),
    ("MountainCar-v0", 8),
    ("Acrobot-v1", 8),
    ("HalfCheetah-v5", 8),
]
TURN_S = 0.02
FIRST = 1010  # steps


def measured(env: str, n: int, seconds: float) -> dict[str, Any]:
    """One row."""
    factory, cell = make_env_factory(env), Cell(n, "sync")
    with undisturbed():
        ours, theirs = open_cell(factory, cell), _gymnasium(factory, cell)
        ours.reset(list(range(SEED, SEED + n)))
        theirs.reset(seed=SEED)
        bare = Bare([bare_env(factory) for _ in range(n)])
        timed = [Timed(each, ours.spec.action_space, process_time) for each in (ours, theirs, bare)]
        for each in timed:
            for _ in range(FIRST):
                each.turn(0.0)
            each.rates.clear()
        for _ in range(round(seconds / TURN_S / len(timed))):
            for each in timed:
                each.turn(TURN_S)
        for opened in (ours, theirs, bare):
            opened.close()
    us = [round(1e6 / each.rate, 3) for each in timed]
    over = [b / a - 1 for a, b in zip(timed[0].rates, timed[1].rates, strict=True)]
    low, middle, high = (round(each, 4) for each in statistics.quantiles(over, n=4))
    return {
        "env": env,
        "num_envs": n,
        "steadyrl_us": us[0],
        "gymnasium_us": us[1],
        "environment_us": us[2],
        "over_gymnasium": middle,
        "quartiles": [low, high],
        "pairs": len(over),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    rows = []
    for env, n in CASES:
        rows.append(measured(env, n, arguments.seconds))
        print(rows[-1], flush=True)
    document = {
        "how": "median ratio of CPU time between neighbouring turns of 20 ms, less 1",
        "load_average": os.getloadavg()[0],
        "platform": platform.platform(),
        "python": platform.python_version(),
        "gymnasium": gym.__version__,
        "results": rows,
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
