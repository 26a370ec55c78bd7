"""The same NaN at step 600 here and in Stable-Baselines3: how the training ends, and what is left of the weights.

    python benchmarks/faults_numbers.py [--output benchmarks/results/faults-numbers.json]

`make bench-peers` installs the peer into an environment of its own. The environment tells NaN once, as one entry of an
observation or as a reward; everything else is the library's default but for small networks and an early start.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
ALGOS = ("ppo", "a2c", "dqn", "ddpg", "td3", "sac")
SOURCES = ("observation", "reward")
AT, TOTAL = 600, 1024


class Faulty(gym.Env[Any, Any]):
    """Random observations, episodes of 100 steps; NaN in step 600, once."""

    def __init__(self, source: str, discrete: bool) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.source = source
        self.life = self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.normal(size=3).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.life += 1
        self.t += 1
        obs, reward = self.np_random.normal(size=3).astype(np.float32), 1.0
        if self.life == AT and self.source == "observation":
            obs[1] = np.nan
        if self.life == AT and self.source == "reward":
            reward = float("nan")
        return obs, reward, False, self.t >= 100, {}


def learn(library: str, algo: str, source: str) -> dict[str, Any]:
    """One training: how it ended, at which step, and the share of weights that are not finite."""
    warnings.simplefilter("ignore")
    env = Faulty(source, discrete=algo == "dqn")
    options: dict[str, Any] = {} if algo in ("ppo", "a2c") else {"learning_starts": 100}
    if algo == "ppo":
        options = {"n_steps": 256}
    agent: Any
    if library == "sb3":
        import stable_baselines3

        agent = getattr(stable_baselines3, algo.upper())(
            "MlpPolicy", env, seed=0, device="cpu", policy_kwargs={"net_arch": [32, 32]}, **options
        )
        module = agent.policy
    else:
        import steadyrl as srl

        agent = getattr(srl, algo.upper())(env, seed=0, eval_freq=0, net_arch=(32, 32), **options)
        module = agent.policy.net
    ended, message = "finished", ""
    try:
        agent.learn(TOTAL)
    except Exception as error:
        ended, message = type(error).__name__, str(error).splitlines()[0][:160]
    weights = np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])
    return {
        "ended": ended,
        "message": message,
        "environment_step": env.life,
        "weights_not_finite_percent": round(100 * float((~np.isfinite(weights)).mean()), 1),
    }


def all_of(library: str) -> dict[str, Any]:
    """Every algorithm and source."""
    return {f"{algo} {source}": learn(library, algo, source) for algo in ALGOS for source in SOURCES}


def apart(library: str) -> dict[str, Any]:
    """The same in a process of its own."""
    python = str(PEERS) if library == "sb3" else sys.executable
    command = [python, str(Path(__file__).resolve()), "--only", library]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{library} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Both libraries, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("steadyrl", "sb3"), help="in this process")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "faults-numbers.json")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(all_of(options.only)))
        return
    if not PEERS.exists():
        raise SystemExit("The peers are not installed: run make bench-peers first.")
    ours, peers = apart("steadyrl"), apart("sb3")
    rows = {name: {"steadyrl": ours[name], "sb3": peers[name]} for name in ours}
    text = json.dumps({"nan_at_step": AT, "total_timesteps": TOTAL, "rows": rows}, indent=2)
    options.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
