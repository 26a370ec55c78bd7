import dataclasses
from typing import Any

import pytest

from steadyrl.config import presets, resolve
from steadyrl.configs import CONFIGS, LinearSchedule, OnPolicyConfig, PPOConfig
from steadyrl.errors import UserError

ENVIRONMENTS = {
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "LunarLander-v3",
    "BipedalWalker-v3",
    "HalfCheetah-v5",
    "Hopper-v5",
}
ALL = [(algo, name) for algo in CONFIGS for name in presets(algo)]


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_the_promised_environments_have_presets(algo: str) -> None:
    assert set(presets(algo)) >= ENVIRONMENTS


@pytest.mark.parametrize(("algo", "name"), ALL)
def test_a_preset_names_source_and_total_and_makes_its_configuration(algo: str, name: str) -> None:
    preset = presets(algo)[name]
    assert "@" in preset.source
    assert preset.total_timesteps is not None
    assert preset.total_timesteps >= 20_000
    resolved = resolve(algo, name, overrides={})
    # What the file says is what the configuration holds, and every update has as many transitions as it asks for.
    assert {key for key, source in resolved.sources.items() if source == "preset"} == {
        *preset.values,
        "total_timesteps",
    }
    assert resolved.notes == ()


@pytest.mark.parametrize(("algo", "name"), ALL)
def test_one_override_alone_never_breaks_a_preset(algo: str, name: str) -> None:
    small: dict[str, Any] = {"num_envs": 2, "n_steps": 4, "gamma": 0.9, "learning_rate_end": 0.0, "net_arch": [8]}
    flipped = {
        field.name: not field.default for field in dataclasses.fields(CONFIGS[algo]) if isinstance(field.default, bool)
    }
    fields = {field.name for field in dataclasses.fields(CONFIGS[algo])}
    changes = {name: value for name, value in {**small, **flipped}.items() if name.removesuffix("_end") in fields}
    for field, value in changes.items():
        config = resolve(algo, name, overrides={field: value}).config
        if field != "learning_rate_end":
            expected = tuple(value) if isinstance(value, list) else value
            assert getattr(config, field) == expected


def test_published_numbers_arrive() -> None:
    cartpole = resolve("ppo", "CartPole-v1", overrides={}).config
    assert isinstance(cartpole, PPOConfig)
    assert (cartpole.n_steps, cartpole.num_envs, cartpole.batch_size, cartpole.n_epochs) == (32, 8, 256, 20)
    assert cartpole.clip_range == LinearSchedule(0.2, 0.0)
    cheetah = resolve("ppo", "HalfCheetah-v5", overrides={}).config
    assert isinstance(cheetah, PPOConfig)
    assert cheetah.net_arch == {"pi": (256, 256), "vf": (256, 256)}
    assert (cheetah.activation_fn, cheetah.ortho_init, cheetah.normalize_obs) == ("relu", False, True)


@pytest.mark.parametrize(("algo", "published"), [("ppo", 0.0), ("a2c", -2.0)])
def test_pendulum_spreads_over_its_bounds_as_published(algo: str, published: float) -> None:
    # log 2: our actions lie in [-1, 1], the published ones in [-2, 2].
    config = resolve(algo, "Pendulum-v1", overrides={}).config
    assert isinstance(config, OnPolicyConfig)
    assert config.log_std_init == pytest.approx(published - 0.6931)
    assert "log 2" in presets(algo)["Pendulum-v1"].source


def test_an_algorithm_without_a_file_has_no_presets() -> None:
    assert presets("nothing") == {}


def test_presets_of_an_unknown_name_point_to_the_list() -> None:
    with pytest.raises(UserError, match="steadyrl presets ppo"):
        resolve("ppo", "X-v0", preset="X-v0", overrides={})
