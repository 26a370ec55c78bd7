"""Rewrites the generated blocks of README.md and docs/, so that no table can go stale.

    python benchmarks/tables.py           # rewrite
    python benchmarks/tables.py --check   # change nothing; exit status 1 and the names of the files that are stale

A block stands between `<!-- table: NAME -->` and `<!-- end of table -->`. Results come from `benchmarks/results/`,
hyperparameters and settings from the dataclasses, presets from the preset files.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import atari_tables
import checker_tables
from compatibility_envs import FAMILIES

from steadyrl.cli.flags import flags_of, shown
from steadyrl.cli.train_command import TrainOptions
from steadyrl.config import presets
from steadyrl.configs import CONFIGS
from steadyrl.configs.run import RunSettings
from steadyrl.configs.wrapping import WRAPPER_FIELDS, WrapperSettings

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
PENDING = "No result is stored yet."


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def learning(algo: str | None = None) -> str:
    """Scores of the final agents beside their bars, from `learning-*.json`."""
    documents = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("learning-*.json"))]
    chosen = [document for document in documents if algo in (None, document["algo"])]
    if not chosen:
        return PENDING + "\n"
    head = ("algorithm", "environment", "steps", "final score of each seed", "interquartile mean", "bar", "reached")
    return table(head, [_learning_row(document) for document in chosen]) + "\n" + _learning_note(chosen)


def speed() -> str:
    """Steps per second beside Stable-Baselines3, from `speed.json`."""
    path = RESULTS / "speed.json"
    if not path.exists():
        return PENDING + "\n"
    document = json.loads(path.read_text())
    peers = {"sb3": "Stable-Baselines3", "sbx": "SBX"}
    head = ("work", "SteadyRL, steps/s", *(f"{name}, steps/s (ratio; of each pair)" for name in peers.values()))
    rows = []
    for name, work in document["works"].items():
        cells = [name, f"{work['steps_per_second']['ours']:,}"]
        for peer in peers:
            if peer not in work["ratio"]:
                cells.append("not measured")
                continue
            each = ", ".join(f"{ratio:g}" for ratio in work["ratios_pairwise"][peer])
            cells.append(f"{work['steps_per_second'][peer]:,} ({work['ratio'][peer]:g}; {each})")
        rows.append(cells)
    machine, versions = document["machine"], document["versions"]
    sbx = f", SBX {versions['sbx']['sbx']}" if "sbx" in versions else ""
    note = (
        f"Medians of {document['repeats']} measurements each, in turn, on one machine with {machine['cores']} cores "
        f"({machine['platform']}); torch {versions['ours']['torch']}, Gymnasium {versions['ours']['gymnasium']}, "
        f"Stable-Baselines3 {versions['sb3']['stable_baselines3']}{sbx}. "
        "Threads are each library's defaults.\n"
    )
    return table(head, rows) + "\n" + note


def time_to() -> str:
    """Training seconds to a score for each library, from `time-to.json`."""
    path = RESULTS / "time-to.json"
    if not path.exists():
        return PENDING + "\n"
    names = {"ours": "SteadyRL", "sb3": "Stable-Baselines3", "sbx": "SBX"}
    rows, made = [], []
    for name, race in json.loads(path.read_text())["races"].items():
        for library, found in race["libraries"].items():
            steps = found["median_step"]
            rows.append(
                (
                    f"{name} to {race['score']:g}",
                    names[library],
                    f"{found['reached']} of {found['seeds']}",
                    f"over {race['limit']:,}" if steps is None else f"{steps:,.0f}",
                    *(_seconds(found[f"median_{key}"]) for key in ("wall_s", "cpu_s")),
                    _ratios(race["ratio"].get(library)),
                )
            )
        machine, versions = race["machine"], race["versions"]
        made.append(
            f"{name}: {machine['cores']} core{'s' if machine['cores'] > 1 else ''} ({machine['platform']}); "
            f"torch {versions['ours']['torch']}, Gymnasium {versions['ours']['gymnasium']}, "
            f"Stable-Baselines3 {versions['sb3']['stable_baselines3']}, SBX {versions['sbx']['sbx']}."
        )
    head = ("work", "library", "seeds that arrived", "steps", "seconds", "CPU seconds", "times ours (seconds; CPU)")
    return table(head, rows) + "\nMedians over the seeds, in turn. " + " ".join(made) + "\n"


def updates() -> str:
    """Whole updates beside eager ones and bare products, from `updates.json`."""
    path = RESULTS / "updates.json"
    if not path.exists():
        return PENDING + "\n"
    document = json.loads(path.read_text())
    head = ("work", "on the kernels, us", "in PyTorch, us", "ratio")
    rows = [
        (row["case"], f"{row['native_us']:,.0f}", f"{row['torch_us']:,.0f}", f"{row['ratio']:.2f}")
        for row in document["results"]
    ]
    note = f"Medians in turn, up to {document['threads']} threads; {document['isa']}, torch {document['torch']}.\n"
    return table(head, rows) + "\n" + note


def faults() -> str:
    """What becomes of faults of environments, from `faults.json`."""
    path = RESULTS / "faults.json"
    if not path.exists():
        return PENDING + "\n"
    document = json.loads(path.read_text())
    names = {"steadyrl": "SteadyRL", "gymnasium": "Gymnasium's AsyncVectorEnv", "stable_baselines3": "SubprocVecEnv"}
    rows = []
    for case in document["cases"]:
        where = "the program is killed in it" if case["where"] == "killed" else f"in {case['where']}()"
        rows.append((f"{case['fault']}, {where}", *(case["results"][name]["short"] for name in names)))
    versions = document["versions"]["stable_baselines3"]
    note = (
        f"A case that takes longer than {document['limit_s']:g} s hangs; what still runs 2 s after its end is left. "
        f"Gymnasium {versions['gymnasium']}, Stable-Baselines3 {versions['stable_baselines3']}; "
        "`benchmarks/faults.py` is the command.\n"
    )
    return table(("fault", *names.values()), rows) + "\n" + note


def compiled() -> str:
    """Gradient steps with eager and compiled losses, from `compiled.json`."""
    path = RESULTS / "compiled.json"
    if not path.exists():
        return PENDING + "\n"
    document = json.loads(path.read_text())
    head = ("work", "losses, us", "compiled, us", "gradient step, us", "with compiled losses, us", "to compile, s")
    keys = ("losses_eager_us", "losses_compiled_us", "step_eager_us", "step_compiled_us", "compile_s")
    rows = [(row["work"], *(f"{row[key]:,g}" for key in keys)) for row in document["results"]]
    torch = document["results"][0]["torch"]
    return table(head, rows) + f"\nEach the shortest of several in turn, {document['threads']} thread, torch {torch}.\n"


def peers(algo: str) -> str:
    """Final scores of Stable-Baselines3 with our presets and seeds, from `peer-*.json`."""
    rows, versions = [], {}
    for path in sorted(RESULTS.glob(f"peer-{algo}-*.json")):
        document = json.loads(path.read_text())
        versions = document["versions"]
        scores = ", ".join(f"{run['mean']:.1f}" for run in document["runs"])
        env = path.stem.removeprefix(f"peer-{algo}-")
        rows.append((env, f"{document['timesteps']:,}", scores, f"{document['iqm']:.1f}"))
    if not rows:
        return PENDING + "\n"
    head = ("environment", "steps", "final score of each seed", "interquartile mean")
    made = ", ".join(f"{name} {version}" for name, version in versions.items())
    return table(head, rows) + f"\nMade with {made}.\n"


def hyperparameters(algo: str) -> str:
    """Every field of an algorithm's configuration."""
    return _fields(CONFIGS[algo])


