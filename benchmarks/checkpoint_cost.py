"""What checkpoints cost a whole run: SAC on HalfCheetah-v5 with a full replay of 1e6, one after every 10,000 steps.

    python benchmarks/checkpoint_cost.py [--pairs 3] [--rows 1000000] [--output benchmarks/results/checkpoint-cost.json]

One run through `agent.learn(run_dir=...)` with a checkpoint at every 20,000 steps. Its stretches of 10,000 steps, each
from 5,000 steps before a multiple of 10,000 to 5,000 after it, hold one checkpoint and none in turn: taking, writing
and pruning lie within the stretch. CPU time (of all threads) and wall time of neighbours are compared, so that a busy
machine weighs on both alike. The first checkpoint writes the whole replay, which a run that fills its own never does at
once; its stretch is told apart. The run has 25,000 steps and 20,000 more for each pair.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from checkpoints import fill

import steadyrl as srl
from steadyrl.training.events import CheckpointSaved, EpisodeEnded, Event
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.provenance import provenance

RESULTS = Path(__file__).parent / "results"
STRETCH, EPISODE = 10_000, 1_000


class Watch:
    """Notes the clocks at the end of each stretch; episodes of HalfCheetah all last 1,000 steps."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, float, float]] = []
        self.saved: list[int] = []

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, CheckpointSaved) and event.kind == "step":
            self.saved.append(event.step)
        if isinstance(event, EpisodeEnded) and event.step % STRETCH == STRETCH // 2:
            self.marks.append((event.step, perf_counter(), process_time()))

    def stretches(self) -> list[dict[str, Any]]:
        """Steps, seconds and checkpoints of each stretch."""
        found = []
        for (begin, wall, cpu), (end, wall_end, cpu_end) in zip(self.marks, self.marks[1:], strict=False):
            inside = [step for step in self.saved if begin < step <= end]
            found.append(
                {"from": begin, "to": end, "wall_s": wall_end - wall, "cpu_s": cpu_end - cpu, "checkpoints": inside}
            )
        return found


def described(watch: Watch, rows: int) -> dict[str, Any]:
    """What is known so far: the results file is written after every stretch."""
    stretches = watch.stretches()
    first = next((row for row in stretches if row["checkpoints"]), None)
    rest = [] if first is None else stretches[stretches.index(first) + 1 :]
    pairs = [(without, with_) for without, with_ in zip(rest[::2], rest[1::2], strict=False)]
    assert all(not without["checkpoints"] and len(with_["checkpoints"]) == 1 for without, with_ in pairs)
    slower = {key: [100 * (with_[key] / without[key] - 1) for without, with_ in pairs] for key in ("wall_s", "cpu_s")}
    facts = provenance(Path.cwd())
    return {
        "rows": rows,
        "pairs": len(pairs),
        "slower_percent": {key: {"each": found, "median": median(found or [0.0])} for key, found in slower.items()},
        "first": first,
        "stretches": stretches,
        "load": os.getloadavg(),
        "machine": {name: facts[name] for name in ("cpu", "platform", "python", "packages")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=RESULTS / "checkpoint-cost.json")
    options = parser.parse_args()
    total = 2 * STRETCH * (options.pairs + 1) + STRETCH // 2
    agent = srl.SAC(
        "HalfCheetah-v5", preset="none", buffer_size=options.rows, learning_starts=100, threads=1, vec="sync",
        checkpoint_freq=2 * STRETCH, eval_freq=0, keep_last=2,
    )  # fmt: skip
    agent.learn(EPISODE, schedule_steps=total)
    assert isinstance(agent.loop, OffPolicyLoop)
    fill(agent.loop.replay, options.rows)
    watch = Watch()

    def keep(event: Event) -> None:
        known = len(watch.marks)
        watch(event)
        if len(watch.marks) > known:
            document = described(watch, options.rows)
            options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            print(json.dumps(document["slower_percent"]), document["load"], flush=True)

    with tempfile.TemporaryDirectory() as folder:
        agent.learn(total - EPISODE, schedule_steps=total, run_dir=Path(folder) / "run", callback=keep)


if __name__ == "__main__":
    main()
