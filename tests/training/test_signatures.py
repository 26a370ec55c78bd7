"""Signatures that name every option of an algorithm."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.configs import CONFIGS
from steadyrl.configs.run import RunSettings
from steadyrl.training.agents import AGENTS


@pytest.mark.parametrize("algo", CONFIGS)
def test_a_class_names_every_option_that_it_takes(algo: str) -> None:
    named = list(inspect.signature(AGENTS[algo]).parameters)
    config, settings = ([field.name for field in dataclasses.fields(cls)] for cls in (CONFIGS[algo], RunSettings))
    taken = [name for name in settings if name not in ("env", "run_dir", "name")]
    assert named == ["env", "preset", *config, *taken]


@pytest.mark.parametrize("algo", CONFIGS)
def test_each_default_is_taken_as_it_is_shown(algo: str) -> None:
    shown = {
        name: parameter.default
        for name, parameter in inspect.signature(AGENTS[algo]).parameters.items()
        if name not in ("env", "preset")
    }
    env = "CartPole-v1" if algo in ("ppo", "a2c", "dqn") else "Pendulum-v1"
    agents = [AGENTS[algo](env, preset="none", **options) for options in (shown, {})]
    assert agents[0].config == agents[1].config


def test_a_class_with_a_constructor_of_its_own_shows_that() -> None:
    class Mine(srl.PPO):
        def __init__(self, env: str, width: int, **options: Any) -> None:
            super().__init__(env, net_arch=[width], **options)

    assert list(inspect.signature(Mine).parameters) == ["env", "width", "options"]
    assert "learning_rate" in inspect.signature(type("Same", (srl.PPO,), {})).parameters
