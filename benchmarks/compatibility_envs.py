"""The environments of `compatibility.py`: those of Gymnasium and of other packages, and one for each kind of space."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces as gs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.families import CLASSIC, MUJOCO, newest

VECTOR = gs.Box(-1.0, 1.0, (3,))
BOX = gs.Box(-2.0, 2.0, (2,), np.float64)
CHOICE = gs.Discrete(3, start=-1)
OBSERVATIONS: dict[str, gs.Space[Any]] = {
    "Box": VECTOR,
    "Box of float64 [2, 2]": gs.Box(-1.0, 1.0, (2, 2), np.float64),
    "Box of int16": gs.Box(-5, 5, (3,), np.int16),
    "Discrete from -1": gs.Discrete(5, start=-1),
    "Discrete of 5000": gs.Discrete(5000),
    "MultiDiscrete [2, 2]": gs.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    "MultiBinary [8, 8]": gs.MultiBinary((8, 8)),
    "image, grey": gs.Box(0, 255, (84, 84), np.uint8),
    "image, hwc": gs.Box(0, 255, (48, 64, 3), np.uint8),
    "image, chw": gs.Box(0, 255, (3, 48, 64), np.uint8),
    "image, 4 frames": gs.Box(0, 255, (4, 48, 64, 3), np.uint8),
    "image, 7 x 7": gs.Box(0, 255, (7, 7, 3), np.uint8),
    "Text": gs.Text(12),
    "Sequence of Box": gs.Sequence(VECTOR),
    "Sequence of Discrete": gs.Sequence(gs.Discrete(6)),
    "Dict": gs.Dict({"a": VECTOR, "b": gs.Discrete(4)}),
    "Tuple": gs.Tuple((VECTOR, gs.MultiBinary(3))),
    "nested": gs.Dict({"eye": gs.Box(0, 255, (24, 20, 3), np.uint8), "arm": gs.Tuple((VECTOR, gs.Text(5)))}),
    "Graph": gs.Graph(VECTOR, None),
    "OneOf": gs.OneOf((VECTOR, gs.Discrete(2))),
}
ACTIONS: dict[str, gs.Space[Any]] = {
    "Box without bounds": gs.Box(-np.inf, np.inf, (2,)),
    "MultiDiscrete [2, 1]": gs.MultiDiscrete(np.array([[2], [3]])),
    "MultiBinary [2, 2]": gs.MultiBinary((2, 2)),
    "Dict": gs.Dict({"move": BOX, "grip": CHOICE}),
    "Tuple, nested": gs.Tuple((gs.MultiDiscrete([2, 3]), gs.Dict({"x": BOX}))),
    "Text": gs.Text(4),
}


class Sampled(gym.Env[Any, Any]):
    """Observes samples of a space; refuses actions that are not of its own."""

    def __init__(self, observation: gs.Space[Any], action: gs.Space[Any]) -> None:
        self.observation_space = observation
        self.action_space = action

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._drawn(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        return self._drawn(), float(self.np_random.normal()), bool(self.np_random.random() < 0.02), False, {}

    def _drawn(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()


@dataclass(frozen=True)
class Case:
    """One environment.

    Attributes:
        family: Its family.
        name: Its id, or what is special about it.
        kwargs: Arguments.
        observation: Of an environment of ours.
        action: Of an environment of ours; None takes one that fits the algorithm.
    """

    family: str
    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    observation: gs.Space[Any] | None = None
    action: gs.Space[Any] | None = None

    def made_for(self, algo: str) -> Any:
        """What is passed to an algorithm."""
        if self.observation is None:
            return self.name.partition(",")[0]
        fitting = BOX if algo in ("sac", "td3", "ddpg") else CHOICE
        return partial(Sampled, self.observation, fitting if self.action is None else self.action)


# Family -> package on the index, module, ids. A family without ids is one of ours.
FAMILIES: dict[str, tuple[str, str, tuple[str | tuple[str, dict[str, Any]], ...]]] = {
    "classic control": (
        "gymnasium[classic-control]",
        "pygame",
        tuple(CLASSIC),
    ),
    "toy text": ("gymnasium", "gymnasium", ("Taxi", "Blackjack-v1", "CliffWalking", "FrozenLake-v1")),
    "Box2D": (
        "gymnasium[box2d]",
        "Box2D",
        ("LunarLander-v3", ("LunarLander-v3, continuous", {"continuous": True}), "BipedalWalker-v3", "CarRacing-v3"),
    ),
    "MuJoCo": (
        "gymnasium[mujoco]",
        "mujoco",
        tuple(MUJOCO),
    ),
    "Atari": ("ale-py", "ale_py", ("ALE/Pong-v5", "ALE/MsPacman-v5", "ALE/Breakout-v5")),
    "MiniGrid": (
        "minigrid",
        "minigrid",
        ("MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0", "MiniGrid-Fetch-5x5-N2-v0", "BabyAI-GoToRedBall-v0"),
    ),
    "highway-env": (
        "highway-env",
        "highway_env",
        ("highway-fast-v0", "intersection-v1", "racetrack-v0", "parking-v0"),
    ),
    "gymnasium-robotics": (
        "gymnasium-robotics",
        "gymnasium_robotics",
        ("FetchReach", "FetchPush", "HandReach", "PointMaze_UMaze", "AntMaze_UMaze", "AdroitHandDoor"),
    ),
    "observations": ("steadyrl", "steadyrl", ()),
    "actions": ("steadyrl", "steadyrl", ()),
}


def installed(family: str) -> str:
    """What has to be installed for a family; empty where it is."""
    package, module, _ = FAMILIES[family]
    return "" if importlib.util.find_spec(module) is not None else package


def cases_of(family: str) -> list[Case]:
    """The environments of a family, its package imported where it is there."""
    if family == "observations":
        return [Case(family, name, observation=space) for name, space in OBSERVATIONS.items()]
    if family == "actions":
        return [Case(family, name, observation=VECTOR, action=space) for name, space in ACTIONS.items()]
    _, module, ids = FAMILIES[family]
    if not installed(family):
        imported = importlib.import_module(module)
        if hasattr(imported, "register_highway_envs"):
            imported.register_highway_envs()
        if hasattr(imported, "register_envs"):
            gym.register_envs(imported)
    prefix = "" if module in ("gymnasium", "pygame", "Box2D", "mujoco") else f"{module}:"
    found = []
    for entry in ids:
        name, kwargs = (entry, {}) if isinstance(entry, str) else entry
        found.append(Case(family, prefix + (name if re.search(r"-v\d+", name) else newest(name)), kwargs))
    return found
