"""Trains on the reference environments over fixed seeds and holds the final agents to the bars.

    python benchmarks/learning.py                 # everything, two runs at a time
    python benchmarks/learning.py ppo-CartPole-v1 # one bar
    python benchmarks/learning.py --again 1       # the first seed of each kept result anew: are its weights the same?

Each run is the command `steadyrl train`, each score the final agent's mean return over 100 evaluation episodes
(`steadyrl eval`). Seeds are fixed beforehand; every run that was started is in the results, failed ones too.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from steadyrl.stats import bootstrap_ci, iqm

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Bar:
    """What final agents must reach: `at_least` seeds each, or all seeds by their interquartile mean."""

    algo: str
    env: str
    timesteps: int
    seeds: int
    bar: float
    at_least: int | None = None  # seeds that must reach the bar; None: the interquartile mean must
    preset: str = "auto"

    @property
    def name(self) -> str:
        """Such as ppo-CartPole-v1."""
        return f"{self.algo}-{self.env}"


BARS = [
    Bar("ppo", "CartPole-v1", 100_000, 5, 475.0, at_least=5),
    Bar("ppo", "Pendulum-v1", 100_000, 5, -185.0),
    Bar("a2c", "CartPole-v1", 500_000, 5, 475.0, at_least=4),
    Bar("ppo", "Acrobot-v1", 1_000_000, 5, -85.0),
    Bar("ppo", "LunarLander-v3", 1_000_000, 3, 230.0),
    Bar("dqn", "CartPole-v1", 50_000, 5, 475.0),
    Bar("dqn", "Acrobot-v1", 100_000, 5, -85.0),
    Bar("dqn", "MountainCar-v0", 120_000, 5, -110.0),
    Bar("dqn", "LunarLander-v3", 100_000, 5, 150.0),
    Bar("sac", "Pendulum-v1", 20_000, 5, -170.0),
    Bar("td3", "Pendulum-v1", 20_000, 5, -170.0),
    Bar("ddpg", "Pendulum-v1", 20_000, 5, -170.0),
    Bar("sac", "MountainCarContinuous-v0", 50_000, 5, 90.0),
    Bar("sac", "HalfCheetah-v5", 100_000, 3, 5000.0),
    Bar("td3", "HalfCheetah-v5", 100_000, 3, 5000.0),
    # Published for ten times as many steps.
    Bar("sac", "Hopper-v4", 100_000, 3, 2500.0, preset="Hopper-v5"),
    Bar("td3", "Hopper-v4", 100_000, 3, 3000.0, preset="Hopper-v5"),
    Bar("ppo", "HalfCheetah-v5", 1_000_000, 1, 3500.0),
]


def train_and_evaluate(bar: Bar, seed: int, folder: Path) -> dict[str, Any]:
    """One run; its row of the results, with the error instead of a score where it failed."""
    run = folder / f"{bar.name}-{seed}"
    train = ["train", bar.algo, bar.env, "--seed", str(seed), "--total-timesteps", str(bar.timesteps), "--json"]
    train += ["--preset", bar.preset, "--threads", "1"]  # runs go side by side
    row: dict[str, Any] = {"seed": seed, "command": f"steadyrl {' '.join(train)}"}
    try:
        trained = _steadyrl([*train, "--run-dir", str(run), "--quiet"])
        score = _steadyrl(["eval", str(run), "--episodes", "100", "--json"])
    except (subprocess.CalledProcessError, ValueError) as error:
        return row | {"status": "failed", "error": str(error)}
    return row | {
        "status": trained["status"],
        "mean": score["mean"],
        "std": score["std"],
        "episodes": score["episodes"],
        "wall_s": round(trained["wall_s"], 1),
        "fps": round(trained["fps"]),
        "weights_sha256": trained["weights_sha256"],
    }


def judge(bar: Bar, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Scores against the bar; a failed run counts as one that did not reach it."""
    scores = [row["mean"] for row in rows if row["status"] == "finished"]
    complete = len(scores) == len(rows)
    middle = float(iqm(scores)) if scores else None
    if bar.at_least is not None:
        passed = sum(score >= bar.bar for score in scores) >= bar.at_least
    else:
        passed = complete and middle is not None and middle >= bar.bar
    return {
        **asdict(bar),
        "passed": passed,
        "iqm": middle,
        "ci95_iqm": list(bootstrap_ci(scores, iqm)) if scores else None,
        "reached": sum(score >= bar.bar for score in scores),
        "runs": rows,
    }


def again(bars: list[Bar], seeds: int, jobs: int) -> int:
    """The first `seeds` runs of each kept result anew; exit status 1 if one has other weights or another score."""
    differ = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        kept = {bar: RESULTS / f"learning-{bar.name}.json" for bar in bars}
        pending = {
            bar: [pool.submit(train_and_evaluate, bar, seed, Path(folder)) for seed in range(min(seeds, bar.seeds))]
            for bar in bars
        }
        for bar, futures in pending.items():
            document = json.loads(kept[bar].read_text())
            rows = [(future.result(), before) for future, before in zip(futures, document["runs"], strict=False)]
            same = [all(new.get(key) == before[key] for key in ("weights_sha256", "mean")) for new, before in rows]
            made = datetime.now(UTC).isoformat(timespec="seconds")
            document["again"] = {"made": made, **_versions(), "same": same, "runs": [new for new, _ in rows]}
            kept[bar].write_text(json.dumps(document, indent=2) + "\n")
            scores = ", ".join(f"{new.get('mean', float('nan')):.1f}" for new, _ in rows)
            print(f"{sum(same)} of {len(same)} the same: {bar.name}: {scores}", flush=True)
            differ += len(same) - sum(same)
    return 1 if differ else 0


def main(argv: list[str] | None = None) -> int:
    """Run the bars named, or all; exit status 1 if one is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"among: {', '.join(bar.name for bar in BARS)}")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--again", type=int, metavar="SEEDS", help="only compare this many runs with the kept ones")
    options = parser.parse_args(argv)
    bars = [bar for bar in BARS if not options.names or bar.name in options.names]
    if options.again is not None:
        return again(bars, options.again, options.jobs)
    RESULTS.mkdir(exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        futures = {
            bar: [pool.submit(train_and_evaluate, bar, seed, Path(folder)) for seed in range(bar.seeds)] for bar in bars
        }
        for bar, pending in futures.items():
            verdict = judge(bar, [future.result() for future in pending])
            document = {"made": datetime.now(UTC).isoformat(timespec="seconds"), **_versions(), **verdict}
            (RESULTS / f"learning-{bar.name}.json").write_text(json.dumps(document, indent=2) + "\n")
            scores = ", ".join(f"{row['mean']:.1f}" if "mean" in row else "failed" for row in verdict["runs"])
            print(f"{'reached' if verdict['passed'] else 'MISSED '} {bar.name}: {scores} (bar {bar.bar:g})", flush=True)
            failed += not verdict["passed"]
    return 1 if failed else 0


def _steadyrl(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "steadyrl", *arguments], capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    if done.returncode != 0:
        raise ValueError(f"exit {done.returncode}: {document.get('error')}")
    return dict(document)


def _versions() -> dict[str, Any]:
    packages = ("steadyrl", "torch", "numpy", "gymnasium")
    return {"versions": {p: metadata.version(p) for p in packages}, "python": platform.python_version()}


if __name__ == "__main__":
    sys.exit(main())
