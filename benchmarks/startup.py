"""Start-up against its budgets: CPU time of light commands, time to the first line, time to the first update.

    python benchmarks/startup.py [--repeats 5]

Medians over processes of their own, warm file cache (one run each goes uncounted); prints JSON and keeps it in
results/startup.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent
SCRIPT = str(Path(sys.executable).parent / "steadyrl")
CPU_BUDGETS_MS = {
    "steadyrl --version": ([SCRIPT, "--version"], 80),
    "steadyrl --help": ([SCRIPT, "--help"], 150),
    "steadyrl train ppo --help": ([SCRIPT, "train", "ppo", "--help"], 300),
}
FIRST_UPDATE = """
import sys, time
start = float(sys.argv[2])
import steadyrl.training.session as session
log = session.Session._log_row
def first(self):
    log(self)
    print(time.time() - start, flush=True)
    raise SystemExit(0)
session.Session._log_row = first
from steadyrl.cli.main import main
main(["train", "ppo", "CartPole-v1", "--run-dir", sys.argv[1], "--quiet", "--eval-freq", "0"])
"""


def cpu_ms(command: list[str]) -> float:
    """User and system CPU time of a command, in milliseconds."""
    before = os.times()
    subprocess.run(command, capture_output=True, check=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used * 1000


def import_ms(module: str) -> float:
    """CPU time that importing a module adds to that of starting Python."""
    return cpu_ms([sys.executable, "-c", f"import {module}"]) - cpu_ms([sys.executable, "-c", ""])


def first_line_s() -> float:
    """Seconds from the command to the line that names the run folder."""
    with tempfile.TemporaryDirectory() as folder:
        start = perf_counter()
        command = [SCRIPT, "train", "ppo", "CartPole-v1", "--run-dir", f"{folder}/run", "--total-timesteps", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = perf_counter() - start
            assert line.startswith("Run folder:"), line
            process.stdout.read()
    return seconds


def first_update_s() -> float:
    """Seconds from the command to the end of the first update."""
    with tempfile.TemporaryDirectory() as folder:
        return _timed(["-c", "import time, subprocess, sys; " + _LAUNCH.format(code=FIRST_UPDATE, folder=folder)])


_LAUNCH = (
    "done = subprocess.run([sys.executable, '-c', {code!r}, {folder!r} + '/run', str(time.time())], "
    "capture_output=True, text=True); print(done.stdout.splitlines()[-1])"
)


def import_torch_s() -> float:
    """Seconds of a process that imports torch and nothing else."""
    start = perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return perf_counter() - start


def _timed(arguments: list[str]) -> float:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def medians(measure: Callable[[], float], repeats: int) -> float:
    """Median after one uncounted call."""
    measure()
    return median(measure() for _ in range(repeats))


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    rows: dict[str, dict[str, Any]] = {}
    for name, (command, budget) in CPU_BUDGETS_MS.items():
        rows[f"{name} (CPU ms)"] = {"measured": medians(lambda c=command: cpu_ms(c), repeats), "budget": budget}  # type: ignore[misc]
    rows["import steadyrl (CPU ms)"] = {"measured": medians(lambda: import_ms("steadyrl"), repeats), "budget": 100}
    rows["run folder named (s)"] = {"measured": medians(first_line_s, repeats), "budget": 1.0}
    torch_s = medians(import_torch_s, repeats)
    rows["first update (s)"] = {"measured": medians(first_update_s, repeats), "budget": torch_s + 1.5}
    for row in rows.values():
        row["measured"], row["budget"] = round(row["measured"], 2), round(row["budget"], 2)
        row["within"] = row["measured"] <= row["budget"]
    text = json.dumps({"repeats": repeats, "import_torch_s": round(torch_s, 2), "rows": rows}, indent=2)
    (HERE / "results" / "startup.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
