"""Every wrong value is refused at construction, with the field, the value and the flag in the error."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest

from steadyrl.configs import CONFIGS, A2CConfig, Config, LinearSchedule, PPOConfig, SACConfig
from steadyrl.configs.run import RunSettings
from steadyrl.errors import UserError

NAN, INF = math.nan, math.inf
SIZES: list[Any] = [0, -1, 2.5, NAN, True, "3", 2**63, 10**30]
SEEDS: list[Any] = [-1, 2**63, 10**400, 1.5]
POSITIVE: list[Any] = [
    0.0,
    -1e-9,
    NAN,
    INF,
    LinearSchedule(0.0, 1.0),
    LinearSchedule(1.0, -1.0),
    LinearSchedule(1.0, NAN),
]
NOT_NEGATIVE: list[Any] = [-1e-9, NAN, INF, -INF]
UNIT: list[Any] = [-0.01, 1.01, NAN, INF]

ON_POLICY: dict[str, list[Any]] = {
    "num_envs": SIZES,
    "n_steps": SIZES,
    "log_interval": SIZES,
    "learning_rate": POSITIVE,
    "gamma": UNIT,
    "gae_lambda": UNIT,
    "ent_coef": NOT_NEGATIVE,
    "vf_coef": NOT_NEGATIVE,
    "max_grad_norm": NOT_NEGATIVE,
    "net_arch": [
        (0,),
        (2**63,),
        (64, -1),
        (2.5,),
        {"pi": (64,)},
        {"pi": (0,), "vf": (64,)},
        {"pi": (), "vf": (), "qf": ()},
    ],
    "sde_sample_freq": [0, -2, 10**30],
    "log_std_init": [-20.1, 20.1, NAN, INF],
}
PPO_ONLY: dict[str, list[Any]] = {
    "batch_size": SIZES,
    "n_epochs": SIZES,
    "clip_range": POSITIVE,
    "clip_range_vf": [0.0, -1.0, NAN],
    "target_kl": [0.0, -1.0, NAN],
}
RUN: dict[str, list[Any]] = {
    "seed": SEEDS,
    "eval_seed": SEEDS,
    "env_seed": SEEDS,
    "algo_seed": SEEDS,
    "eval_freq": SEEDS,
    "checkpoint_freq": SEEDS,
    "threads": [*SIZES, 1025],
    "eval_episodes": [*SIZES, 1_000_001],
    "max_episode_steps": SIZES,
}


def run_settings(**values: Any) -> RunSettings:
    return RunSettings(env="CartPole-v1", **values)


CASES: list[tuple[Callable[..., Any], str, Any]] = [
    *((PPOConfig, field, value) for field, values in (ON_POLICY | PPO_ONLY).items() for value in values),
    *((A2CConfig, field, value) for field, values in ON_POLICY.items() for value in values),
    *((A2CConfig, "rms_prop_eps", value) for value in (0.0, -1.0, NAN)),
    *((run_settings, field, value) for field, values in RUN.items() for value in values),
]


@pytest.mark.parametrize(("make", "field", "value"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_a_wrong_value_is_named_with_its_field(make: Callable[..., Any], field: str, value: Any) -> None:
    with pytest.raises(UserError) as caught:
        make(**{field: value})
    error = caught.value
    assert error.message.startswith(f"{field} is {value!r}, but it must be ")
    assert f"--{field.replace('_', '-')}" in error.remedy
    assert error.code == "bad-value"
    assert error.exit_status == 2


EDGES: dict[str, list[Any]] = {
    "gamma": [0.0, 1.0],
    "gae_lambda": [0.0, 1.0],
    "ent_coef": [0.0],
    "max_grad_norm": [0.0],
    "learning_rate": [1e-12, LinearSchedule(1e-3, 0.0)],
    "net_arch": [(), (1,)],
    "sde_sample_freq": [-1, 1],
    "num_envs": [1, 7],
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_values_on_the_edge_are_good(config: type[Config]) -> None:
    fields = {field.name for field in dataclasses.fields(config)}
    for field in EDGES.keys() & fields:
        for value in EDGES[field]:
            assert getattr(config(**{field: value}), field) == value


def test_networks_of_their_own_sizes() -> None:
    assert PPOConfig(net_arch={"pi": (), "vf": (3, 4)}).net_arch == {"pi": (), "vf": (3, 4)}
    assert SACConfig(net_arch={"pi": (), "qf": (3, 4)}).net_arch == {"pi": (), "qf": (3, 4)}
    with pytest.raises(UserError, match="a table with the keys pi and qf"):
        SACConfig(net_arch={"pi": (), "vf": (3, 4)})


def test_a_minibatch_larger_than_the_rollout() -> None:
    with pytest.raises(UserError, match="batch_size 4096 exceeds n_steps \\* num_envs = 1024") as caught:
        PPOConfig(n_steps=128, num_envs=8, batch_size=4096)
    assert "1024" in caught.value.remedy
    assert PPOConfig(n_steps=128, num_envs=8, batch_size=1024).batch_size == 1024


def test_nothing_to_normalise_over() -> None:
    with pytest.raises(UserError, match="n_steps \\* num_envs = 1"):
        PPOConfig(n_steps=1, num_envs=1, batch_size=1)
    assert PPOConfig(n_steps=1, num_envs=1, batch_size=1, normalize_advantage=False).n_steps == 1
    assert PPOConfig(n_steps=1, num_envs=2, batch_size=1).batch_size == 1


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_configuration_is_frozen_and_takes_names_only(config: type[Config]) -> None:
    made = config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.gamma = 0.5  # type: ignore[misc]
    with pytest.raises(TypeError):
        config(8)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        config(learning_rat=1e-3)  # type: ignore[call-arg]


def test_defaults_are_stable_baselines3s() -> None:
    ppo, a2c = PPOConfig(), A2CConfig()
    assert (ppo.n_steps, ppo.batch_size, ppo.n_epochs, ppo.learning_rate) == (2048, 64, 10, 3e-4)
    assert (ppo.gamma, ppo.gae_lambda, ppo.clip_range, ppo.clip_range_vf) == (0.99, 0.95, 0.2, None)
    assert (ppo.ent_coef, ppo.vf_coef, ppo.max_grad_norm, ppo.target_kl) == (0.0, 0.5, 0.5, None)
    assert (a2c.n_steps, a2c.learning_rate, a2c.gae_lambda, a2c.normalize_advantage) == (5, 7e-4, 1.0, False)
    assert (a2c.use_rms_prop, a2c.rms_prop_eps, a2c.ent_coef, a2c.vf_coef) == (True, 1e-5, 0.0, 0.5)
    assert ppo.net_arch == a2c.net_arch == (64, 64)
