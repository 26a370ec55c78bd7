"""The generated blocks of docs/atari.md: PPO on Pong, and frames per second beside Stable-Baselines3."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PENDING = "No result is stored yet.\n"

Table = Callable[[Iterable[str], Iterable[Iterable[str]]], str]


def pong(table: Table, results: Path = RESULTS) -> str:
    """The mean raw score of each evaluation on the way, and of the final agent, for each run that was started."""
    paths = [path for name in ("atari-pong", "atari-pong-by-area") if (path := results / f"{name}.json").exists()]
    if not paths:
        return PENDING
    blocks = []
    for document in (json.loads(path.read_text()) for path in paths):
        rows = [_run_row(run) for run in document["runs"]]
        head = ("seed", "steps", "minutes", "mean raw score after so many steps", "final agent")
        blocks.append(f"```console\n$ {document['command']}\n```\n\n" + table(head, rows))
    return "\n".join(blocks)


def _run_row(run: dict[str, Any]) -> list[str]:
    way = ", ".join(f"{point['step']:,}: {point['mean']:.1f}" for point in run.get("curve", []))
    steps = run.get("total_timesteps", run.get("steps"))
    final = run.get("eval")
    if final is None:
        text = f"none: ended before, mean of the last 100 games in training {run['mean_of_last_100_games']:.1f}"
    else:
        low, high = final["ci95"]
        text = f"{final['mean']:.1f} over {final['episodes']} games, 95% interval {low:.1f} to {high:.1f}"
    minutes = f"{run['wall_s'] / 60:.0f}"
    if "cpu_seconds_of_last_stage" in run and not run["resumed"]:
        minutes += f", {run['cpu_seconds_of_last_stage'] / 60:.0f} of the processor"
    return [str(run["seed"]), f"{steps:,}", minutes, way, text]


def speed(table: Table, results: Path = RESULTS) -> str:
    """Frames of the emulator per second of the clock and of the processor, from `atari-speed.json`."""
    path = results / "atari-speed.json"
    if not path.exists():
        return PENDING
    document = json.loads(path.read_text())
    names = {"ours": "SteadyRL", "sb3": "Stable-Baselines3"}
    rows = [
        [title, str(document["versions"][name].get("stable_baselines3", document["versions"][name].get("steadyrl")))]
        + [f"{document[key][name]:,.0f}" for key in ("frames_per_second", "frames_per_cpu_second")]
        for name, title in names.items()
    ]
    pairs = ", ".join(f"{ratio:.2f}" for ratio in document["ratios_of_cpu_time_pairwise"])
    head = ("library", "version", "frames per second", "frames per second of the processor")
    ours = document["versions"]["ours"]
    note = (
        f"{document['env']}, {document['num_envs']} games in one process, {document['steps']:,} steps of 4 frames each "
        f"time, in turn, medians. By processor time {document['ratio_of_cpu_time']:.2f} x (of each pair: {pairs}), "
        f"by the clock {document['ratio']:.2f} x. "
        f"ale-py {ours['ale_py']}, OpenCV {ours['cv2']}, gymnasium {ours['gymnasium']}."
    )
    return table(head, rows) + "\n" + note + "\n"
