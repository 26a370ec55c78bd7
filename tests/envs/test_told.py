"""What environments tell reaches the wrappers around them as it reaches the training without any."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.vector import make_vec
from steadyrl.errors import SteadyRLError

BOX = spaces.Box(-1, 1, (2,), np.float32)
PICTURE = spaces.Box(0, 255, (8, 8), np.uint8)
SETTINGS: list[dict[str, Any]] = [
    {"reward_scale": 0.5},
    {"action_repeat": 2},
    {"frame_stack": 2},
    {"delay_obs": 1},
    {"sticky_actions": 0.5},
    {"wrappers": ["support.own_wrappers:Halves"]},
]


class Tells(gym.Env[Any, Any]):
    """Tells whatever it is given."""

    action_space = spaces.Discrete(2)

    def __init__(self, obs: Any = None, space: Any = BOX, *, step: Any = None, reset: Any = None, **told: Any) -> None:
        self.observation_space = space
        self.obs = np.zeros(space.shape, dtype=space.dtype) if obs is None else obs
        self.told = (told.get("reward", 1.0), told.get("terminated", False), False, told.get("info", {}))
        self.results = step, reset

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return (self.obs, {}) if self.results[1] is None else self.results[1]

    def step(self, action: Any) -> Any:
        return (self.obs, *self.told) if self.results[0] is None else self.results[0]


def outcome(env: Tells, settings: dict[str, Any]) -> Any:
    """Rewards and observations of two steps, or the error."""
    wrappers = WrapperSettings(**settings) if settings else None
    venv = make_vec(make_env_factory(lambda: env, wrappers=wrappers), 1)
    try:
        first = venv.reset([0])
        steps = [venv.step(np.zeros(1, dtype=np.int64)) for _ in range(2)]
    except SteadyRLError as error:
        return error.code, error.message
    return [first[""].tolist(), [(step.rewards.tolist(), step.obs[""].tolist()) for step in steps]]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("reward", [np.array([1.0]), np.array(1.0), np.float32(1.0), np.ones(1, dtype=np.int64), True])
def test_rewards_of_any_form_are_numbers(reward: Any, settings: dict[str, Any]) -> None:
    assert outcome(Tells(reward=reward), settings) == outcome(Tells(reward=1.0), settings)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(
    ("obs", "space"),
    [
        ([0.5, 0.25], BOX),
        ((0.5, 0.25), BOX),
        (torch.tensor([0.5, 0.25]), BOX),
        ([[7] * 8] * 8, PICTURE),
        (torch.full((8, 8), 7, dtype=torch.uint8), PICTURE),
        (np.full((8, 8), 7, dtype=np.int64), PICTURE),
    ],
    ids=["list", "tuple", "tensor", "picture as lists", "picture as a tensor", "picture of integers"],
)
def test_observations_of_any_form_are_arrays(obs: Any, space: Any, settings: dict[str, Any]) -> None:
    plain = Tells(np.asarray(obs).astype(space.dtype), space)
    assert outcome(Tells(obs, space), settings) == outcome(plain, settings)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(
    "env",
    [
        {"reward": None},
        {"reward": [1.0]},
        {"reward": "1.0"},
        {"reward": 10**400},
        {"info": None},
        {"info": "x"},
        {"terminated": "False"},
        {"terminated": None},
        {"obs": np.zeros(3, dtype=np.float32)},
        {"obs": None, "step": (np.zeros(2, dtype=np.float32), 1.0, False, {})},
        {"obs": None, "reset": np.zeros(2, dtype=np.float32)},
        {"obs": None, "reset": (np.zeros(2, dtype=np.float32), None)},
    ],
    ids=lambda told: "+".join(told) if isinstance(told, dict) else None,
)
def test_what_breaks_the_interface_is_told_in_the_same_words(env: dict[str, Any], settings: dict[str, Any]) -> None:
    code, message = outcome(Tells(**env), settings)
    expected = outcome(Tells(**env), {})
    assert code == expected[0] != "env-error"
    assert message == expected[1].replace(" (environment 0)", "")


def test_the_type_of_floats_is_said_as_without_wrappers() -> None:
    notes = []
    for wrappers in (None, WrapperSettings(reward_scale=0.5)):
        venv = make_vec(make_env_factory(lambda: Tells(np.zeros(2)), wrappers=wrappers), 1)
        with pytest.warns(UserWarning, match="float64"):
            venv.reset([0])
        notes.append(len(venv.notes))
    assert notes == [1, 1]
