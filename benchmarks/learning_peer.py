"""Stable-Baselines3 with our preset's settings over the same seeds, to tell a setting's spread from a fault of ours.

    .venv-peers/bin/python benchmarks/learning_peer.py dqn LunarLander-v3 --timesteps 100000

Scores are the final model's mean return over 100 deterministic episodes; every run is in the results.
"""

from __future__ import annotations

import argparse
import json
import tomllib
import warnings
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

RESULTS = Path(__file__).parent / "results"
PRESETS = Path(__file__).parents[1] / "src" / "steadyrl" / "presets"
NOT_SETTINGS = ("source", "total_timesteps", "num_envs")


def settings_of(algo: str, env: str) -> tuple[dict[str, Any], int]:
    """Our preset in the peer's words, and the number of environments."""
    preset = tomllib.loads((PRESETS / f"{algo}.toml").read_text())[env]
    num_envs = int(preset.get("num_envs", 1))
    settings = {name: value for name, value in preset.items() if name not in NOT_SETTINGS}
    if "net_arch" in settings:
        settings["policy_kwargs"] = {"net_arch": settings.pop("net_arch")}
    return settings, num_envs


def run(algo: str, env: str, seed: int, timesteps: int) -> dict[str, Any]:
    """One training and its row of the results."""
    settings, num_envs = settings_of(algo, env)
    start = perf_counter()
    model = getattr(stable_baselines3, algo.upper())(
        "MlpPolicy", make_vec_env(env, num_envs, seed=seed), seed=seed, device="cpu", **settings
    )
    model.learn(timesteps)
    seconds = perf_counter() - start
    returns, _ = evaluate_policy(
        model, make_vec_env(env, 1, seed=10_000 + seed), 100, deterministic=True, return_episode_rewards=True
    )
    return {"seed": seed, "mean": float(np.mean(returns)), "std": float(np.std(returns)), "wall_s": round(seconds, 1)}


def interquartile_mean(scores: list[float]) -> float:
    """Mean of the middle half, whole scores only, as the published tables of five seeds use it."""
    ordered, cut = sorted(scores), len(scores) // 4
    return float(np.mean(ordered[cut : len(ordered) - cut]))


def main() -> None:
    """Run the seeds one after the other and keep the results after each."""
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algo")
    parser.add_argument("env")
    parser.add_argument("--timesteps", type=int, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for seed in range(options.seeds):
        rows.append(run(options.algo, options.env, seed, options.timesteps))
        document = {
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {name: metadata.version(name) for name in ("stable-baselines3", "torch", "gymnasium")},
            "settings": settings_of(options.algo, options.env)[0],
            "timesteps": options.timesteps,
            "iqm": interquartile_mean([row["mean"] for row in rows]),
            "runs": rows,
        }
        (RESULTS / f"peer-{options.algo}-{options.env}.json").write_text(json.dumps(document, indent=2) + "\n")
        print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
