"""Trains PPO on CartPole without velocities over fixed seeds, with a memory and without one.

    python benchmarks/recurrent.py              # all runs, two at a time
    python benchmarks/recurrent.py --jobs 1 --seeds 0 1

Each run is the command `steadyrl train`, each score the final agent's mean return over 100 evaluation episodes
(`steadyrl eval`). The memory must reach the bar with every seed; without one no seed should. The settings were chosen
on seed 100; every run that was started is in the results, failed ones too. Runs that are in the results with the same
command are not made again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from learning import RESULTS, _steadyrl, _versions

ENV = f"{Path(__file__).parent / 'positions.py'}:PositionsOnly"
RESULT = RESULTS / "recurrent-CartPole.json"
TIMESTEPS, BAR, SEEDS = 100_000, 475.0, range(5)
SETTINGS = [
    "--num-envs", "32", "--n-steps", "64", "--batch-size", "512", "--n-epochs", "10", "--gamma", "0.99",
    "--gae-lambda", "0.95", "--learning-rate", "1e-3", "--learning-rate-end", "0", "--clip-range", "0.2",
    "--clip-range-end", "0", "--net-arch", "[64]", "--normalize-obs", "--normalize-reward",
]  # fmt: skip
MEMORIES = {"lstm": ["--recurrent", "lstm", "--recurrent-size", "64"], "none": []}


def run_of(memory: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run; its row of the results, with the error instead of a score where it failed."""
    run, options = folder / f"{memory}-{seed}", options_of(memory, seed)
    row: dict[str, Any] = {"memory": memory, "seed": seed, "command": command(options)}
    try:
        trained = _steadyrl(["train", "ppo", ENV, *options, "--run-dir", str(run), "--quiet"])
        score = _steadyrl(["eval", str(run), "--episodes", "100", "--json"])
    except (OSError, ValueError) as error:
        return row | {"status": "failed", "error": str(error)}
    found = {name: score[name] for name in ("mean", "std", "episodes")}
    return row | {"status": trained["status"], **found, "wall_s": round(trained["wall_s"], 1)}


def options_of(memory: str, seed: int) -> list[str]:
    """Those of `steadyrl train` behind the environment."""
    options = ["--preset", "none", "--seed", str(seed), "--total-timesteps", str(TIMESTEPS), "--vec", "sync"]
    return [*options, *SETTINGS, *MEMORIES[memory], "--threads", "1", "--json"]


def command(options: list[str]) -> str:
    """As one would type it in the repository."""
    return f"steadyrl train ppo benchmarks/positions.py:PositionsOnly {' '.join(options)}"


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many seeds reached the bar; a failed run counts as one that did not."""
    reached = {
        memory: sum(row.get("mean", 0.0) >= BAR for row in rows if row["memory"] == memory) for memory in MEMORIES
    }
    complete = all(sum(row["memory"] == memory for row in rows) == len(SEEDS) for memory in MEMORIES)
    return {"passed": complete and reached == {"lstm": len(SEEDS), "none": 0}, "complete": complete, "reached": reached}


def main(argv: list[str] | None = None) -> int:
    """Make the runs that are missing; exit status 1 unless the memory reaches the bar with every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS), help="of 0 to 4")
    parser.add_argument("--memories", nargs="*", default=list(MEMORIES), choices=list(MEMORIES), help="which networks")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = json.loads(RESULT.read_text())["runs"] if RESULT.exists() else []
    known = {row["command"] for row in rows}
    keys = [(memory, seed) for memory in options.memories for seed in options.seeds]
    wanted = [key for key in keys if command(options_of(*key)) not in known]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda key: run_of(key[0], key[1], Path(folder)), wanted):
            rows = sorted([*rows, row], key=lambda each: (each["memory"], each["seed"]))
            document = {"made": datetime.now(UTC).isoformat(timespec="seconds"), **_versions(), "timesteps": TIMESTEPS}
            document |= {"bar": BAR, "settings_chosen_on_seeds": [100], **verdict(rows), "runs": rows}
            RESULT.write_text(json.dumps(document, indent=2) + "\n")
            print(f"{row['memory']} seed {row['seed']}: {row.get('mean', row['status'])}", flush=True)
    return 0 if verdict(rows)["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
