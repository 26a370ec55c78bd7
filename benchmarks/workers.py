"""Cost of a vector step in our workers beside Gymnasium's AsyncVectorEnv and one process, in microseconds.

    python benchmarks/workers.py      # benchmarks/results/workers.json

The same environments and actions; the ways take turns. Ratios are of each way's least disturbed turn.
"""

from __future__ import annotations

import json
import os
import platform
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.serial import SerialVectorEnv
from steadyrl.envs.workers.vector import WorkerVectorEnv

RESULTS = Path(__file__).parent / "results"
CASES = [("CartPole-v1", 4), ("CartPole-v1", 8), ("CartPole-v1", 32), ("HalfCheetah-v5", 8)]
TURNS, STEPS = 9, 150


def ways(env: str, n: int) -> dict[str, gym.vector.VectorEnv[Any, Any, Any]]:
    factory = make_env_factory(env)
    theirs = AsyncVectorEnv([partial(gym.make, env)] * n, context="forkserver", autoreset_mode=AutoresetMode.SAME_STEP)
    return {
        "one process": SerialVectorEnv([factory(index=i) for i in range(n)]),
        "a worker a core": WorkerVectorEnv(factory, n),
        "a worker an environment": WorkerVectorEnv(factory, n, workers=n),
        "gymnasium": theirs,
    }


def measured(env: str, n: int) -> dict[str, Any]:
    vectors = ways(env, n)
    times: dict[str, list[float]] = {name: [] for name in vectors}
    for vector in vectors.values():
        seeds: Any = list(range(n))
        vector.reset(seed=seeds)
    space = vectors["gymnasium"].single_action_space
    space.seed(0)
    actions = np.stack([space.sample() for _ in range(n)])
    for _ in range(TURNS):
        for name, vector in vectors.items():
            start = perf_counter()
            for _ in range(STEPS):
                vector.step(actions)
            times[name].append((perf_counter() - start) / STEPS * 1e6)
    for vector in vectors.values():
        vector.close()
    medians = {name: round(median(values), 1) for name, values in times.items()}
    best = {name: round(min(values), 1) for name, values in times.items()}
    ratios = {name: round(best["gymnasium"] / value, 2) for name, value in best.items() if name != "gymnasium"}
    return {"env": env, "num_envs": n, "median_us": medians, "best_us": best, "gymnasium_over": ratios}


def main() -> None:
    rows = []
    for env, n in CASES:
        rows.append(measured(env, n))
        print(rows[-1], flush=True)
    document = {
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "gymnasium": gym.__version__,
        "results": rows,
    }
    (RESULTS / "workers.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
