"""One fault in the vector environment of one library; prints the seconds that it took and the error as JSON.

    python benchmarks/faults_case.py LIBRARY FAULT WHERE

Three environments, the third of which fails, in processes of their own. Runs in the environment of that library, with
`tests` among the places that modules are imported from.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from support.faults import Faulty

SEEDS = (40, 41, 42)
ACTIONS = np.array([2, 0, 1])
TIMEOUT_S = 3.0


class Vector(Protocol):
    def start(self) -> Any: ...
    def step(self) -> Any: ...
    def close(self) -> Any: ...


class Ours:
    def __init__(self, env: Callable[[], Faulty]) -> None:
        from steadyrl.envs.vector import make_vec

        self.vector = make_vec(env, 3, vec="async", num_workers=2, env_timeout=TIMEOUT_S)

    def start(self) -> None:
        self.vector.reset(list(SEEDS))

    def step(self) -> None:
        self.vector.step(ACTIONS)

    def close(self) -> None:
        self.vector.close()


class Gymnasium:
    def __init__(self, env: Callable[[], Faulty]) -> None:
        from gymnasium.vector import AsyncVectorEnv

        envs: Any = [env] * 3
        self.vector = AsyncVectorEnv(envs)

    def start(self) -> None:
        self.vector.reset(seed=list(SEEDS))

    def step(self) -> None:
        self.vector.step(ACTIONS)

    def close(self) -> None:
        self.vector.close()


class StableBaselines3:
    def __init__(self, env: Callable[[], Faulty]) -> None:
        from stable_baselines3.common.vec_env import SubprocVecEnv

        envs: Any = [env] * 3
        self.vector = SubprocVecEnv(envs)

    def start(self) -> None:
        self.vector.seed(SEEDS[0])
        self.vector.reset()

    def step(self) -> None:
        self.vector.step(ACTIONS)

    def close(self) -> None:
        self.vector.close()


LIBRARIES: dict[str, Callable[[Callable[[], Faulty]], Vector]] = {
    "steadyrl": Ours,
    "gymnasium": Gymnasium,
    "stable_baselines3": StableBaselines3,
}


def main(library: str, fault: str, where: str) -> None:
    warnings.simplefilter("always")
    at = 1 if where == "reset" else 3
    vector = LIBRARIES[library](partial(Faulty, fault, where, at, SEEDS[2]))
    print("made", flush=True)
    start = perf_counter()
    error = ""
    try:
        vector.start()
        for _ in range(5):
            print("stepping", flush=True)
            start = perf_counter()
            vector.step()
        start = perf_counter()
        vector.close()
    except Exception as raised:
        error = "".join(traceback.format_exception(raised))
    print(json.dumps({"seconds": round(perf_counter() - start, 2), "error": error}), flush=True)
    if error:
        vector.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
