"""Runs made again by `steadyrl reproduce` in processes that did not train them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import steadyrl as srl
from steadyrl.training.chain import chain, parted_after, shared_steps
from support.killing import Case, envs_for

PROGRAM = """
import json, sys
from pathlib import Path
from steadyrl.cli.reproduce_command import _compared
from steadyrl.cli.session import Session

if __name__ == "__main__":
    said = [json.dumps(_compared(Path(run), Path(run + "-again"), Session())) for run in sys.argv[1:]]
    Path(sys.argv[1] + "-said").write_text("\\n".join(said))
"""


def cases(algo: str, count: int, total: int = 600) -> list[Case]:
    """So many trainings of an algorithm: environments, normalised or not, sync and async, then other seeds."""
    kinds = list(itertools.product(("sync", "async"), (False, True), envs_for(algo)))
    repeated = itertools.islice(itertools.cycle(kinds), count)
    return [
        Case(algo, env, normalised, vec, total=total, more={"seed": 5 + number // len(kinds)})
        for number, (vec, normalised, env) in enumerate(repeated)
    ]


def name_of(case: Case) -> str:
    """As the results have it."""
    return f"{case.name}, seed {case.more['seed']}"


def reproduced_together(runs: list[Path], *places: str) -> list[dict[str, Any]]:
    """What the command says of several runs that it makes again, in one fresh process: importing takes longest.

    Args:
        runs: Run folders; each second run goes beside the first, with `-again` at the end of its name.
        *places: Folders that come before all others on the path.
    """
    package = str(Path(srl.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*places, package, *sys.path])}
    command = [sys.executable, "-c", PROGRAM, *map(str, runs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1200)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return [json.loads(line) for line in Path(f"{runs[0]}-said").read_text(encoding="utf-8").splitlines()]


def judged(case: Case, run: Path, said: dict[str, Any]) -> dict[str, Any]:
    """One row: what was said of a run that was made again, where the chains part, and that enough happened."""
    other = Path(f"{run}-again")
    steps = shared_steps(run, other)
    links = chain(run, steps)
    updates = int(srl.Run.open(run).metrics()[-1]["train/n_updates"])
    row = {"case": name_of(case), "algo": case.algo, "updates": updates, "intervals": len(links)}
    row |= {"parted": parted_after(links, chain(other, steps)), **said}
    row.pop("run", None)
    assert updates >= 3, row
    assert said["compared"]["evals.jsonl"] >= 2, row
    return row
