"""Times one piece of work through the public interface, run folder, metrics and guards on; prints JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from speed_works import WORKS, Work

import steadyrl as srl
from steadyrl import kernels
from steadyrl.training.events import Event, MetricsLogged


class Counter:
    """Gradient steps, as the metrics report them: minibatches of an update, or the updates themselves."""

    def __init__(self) -> None:
        self.gradient_steps = 0.0
        self._updates = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, MetricsLogged):
            per_update = event.metrics.get("train/minibatches", 1.0)
            self.gradient_steps += per_update * (event.updates - self._updates)
            self._updates = event.updates


def main() -> None:
    """`speed_ours.py WORK`."""
    work = WORKS[sys.argv[1]]
    agent_class = getattr(srl, work.algo.upper())
    agent = agent_class(
        work.env,
        preset="none",
        num_envs=work.num_envs,
        vec=work.vec,
        seed=0,
        eval_freq=0,
        checkpoint_freq=0,
        **work.settings,
    )
    counter = Counter()
    agent.learn(work.warm, callback=counter)
    before, steps_before = counter.gradient_steps, agent.num_timesteps
    with tempfile.TemporaryDirectory() as folder:
        start = perf_counter()
        agent.learn(work.steps, callback=counter, run_dir=Path(folder) / "run")
        seconds = perf_counter() - start
    steps = agent.num_timesteps - steps_before
    result = {
        "steps": steps,
        "gradient_steps": round(counter.gradient_steps - before),
        "samples": samples(work, steps, round(counter.gradient_steps - before)),
        "seconds": seconds,
        "threads": kernels.usable_cores() if agent.policy.native else 1,
    }
    print(json.dumps(result))


def samples(work: Work, steps: int, gradient_steps: int) -> int:
    """Transitions that gradients were taken of."""
    if "buffer_size" in work.settings:
        return gradient_steps * int(work.settings["batch_size"])
    return steps * int(work.settings.get("n_epochs", 1))


if __name__ == "__main__":
    main()
