"""Run by a test in a process of its own: restores states from a folder and tells what happens afterwards."""

import json
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np

from steadyrl.envs.snapshot import State, restore, unflatten
from steadyrl.envs.snapshots.values import digest
from steadyrl.envs.wrappers import Canonical

folder, told = Path(sys.argv[1]), {}
for env_id in sys.argv[2:]:
    names, actions = json.loads((folder / f"{env_id}.names").read_text())
    arrays = {name: np.load(folder / f"{env_id}-{i}.npy") for i, name in enumerate(names)}
    env = Canonical(gym.make(env_id))
    restore(env, State.of(unflatten(json.loads((folder / f"{env_id}.json").read_text()), arrays)))
    seen: list[object] = []
    for action in actions:
        result = env.step(np.asarray(action, dtype=env.action_space.dtype))
        seen.append(result[:4])
        if result[2] or result[3]:
            seen.append(env.reset()[0])
    told[env_id] = digest(seen)
print(json.dumps(told))
