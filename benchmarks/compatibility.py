"""Which environments work with which algorithm on which backend, found out by running each (JSON).

    python benchmarks/compatibility.py [--steps 2000] [--family NAME ...] [--env ID ...] [--algo ALGO ...]
                                       [--vec sync async] [--output benchmarks/results/compatibility.json]

A cell trains, looks that every metric is finite, saves, loads, evaluates, and brings the environments' state back in
fresh ones. `--family`, `--env`, `--algo` and `--vec` run a part; what the output already holds of others stays. Each
environment runs in a process of its own, so that one which ends its process ends no other's cells.

    pip install ale-py minigrid highway-env gymnasium-robotics     # a family that is missing is told as not installed
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import multiprocessing
import os
import platform
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from compatibility_envs import FAMILIES, Case, cases_of, installed

ALGOS = ("ppo", "a2c", "dqn", "ddpg", "td3", "sac")
BACKENDS = ("sync", "async")
OUTPUT = Path(__file__).parent / "results" / "compatibility.json"
LIMIT = 200  # steps of an episode: an evaluation of Atari's own length would take most of the time
COMPARED = 20  # steps that are followed after the state was brought back
TIMEOUT_S = 3600  # of one environment's cells
_NAMES = ("gymnasium", "torch", "numpy")
_OF_FAMILY = {
    "Box2D": ("box2d",),
    "MuJoCo": ("mujoco",),
    "Atari": ("ale-py",),
    "MiniGrid": ("minigrid",),
    "highway-env": ("highway-env",),
    "gymnasium-robotics": ("gymnasium-robotics", "mujoco"),
}
_ON = {"num_envs": 2, "net_arch": (32, 32), "eval_freq": 0, "preset": "none", "seed": 0, "log_interval": 1}
_OFF = {**_ON, "buffer_size": 2000, "learning_starts": 200, "batch_size": 32, "train_freq": 16, "log_interval": 500}
OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": {**_ON, "n_steps": 125, "batch_size": 125, "n_epochs": 2},
    "a2c": {**_ON, "n_steps": 25},
    **dict.fromkeys(("dqn", "ddpg", "td3", "sac"), _OFF),
}


def cell(case: Case, algo: str, vec: str, steps: int) -> dict[str, Any]:
    """One cell: `yes`, `no` with the library's own sentence, `broken` where the environment itself cannot be made, or
    `failed` with what went wrong and where.
    """
    begun = time.perf_counter()
    found: dict[str, Any] = {"family": case.family, "env": case.name, "algo": algo, "vec": vec, "steps": steps}
    stage = ["make"]
    from steadyrl.errors import UserError

    try:
        found |= {"result": "yes", **_taken_through(case, algo, vec, steps, stage)}
    except UserError as error:
        refused = "broken" if error.code == "env-make" else "no"
        result = refused if stage[0] == "make" else "failed"
        found |= {"result": result, "stage": stage[0], "message": str(error)}
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        found |= {"result": "failed", "stage": stage[0], "message": text}
    return found | {"seconds": round(time.perf_counter() - begun, 1)}


def _taken_through(case: Case, algo: str, vec: str, steps: int, stage: list[str]) -> dict[str, Any]:
    """Everything that a cell is about; `stage[0]` says what is being done."""
    import steadyrl as srl
    from steadyrl.training.events import MetricsLogged

    rows: list[Any] = []
    options: dict[str, Any] = {**OPTIONS[algo], "vec": vec, "max_episode_steps": LIMIT, "env_kwargs": case.kwargs}
    options["env_timeout"] = 600.0  # a busy machine is no reason to call an environment slow
    agent = getattr(srl, algo.upper())(case.made_for(algo), **options)
    try:
        spaces = agent.policy.encoding, agent.policy.obs_spec, agent.policy.action_spec
        stage[0] = "train"
        agent.learn(steps, callback=lambda event: rows.append(event) if isinstance(event, MetricsLogged) else None)
        _insist_on_finite([row.metrics for row in rows])
        stage[0] = "save and load"
        with tempfile.TemporaryDirectory() as folder:
            loaded = srl.load(agent.save(Path(folder) / "policy"), device="cpu")
        if loaded.policy.sha256() != agent.policy.sha256():
            raise AssertionError("the loaded policy is another one")
        stage[0] = "evaluate"
        result = srl.evaluate(agent, 2)
        if not math.isfinite(result.mean):
            raise AssertionError(f"the mean return is {result.mean}")
        stage[0] = "snapshot"
        snapshot = _snapshot(agent)
    finally:
        agent.close()
    from steadyrl.training.spaces import shown_spaces

    return {"updates": rows[-1].updates, "return": round(result.mean, 3), "snapshot": snapshot} | {
        "network": shown_spaces(*spaces)
    }


def _insist_on_finite(rows: list[dict[str, float]]) -> None:
    trained = [row for row in rows if any(name.startswith("train/") and "loss" in name for name in row)]
    if not trained:
        raise AssertionError("no loss was logged")
    for row in rows:
        bad = [name for name, value in row.items() if not math.isfinite(value)]
        if bad:
            raise AssertionError(f"{bad[0]} is {row[bad[0]]}")


def _snapshot(agent: Any) -> str:
    """How the state of the training environments comes back in fresh ones; with the reason where it does not."""
    from steadyrl.envs.vector import make_vec

    venv, setup, policy = agent.loop.venv, agent.setup, agent.policy
    ability = venv.ability()
    if ability.kind == "none":
        return f"none: {ability.reason}"
    masks: Any = "on" if policy.masked else "off"
    again = make_vec(setup.source, venv.num_envs, vec=setup.settings.vec, obs_spec=policy.obs_spec, masks=masks)
    try:
        again.reset(list(range(venv.num_envs)))
        obs = again.restore(venv.state())
        for _ in range(COMPARED):
            actions = policy.predict(obs)
            mine, theirs = venv.step(actions), again.step(actions)
            for path, leaf in mine.obs.items():
                if not np.array_equal(leaf, theirs.obs[path]):
                    raise AssertionError(f"the observation{f' at {path!r}' if path else ''} differs after restoring")
            if not np.array_equal(mine.rewards, theirs.rewards):
                raise AssertionError("the rewards differ after restoring")
            obs = mine.obs
    finally:
        again.close()
    return str(ability.kind)


def child(case: Case, options: argparse.Namespace, folder: Path) -> None:
    """The cells of one environment, a line of JSON each, in a process of its own."""
    for number, name in ((1, "cells"), (2, "said")):
        os.dup2(os.open(folder / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    warnings.simplefilter("ignore")
    for algo in options.algo:
        for vec in options.vec:
            print("CELL " + json.dumps(cell(case, algo, vec, options.steps)), flush=True)


def run(case: Case, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The cells of one environment, made in a process of its own: a fork, which need not import everything anew."""
    wanted = [(algo, vec) for algo in options.algo for vec in options.vec]
    plain = {"family": case.family, "env": case.name, "steps": options.steps}
    missing = installed(case.family)
    if missing:
        text = f"pip install {missing}"
        return [plain | {"algo": a, "vec": v, "result": "not installed", "message": text} for a, v in wanted]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = multiprocessing.get_context("fork").Process(target=child, args=(case, options, folder))
        process.start()
        process.join(TIMEOUT_S)
        ended = f"its process ended with status {process.exitcode}"
        if process.exitcode is None:
            process.kill()
            process.join()
            ended = f"no end after {TIMEOUT_S} s"
        lines, said = ((folder / part).read_text(errors="replace").splitlines() for part in ("cells", "said"))
    ended += f": {said[-1]}" if said else ""
    found = [json.loads(line.removeprefix("CELL ")) for line in lines if line.startswith("CELL ")]
    known = {(row["algo"], row["vec"]) for row in found}
    lost = [pair for pair in wanted if pair not in known]
    return found + [
        plain | {"algo": a, "vec": v, "result": "failed", "stage": "process", "message": ended} for a, v in lost
    ]


