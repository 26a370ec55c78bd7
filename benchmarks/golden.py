"""Hashes of short runs of the six algorithms, by torch version and instruction set: check them, or bless new ones.

    python benchmarks/golden.py            # compare; exit status 1 where one differs or is unknown here
    python benchmarks/golden.py --bless    # store what this machine gives, after somebody understood why it changed

`ATEN_CPU_CAPABILITY` (avx2, default) and `STEADYRL_ISA` (avx2, sse2) choose other instruction sets.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from steadyrl import kernels
from steadyrl.training.provenance import cpu_model
from support.golden import ALGOS, STORED, key, run, stored


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bless", action="store_true", help="store the hashes of this machine")
    options = parser.parse_args(argv)
    known, bad = stored(), 0
    for mode in ("native", "torch") if kernels.available() else ("torch",):
        found = {algo: run(algo, mode)["sha256"] for algo in ALGOS}
        before: dict[str, Any] = known.get(key(mode), {}).get("hashes", {})
        for algo, sha in found.items():
            state = "unknown" if algo not in before else "as blessed" if before[algo] == sha else "DIFFERS"
            bad += state != "as blessed"
            print(f"{mode:6} {algo:5} {sha[:16]} {state}")
        known[key(mode)] = {"cpu": cpu_model(), "hashes": found}
    if options.bless:
        STORED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"stored in {STORED.name}")
        return 0
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
