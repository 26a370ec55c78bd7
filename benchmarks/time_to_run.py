"""One library runs one race with one seed; prints JSON. Runs in the library's own environment.

python benchmarks/time_to_run.py {ours,sb3,sbx} RACE SEED [LIMIT]
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from dataclasses import replace
from typing import Any

from time_to_works import RACES, Judge, Race, result


def ours(race: Race, seed: int) -> tuple[Judge, int]:
    """SteadyRL through its public interface."""
    import steadyrl as srl
    from steadyrl import kernels

    agent = getattr(srl, race.algo.upper())(
        race.env, preset="none", num_envs=race.num_envs, seed=seed, eval_freq=0, **race.settings
    )
    judge = Judge(race, agent.predict)
    judge.clock.go()
    step = 0
    while step < race.limit:
        agent.learn(min(race.every, race.limit - step), schedule_steps=race.limit)
        step = agent.num_timesteps
        if not judge(step):
            break
    return judge, kernels.usable_cores() if agent.policy.native else 1


def peer(library: str, race: Race, seed: int) -> tuple[Judge, int]:
    """Stable-Baselines3 or SBX with the same settings; the evaluation is a callback of one call of `learn`."""
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Stop(BaseCallback):  # type: ignore[misc]
        def _on_step(self) -> bool:
            return judge(self.num_timesteps)

    module = importlib.import_module({"sb3": "stable_baselines3", "sbx": "sbx"}[library])
    settings = dict(race.settings)
    if "net_arch" in settings:
        settings["policy_kwargs"] = {"net_arch": list(settings.pop("net_arch"))}
    extra = {"device": "cpu"} if library == "sb3" else {}
    env = make_vec_env(race.env, race.num_envs, seed=seed)
    model: Any = getattr(module, race.algo.upper())("MlpPolicy", env, verbose=0, seed=seed, **settings, **extra)
    judge = Judge(race, model.predict)
    judge.clock.go()
    model.learn(race.limit, callback=Stop())
    return judge, torch.get_num_threads()


def main() -> None:
    """Run it."""
    warnings.filterwarnings("ignore")
    library, race, seed = sys.argv[1], RACES[sys.argv[2]], int(sys.argv[3])
    if len(sys.argv) > 4:
        race = replace(race, limit=int(sys.argv[4]))
    judge, threads = ours(race, seed) if library == "ours" else peer(library, race, seed)
    print(json.dumps({"seed": seed, "threads": threads, **result(judge.rows, race.score), "evaluations": judge.rows}))


if __name__ == "__main__":
    main()