def settings() -> str:
    """Every flag of `steadyrl train` that belongs to no algorithm."""
    own = _fields(RunSettings, without=WRAPPER_FIELDS)
    return _fields(TrainOptions) + own.partition("\n")[2].partition("\n")[2]


def wrappers() -> str:
    """Every flag of `steadyrl train` that puts something around environments."""
    return _fields(WrapperSettings)


def preset_list() -> str:
    """Environments with tuned settings, and their totals."""
    names = list(dict.fromkeys(name for algo in CONFIGS for name in presets(algo)))
    return table(
        ("environment", *(f"{algo}, steps" for algo in CONFIGS)),
        [(name, *(_total(algo, name) for algo in CONFIGS)) for name in names],
    )


def snapshots() -> str:
    """What is exact after restoring, and its cost, from `snapshots.json`."""
    path = RESULTS / "snapshots.json"
    if not path.exists():
        return PENDING + "\n"
    document = json.loads(path.read_text())
    rows = []
    for row in document["rows"]:
        saved, restored = (f"{row[key]['median']:,}" if row[key] else "" for key in ("save_us", "restore_us"))
        if row["steps_run_again"]:
            restored += f" ({row['steps_run_again']:g} steps run again)"
        exact = f"{row['exact']} of {row['points']} points" if row["points"] else row["reason"]
        rows.append([row["family"], row["env"], row["kind"], exact, saved, restored])
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    note = (
        f"{document['points']} points each, {document['steps_compared']} steps compared after each; medians, on a "
        f"machine that did other work too; {versions}.\n"
    )
    head = ("family", "environment", "kind", "exact", "save, µs", "restore, µs")
    return table(head, rows) + "\n" + note


