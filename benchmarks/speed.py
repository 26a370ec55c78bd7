"""Speed beside Stable-Baselines3 and SBX on this machine: all in turn in one run, medians, ratios as JSON.

    python benchmarks/speed.py [WORK ...] [--repeats 3]

`make bench-peers` installs the peer into an environment of its own. Each measurement is a process of its own; the
order alternates, so that a drift of the machine meets both. Both must have done the same environment steps, gradient
steps and samples.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from speed_works import WORKS

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"


def measure(library: str, work: str) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = (
        [sys.executable, str(HERE / "speed_ours.py"), work]
        if library == "ours"
        else [str(PEERS), str(HERE / "speed_peer.py"), library, work]
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{library} failed at {work}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(work: str, repeats: int) -> dict[str, Any]:
    """Steps per second of each and our ratios, medians over `repeats`."""
    libraries = ["ours", "sb3"] + (["sbx"] if WORKS[work].algo != "a2c" else [])
    rows: dict[str, list[dict[str, Any]]] = {library: [] for library in libraries}
    for i in range(repeats):
        for library in libraries if i % 2 == 0 else reversed(libraries):
            rows[library].append(measure(library, work))
    for key in ("steps", "gradient_steps", "samples"):
        done = {library: {row[key] for row in found} for library, found in rows.items()}
        counts = set().union(*done.values())
        # A native environment's autoreset makes up rows, which leaves some minibatches smaller, and so more of them.
        room = 0.02 if WORKS[work].vec == "native" else 0.0
        assert max(counts) - min(counts) <= room * max(counts), f"{work}: not the same {key}: {done}"
    speeds = {library: [row["steps"] / row["seconds"] for row in found] for library, found in rows.items()}
    pairs = {
        peer: [round(a / b, 2) for a, b in zip(speeds["ours"], speeds[peer], strict=True)] for peer in libraries[1:]
    }
    return {
        "ratio": {peer: round(median(speeds["ours"]) / median(speeds[peer]), 2) for peer in libraries[1:]},
        "ratios_pairwise": pairs,
        "steps_per_second": {library: round(median(values)) for library, values in speeds.items()},
        "threads": {library: found[0]["threads"] for library, found in rows.items()},
        **{key: rows["ours"][0][key] for key in ("steps", "gradient_steps", "samples")},
    }


def main() -> None:
    """Measure the works named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", help=f"among: {', '.join(WORKS)}")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "speed.json")
    options = parser.parse_args()
    if not PEERS.exists():
        raise SystemExit("The peers are not installed: run make bench-peers first.")
    document = {
        "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
        "versions": {
            "ours": _versions(sys.executable, "steadyrl"),
            "sb3": _versions(str(PEERS), "stable_baselines3"),
            "sbx": _versions(str(PEERS), "sbx"),
        },
        "repeats": options.repeats,
        "works": {work: compare(work, options.repeats) for work in options.works or WORKS},
    }
    text = json.dumps(document, indent=2)
    options.output.write_text(text + "\n")
    print(text)


def _versions(python: str, package: str) -> dict[str, str]:
    code = (
        f"import json, torch, numpy, gymnasium, {package} as p; print(json.dumps({{'{package}': p.__version__, "
        "'torch': torch.__version__, 'numpy': numpy.__version__, 'gymnasium': gymnasium.__version__}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
