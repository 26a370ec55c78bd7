"""Steps N Atari games under Stable-Baselines3's AtariWrapper and VecFrameStack with drawn actions; prints JSON."""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time

import ale_py
import cv2
import gymnasium as gym
import numpy as np
import stable_baselines3
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack


def main() -> None:
    """`atari_peer.py ENV NUM_ENVS STEPS`."""
    env, num_envs, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    gym.register_envs(ale_py)
    venv = VecFrameStack(make_atari_env(env, n_envs=num_envs, seed=0), n_stack=4)
    actions = np.random.default_rng(0).integers(0, 6, (steps, num_envs))
    shape = venv.reset().shape
    for t in range(20):
        venv.step(actions[t])
    start, cpu = perf_counter(), process_time()
    games = 0
    for t in range(steps):
        games += sum("episode" in info for info in venv.step(actions[t])[3])
    seconds, cpu_seconds = perf_counter() - start, process_time() - cpu
    venv.close()
    versions = {"stable_baselines3": stable_baselines3.__version__, "gymnasium": gym.__version__}
    versions |= {"ale_py": ale_py.__version__, "cv2": cv2.__version__, "numpy": np.__version__}
    print(
        json.dumps(
            {
                "steps": steps * num_envs,
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "games": games,
                "observations": list(shape),
                "versions": versions,
            }
        )
    )


if __name__ == "__main__":
    main()
