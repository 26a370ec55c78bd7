"""What loading refuses: the whole hostile corpus of bundles and checkpoints, and mutated files, with times and memory.

    python benchmarks/loading.py [bundles] [checkpoints] [mutated_files] [--every 1] [--cases 1000000] [--minutes 60]

Each hostile bundle and each `--every`-th checkpoint has to be refused by an error that names it, without a file written
elsewhere, a module imported or memory beyond twice its size and 50 MB; then so many mutated files are given to their
readers, of which only our error may come. Anything else ends this script with the case. After `--minutes` no further
mutated files are made; the result tells how many there were. Times depend on the machine and are told, not judged.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
sys.path.insert(0, str(RESULTS.parents[1] / "tests"))

import steadyrl as srl  # noqa: E402
from steadyrl.bundle import read_bundle  # noqa: E402
from steadyrl.errors import RunFailedError, UserError  # noqa: E402
from steadyrl.training.provenance import provenance  # noqa: E402
from support.checkpoints import SESSION, Work  # noqa: E402
from support.fuzz_run import fuzz  # noqa: E402
from support.fuzz_targets import targets  # noqa: E402
from support.hostile import Hostile, Seen, watched  # noqa: E402
from support.hostile_bundles import bundles  # noqa: E402
from support.hostile_checkpoints import STEP, checkpoints  # noqa: E402
from support.policies import CPU  # noqa: E402


def told(case: Hostile, text: str) -> None:
    if not any(word in text for word in case.told):
        raise SystemExit(f"{case.name}: refused without its name: {text}")


def refused_bundles(place: Path) -> list[Seen]:
    found = []
    for case in bundles():
        path = place / "x.srl"
        case.put(path)
        plain = path.is_file() and path.stat().st_size < 1 << 30
        with watched(place, path.stat().st_size if plain else 0) as seen:
            try:
                read_bundle(path, CPU)
            except UserError as error:
                told(case, str(error))
            else:
                raise SystemExit(f"{case.name}: taken")
        found.append(seen)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    return found


def refused_checkpoints(place: Path, run: Path, every: int) -> list[Seen]:
    found = []
    for case in [*checkpoints(run)][::every]:
        copy, said = place / "run", list[str]()
        shutil.copytree(run, copy)
        case.put(copy)
        size = sum(file.stat().st_size for file in (run / STEP).iterdir())
        with watched(place, size, copy) as seen:
            try:
                srl.resume(copy, say=lambda notice, said=said: said.append(notice.message))  # type: ignore[misc]
            except (UserError, RunFailedError) as error:
                told(case, f"{' '.join(said)} {error}")
            else:
                raise SystemExit(f"{case.name}: taken")
        found.append(seen)
        shutil.rmtree(copy)
    return found


def summary(found: Iterable[Seen]) -> dict[str, Any]:
    seen = [*found]
    times = [1000 * one.wall_s for one in seen]
    return {
        "refused": len(seen),
        "taken": 0,
        "median_ms": round(statistics.median(times), 2),
        "slowest_ms": round(max(times), 1),
        "most_memory_mb": round(max(one.grew for one in seen) / 1e6, 1),
    }


def fuzzed(work: Work, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    start = time.perf_counter()
    counts = fuzz(
        targets(work, folder),
        options.cases,
        options.seed,
        seconds=60 * options.minutes,
        say=lambda text: print(text, flush=True),
    )
    return {
        "cases": sum(count.cases for count in counts.values()),
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start),
        "other_errors": 0,
        "readers": {name: asdict(count) for name, count in counts.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["bundles", "checkpoints", "mutated_files"]
    parser.add_argument("parts", nargs="*", choices=[*names, []], default=names)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS / "loading.json", help="other parts in it are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of numbers that leave their range, as mutated configurations have them
    document: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {}
    facts = provenance(Path.cwd())
    machine = {key: value for key, value in facts.items() if key in ("cpu", "python", "git")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("work", "bundles", "checkpoints", "fuzz"):
            (folder / part).mkdir()
        work = Work(folder / "work")
        work.saver(work.run, keep_last=None).save(SESSION)
        whole = work.copy(folder / "whole")
        shutil.rmtree(work.run / "checkpoints" / "step_80")
        for _ in range(2):  # what is imported at first use is, and the good one is taken
            srl.resume(work.copy(folder / f"good{_}"), 122, say=lambda notice: None)
        for part in options.parts:
            if part == "bundles":
                found = summary(refused_bundles(folder / "bundles"))
            elif part == "checkpoints":
                cases = refused_checkpoints(folder / "checkpoints", work.run, options.every)
                found = {"every": options.every, **summary(cases)}
            else:
                work.run = whole
                found = fuzzed(work, folder / "fuzz", options)
            document[part] = found | {"machine": machine}
            options.output.write_text(json.dumps(document, indent=1) + "\n")
            print(json.dumps({part: {key: value for key, value in found.items() if key != "readers"}}), flush=True)


if __name__ == "__main__":
    main()
