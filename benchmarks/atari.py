"""Preprocessed Atari frames per second beside Stable-Baselines3, and PPO on Pong.

    python benchmarks/atari.py speed [--num-envs 8] [--steps 400] [--repeats 3]
    python benchmarks/atari.py pong [--seeds 0 1 2] [--total-timesteps 10000000] [--folder runs] [--more WORDS ...]

`speed` steps the same number of games in one process each, in turn, with no-op starts, frame skip 4, life loss, FIRE,
84 x 84 grey, the sign of the reward and a stack of four on both sides. It needs ale-py and OpenCV in both environments
(--python, --peer-python).

`pong` is the command behind the learning curve: the preset and what `--more` changes of it, every seed that was
started, steps, seconds of the clock and of the processor, the evaluations on the way, and the final agent's over whole
games of raw score. A run whose folder is there is resumed, or only told with `--read`; `wall_s`
counts all its stages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
FRAMES = 4  # of the emulator in a step
EPISODES = 10  # games of an evaluation


def measure(python: str, script: str, *words: object) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [python, str(HERE / script), *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{script} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """Steps per second of both, and their ratio, in turn."""
    scripts = {"ours": (options.python, "atari_ours.py"), "sb3": (options.peer_python, "atari_peer.py")}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in scripts}
    for i in range(options.repeats):
        for name in scripts if i % 2 == 0 else reversed(scripts):
            rows[name].append(measure(*scripts[name], options.env, options.num_envs, options.steps))
    rates = {name: [row["steps"] / row["seconds"] for row in found] for name, found in rows.items()}
    assert {row["steps"] for found in rows.values() for row in found} == {options.steps * options.num_envs}
    pairs = [round(ours / theirs, 3) for ours, theirs in zip(rates["ours"], rates["sb3"], strict=True)]
    cpu = {name: [row["cpu_seconds"] for row in found] for name, found in rows.items()}
    cpu_pairs = [round(theirs / ours, 3) for ours, theirs in zip(cpu["ours"], cpu["sb3"], strict=True)]
    return {
        "env": options.env,
        "num_envs": options.num_envs,
        "steps": options.steps * options.num_envs,
        "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
        "versions": {name: found[0]["versions"] for name, found in rows.items()},
        "observations": {name: found[0]["observations"] for name, found in rows.items()},
        "steps_per_second": {name: round(median(found), 1) for name, found in rates.items()},
        "frames_per_second": {name: round(FRAMES * median(found), 1) for name, found in rates.items()},
        "ratio": round(median(pairs), 3),
        "ratios_pairwise": pairs,
        "frames_per_cpu_second": {
            name: round(FRAMES * options.steps * options.num_envs / median(found), 1) for name, found in cpu.items()
        },
        "ratio_of_cpu_time": round(median(cpu_pairs), 3),
        "ratios_of_cpu_time_pairwise": cpu_pairs,
    }


def pong(options: argparse.Namespace) -> dict[str, Any]:
    """Every seed trained and evaluated, one after the other; or what its run folder holds."""
    runs = []
    for seed in options.seeds:
        folder = options.folder / f"pong-{seed}"
        row = {"seed": seed, **(kept(folder) if options.read else trained(folder, seed, options))}
        if (folder / "evals.jsonl").exists():
            row["curve"] = curve(folder)
        runs.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    return {
        "env": options.env,
        "command": f"steadyrl train ppo {options.env} --seed 0 {shlex.join(changes(options))}".strip(),
        "cores_used": len(os.sched_getaffinity(0)),
        "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
        "versions": {name: metadata.version(name) for name in ("steadyrl", "torch", "gymnasium", "ale-py")},
        "runs": runs,
    }


def changes(options: argparse.Namespace) -> list[str]:
    """What differs from the preset, as words of the command."""
    total = [] if options.total_timesteps is None else ["--total-timesteps", str(options.total_timesteps)]
    return [*total, *options.more]


def trained(folder: Path, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run, begun or resumed."""
    words = ["train", "ppo", options.env, "--seed", str(seed), *changes(options), "--eval-episodes", str(EPISODES)]
    words += ["--json", "--quiet", "--run-dir", str(folder)]
    resumed = (folder / "config.json").exists()
    if resumed:
        total = options.total_timesteps
        words = ["resume", str(folder), "--json", "--quiet", *(["--total-timesteps", str(total)] if total else [])]
    start, before = perf_counter(), _cpu_of_children()
    done = subprocess.run([options.python, "-m", "steadyrl", *words], capture_output=True, text=True, check=False)
    row: dict[str, Any] = {"status": done.returncode, "resumed": resumed}
    row["seconds_of_last_stage"] = round(perf_counter() - start, 1)
    row["cpu_seconds_of_last_stage"] = round(_cpu_of_children() - before, 1)
    if done.returncode != 0:
        return row | {"error": done.stderr[-2000:]}
    document = json.loads(done.stdout)
    return row | {key: document[key] for key in ("total_timesteps", "wall_s", "weights_sha256", "eval")}


def kept(folder: Path) -> dict[str, Any]:
    """What a run folder holds of a run that was made before, ended or not."""
    manifest = json.loads((folder / "manifest.json").read_text())
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    row = {"status": manifest["status"], "steps": last["step"], "wall_s": last["time_s"]}
    return row | {"mean_of_last_100_games": last.get("rollout/ep_rew_mean"), "eval": manifest.get("eval")}


def curve(folder: Path) -> list[dict[str, Any]]:
    """The evaluations on the way: steps, raw scores of whole games, their mean and its 95% interval, seconds so far."""
    rows = map(json.loads, (folder / "evals.jsonl").read_text().splitlines())
    return [{name: row[name] for name in ("step", "mean", "ci95", "returns", "time_s")} for row in rows]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "pong"))
    parser.add_argument("--env", default="PongNoFrameskip-v4")
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400, help="vector steps of a measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--total-timesteps", type=int, help="the preset's by default")
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="where the run folders are made")
    parser.add_argument("--read", action="store_true", help="train nothing: tell what the run folders hold")
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="further words for `steadyrl train`")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--peer-python", default=str(HERE.parent / ".venv-peers" / "bin" / "python"))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    document = speed(options) if options.what == "speed" else pong(options)
    text = json.dumps(document, indent=2)
    (options.output or RESULTS / f"atari-{options.what}.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
