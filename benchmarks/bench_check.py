"""Is what `steadyrl bench` recommends as good as the best that an exhaustive measurement finds?

    python benchmarks/bench_check.py                 # all environments; writes results/bench.json
    python benchmarks/bench_check.py CartPole-v1     # one, printed only

For each environment: bench as a user runs it, then every cell (backend, number of environments, number of processes)
open at once and stepped in turns over many rounds. Reported: the exhaustive rate of the recommended cell over the best
exhaustive rate.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from steadyrl import kernels
from steadyrl.bench.report import Asked, Report, bench
from steadyrl.bench.rows import Cell
from steadyrl.bench.sweep import Limits, Sweep, open_cell
from steadyrl.envs.make import EnvFactory, make_env_factory
from steadyrl.envs.timing import SEED, Timed, in_turns, undisturbed
from steadyrl.errors import SteadyRLError

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "bench.json"
NUMBERS = (1, 2, 4, 8, 16)
SLEEPER = f"{os.path.relpath(__file__)}:Sleeper"
ENVS = ("CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5", SLEEPER)
ROUNDS = 15


class Sleeper(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Waits 5 ms in each step, as one that talks to a server or a robot does."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        time.sleep(5e-3)
        self.steps += 1
        return self._obs(), 1.0, False, self.steps >= 200, {}

    def _obs(self) -> npt.NDArray[np.float32]:
        return self.np_random.random(4, dtype=np.float32)


def exhaustive(factory: EnvFactory, report: Report, seconds: float) -> dict[Cell, float]:
    """The median rate of every cell that can be opened, all stepped in turns over many rounds."""
    sweep = Sweep(factory, report.cost, Limits(seconds, report.memory[0], kernels.usable_cores()))
    cells = [
        cell
        for number in NUMBERS
        for name in ("sync", "native", "envpool", "async")
        for cell in sweep.cells(name, number)
    ]
    cells += [] if report.chosen is None or report.chosen.cell in cells else [report.chosen.cell]
    timed: dict[Cell, Timed] = {}
    with undisturbed(), ExitStack() as stack:
        for cell in cells:
            try:
                envs = open_cell(factory, cell)
            except SteadyRLError:
                continue
            stack.callback(envs.close)
            envs.reset(list(range(SEED, SEED + cell.num_envs)))
            timed[cell] = Timed(envs, envs.spec.action_space, masks=envs.allowed)
            timed[cell].turn(0.02)
            timed[cell].rates.clear()
        in_turns([*timed.values()], seconds, ROUNDS)
    return {cell: each.rate for cell, each in timed.items()}


def check(env: str, seconds: float, exhaustive_s: float) -> dict[str, Any]:
    """Recommended against best, for one environment."""
    report = bench(Asked(env, num_envs=NUMBERS, seconds=seconds))
    assert report.chosen is not None
    rates = exhaustive(make_env_factory(env), report, exhaustive_s)
    best = max(rates, key=lambda cell: rates[cell])
    chosen = report.chosen.cell
    return {
        "env": env,
        "load_average": os.getloadavg()[0],
        "recommended": f"{chosen.num_envs} x {chosen.name}",
        "best": f"{best.num_envs} x {best.name}",
        "recommended_over_best": round(rates[chosen] / rates[best], 3),
        "gain": report.gain,
        "beside_gymnasium": [each.to_json() for each in report.beside],
        "exhaustive": {f"{cell.num_envs} x {cell.name}": round(rate, 1) for cell, rate in sorted(rates.items())},
        "wall_s": round(report.wall_s, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Recommendations of steadyrl bench against an exhaustive measurement.")
    parser.add_argument("envs", nargs="*", help=f"default: {' '.join(ENVS)}")
    parser.add_argument("--seconds", type=float, default=20.0, help="of bench itself")
    parser.add_argument("--exhaustive", type=float, default=60.0, help="seconds for all cells together")
    args = parser.parse_args()
    rows = []
    for env in args.envs or ENVS:
        rows.append(check(env, args.seconds, args.exhaustive))
        print(json.dumps(rows[-1], indent=2), flush=True)
    if not args.envs:
        about = {"cores": kernels.usable_cores(), "python": platform.python_version(), "seconds": args.seconds}
        RESULTS.write_text(json.dumps({"about": about, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
