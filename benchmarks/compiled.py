"""What `--compile on` makes of a gradient step on PyTorch: eager and compiled losses in turn, as JSON.

    python benchmarks/compiled.py [WORK ...] [--repeats 5]

Each work is a process of its own with an empty cache of compiled code, so that its first compilation is as long as a
user's. It checks the figures in `steadyrl/training/compiling.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from speed_works import WORKS

RESULT = Path(__file__).parent / "results" / "compiled.json"
CHUNKS = {  # environment steps of a measurement
    "ppo-cartpole": 1024,
    "ppo-halfcheetah": 2048,
    "a2c-cartpole": 1600,
    "dqn-cartpole": 1024,
    "sac-halfcheetah": 60,
    "td3-halfcheetah": 60,
}


def measure(name: str, repeats: int) -> dict[str, Any]:
    """One work, in this process."""
    import torch

    import steadyrl as srl
    from steadyrl.training.compiling import gradient_steps

    work, chunk = WORKS[name], CHUNKS[name]
    agents = {
        way: getattr(srl, work.algo.upper())(
            work.env,
            preset="none",
            num_envs=work.num_envs,
            seed=0,
            eval_freq=0,
            kernels="torch",
            compile=way,
            **work.settings,
        )
        for way in ("off", "on")
    }
    config = agents["on"].config
    if hasattr(config, "learning_starts"):
        config = replace(config, learning_starts=0)  # they are over once it is warm
    taken: dict[str, list[float]] = {way: [] for way in agents}
    for agent in agents.values():
        agent.learn(work.warm)
    for i in range(repeats):
        for way in list(agents) if i % 2 else reversed(list(agents)):
            agents[way].learn(chunk)
            taken[way].append(agents[way].loop.phases.seconds["learn"] / gradient_steps(config, chunk))
    eager, compiled = (1e6 * min(taken[way]) for way in ("off", "on"))  # other work only makes them slower
    compiler = agents["on"].policy.compiler
    return {
        "work": name,
        "step_eager_us": round(eager),
        "step_compiled_us": round(compiled),
        "losses": compiler.losses,
        "losses_eager_us": round(1e6 * compiler.eager),
        "losses_compiled_us": round(1e6 * compiler.compiled),
        "compile_s": round(compiler.seconds, 1),
        "torch": torch.__version__,
    }


def main() -> None:
    """Measure the works named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", default=list(CHUNKS), help=f"among: {', '.join(CHUNKS)}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--here", action="store_true", help="measure the one work in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.works[0], options.repeats)))
        return
    rows = []
    for name in options.works:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, name, "--here", "--repeats", str(options.repeats)]
            environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
        RESULT.write_text(json.dumps({"threads": 1, "results": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
