"""Nothing that is taken for a checkpoint is memory of the training's own, or an environment's: a thread writes it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
from torch import Tensor

import steadyrl as srl
from steadyrl.envs.snapshots.values import digest
from steadyrl.training import state as module
from steadyrl.training.agent import Agent
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.saving import Saver
from support.checkpoints import SESSION

BASE: dict[str, Any] = {"preset": "none", "vec": "sync", "seed": 1, "num_envs": 2, "net_arch": (4,)}
OFF: dict[str, Any] = {**BASE, "learning_starts": 8, "batch_size": 4, "buffer_size": 40}


class Keeps(gym.Env[npt.NDArray[np.float32], np.int64]):
    """One array is observation, state and what it tells of its state; nobody else may write to it."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.own = np.zeros(3, dtype=np.float32)
        self.more: dict[str, Any] = {"seen": [np.zeros(2)], "both": (np.zeros(1), "x")}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.own[:] = self.np_random.uniform(-1, 1, 3)
        return self.own, {}

    def step(self, action: np.int64) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.own[:] = np.clip(self.own + self.np_random.uniform(-0.1, 0.1, 3), -1, 1)
        self.more["seen"][0] += 1
        return self.own, 1.0, bool(self.np_random.random() < 0.1), False, {}

    def get_state(self) -> dict[str, Any]:
        return {"own": self.own, "more": self.more}

    def set_state(self, state: dict[str, Any]) -> None:
        self.own[:] = state["own"]
        self.more = copy.deepcopy(state["more"])


MAKE: dict[str, Callable[[], Agent]] = {
    "ppo": lambda: srl.PPO(Keeps, batch_size=8, n_steps=16, normalize_obs=True, normalize_reward=True, **BASE),
    "dqn": lambda: srl.DQN("CartPole-v1", prioritized=True, normalize_obs=True, **OFF),
    "dqn, keeps": lambda: srl.DQN(Keeps, **OFF),
    "td3": lambda: srl.TD3("HalfCheetah-v5", **OFF),
}
PARTS = {"policy", "value_scale", "notes", "loop", "generators", "predict", "told", "envs"}


def spoiled(value: Any) -> int:
    """Overwrite everything in a tree that can be, in place; how many arrays, lists and tables there were."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = True  # what it keeps from its reader, its owner may do
        value.view(np.ndarray)[...] = np.frombuffer(
            bytes(~np.frombuffer(value.tobytes(), np.uint8)), value.dtype
        ).reshape(value.shape)
        return 1
    found = 0
    if isinstance(value, dict):
        found = 1 + sum(spoiled(part) for part in value.values())
        value["somebody else's"] = 1
    elif isinstance(value, list):
        found = 1 + sum(map(spoiled, value))
        value.append("somebody else's")
    elif isinstance(value, tuple):
        found = sum(map(spoiled, value))
    return found


def taken(agent: Agent, run: Path) -> dict[str, Any]:
    session = copy.deepcopy(SESSION)
    return Saver(agent, run, keep_last=None)._take(session).state


def shared(agent: Agent, run: Path) -> set[str]:
    """The parts of a checkpoint through which whoever holds it can change the training."""
    first = taken(agent, run)
    before = {name: digest(part) for name, part in first.items()}
    lent = set()
    for name, part in first.items():
        try:
            assert spoiled(part) or name == "value_scale"
        except ValueError:  # it cannot be written to, so it is a view of what belongs to somebody else
            lent.add(name)
    return lent | {name for name, part in taken(agent, run).items() if digest(part) != before[name]}


@pytest.mark.parametrize("name", MAKE)
def test_who_overwrites_what_was_taken_does_not_reach_the_training(name: str, tmp_path: Path) -> None:
    agent = MAKE[name]()
    agent.learn(40, schedule_steps=1000)
    assert taken(agent, tmp_path).keys() - {"replay"} == PARTS
    assert ("replay" in taken(agent, tmp_path)) == isinstance(agent.loop, OffPolicyLoop)
    assert shared(agent, tmp_path) == set()
    agent.close()


def test_a_part_that_is_not_copied_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an empty set would prove nothing: the environments' part, and the rest."""
    for name, expected in (("_copied", {"envs"}), ("_as_arrays", {"policy", "loop"})):
        agent = MAKE["dqn, keeps"]()
        agent.learn(40, schedule_steps=1000)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, _without_copies)
            assert shared(agent, tmp_path / name) & expected, name


def _without_copies(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_copies(part) for name, part in value.items()}
    if isinstance(value, Tensor):
        return {"tensor": value.detach().numpy()}
    return value
