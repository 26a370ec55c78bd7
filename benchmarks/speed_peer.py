"""Times one piece of work in Stable-Baselines3 or SBX with its defaults; prints JSON."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import torch
from speed_works import WORKS, Work
from stable_baselines3.common.env_util import make_vec_env


class Counts:
    """Gradient steps and samples of a model since `start`."""

    def __init__(self, model: Any, work: Work) -> None:
        self._model = model
        self._work = work
        self._steps = self._samples = 0
        if hasattr(model, "rollout_buffer") and hasattr(model.policy, "optimizer"):
            self._spy(model)
        self.start()

    def _spy(self, model: Any) -> None:
        step, get = model.policy.optimizer.step, model.rollout_buffer.get

        def counted_step(*args: Any, **kwargs: Any) -> Any:
            self._steps += 1
            return step(*args, **kwargs)

        def counted_get(batch_size: int | None = None) -> Iterator[Any]:
            for batch in get(batch_size):
                self._samples += len(batch.advantages)
                yield batch

        model.policy.optimizer.step, model.rollout_buffer.get = counted_step, counted_get

    def start(self) -> None:
        """Count from here."""
        self._steps = self._samples = 0
        self._updates = self._model._n_updates

    def read(self) -> dict[str, int]:
        """What was done since: counted where the model is torch's, else by its own count of updates."""
        if self._steps:
            return {"gradient_steps": self._steps, "samples": self._samples}
        updates = self._model._n_updates - self._updates
        settings = self._work.settings
        if self._work.algo == "ppo":  # SBX counts epochs
            per_epoch = self._work.num_envs * settings["n_steps"] // settings["batch_size"]
            updates *= per_epoch
        return {"gradient_steps": updates, "samples": updates * settings["batch_size"]}


def main() -> None:
    """`speed_peer.py {sb3,sbx} WORK`."""
    warnings.filterwarnings("ignore")
    library, work = sys.argv[1], WORKS[sys.argv[2]]
    module = importlib.import_module({"sb3": "stable_baselines3", "sbx": "sbx"}[library])
    env = make_vec_env(work.env, work.num_envs, seed=0)
    settings = dict(work.settings)
    if "net_arch" in settings:
        settings["policy_kwargs"] = {"net_arch": list(settings.pop("net_arch"))}
    extra = {"device": "cpu"} if library == "sb3" else {}
    model: Any = getattr(module, work.algo.upper())("MlpPolicy", env, verbose=0, seed=0, **settings, **extra)
    counts = Counts(model, work)
    model.learn(work.warm)
    counts.start()
    steps_before = model.num_timesteps
    start = perf_counter()
    model.learn(work.steps, reset_num_timesteps=False)
    seconds = perf_counter() - start
    steps = model.num_timesteps - steps_before
    print(json.dumps({"steps": steps, **counts.read(), "seconds": seconds, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
