"""Steps N Atari games under the library's own preprocessing with drawn actions; prints JSON."""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time

import ale_py
import cv2
import gymnasium as gym
import numpy as np

from steadyrl import __version__
from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.vector import make_vec


def main() -> None:
    """`atari_ours.py ENV NUM_ENVS STEPS`."""
    env, num_envs, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    venv = make_vec(make_env_factory(env, wrappers=WrapperSettings()), num_envs, vec="sync")
    actions = np.random.default_rng(0).integers(0, 6, (steps, num_envs))
    shape = venv.reset(list(range(num_envs)))[""].shape
    for t in range(20):
        venv.step(actions[t])
    start, cpu = perf_counter(), process_time()
    games = 0
    for t in range(steps):
        games += len(venv.step(actions[t]).episodes)
    seconds, cpu_seconds = perf_counter() - start, process_time() - cpu
    venv.close()
    versions = {"steadyrl": __version__, "gymnasium": gym.__version__, "ale_py": ale_py.__version__}
    print(
        json.dumps(
            {
                "steps": steps * num_envs,
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "games": games,
                "observations": list(shape),
                "versions": versions | {"cv2": cv2.__version__, "numpy": np.__version__},
            }
        )
    )


if __name__ == "__main__":
    main()
