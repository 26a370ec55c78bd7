"""Arguments that no sensible user means are answered in words, before anything runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import steadyrl as srl
from support.training_envs import Fast

LOOSE: Any = srl  # what types forbid is tried too
PPO = partial(LOOSE.PPO, Fast, n_steps=8, batch_size=8)
SAC = partial(LOOSE.SAC, "Pendulum-v1", buffer_size=100)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(SAC, learning_starts=1e30), "learning_starts is 1e+30, but it must be a whole number, below 2**63."),
        (partial(SAC, gradient_steps=2**63), "below 2**63"),
        (partial(SAC, batch_size=10**12), "of memory"),
        (partial(PPO, reward_scale=1e-320), "reward_scale is 1e-320, but it must be between 1e-30 and 1e+30"),
        (partial(PPO, clip_range_vf=1e300), "of at most 3.4e38"),
        (partial(PPO, delay_actions=2**31), "delay_actions is 2147483648, but it must be at most 10000"),
        (partial(PPO, preset=3), "preset is a int, not a name."),
        (partial(LOOSE.PPO, 2.5), "An object of float is no environment."),
        (partial(LOOSE.PPO, lambda: 2.5), "gave an object of float, which is no environment."),
        (lambda: PPO().predict(np.zeros(1), deterministic="False"), "deterministic is 'False', but it must be"),
        (lambda: PPO().predict(np.zeros(1), deterministic=np.array([True, False])), "but it must be True or False"),
        (lambda: LOOSE.evaluate(PPO(), 1, deterministic=2), "deterministic is 2, but it must be True or False"),
        (lambda: PPO().learn(8, callback=np.array("a")), "which is no function"),
        (lambda: LOOSE.resume(None), "run is None, which names no folder"),
        (lambda: LOOSE.Run.open(3), "path is 3, which names no folder"),
        (lambda: LOOSE.check_env(Fast, timeout="60"), "timeout is '60'."),
        (lambda: LOOSE.LinearSchedule(1.0, 0.0, fraction="x"), "The fraction of a schedule is 'x'"),
        (lambda: LOOSE.load("nosuch", device=10**30), "The device 1000000000000000000000000000000 cannot be used"),
        (lambda: LOOSE.load("nosuch", kernels=[]), "kernels is [], but it must be one of"),
    ],
)
def test_they_are_refused(make: Any, said: str) -> None:
    with pytest.raises(srl.UserError) as refused:
        make()
    assert said in refused.value.message
    assert "no environment. no" not in str(refused.value)


def test_no_preset_may_be_said_by_none() -> None:
    none, nothing = (LOOSE.PPO("CartPole-v1", preset=preset) for preset in ("none", None))
    assert none.config == nothing.config


def test_truth_values_of_any_library_are_taken() -> None:
    agent = PPO()
    action = agent.predict(np.zeros(1), deterministic=True)[0]
    assert action == agent.predict(np.zeros(1), deterministic=np.True_)[0]
    assert action == agent.predict(np.zeros(1), deterministic=1)[0]


@pytest.mark.parametrize("mode", [torch.inference_mode, partial(torch.autocast, "cpu")])
def test_modes_of_torch_in_which_nothing_is_learnt_are_named(mode: Any) -> None:
    agent = PPO()
    with mode():
        for call in (PPO, partial(agent.learn, 8)):
            with pytest.raises(srl.UserError, match=r"An agent cannot be made or learn inside torch\.(inf|auto)"):
                call()
        assert agent.predict(np.zeros(1))[0] in range(2)
    assert agent.learn(8).num_timesteps == 8
