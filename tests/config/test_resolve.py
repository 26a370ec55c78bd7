import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyrl.config import DEFAULT_TOTAL_TIMESTEPS, from_json, hints, presets, resolve, to_json
from steadyrl.configs import A2CConfig, LinearSchedule, PPOConfig
from steadyrl.errors import UserError


def ppo(env: str | None = "CartPole-v1", **overrides: Any) -> PPOConfig:
    config = resolve("ppo", env, overrides=overrides).config
    assert isinstance(config, PPOConfig)
    return config


def test_explicit_beats_preset_beats_default() -> None:
    resolved = resolve("ppo", "CartPole-v1", overrides={"gamma": 0.5})
    assert isinstance(resolved.config, PPOConfig)
    assert (resolved.config.gamma, resolved.config.gae_lambda, resolved.config.vf_coef) == (0.5, 0.8, 0.5)
    assert {name: resolved.sources[name] for name in ("gamma", "gae_lambda", "vf_coef", "total_timesteps")} == {
        "gamma": "explicit",
        "gae_lambda": "preset",
        "vf_coef": "default",
        "total_timesteps": "preset",
    }
    assert (resolved.preset, resolved.total_timesteps) == ("CartPole-v1", 100_000)
    assert "rl-baselines3-zoo" in resolved.preset_source


def test_every_field_has_a_source() -> None:
    assert set(resolve("a2c", None, overrides={}).sources) == {*hints("a2c"), "total_timesteps"}


@pytest.mark.parametrize("env", [None, "CartPole-v0", "Nowhere-v1", "CartPole", "file.py:CartPole"])
def test_without_a_preset_of_exactly_this_environment_the_defaults_count(env: str | None) -> None:
    resolved = resolve("ppo", env, overrides={})
    assert resolved.preset is None
    assert resolved.preset_source == ""
    assert resolved.config == PPOConfig()
    assert resolved.total_timesteps == DEFAULT_TOTAL_TIMESTEPS


def test_the_module_before_an_id_does_not_hide_its_preset() -> None:
    assert resolve("ppo", "my.envs:CartPole-v1", overrides={}).preset == "CartPole-v1"


def test_presets_can_be_refused_or_borrowed() -> None:
    assert resolve("ppo", "CartPole-v1", preset="none", overrides={}).config == PPOConfig()
    assert resolve("ppo", "Other-v0", preset="CartPole-v1", overrides={}).config == ppo()


def test_the_end_of_a_schedule_is_a_key_of_its_own() -> None:
    assert ppo(learning_rate_end=1e-4).learning_rate == LinearSchedule(1e-3, 1e-4)
    assert ppo(None, learning_rate_end=0).learning_rate == LinearSchedule(3e-4, 0.0)
    assert ppo(learning_rate=5e-4, learning_rate_end=0).learning_rate == LinearSchedule(5e-4, 0.0)
    assert ppo(learning_rate=5e-4).learning_rate == 5e-4


def test_dashes_and_underscores_are_alike() -> None:
    config = resolve("ppo", None, overrides={"clip-range-end": 0.1, "vf-coef": 1}).config
    assert isinstance(config, PPOConfig)
    assert config.vf_coef == 1.0
    assert config.clip_range == LinearSchedule(0.2, 0.1)


@pytest.mark.parametrize(
    ("algo", "preset", "overrides", "code", "words"),
    [
        ("pp0", "auto", {}, "unknown-algorithm", "Did you mean ppo?"),
        ("ppo", "CartPol-v1", {}, "unknown-preset", "Did you mean CartPole-v1"),
        ("ppo", "auto", {"learnin_rate": 1e-3}, "unknown-key", "Did you mean learning_rate"),
        ("a2c", "auto", {"batch_size": 64}, "unknown-key", "It belongs to PPO"),
        ("ppo", "auto", {"gamma_end": 0.5}, "unknown-key", "Did you mean gamma"),
        ("ppo", "auto", {"n_steps": "many"}, "bad-value", "n_steps is 'many'"),
        ("ppo", "auto", {"net_arch": [0]}, "bad-value", "net_arch"),
        ("ppo", "auto", {"net_arch": {"pi": [4]}}, "bad-value", "pi and vf"),
        ("ppo", "auto", {"sde_sample_freq": 0}, "bad-value", "sde_sample_freq"),
        ("ppo", "auto", {"target_kl": -1.0}, "bad-value", "target_kl"),
        ("ppo", "auto", {"batch_size": 999}, "bad-value", "batch_size 999 exceeds n_steps * num_envs = 256"),
    ],
)
def test_what_is_wrong_is_named(algo: str, preset: str, overrides: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve(algo, "CartPole-v1", preset=preset, overrides=overrides)
    assert caught.value.code == code
    assert words in str(caught.value)


@pytest.mark.parametrize("total", [0, -5, "many", True, 1.5])
def test_a_total_that_is_no_count_is_refused(total: Any) -> None:
    with pytest.raises(UserError, match="total_timesteps is"):
        resolve("ppo", None, overrides={}, total_timesteps=total)


def test_an_explicit_total_wins() -> None:
    resolved = resolve("ppo", "CartPole-v1", overrides={}, total_timesteps=7)
    assert (resolved.total_timesteps, resolved.sources["total_timesteps"]) == (7, "explicit")


def test_a_smaller_rollout_takes_a_batch_along_and_says_so() -> None:
    resolved = resolve("ppo", "CartPole-v1", overrides={"num_envs": 2})
    assert isinstance(resolved.config, PPOConfig)
    assert resolved.config.batch_size == 64
    assert resolved.sources["batch_size"] == "fitted"
    assert resolved.notes == (
        "batch_size is 64 (n_steps * num_envs) instead of the preset's 256, which a rollout cannot fill.",
    )
    assert resolve("ppo", "CartPole-v1", overrides={}).notes == ()


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_json_reads_back_to_the_same_configuration(algo: str) -> None:
    for name in presets(algo):
        config = resolve(algo, name, overrides={}).config
        assert from_json(algo, json.loads(json.dumps(to_json(config)))) == config


@given(
    rate=st.floats(1e-6, 1.0),
    end=st.none() | st.floats(0.0, 1.0),
    arch=st.lists(st.integers(1, 512), max_size=4),
    gamma=st.floats(0.0, 1.0),
    advantage=st.booleans(),
)
def test_any_configuration_survives_json(
    rate: float, end: float | None, arch: list[int], gamma: float, advantage: bool
) -> None:
    ends = {} if end is None else {"learning_rate_end": end}
    overrides = {"learning_rate": rate, "net_arch": arch, "gamma": gamma, "normalize_advantage": advantage, **ends}
    config = resolve("a2c", None, overrides=overrides).config
    assert isinstance(config, A2CConfig)
    assert config.net_arch == tuple(arch)
    assert from_json("a2c", json.loads(json.dumps(to_json(config)))) == config


@pytest.mark.parametrize("data", [{"gama": 0.9}, {"gamma": "high"}, {"learning_rate_end": 0.0}])
def test_stored_configurations_are_read_strictly(data: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        from_json("ppo", data)