def versions(names: Iterable[str]) -> dict[str, str]:
    """Of these packages, as far as they are installed."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def merged(before: list[dict[str, Any]], cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells with newer ones in the place of older; in the order of the families."""
    by_key = {(c["family"], c["env"], c["algo"], c["vec"]): c for c in [*before, *cells]}
    order = {name: i for i, name in enumerate(FAMILIES)}
    place = {(case.family, case.name): i for name in FAMILIES for i, case in enumerate(cases_of(name))}
    return sorted(
        by_key.values(),
        key=lambda c: (
            order.get(c["family"], 99),
            place.get((c["family"], c["env"]), 999),
            ALGOS.index(c["algo"]),
            BACKENDS.index(c["vec"]),
        ),
    )


def main(argv: list[str] | None = None) -> int:
    """Run the cells that are asked for; the status is 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--family", nargs="+", default=list(FAMILIES))
    parser.add_argument("--env", nargs="+", default=None)
    parser.add_argument("--algo", nargs="+", default=list(ALGOS), choices=ALGOS)
    parser.add_argument("--vec", nargs="+", default=list(BACKENDS), choices=BACKENDS)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args(argv)
    import steadyrl.training.agent  # noqa: F401  before the forks

    cells: list[dict[str, Any]] = []
    for case in [case for family in options.family for case in cases_of(family)]:
        if options.env is not None and case.name not in options.env:
            continue
        made = run(case, options)
        cells += made
        for row in made:
            said = row.get("message") or row.get("snapshot", "")
            print(
                f"{row['family']:<20}{row['env']:<30}{row['algo']:<5}{row['vec']:<6}{row['result']:<14}{said[:100]}",
                flush=True,
            )
        document = json.loads(options.output.read_text()) if options.output.exists() else {"cells": []}
        packages = document.get("packages", {})
        document = {
            "episode_limit": LIMIT,
            "versions": {"python": platform.python_version(), **versions(_NAMES)},
            "packages": packages | {case.family: versions(_OF_FAMILY.get(case.family, ()))},
            "cells": merged(document["cells"], made),
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(row["result"] == "failed" for row in cells))


if __name__ == "__main__":
    sys.exit(main())
