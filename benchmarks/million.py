"""A long training that is stopped and resumed on the way, as long trainings are, and the return it ends with.

    python benchmarks/million.py [sac td3 ppo] [--total-timesteps 1000000] [--seed 0] [--threads 1]

Each run is `steadyrl train ALGO HalfCheetah-v5` with its preset, ended once by SIGTERM and once by SIGKILL at steps
drawn beforehand, and taken up each time by `steadyrl resume`. The return is the final agent's, as `resume --json`
reports it. Runs already in the file stay.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from steadyrl.training.provenance import provenance

RESULT = Path(__file__).parent / "results" / "million.json"
ENV = "HalfCheetah-v5"
CHECKPOINTS = 20  # in a run
GOAL = 8000.0
SIGNALS = (signal.SIGTERM, signal.SIGKILL)


def stops(total: int, seed: int) -> list[int]:
    """Steps at which to stop, drawn before anything is known of the run: one in each part of it, away from the ends."""
    draw, part = random.Random(seed), total // len(SIGNALS)
    return [draw.randrange(i * part + part // 5, (i + 1) * part - part // 5) for i in range(len(SIGNALS))]


def last_step(run: Path) -> int:
    """Steps of the last whole row of the metrics; 0 where there is none."""
    path = run / "metrics.jsonl"
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    whole = [row for row in rows if row.endswith("\n")]
    return int(json.loads(whole[-1])["step"]) if whole else 0


def newest(folder: Path) -> Path | None:
    """The run in the folder, once it is there."""
    found = list(folder.rglob("manifest.json"))
    return found[0].parent if found else None


def part(command: list[str], folder: Path, until: int | None, sign: signal.Signals | None) -> tuple[int, str, int]:
    """One process of a run: its exit status, its stdout, and the step at which it was sent the signal (-1: none)."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    sent = -1
    while until is not None and sign is not None and process.poll() is None:
        time.sleep(1.0)
        run = newest(folder)
        if run is not None and last_step(run) >= until:
            sent = last_step(run)
            process.send_signal(sign)
            break
    out, _ = process.communicate()
    return process.returncode, out, sent


def one(algo: str, total: int, seed: int, threads: int, folder: Path) -> dict[str, Any]:
    """A whole run with its stops.

    Raises:
        SystemExit: a part ended otherwise than it should.
    """
    start, found = time.monotonic(), list[dict[str, Any]]()
    step = str(total // CHECKPOINTS)
    first = ["train", algo, ENV, "--total-timesteps", str(total), "--seed", str(seed), "--threads", str(threads)]
    first += ["--checkpoint-freq", step, "--keep-last", "2", "--eval-freq", step, "--run-dir", str(folder / "run")]
    command = [*first, "--json"]
    for until, sign in (*zip(stops(total, seed), SIGNALS, strict=True), (None, None)):
        status, out, sent = part([sys.executable, "-m", "steadyrl", *command], folder, until, sign)
        run = newest(folder)
        if sign is None:
            if status:
                raise SystemExit(f"{algo} ended with status {status} and said: {out[-2000:]}")
            break
        expected = -sign if sign == signal.SIGKILL else 128 + sign
        if run is None or status != expected:
            raise SystemExit(
                f"{algo}: status {status} after {sign.name} where {expected} was due; it said: {out[-2000:]}"
            )
        found.append({"signal": sign.name, "metrics_at": sent, "status": status})
        print(algo, found[-1], flush=True)
        command = ["resume", str(run), "--json"]
    result = json.loads(out)
    assert run is not None
    return {
        "algo": algo,
        "seed": seed,
        "stops": found,
        "total_timesteps": result["total_timesteps"],
        "status": result["status"],
        "eval": result["eval"],
        "weights_sha256": result["weights_sha256"],
        "lineage": [
            {name: fact for name, fact in resumed.items() if name != "command_line"}  # it holds this machine's paths
            for resumed in json.loads((run / "manifest.json").read_text(encoding="utf-8")).get("lineage", [])
        ],
        "minutes": round((time.monotonic() - start) / 60, 1),
        "curve": [
            [row["step"], round(row["mean"], 1)]
            for row in map(json.loads, (run / "evals.jsonl").read_text(encoding="utf-8").splitlines())
        ],
    }


def main() -> int:
    """Run the algorithms one after the other; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algos", nargs="*", default=["sac", "td3"])
    parser.add_argument("--total-timesteps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULT)
    options = parser.parse_args()
    facts = provenance(Path.cwd())
    machine = {name: facts[name] for name in ("cpu", "platform", "python", "packages")}
    returns = []
    for algo in options.algos:
        with tempfile.TemporaryDirectory() as folder:
            row = one(algo, options.total_timesteps, options.seed, options.threads, Path(folder))
        known = json.loads(options.output.read_text(encoding="utf-8"))["runs"] if options.output.exists() else []
        document = {"machine": machine, "goal": GOAL, "env": ENV, "runs": [*known, row]}
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(algo, row["eval"], flush=True)
        returns.append(row["eval"]["mean"])
    return int(min(returns) < GOAL)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
