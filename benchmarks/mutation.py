"""How many small faults in a module's code its tests notice.

    python benchmarks/mutation.py NAME [--sample 60] [--seed 0] [--again] [--output FILE]

Each mutant (see `mutants.py`) is put into a copy of the tree, and the tests of NAME run there until the first fails, or
until they take several times as long as without a fault, which counts as noticed. `--sample N` takes N mutants of all
modules together at random, by the seed; 0 takes all. `--again` runs only those that the last result says survived, with
the tests as they are now. `EQUIVALENT` names mutants that change nothing that anybody could see, and why: they count
neither way. The result is benchmarks/results/mutation-NAME.json, written after each mutant.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest
from mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
EQUIVALENT = ROOT / "benchmarks" / "mutation_equivalent.json"  # {path: {mutant: reason}}
MARK = "STEADYRL_MUTANT"  # environment variable by which what a mutant left running is found
_PRELOADED = ("numpy", "torch", "gymnasium", "hypothesis")
_SLOWER = 4  # times as long as without a fault, and
_LATER_S = 30.0  # so many seconds more, are a hang
_TEST_S = 90  # a single test that takes longer than this fails: without a fault, each takes seconds

_WORKERS = "src/steadyrl/envs/workers/"
_OF_WORKERS = "tests/envs/workers/"
# What is mutated, and the tests that are to notice, the quickest first; paths from the root.
TARGETS: dict[str, tuple[list[str], list[str]]] = {
    "workers-parts": (
        [
            f"{_WORKERS}{name}.py"
            for name in ("arguments", "board", "channel", "log", "loss", "process", "recipe", "report", "shared")
        ],
        [f"{_OF_WORKERS}test_{name}.py" for name in ("parts", "loss", "report", "shared")],
    ),
    "workers-block": (
        [f"{_WORKERS}{name}.py" for name in ("block", "worker")],
        [f"{_OF_WORKERS}test_{name}.py" for name in ("worker", "worker_told", "worker_process", "vector")],
    ),
    "workers-crew": (
        [f"{_WORKERS}{name}.py" for name in ("crew", "keeper")],
        [f"{_OF_WORKERS}test_{name}.py" for name in ("keeper", "waiting", "crew")],
    ),
    "workers-vector": (
        [f"{_WORKERS}vector.py"],
        [f"{_OF_WORKERS}test_{name}.py" for name in ("vector_told", "restart", "state")],
    ),
    "guard": (
        ["src/steadyrl/algorithms/guard.py", "src/steadyrl/training/guards.py"],
        ["tests/algorithms/test_guard_alone.py", "tests/training/test_guards.py", "tests/algorithms/test_guard.py"],
    ),
    "nonfinite": (
        [f"src/steadyrl/envs/{name}.py" for name in ("checks", "nonfinite", "restart", "skips")],
        ["tests/envs/test_restart.py", "tests/envs/test_nonfinite.py"],
    ),
}


@dataclass
class Outcome:
    """What came of the mutants of one run."""

    name: str
    total: int
    sample: int
    seed: int
    noticed: int = 0
    timed_out: int = 0
    again: int = 0
    survivors: list[dict[str, Any]] = field(default_factory=list)
    equivalent: list[dict[str, Any]] = field(default_factory=list)

    def write(self, path: Path, baseline_s: float) -> None:
        """Write the result as it is so far."""
        modules, tests = TARGETS[self.name]
        counted = self.noticed + len(self.survivors)
        document = {
            "name": self.name,
            "modules": modules,
            "tests": tests,
            "mutants": self.total,
            "sample": self.sample,
            "seed": self.seed,
            "run": counted + len(self.equivalent),
            "noticed": self.noticed,
            "of_those_by_taking_too_long": self.timed_out,
            "run_again_with_new_tests": self.again,
            "score": round(self.noticed / counted, 4) if counted else None,
            "survivors": self.survivors,
            "equivalent": self.equivalent,
            "baseline_s": round(baseline_s, 1),
        }
        path.write_text(json.dumps(document, indent=1) + "\n")


class Copy:
    """A copy of the tree in which mutants are tried.

    Args:
        folder: Where.
        tests: What runs.
    """

    def __init__(self, folder: Path, tests: Sequence[str]) -> None:
        self._folder = folder
        self._tests = tests
        for name in ("src", "tests", "benchmarks"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, folder)

    def notices(self, mutant: Mutant, limit: float) -> bool | None:
        """Whether a test fails with this mutant; None where it took longer than `limit` seconds."""
        path = self._folder / mutant.module
        whole = path.read_text()
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()  # it looks current where a mutant is as long and as old
        path.write_text(mutant.source)
        try:
            return self.fails(limit, PYTHONDONTWRITEBYTECODE="1")
        finally:
            path.write_text(whole)

    def fails(self, limit: float, **variables: str) -> bool | None:
        """Whether a test fails; None where it took longer."""
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        process = os.fork()  # of a process that has imported what takes seconds, and has one thread
        if not process:
            self._run({MARK: mark, **variables})
        status, deadline = None, time.monotonic() + limit
        try:
            while status is None and time.monotonic() < deadline:
                ended, found = os.waitpid(process, os.WNOHANG)
                status = os.waitstatus_to_exitcode(found) if ended else None
                time.sleep(0.02)
        finally:
            if status is None:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            _end_marked(mark)
        if status in (4, 5):
            raise SystemExit(f"pytest ended with {status}: the tests of this name cannot be run.")
        return None if status is None else status != 0

    def _run(self, variables: dict[str, str]) -> NoReturn:
        """In the child: the tests, with the copy in the place of the package."""
        status = 3
        try:
            silent = os.open(os.devnull, os.O_RDWR)
            for file in (0, 1, 2):
                os.dup2(silent, file)
            source = str(self._folder / "src")
            sys.path[:0] = [source, str(self._folder)]  # the latter as `python -m pytest` does: tests are sent by name
            sys.argv = ["pytest"]
            path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
            os.environ.update(variables, PYTHONPATH=path)
            sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in variables
            os.chdir(self._folder)
            status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--timeout", str(_TEST_S), *self._tests]))
        finally:
            os._exit(status)


def _end_marked(mark: str) -> None:
    """End what the tests of a mutant left running: only what carries its mark."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                process.send_signal(signal.SIGKILL)


