"""From what the user said to a setup, checked: which settings win, what fits together, what is said."""

import sys
from pathlib import Path
from subprocess import run
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from steadyrl.configs import PPOConfig
from steadyrl.errors import UserError
from steadyrl.training.setup import prepare_again, prepare_training
from support.envs import ConstantReward, SpaceProbe
from support.faulty_envs import OldGym
from support.training_envs import Fast, PaysVector

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


def test_a_preset_is_taken_and_said_and_explicit_values_win() -> None:
    setup = prepare_training("ppo", "CartPole-v1", {"n_epochs": 3, "seed": 5})
    assert setup.resolved.preset == "CartPole-v1"
    assert "CartPole-v1" in next(notice.message for notice in setup.notices if notice.code == "preset")
    assert isinstance(setup.resolved.config, PPOConfig)
    assert setup.resolved.config.n_epochs == 3
    assert setup.resolved.sources["n_epochs"] == "explicit"
    assert "preset" in setup.resolved.sources.values()
    assert setup.settings.seed == 5
    plain = prepare_training("ppo", "CartPole-v1", {}, preset="none")
    assert plain.resolved.preset is None
    assert set(plain.resolved.sources.values()) == {"default"}


def test_instances_take_no_preset_by_themselves() -> None:
    env = gym.make("CartPole-v1")
    assert prepare_training("ppo", env, {}).resolved.preset is None
    assert prepare_training("ppo", env, {}, preset="CartPole-v1", total_timesteps=10).resolved.preset == "CartPole-v1"
    env.close()


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("CartPole-v1", "CartPole-v1"),
        (Fast, "Fast"),
        (Fast(), "Fast"),
        (lambda: Fast(), "env"),
        (PaysVector(AutoresetMode.SAME_STEP), "PaysVector"),
    ],
    ids=["id", "class", "instance", "lambda", "vector"],
)
def test_environments_have_a_name(env: Any, name: str) -> None:
    assert prepare_training("a2c", env, {}, preset="none").settings.env == name


@pytest.mark.parametrize(
    ("options", "level", "said"),
    [
        ({}, "note", "8 x 9 is too small for the Nature CNN, which needs 36 pixels"),
        ({"cnn": "none"}, "warning", "8 x 9 is flattened"),
        ({"cnn": "impala"}, "", ""),
    ],
    ids=str,
)
def test_what_is_unusual_about_an_image_is_said(options: dict[str, Any], level: str, said: str) -> None:
    def make() -> SpaceProbe:
        return SpaceProbe(spaces.Box(0, 255, (8, 9, 3), np.uint8), spaces.Discrete(2))

    notices = prepare_training("ppo", make, options, preset="none").notices
    told = [(notice.level, notice.message) for notice in notices if notice.code == "image"]
    assert [level for level, _ in told] == ([level] if level else [])
    assert all(said in text for _, text in told)


