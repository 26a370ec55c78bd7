"""Random kill -9 over algorithms, environments, normalisation and backends: is the resumed run the run left alone?

    python benchmarks/resume.py [--kills 100] [--minutes 10] [--seed 0] [--output benchmarks/results/resume.json]

Every checkpoint that both runs have is compared, part by part (weights, optimisers, buffers, normalisers, streams,
environments, counters), and every row of the logs but the clock's. Cases take turns until each algorithm has its kills
or the time is over. Exit status 1 where anything differed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from steadyrl.training.provenance import provenance
from support.killing import SMALL, Case, envs_for, try_kills

RESULTS = Path(__file__).parent / "results"
A_RUN = 3  # kills


def cases() -> list[Case]:
    """Every combination, the algorithms in turn."""
    columns = [
        [
            Case(algo, env, normalised, vec)
            for vec in ("sync", "async")
            for normalised in (False, True)
            for env in envs_for(algo)
        ]
        for algo in SMALL
    ]
    return [case for row in itertools.zip_longest(*columns) for case in row if case is not None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of each algorithm")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--algos", nargs="*", default=list(SMALL))
    parser.add_argument("--add", action="store_true", help="to what the output file holds")
    parser.add_argument("--output", type=Path, default=RESULTS / "resume.json")
    options = parser.parse_args()
    draw, start = random.Random(options.seed), time.monotonic()
    counts = dict.fromkeys(SMALL, 0)
    verdicts: list[dict[str, Any]] = []
    if options.add:
        before = json.loads(options.output.read_text(encoding="utf-8"))
        counts, verdicts = before["kills"], before["cases"]
    for case in itertools.cycle(case for case in cases() if case.algo in options.algos):
        if time.monotonic() - start > 60 * options.minutes:
            break
        if min(counts[algo] for algo in options.algos) >= options.kills:
            break
        if counts[case.algo] >= options.kills:
            continue
        with tempfile.TemporaryDirectory() as folder:
            verdict = try_kills(case, Path(folder), A_RUN, draw)
        counts[case.algo] += len(verdict.kills)
        verdicts.append({"case": verdict.case, "kills": verdict.kills, "problem": verdict.problem, **verdict.compared})
        print(f"{case.name}: {len(verdict.kills)} kills, {verdict.problem or 'identical'}", flush=True)
        _write(options.output, options.seed, counts, verdicts)
    return int(any(verdict["problem"] for verdict in verdicts))


def _write(path: Path, seed: int, counts: dict[str, int], verdicts: list[dict[str, Any]]) -> None:
    facts = provenance(Path.cwd())
    away = sum(step > resumed for verdict in verdicts for step, resumed in verdict["kills"])
    document = {
        "machine": {name: facts[name] for name in ("cpu", "platform", "python", "packages")} | {"seed": seed},
        "kills": counts,
        "kills_away_from_a_checkpoint": away,
        "runs": len(verdicts),
        "identical": sum(not verdict["problem"] for verdict in verdicts),
        "cases": verdicts,
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