def resume() -> str:
    """Random kills and what came of them, from `resume.json`."""
    path = RESULTS / "resume.json"
    if not path.exists():
        return PENDING + "\n"
    document = json.loads(path.read_text())
    rows = []
    for algo, kills in document["kills"].items():
        cases = [case for case in document["cases"] if case["case"].startswith(f"{algo}, ")]
        kinds = len({case["case"] for case in cases})
        identical = sum(not case["problem"] for case in cases)
        away = sum(step > resumed for case in cases for step, resumed in case["kills"])
        rows.append([algo, str(kills), str(away), str(kinds), f"{identical} of {len(cases)}"])
    head = (
        "algorithm",
        "kill -9",
        "away from a checkpoint",
        "kinds of training",
        "runs identical to the one left alone",
    )
    packages = document["machine"]["packages"]
    note = (
        "Environments CartPole-v1, Pendulum-v1, HalfCheetah-v5, LunarLander-v3 (whose episode is run again), "
        f"normalised or not, sync and async; torch {packages['torch']}, Gymnasium {packages['gymnasium']}.\n"
    )
    return table(head, rows) + "\n" + note


def reproduced() -> str:
    """Runs made again in fresh processes, and what was named after a change, from `reproducibility.json`."""
    document = _reproducibility()
    if "again" not in document:
        return PENDING + "\n"
    rows = []
    for algo in dict.fromkeys(row["algo"] for row in document["again"]):
        of_algo = [row for row in document["again"] if row["algo"] == algo]
        kinds = {row["case"].rpartition(", seed")[0] for row in of_algo}
        identical = sum(row["identical"] for row in of_algo)
        chains = sum(row["parted"] is None for row in of_algo)
        intervals = sum(row["intervals"] for row in of_algo)
        rows.append([algo, str(len(kinds)), f"{identical} of {len(of_algo)}", f"{chains}, over {intervals} intervals"])
    packages = document["machine"]["packages"]
    note = (
        "CartPole-v1, Pendulum-v1, HalfCheetah-v5 and LunarLander-v3, normalised or not, sync and async; of each run "
        "all rows, 3 evaluations and the last 3 of 8 checkpoints are compared; "
        f"torch {packages['torch']}, Gymnasium {packages['gymnasium']}.\n"
    )
    return table(("algorithm", "kinds of training", "identical", "equal chains"), rows) + "\n" + note


def probes() -> str:
    """What `steadyrl reproduce` said after one thing was changed, from `reproducibility.json`."""
    document = _reproducibility()
    if "probes" not in document:
        return PENDING + "\n"
    rows = []
    for row in document["probes"]:
        first = row["first_difference"]
        where = "none" if first is None else f"step {first['step']}, {first['where']}, {first['name']}"
        rows.append([row["algo"], row["changed"], "; ".join(row["not_as_it_was"]), where])
    return table(("algorithm", "changed", "what it named", "the first that differs"), rows)


def backends() -> str:
    """Run folders by backend, from `reproducibility.json`."""
    document = _reproducibility()
    if "workers" not in document:
        return PENDING + "\n"
    names = list(dict.fromkeys(row["backend"] for row in document["workers"]))
    rows = []
    for algo in dict.fromkeys(row["algo"] for row in document["workers"]):
        found = {row["backend"]: row for row in document["workers"] if row["algo"] == algo}
        rows.append([algo, *("identical" if found[name]["first_difference"] is None else "differs" for name in names)])
    return table(("algorithm", *names), rows)


