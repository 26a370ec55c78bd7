"""What checkpoints cost: SAC on HalfCheetah-v5 with a replay of 1e6 transitions that is full, every 10,000 steps.

    python benchmarks/checkpoints.py [--rows 1000000] [--output benchmarks/results/checkpoints.json]

The training waits while a checkpoint is taken; a thread writes it while the training goes on, on the same cores. The
cost is given both ways: what the training waits, and the whole CPU time of taking and writing as a share of the CPU
time of the 10,000 steps between two of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import steadyrl as srl
from steadyrl.data.replay import Replay
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.provenance import provenance
from steadyrl.training.saving import Saver

RESULTS = Path(__file__).parent / "results"
EVERY, STEPS = 10_000, 1_000
SESSION = {"since_row": [], "elapsed": 1.0}


def fill(replay: Replay, rows: int) -> None:
    """Overwrite so many rows with numbers that do not repeat."""
    rng, rings, start = np.random.default_rng(replay.written), replay.rings, replay.written
    for array in rings.values():
        if array.dtype.kind == "f":
            places = np.arange(start, start + rows) % replay.rows
            array[places] = rng.standard_normal((rows, *array.shape[1:]), dtype=np.float32)
    rings["valid"][np.arange(start, start + rows) % replay.rows] = True
    replay._written += rows
    replay._count = int(rings["valid"].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=RESULTS / "checkpoints.json")
    options = parser.parse_args()
    agent = srl.SAC(
        "HalfCheetah-v5", preset="none", buffer_size=options.rows, learning_starts=100, threads=1, vec="sync"
    )
    agent.learn(300, schedule_steps=10**6)
    begun, cpu = perf_counter(), process_time()
    agent.learn(STEPS, schedule_steps=10**6)
    step_s, step_cpu = (perf_counter() - begun) / STEPS, (process_time() - cpu) / STEPS
    assert isinstance(agent.loop, OffPolicyLoop)
    replay = agent.loop.replay
    fill(replay, options.rows)
    document = {"rows": options.rows, "steps_per_second": 1 / step_s, "checkpoints": []}
    with tempfile.TemporaryDirectory() as folder:
        saver = Saver(agent, Path(folder), keep_last=2, background=False)
        for number in range(4):
            agent.learn(1, schedule_steps=10**6)
            begun, cpu = perf_counter(), process_time()
            taken = saver._take(SESSION)
            take_s = perf_counter() - begun
            saver._write(taken)
            whole_s, whole_cpu = perf_counter() - begun, process_time() - cpu
            document["checkpoints"].append(
                {
                    "first": number == 0,
                    "waits_s": take_s,
                    "takes_and_writes_s": whole_s,
                    "takes_and_writes_cpu_s": whole_cpu,
                    "waits_percent": 100 * take_s / (EVERY * step_s),
                    "cpu_percent": 100 * whole_cpu / (EVERY * step_cpu),
                }
            )
            fill(replay, EVERY)
        document["disk_mb"] = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6
    facts = provenance(Path.cwd())
    document["machine"] = {name: facts[name] for name in ("cpu", "platform", "python", "packages")}
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document["checkpoints"], indent=1), document["disk_mb"], document["steps_per_second"])


if __name__ == "__main__":
    main()