@pytest.mark.parametrize(
    ("action", "options", "said"),
    [
        (spaces.Discrete(2), {"use_sde": True}, "the action space is discrete"),
        (spaces.MultiBinary(2), {"squash_output": True}, "the action space is multibinary"),
        (spaces.Box(0.0, np.inf, (1,), np.float32), {"squash_output": True}, "finite bounds in every dimension"),
        (spaces.Box(1.0, 1.0, (1,), np.float32), {}, "no room in dimension 0"),
        (spaces.Tuple([spaces.Discrete(2)]), {"squash_output": True}, "the action space is a Dict or Tuple"),
        (spaces.Tuple([spaces.Discrete(2)]), {"use_sde": True}, "the action space is a Dict or Tuple"),
        (spaces.Tuple([spaces.Text(2)]), {}, "The action space at '0' is a Text, which is not supported"),
        (spaces.Text(3), {}, "The action space is a Text, which is not supported"),
    ],
)
def test_actions_that_do_not_fit_are_refused(action: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        prepare_training("ppo", lambda: SpaceProbe(BOX, action), options, preset="none")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("observation", "said"),
    [
        (spaces.Tuple([]), "The tuple is empty"),
        (spaces.Graph(BOX, BOX), "The observation space is a Graph"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.OneOf([BOX, BOX])})}), "'a/b'"),
        (spaces.Box(0, 255, (9, 8, 9), np.uint8), "image_layout='hwc'"),
        (spaces.Dict({}), "The dictionary is empty"),
    ],
)
def test_observations_of_other_kinds_are_refused(observation: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        prepare_training("a2c", lambda: SpaceProbe(observation, spaces.Discrete(2)), {}, preset="none")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("algo", "env", "options", "said"),
    [
        ("ppoo", "CartPole-v1", {}, "ppo"),
        ("ppo", "CartPole-v11", {}, "CartPole-v1"),
        ("ppo", "CartPole-v1", {"learning_rte": 1}, "learning_rate"),
        ("ppo", "CartPole-v1", {"evl_freq": 1}, "eval_freq"),
        ("ppo", "CartPole-v1", {"seed": "one"}, "seed"),
        ("ppo", "CartPole-v1", {"threads": 0}, "threads"),
        ("ppo", "CartPole-v1", {"n_steps": 1.5}, "n_steps"),
        ("a2c", "CartPole-v1", {"n_epochs": 3}, "n_epochs"),
        ("ppo", OldGym, {}, "gymnasium.Env"),
        ("ppo", 3, {}, "int"),
        ("ppo", "nowhere.py:Env", {}, "nowhere.py"),
        ("ppo", ConstantReward, {"env_kwargs": {"horizn": 3}}, "horizon"),
        ("ppo", Fast(), {"env_kwargs": {"a": 3}}, "already made"),
        ("ppo", Fast(), {"capture_video": True}, "capture_video"),
    ],
)
def test_bad_input_names_what_is_wrong_or_nearest(algo: str, env: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        prepare_training(algo, env, options, preset="none")
    assert said in str(caught.value)


def test_another_environment_keeps_what_was_configured() -> None:
    first = prepare_training(
        "ppo",
        Fast,
        {"n_steps": 32, "num_envs": 4, "vec": "async", "threads": 2, "name": "x", "max_episode_steps": 9},
        preset="none",
    )
    trained = first.to_json()["hyperparameters"] | {"seed": 3}
    again = prepare_again("ppo", Fast, trained, {"gamma": 0.5}, first.settings)
    assert isinstance(again.resolved.config, PPOConfig)
    assert (again.resolved.config.n_steps, again.resolved.config.num_envs, again.resolved.config.gamma) == (32, 4, 0.5)
    assert (again.settings.seed, again.settings.vec, again.settings.threads) == (3, "async", 2)
    assert (again.settings.name, again.settings.max_episode_steps) == (None, None)
    alone = prepare_again("ppo", Fast(), trained, {"batch_size": 8}, first.settings)
    assert (alone.resolved.config.num_envs, alone.settings.vec) == (1, "auto")
    with pytest.raises(UserError, match="num_envs is 2, but an environment instance was given"):
        prepare_again("ppo", Fast(), trained, {"num_envs": 2})


def test_the_document_is_strict_json_and_says_how_environments_are_stepped() -> None:
    document = prepare_training("ppo", Fast, {"run_dir": Path("x"), "net_arch": (8, 8)}, preset="none").to_json()
    assert document["settings"]["run_dir"] == "x"
    assert document["settings"]["vec"] == "sync"
    assert document["hyperparameters"]["net_arch"] == [8, 8]
    setup = prepare_training("ppo", Fast, {}, preset="none", total_timesteps=100)
    assert setup.over(200).to_json() == setup.to_json() | {"total_timesteps": 200}


def test_torch_is_not_imported_until_the_training() -> None:
    code = (
        "import sys\n"
        "from steadyrl.training.setup import prepare_training\n"
        "prepare_training('ppo', 'CartPole-v1', {'num_envs': 2})\n"
        "assert 'torch' not in sys.modules"
    )
    run([sys.executable, "-c", code], check=True)


def test_an_algorithm_has_a_name() -> None:
    with pytest.raises(UserError, match="The algorithm is 3"):
        prepare_training(3, "CartPole-v1", {})  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "preset"), [("rgb", "ALE/Pong-v5"), ("ram", None)])
def test_a_preset_for_pictures_is_not_taken_for_numbers(kind: str, preset: str | None) -> None:
    pytest.importorskip("ale_py")
    env_kwargs = {"obs_type": kind}
    setup = prepare_training(
        "ppo", "ALE/Pong-v5", {"env_kwargs": env_kwargs, "atari": "on" if kind == "rgb" else "off"}
    )
    assert (setup.resolved.preset or "").startswith("ALE/Pong" if preset else "")
    assert bool(setup.resolved.preset) is bool(preset)
    assert setup.resolved.config.net_arch != () if preset is None else setup.resolved.config.net_arch == ()
