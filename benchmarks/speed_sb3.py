"""Times one piece of work in Stable-Baselines3 with its defaults; prints JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import torch
from speed_works import WORKS
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env


def main() -> None:
    """`speed_sb3.py WORK`."""
    warnings.filterwarnings("ignore")
    work = WORKS[sys.argv[1]]
    env = make_vec_env(work.env, work.num_envs, seed=0)
    model: Any = {"ppo": PPO, "a2c": A2C}[work.algo]("MlpPolicy", env, device="cpu", verbose=0, seed=0, **work.settings)
    counts = {"gradient_steps": 0, "samples": 0}
    step, get = model.policy.optimizer.step, model.rollout_buffer.get

    def counted_step(*args: Any, **kwargs: Any) -> Any:
        counts["gradient_steps"] += 1
        return step(*args, **kwargs)

    def counted_get(batch_size: int | None = None) -> Iterator[Any]:
        for batch in get(batch_size):
            counts["samples"] += len(batch.advantages)
            yield batch

    model.policy.optimizer.step, model.rollout_buffer.get = counted_step, counted_get
    model.learn(work.warm)
    counts.update(gradient_steps=0, samples=0)
    steps_before = model.num_timesteps
    start = perf_counter()
    model.learn(work.steps, reset_num_timesteps=False)
    seconds = perf_counter() - start
    steps = model.num_timesteps - steps_before
    print(json.dumps({"steps": steps, **counts, "seconds": seconds, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
