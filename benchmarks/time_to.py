"""Training seconds to a score: SteadyRL, Stable-Baselines3 and SBX with the same settings, in turn in one run.

    python benchmarks/time_to.py [RACE ...] [--seeds 0 1 2] [--limit STEPS] [--cores N]

The time is what training took, imports and evaluations left out and compilation by JAX counted, until the first
evaluation whose mean reaches the score: ten deterministic episodes with fixed seeds every 2,000 steps of CartPole and
every 5,000 of HalfCheetah. Wall seconds and the process's CPU seconds are kept. A run that does not reach the score
within its limit of steps says so. `make bench-peers` installs the peers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from speed import PEERS, _versions
from time_to_works import EPISODES, RACES, Race

from steadyrl.kernels import usable_cores

HERE = Path(__file__).parent
LIBRARIES = ("ours", "sb3", "sbx")


def run(library: str, race: str, seed: int, limit: int) -> dict[str, Any]:
    """One training in a process of its own."""
    python = sys.executable if library == "ours" else str(PEERS)
    command = [python, str(HERE / "time_to_run.py"), library, race, str(seed), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{library} failed at {race}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(name: str, race: Race, seeds: Sequence[int], keep: Callable[[dict[str, Any]], None]) -> None:
    """Every library with every seed, the first one another for each seed; what is known is kept after each run."""
    rows: dict[str, list[dict[str, Any]]] = {library: [] for library in LIBRARIES}
    for i, seed in enumerate(seeds):
        for library in turned(LIBRARIES, i):
            rows[library].append(run(library, name, seed, race.limit))
            last = rows[library][-1]
            print(name, library, *(f"{key} {last[key]}" for key in ("seed", "reached", "step", "wall_s", "cpu_s")))
            if all(rows.values()):
                keep(
                    {
                        "score": race.score,
                        "every": race.every,
                        "episodes": EPISODES,
                        "limit": race.limit,
                        "num_envs": race.num_envs,
                        "settings": race.settings,
                        "libraries": {each: summary(found) for each, found in rows.items()},
                        "ratio": ratios(rows),
                        "runs": rows,
                    }
                )


def turned(names: Sequence[str], by: int) -> list[str]:
    """The same names, begun elsewhere, so that a drift of the machine meets each of them."""
    start = by % len(names)
    return [*names[start:], *names[:start]]


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the seeds, a run that never reached the score counting as longer than all others."""
    return {
        "seeds": len(rows),
        "reached": sum(row["reached"] for row in rows),
        "threads": rows[0]["threads"],
        **{f"median_{key}": middle(rows, key) for key in ("step", "wall_s", "cpu_s")},
    }


def middle(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    """The median; None where it falls on a run that never reached the score."""
    values = [row[key] if row["reached"] else float("inf") for row in rows]
    found = median(values)
    return None if found == float("inf") else found


def ratios(rows: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, float | None]]:
    """How many times as long each peer takes, by medians; None where one has none."""
    found: dict[str, dict[str, float | None]] = {}
    for key in ("wall_s", "cpu_s"):
        own = middle(rows["ours"], key)
        for peer in rows.keys() - {"ours"}:
            theirs = middle(rows[peer], key)
            found.setdefault(peer, {})[key] = None if own is None or theirs is None else round(theirs / own, 2)
    return found


def main() -> None:
    """Run the races named, or all; what the file knows of others stays."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("races", nargs="*", default=list(RACES), help=f"among: {', '.join(RACES)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--limit", type=int, help="environment steps of a run at most")
    parser.add_argument("--cores", type=int, help="let every library have only so many (Linux)")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "time-to.json")
    options = parser.parse_args()
    if not PEERS.exists():
        raise SystemExit("The peers are not installed: run make bench-peers first.")
    races = {name: RACES[name] for name in options.races}
    if options.limit is not None:
        races = {name: replace(race, limit=options.limit) for name, race in races.items()}
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    known = json.loads(options.output.read_text())["races"] if options.output.exists() else {}
    for name, race in races.items():
        about = {
            "machine": {"cores": usable_cores(), "platform": platform.platform()},
            "versions": {
                "ours": _versions(sys.executable, "steadyrl"),
                "sb3": _versions(str(PEERS), "stable_baselines3"),
                "sbx": _versions(str(PEERS), "sbx"),
            },
        }

        def keep(found: dict[str, Any], name: str = name, about: dict[str, Any] = about) -> None:
            known[name] = about | found
            options.output.write_text(json.dumps({"races": known}, indent=2) + "\n")

        compare(name, race, options.seeds, keep)


if __name__ == "__main__":
    main()