def threads() -> str:
    """Which numbers of threads give the same bits, from `reproducibility.json`."""
    document = _reproducibility()
    if "threads" not in document:
        return PENDING + "\n"
    kinds = list(dict.fromkeys(row["kernels"] for row in document["threads"]))
    rows = []
    for network in dict.fromkeys(row["network"] for row in document["threads"]):
        of_network = [row for row in document["threads"] if row["network"] == network]
        for algo in dict.fromkeys(row["algo"] for row in of_network):
            found = {row["kernels"]: row["by_threads"] for row in of_network if row["algo"] == algo}
            rows.append([network, algo, *(_alike(found[kind]) if kind in found else "not measured" for kind in kinds)])
    machine = document["machine"]
    note = f"torch {machine['packages']['torch']}, {machine['native_kernels']}, {machine['cpu']['model']}.\n"
    return table(("network", "algorithm", *kinds), rows) + "\n" + note


def _reproducibility() -> dict[str, Any]:
    path = RESULTS / "reproducibility.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _alike(by_threads: dict[str, str]) -> str:
    """Groups of thread counts with the same bits, such as `1 / 2 = 3 = 4`."""
    groups: dict[str, list[str]] = {}
    for count, sha in by_threads.items():
        groups.setdefault(sha, []).append(count)
    return "the same for all" if len(groups) == 1 else " / ".join(" = ".join(group) for group in groups.values())


def compatibility() -> str:
    """What works with what, from `compatibility.json`: a mark for each backend, and every other answer in words."""
    path = RESULTS / "compatibility.json"
    if not path.exists():
        return PENDING + "\n"
    document = json.loads(path.read_text())
    cells: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for cell in document["cells"]:
        cells.setdefault((cell["family"], cell["env"]), {}).setdefault(cell["algo"], []).append(cell)
    reasons: list[str] = []
    rows = []
    for (family, env), algos in cells.items():
        marks = [_mark(algos.get(algo, []), reasons) for algo in CONFIGS]
        snapshots = {c["snapshot"]: None for found in algos.values() for c in found if "snapshot" in c}
        parts = [text.partition(": ") for text in snapshots]
        ways = dict.fromkeys(_numbered(kind, reason, reasons) for kind, _, reason in parts)
        rows.append([family, env, *marks, ", ".join(ways)])
    rows += [[family, env, *["not run"] * len(CONFIGS), ""] for family, env in _never_run(cells)]
    notes = "".join(f"{i}. {reason}\n" for i, reason in enumerate(reasons, 1))
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    most = max(cell["steps"] for cell in document["cells"])
    fewer: dict[str, None] = {}
    for cell in document["cells"]:
        if cell["result"] == "yes" and cell["steps"] < most:
            fewer[f"{cell['steps']:,} for {cell['family']} {cell['vec']}"] = None
    less = f" ({', '.join(fewer)})" if fewer else ""
    note = f"{most:,} steps of training each{less}, episodes cut at {document['episode_limit']}; {versions}.\n"
    packages = {family: found for family, found in document["packages"].items() if found}
    for family, found in packages.items():
        note += f"{family}: {', '.join(f'{name} {version}' for name, version in found.items())}.\n"
    return table(("family", "environment", *CONFIGS, "snapshot"), rows) + "\n" + note + ("\n" + notes if notes else "")


