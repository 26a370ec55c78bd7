"""Runs made again from their manifests, and what may change without changing a bit: workers, their order, threads.

    python benchmarks/reproducibility.py [again] [probes] [workers] [threads] [--runs 20] [--algos ppo sac]

`again`: each algorithm's runs in turn over environments, normalisation and backends, each made again by
`steadyrl reproduce` in a fresh process; rows and states are compared bit for bit, and so are the chains of hashes over
the intervals between two checkpoints. `probes`: the same after one hyperparameter, or one line of code, was changed,
which has to be found and named. `workers`: sync and async with 1, 2 and 4 workers, steps delayed at random. `threads`:
1 to 4 threads, native kernels and PyTorch, small and large networks. Exit status 1 where anything came out otherwise
than the documentation says.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import steadyrl as srl
from steadyrl.training.comparing import first_difference
from steadyrl.training.provenance import provenance
from support.again import cases, judged, name_of, reproduced_together
from support.killing import SMALL, finish, forked
from support.threads import NETWORKS, matrix
from support.workers import ALGOS as WORKER_ALGOS
from support.workers import BACKENDS, train_delayed

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
# A line that every training runs through, and what takes its place: weights differ by 1 in 10,000.
LINE = "parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))"
OTHER_LINE = "parameter.copy_(1.0001 * torch.from_numpy(np.ascontiguousarray(values)))"
FILE = "nn/init.py"
TOGETHER = 6  # runs that are made again by one process


def reproduced(run: Path, path: list[str] | None = None) -> dict[str, Any]:
    """What `steadyrl reproduce RUN --json` says in a fresh process, with these folders before all others."""
    places = [*(path or []), str(Path(srl.__file__).parent.parent), str(ROOT / "tests")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-m", "steadyrl", "reproduce", str(run), "--json", "--run-dir", f"{run}-again"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode not in (0, 1):
        return {"identical": False, "problem": (done.stderr or done.stdout)[-500:]}
    return dict(json.loads(done.stdout))


def again(algos: list[str], runs: int, known: list[dict[str, Any]], keep: Callable[[str, Any], None]) -> bool:
    """Runs made again in fresh processes; those that `known` has already are not repeated."""
    rows, done = list(known), {row["case"] for row in known}
    wanted = itertools.chain.from_iterable(zip(*(cases(algo, runs) for algo in algos), strict=True))
    left = [case for case in wanted if name_of(case) not in done]
    while left:
        part, left = left[:TOGETHER], left[TOGETHER:]
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"run-{number}" for number in range(len(part))]
            for case, path in zip(part, paths, strict=True):
                if finish(forked(lambda case=case, path=path: case.train(path), Path(folder) / "log")) != 0:  # type: ignore[misc]
                    raise SystemExit(f"{case.name} does not train: {(Path(folder) / 'log').read_text()}")
            for case, path, said in zip(part, paths, reproduced_together(paths), strict=True):
                rows.append(judged(case, path, said))
                print(f"{rows[-1]['case']}: {'identical' if said['identical'] else said}", flush=True)
        keep("again", rows)
    return all(row["identical"] and row["parted"] is None for row in rows)


def probes(algos: list[str], keep: Callable[[str, Any], None]) -> bool:
    """Runs made again after one thing was changed: it has to be named, and the first step and part that differ."""
    rows: list[dict[str, Any]] = []
    for algo in algos:
        case = cases(algo, 1)[0]
        with tempfile.TemporaryDirectory() as folder:
            run, copy = Path(folder) / "run", Path(folder) / "src"
            assert finish(forked(lambda case=case, run=run: case.train(run), Path(folder) / "log")) == 0  # type: ignore[misc]
            shutil.copytree(Path(srl.__file__).parent, copy / "steadyrl", ignore=shutil.ignore_patterns("__pycache__"))
            source = copy / "steadyrl" / FILE
            text = source.read_text(encoding="utf-8")
            assert text.count(LINE) == 1
            source.write_text(text.replace(LINE, OTHER_LINE), encoding="utf-8")
            found = {"one line of code": reproduced(run, [str(copy)])}
            shutil.rmtree(f"{run}-again")
            config = json.loads((run / "config.json").read_text(encoding="utf-8"))
            config["hyperparameters"]["gamma"] -= 1e-4
            (run / "config.json").write_text(json.dumps(config), encoding="utf-8")
            found["one hyperparameter"] = reproduced(run)
        for what, said in found.items():
            named = f"the code of steadyrl/{FILE}" if "line" in what else "gamma is"
            ok = not said["identical"] and any(text.startswith(named) for text in said.get("not_as_it_was", []))
            rows.append({"algo": algo, "changed": what, "named": ok, **said})
            rows[-1].pop("run", None)
            print(f"{algo}, {what}: {said.get('first_difference')}, {said.get('not_as_it_was')}", flush=True)
        keep("probes", rows)
    return all(row["named"] and row["first_difference"] for row in rows)


def workers(algos: list[str], keep: Callable[[str, Any], None]) -> bool:
    """The same run folder, however many processes step the environments and in whatever order they finish."""
    rows: list[dict[str, Any]] = []
    for algo in [algo for algo in algos if algo in WORKER_ALGOS]:
        with tempfile.TemporaryDirectory() as folder:
            runs = {name: train_delayed(algo, Path(folder) / name, **how) for name, how in BACKENDS.items()}
            for name, run in runs.items():
                difference = first_difference(runs["sync"].path, run.path)
                found = run.config["settings"]
                rows.append(
                    {
                        "algo": algo,
                        "backend": name,
                        "ran": [found["vec"], found["num_workers"]],
                        "weights": run.manifest["weights_sha256"],
                        "first_difference": None if difference is None else difference.to_json(),
                    }
                )
                print(f"{algo}, {name}: {difference or 'identical'}", flush=True)
        keep("workers", rows)
    return all(row["first_difference"] is None for row in rows)


def threads(algos: list[str], known: list[dict[str, Any]], keep: Callable[[str, Any], None]) -> bool:
    """Weights after a short training with 1, 2, 3 and 4 threads; what `known` has already is not repeated."""
    rows = list(known)
    done = {(row["network"], row["kernels"], row["algo"]) for row in rows}
    for network, kernels in itertools.product(NETWORKS, ("native", "torch", "torch, MKL_CBWR=AVX2,STRICT")):
        chosen = [algo for algo in algos if algo in NETWORKS[network].algos and (network, kernels, algo) not in done]
        if not chosen:
            continue
        for algo, found in matrix(network, kernels, chosen).items():
            rows.append({"algo": algo, "network": network, "kernels": kernels, "by_threads": found})
            print(f"{network}, {kernels}, {algo}: {classes(found)}", flush=True)
        keep("threads", rows)
    return all(len(set(row["by_threads"].values())) == 1 for row in rows if row["kernels"] == "native")


def classes(found: dict[str, str]) -> list[list[int]]:
    """Thread counts that gave the same bits, together."""
    by_hash: dict[str, list[int]] = {}
    for count, sha in found.items():
        by_hash.setdefault(sha, []).append(int(count))
    return list(by_hash.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["again", "probes", "workers", "threads"]
    parser.add_argument("parts", nargs="*", choices=[*names, []], default=names)
    parser.add_argument("--runs", type=int, default=20, help="of each algorithm, in `again`")
    parser.add_argument("--algos", nargs="*", default=list(SMALL))
    parser.add_argument("--output", type=Path, default=RESULTS / "reproducibility.json", help="what it holds is kept")
    options = parser.parse_args()
    document: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {}

    def keep(part: str, rows: Any) -> None:
        facts = provenance(Path.cwd())
        document[part] = rows
        document["machine"] = {
            name: facts[name] for name in ("cpu", "platform", "python", "packages", "native_kernels")
        }
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    good = True
    for part in options.parts:
        known = document.get(part, [])
        if part == "again":
            good &= again(options.algos, options.runs, known, keep)
        elif part == "threads":
            good &= threads(options.algos, known, keep)
        else:
            good &= {"probes": probes, "workers": workers}[part](options.algos, keep)
    return 0 if good else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
