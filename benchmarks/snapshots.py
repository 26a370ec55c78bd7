"""Environments saved at random points, restored in fresh ones and followed, bit for bit; and what that costs (JSON).

    python benchmarks/snapshots.py [--points 200] [--output benchmarks/results/snapshots.json] [FAMILY ...]

The Atari and MiniGrid families need `pip install ale-py minigrid`; a family whose package is missing is left out.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import itertools
import json
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.snapshot import State, flatten, how, restore, save, unflatten
from steadyrl.envs.snapshots.values import digest
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import RunFailedError

RESULTS = Path(__file__).parent / "results"
sys.path.insert(0, str(RESULTS.parents[1] / "tests"))

from support.families import CLASSIC, MUJOCO, TOY  # noqa: E402

BETWEEN, AFTER = 60, 60  # steps at most between two points, and steps that are compared after each


class Drunkard(gym.Env[Any, Any]):
    """An environment without a protocol of its own."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(3)
        self.path: list[float] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.path = [0.0]
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.path.append(self.path[-1] + float(action) - 1.0 + float(self.np_random.normal()))
        return self.seen(), self.path[-1], abs(self.path[-1]) > 8.0, False, {}

    def seen(self) -> Any:
        return np.array([self.path[-1], sum(self.path)])


class TellingDrunkard(Drunkard):
    """The same over a part that cannot be read, which it tells itself."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = itertools.count()

    def seen(self) -> Any:
        self.count = next(self.steps)
        return np.add(super().seen(), [0.0, self.count])

    def get_state(self) -> dict[str, Any]:
        return {"path": list(self.path), "count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.path, self.count = list(state["path"]), state["count"]
        self.steps = itertools.count(self.count + 1)


FAMILIES: dict[str, tuple[str, list[Any]]] = {
    "Classic control": (
        "gymnasium",
        CLASSIC,
    ),
    "Toy text": ("gymnasium", TOY),
    "MuJoCo": ("mujoco", MUJOCO),
    "Box2D": ("Box2D", ["LunarLander-v3", "BipedalWalker-v3", "CarRacing-v3"]),
    "Atari": ("ale_py", [f"ale_py:ALE/{game}-v5" for game in ("Pong", "Breakout", "SpaceInvaders")]),
    "MiniGrid": ("minigrid", ["minigrid:MiniGrid-DoorKey-5x5-v0", "minigrid:MiniGrid-FourRooms-v0"]),
    "Custom": ("gymnasium", [Drunkard, TellingDrunkard]),
}


def measured(make: Callable[[], Canonical], points: int) -> dict[str, Any]:
    """Kind, reason, points that went on alike, and the costs of one environment."""
    original = make()
    original.action_space.seed(7)
    original.reset(seed=3)
    where = np.random.default_rng(1)
    kinds, saving, restoring, lengths, exact, why = set(), [], [], [], 0, ""
    for _ in range(points):
        for _ in range(int(where.integers(1, BETWEEN))):
            advance(original, original.action_space.sample())
        try:
            started = time.perf_counter()
            state = save(original)
            saving.append(time.perf_counter() - started)
            packed, arrays = flatten(state.value())
            copy = make()
            state = State.of(unflatten(json.loads(json.dumps(packed)), arrays))
            started = time.perf_counter()
            obs = restore(copy, state)
            restoring.append(time.perf_counter() - started)
        except RunFailedError as error:
            why = error.message
            break
        kinds.add(state.kind)
        lengths.append(original.elapsed)
        actions = [original.action_space.sample() for _ in range(AFTER)]
        pairs = [(obs, original.last), *((advance(original, a), advance(copy, a)) for a in actions)]
        exact += all(digest(one) == digest(other) for one, other in pairs)
        copy.close()
    ability = how(original)
    original.close()
    return {
        "kind": "/".join(sorted(kinds)) or ability.kind,
        "reason": ability.reason,
        "refused": why,
        "points": points if not why else 0,
        "exact": exact,
        "save_us": cost(saving),
        "restore_us": cost(restoring),
        "steps_run_again": round(statistics.mean(lengths), 1) if kinds == {"replay"} else None,
    }


def advance(env: Canonical, action: Any) -> Any:
    """One step, and the reset where it ends the episode: all that they tell."""
    result = env.step(action)
    return [result[:4], env.reset()[0] if result[2] or result[3] else None]


def cost(seconds: list[float]) -> dict[str, float] | None:
    """Median and largest, in microseconds."""
    if not seconds:
        return None
    return {"median": round(statistics.median(seconds) * 1e6), "max": round(max(seconds) * 1e6)}


def environments(families: list[str]) -> Iterator[tuple[str, Any]]:
    """Family and environment of everything that is installed."""
    for family in families:
        package, envs = FAMILIES[family]
        if importlib.util.find_spec(package) is not None:
            for env in envs:
                yield family, env


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--output", type=Path, default=RESULTS / "snapshots.json")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for family, env in environments(args.families or list(FAMILIES)):
        factory = make_env_factory(env)
        row = {"family": family, "env": factory.id.partition(":")[2] or factory.id}
        rows.append(row | measured(partial(factory), args.points))
        print(json.dumps(rows[-1]), flush=True)
    packages = ("gymnasium", "numpy", "mujoco", "box2d", "ale-py", "minigrid")
    versions = {name: version for name in packages if (version := installed(name))}
    document = {
        "points": args.points,
        "steps_compared": AFTER,
        "machine": {"platform": platform.platform(), "python": platform.python_version()},
        "versions": versions,
        "rows": rows,
    }
    args.output.write_text(json.dumps(document, indent=1) + "\n")


def installed(name: str) -> str | None:
    """The version of a package, None where it is missing."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
