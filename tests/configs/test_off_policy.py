"""Configurations of DQN, TD3, DDPG and SAC: defaults, and what is refused by name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from steadyrl.configs import DDPGConfig, DQNConfig, LinearSchedule, OffPolicyConfig, SACConfig, TD3Config
from steadyrl.errors import UserError

ALL: list[type[OffPolicyConfig]] = [DQNConfig, DDPGConfig, TD3Config, SACConfig]
EVERY: list[dict[str, Any]] = [
    {"num_envs": 0},
    {"buffer_size": 0},
    {"batch_size": 0},
    {"train_freq": 0},
    {"n_step": 0},
    {"gradient_steps": 0},
    {"gradient_steps": -2},
    {"learning_starts": -1},
    {"gamma": 1.5},
    {"gamma": -0.1},
    {"tau": 0.0},
    {"tau": 1.1},
    {"learning_rate": 0.0},
    {"learning_rate": LinearSchedule(-1.0, 0.0)},
    {"log_interval": 0},
    {"net_arch": (8, 0)},
    {"net_arch": {"vf": (8,)}},
]
OWN: list[tuple[type[OffPolicyConfig], dict[str, Any]]] = [
    (DQNConfig, {"target_update_interval": 0}),
    (DQNConfig, {"exploration_fraction": 0.0}),
    (DQNConfig, {"exploration_fraction": 1.5}),
    (DQNConfig, {"exploration_final_eps": -0.1}),
    (DQNConfig, {"exploration_initial_eps": 1.1}),
    (DQNConfig, {"prioritized_alpha": 1.1}),
    (DQNConfig, {"prioritized_beta": LinearSchedule(0.4, 1.4)}),
    (DQNConfig, {"max_grad_norm": -1.0}),
    (DQNConfig, {"n_quantiles": 0}),
    (TD3Config, {"n_critics": 0}),
    (TD3Config, {"policy_delay": 0}),
    (TD3Config, {"target_policy_noise": -0.1}),
    (TD3Config, {"target_noise_clip": -0.1}),
    (TD3Config, {"action_noise_std": LinearSchedule(0.1, -0.1)}),
    (SACConfig, {"n_critics": 0}),
    (SACConfig, {"target_update_interval": 0}),
    (SACConfig, {"ent_coef": -0.1}),
    (SACConfig, {"ent_coef": "0.1"}),
    (SACConfig, {"ent_coef": "automatic"}),
    (SACConfig, {"ent_coef": "auto_"}),
    (SACConfig, {"ent_coef": "auto0.5"}),
    (SACConfig, {"ent_coef": "auto_0"}),
    (SACConfig, {"ent_coef": "auto_-1"}),
    (SACConfig, {"ent_coef": "auto_inf"}),
    (SACConfig, {"ent_coef": "auto_nan"}),
    (SACConfig, {"target_entropy": "low"}),
]


@pytest.mark.parametrize(
    ("config", "options"), [*((c, o) for c in ALL for o in EVERY), *OWN], ids=lambda x: getattr(x, "__name__", str(x))
)
def test_a_value_out_of_range_is_refused_by_name(config: type[OffPolicyConfig], options: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        config(**options)
    assert next(iter(options)) in caught.value.message


def test_a_buffer_has_room_for_a_window_of_each_environment() -> None:
    assert DQNConfig(buffer_size=10, n_step=5, num_envs=2).n_step == 5
    assert DQNConfig(buffer_size=2).n_step == 1
    with pytest.raises(UserError, match=re.escape("buffer_size is 9, but it must be at least n_step * num_envs = 10")):
        DQNConfig(buffer_size=9, n_step=5, num_envs=2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"v_min": 1.0, "v_max": 1.0}, "v_max is 1.0, but it must be above v_min = 1.0."),
        ({"v_min": 2.0, "v_max": -2.0}, "v_max is -2.0, but it must be above v_min = 2.0."),
        ({"n_atoms": 1}, "n_atoms is 1, but it must be at least 2 where the head is c51."),
    ],
    ids=str,
)
def test_the_support_of_c51_is_looked_at_where_it_is_used(options: dict[str, Any], said: str) -> None:
    assert DQNConfig(**options).head == "mean"
    with pytest.raises(UserError, match=re.escape(said)):
        DQNConfig(head="c51", **options)


@pytest.mark.parametrize(
    ("given", "start"), [("auto", 1.0), ("auto_0.1", 0.1), ("auto_1e-2", 0.01), (0.0, 0.0), (2, 2.0)]
)
def test_the_temperature_at_the_start(given: float | str, start: float) -> None:
    found = SACConfig(ent_coef=given).initial_ent_coef
    assert found == start
    assert type(found) is float


def test_defaults_are_those_of_stable_baselines3() -> None:
    dqn, td3, sac, ddpg = DQNConfig(), TD3Config(), SACConfig(), DDPGConfig()
    assert (dqn.learning_rate, dqn.batch_size, dqn.tau, dqn.train_freq, dqn.target_update_interval) == (
        1e-4, 32, 1.0, 4, 10_000
    )  # fmt: skip
    assert (dqn.exploration_fraction, dqn.exploration_initial_eps, dqn.exploration_final_eps) == (0.1, 1.0, 0.05)
    assert (dqn.learning_starts, dqn.gamma, dqn.max_grad_norm, dqn.net_arch) == (100, 0.99, 10.0, (64, 64))
    for config in (td3, ddpg):
        assert (config.learning_rate, config.batch_size, config.tau, config.net_arch) == (1e-3, 256, 0.005, (400, 300))
        assert (config.train_freq, config.gradient_steps, config.learning_starts) == (1, 1, 100)
    assert (td3.n_critics, td3.policy_delay, td3.target_policy_noise, td3.target_noise_clip) == (2, 2, 0.2, 0.5)
    assert (ddpg.n_critics, ddpg.policy_delay, ddpg.target_policy_noise) == (1, 1, 0.0)
    assert (sac.learning_rate, sac.batch_size, sac.tau, sac.net_arch) == (3e-4, 256, 0.005, (256, 256))
    assert (sac.ent_coef, sac.target_entropy, sac.n_critics, sac.target_update_interval) == ("auto", "auto", 2, 1)
    assert {config.buffer_size for config in (dqn, td3, sac, ddpg)} == {1_000_000}
    # Of the papers, where Stable-Baselines3 has none: noise that explores.
    assert (td3.action_noise_type, td3.action_noise_std, sac.action_noise_type) == ("normal", 0.1, "none")


def test_gradient_steps_may_follow_the_environment_steps() -> None:
    assert SACConfig(gradient_steps=-1).gradient_steps == -1