def chosen(name: str, sample: int, seed: int) -> tuple[list[Mutant], int]:
    """The mutants to try, in the order of the code, and how many there are in all."""
    everything = [mutant for path in TARGETS[name][0] for mutant in mutants_of(path, (ROOT / path).read_text())]
    if not sample or sample >= len(everything):
        return everything, len(everything)
    numbers = sorted(random.Random(seed).sample(range(len(everything)), sample))
    return [everything[number] for number in numbers], len(everything)


def survivors_of(path: Path, name: str) -> tuple[Outcome, list[Mutant]]:
    """The last result, with its survivors taken out to be tried again."""
    last = json.loads(path.read_text())
    outcome = Outcome(name, last["mutants"], last["sample"], last["seed"], last["noticed"])
    outcome.timed_out, outcome.again = last["of_those_by_taking_too_long"], last["run_again_with_new_tests"]
    named = {(entry["module"], entry["what"]) for entry in [*last["survivors"], *last["equivalent"]]}
    mutants = [mutant for mutant in chosen(name, 0, 0)[0] if (mutant.module, mutant.what) in named]
    outcome.again += len(mutants)
    return outcome, mutants


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*TARGETS])
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    name = arguments.name
    output = arguments.output or RESULTS / f"mutation-{name}.json"
    if arguments.again:
        outcome, mutants = survivors_of(output, name)
    else:
        mutants, total = chosen(name, arguments.sample, arguments.seed)
        outcome = Outcome(name, total, len(mutants), arguments.seed)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for module in _PRELOADED:
        importlib.import_module(module)
    known = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    with tempfile.TemporaryDirectory(prefix="steadyrl-mutation-") as folder:
        copy = Copy(Path(folder), TARGETS[name][1])
        start = time.monotonic()
        if copy.fails(1800.0) is not False:
            raise SystemExit("The tests fail, or take half an hour, without any mutant.")
        baseline_s = time.monotonic() - start
        print(f"{name}: {len(mutants)} of {outcome.total} mutants; the tests take {baseline_s:.0f} s.", flush=True)
        for mutant in mutants:
            entry = {"module": mutant.module, "line": mutant.line, "what": mutant.what}
            reason = known.get(mutant.module, {}).get(mutant.what)
            found = True if reason else copy.notices(mutant, _SLOWER * baseline_s + _LATER_S)
            if reason:
                outcome.equivalent.append(entry | {"reason": reason})
            elif found is False:
                outcome.survivors.append(entry)
                print(f"survived: {mutant.module}:{mutant.line}: {mutant.what}", flush=True)
            else:
                outcome.noticed += 1
                outcome.timed_out += found is None
            outcome.write(output, baseline_s)
    counted = outcome.noticed + len(outcome.survivors)
    print(f"noticed {outcome.noticed} of {counted}, {len(outcome.equivalent)} equivalent")


if __name__ == "__main__":
    main()