def _never_run(cells: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Environments of the families that were begun of which there is no cell."""
    begun = {family for family, _ in cells}
    names = [
        (family, entry if isinstance(entry, str) else entry[0]) for family in begun for entry in FAMILIES[family][2]
    ]
    known = [(family, env.rpartition(":")[2]) for family, env in cells]
    return sorted((f, name) for f, name in names if not any(f == g and env.startswith(name) for g, env in known))


def _mark(cells: list[dict[str, Any]], reasons: list[str]) -> str:
    """The answer of one environment and algorithm: one where both backends agree, else with the backends that gave it;
    `no` with the number of its reason.
    """
    found: dict[str, list[str]] = {}
    for cell in cells:
        answer = str(cell["result"])
        if answer in ("no", "broken", "failed"):
            answer = _numbered(answer, str(cell["message"]), reasons)
        found.setdefault(answer, []).append(cell["vec"])
    if len(found) == 1 and len(cells) == 2:
        return next(iter(found))
    return ", ".join(f"{answer} {' '.join(vecs)}" for answer, vecs in found.items()) or "not run"


def _numbered(answer: str, reason: str, reasons: list[str]) -> str:
    """An answer with the number of its reason, if it has one."""
    text = " ".join(reason.split())
    if not text:
        return answer
    if text not in reasons:
        reasons.append(text)
    return f"{answer} ({reasons.index(text) + 1})"


BLOCKS: dict[str, Callable[[], str]] = {
    "compatibility": compatibility,
    "learning": learning,
    "speed": speed,
    "time-to": time_to,
    "updates": updates,
    "resume": resume,
    "reproduced": reproduced,
    "probes": probes,
    "backends": backends,
    "threads": threads,
    "snapshots": snapshots,
    "faults": faults,
    "compiled": compiled,
    "checker-rules": checker_tables.rules,
    "checker-score": lambda: checker_tables.score(table),
    "checker-unseen": lambda: checker_tables.unseen(table),
    "checker-times": lambda: checker_tables.times(table),
    "checker-registered": lambda: checker_tables.registered(table),
    "atari-pong": lambda: atari_tables.pong(table),
    "atari-speed": lambda: atari_tables.speed(table),
    "settings": settings,
    "wrappers": wrappers,
    "presets": preset_list,
    **{f"hyperparameters-{algo}": lambda algo=algo: hyperparameters(algo) for algo in CONFIGS},  # type: ignore[misc]
    **{f"peers-{algo}": lambda algo=algo: peers(algo) for algo in CONFIGS},  # type: ignore[misc]
    **{f"learning-{algo}": lambda algo=algo: learning(algo) for algo in CONFIGS},  # type: ignore[misc]
}


def rewritten(text: str) -> str:
    """A page with its generated blocks as they should be; KeyError for a block that nobody makes."""
    return BLOCK.sub(lambda match: match[1] + BLOCKS[match[2]]() + match[3], text)


def pages() -> list[Path]:
    """The files that may hold generated blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def main(argv: list[str] | None = None) -> int:
    """Rewrite or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(argv)
    stale = 0
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = rewritten(before)
        if after != before:
            stale += 1
            print(f"{'stale' if options.check else 'rewritten'}: {page.relative_to(ROOT)}")
            if not options.check:
                page.write_text(after, encoding="utf-8")
    return 1 if options.check and stale else 0


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}"


def _ratios(found: dict[str, float | None] | None) -> str:
    if found is None:
        return ""
    known = [f"{value:g}" for value in (found["wall_s"], found["cpu_s"]) if value is not None]
    return "; ".join(known) or "none"


def _learning_row(document: dict[str, Any]) -> tuple[str, ...]:
    scores = ", ".join(f"{run['mean']:.1f}" if "mean" in run else "failed" for run in document["runs"])
    middle = "none" if document["iqm"] is None else f"{document['iqm']:.1f}"
    if document["at_least"] is None:
        bar = f"interquartile mean at least {document['bar']:g}"
    else:
        bar = f"at least {document['bar']:g} for {document['at_least']} of {document['seeds']}"
    return (
        document["algo"].upper(),
        document["env"],
        f"{document['timesteps']:,}",
        scores,
        middle,
        bar,
        "yes" if document["passed"] else "no",
    )


def _learning_note(documents: list[dict[str, Any]]) -> str:
    """With which versions the numbers were made; each set of versions once."""
    made = dict.fromkeys(
        f"torch {document['versions']['torch']}, Gymnasium {document['versions']['gymnasium']}, "
        f"NumPy {document['versions']['numpy']}, Python {document['python']}"
        for document in documents
    )
    return f"Made with {'; '.join(made)}.\n"


def _fields(cls: type, without: Collection[str] = ()) -> str:
    defaults = {field.name: field for field in dataclasses.fields(cls)}
    rows = [
        (f"`--{flag.name}`", _default(defaults[flag.field]), flag.help)
        for flag in flags_of(cls, "")
        if flag.field in defaults and flag.field != "env" and flag.field not in without
    ]
    return table(("flag", "default", "meaning"), rows)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "none"
    return f"`{shown(field.default)}`".replace("`True`", "on").replace("`False`", "off").replace("`none`", "none")


def _total(algo: str, name: str) -> str:
    preset = presets(algo).get(name)
    return "" if preset is None or preset.total_timesteps is None else f"{preset.total_timesteps:,}"


if __name__ == "__main__":
    sys.exit(main())
