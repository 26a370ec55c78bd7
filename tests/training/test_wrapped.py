"""Wrappers go with a run: into its files, its evaluation, its resumption, and the saved policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import steadyrl as srl
from steadyrl.cli.train_command import parse
from steadyrl.envs.make import make_env_factory
from steadyrl.errors import UserError
from steadyrl.training.comparing import first_difference
from steadyrl.training.evaluator import Evaluator
from steadyrl.training.events import Event
from support import own_wrappers
from support.games import Game, needs_ale, pay_of

HALVES = {"name": "support.own_wrappers:Halves", "kwargs": {"factor": 0.5}}
SMALL: dict[str, Any] = {
    "preset": "none", "n_steps": 16, "num_envs": 2, "batch_size": 32, "net_arch": (8,), "vec": "sync", "seed": 2,
    "eval_episodes": 2,
}  # fmt: skip
WRAPPED: dict[str, Any] = {"frame_stack": 2, "wrappers": [HALVES], "sticky_actions": 0.25, "delay_actions": 1}


def stop_at(step: int) -> Any:
    def listen(event: Event) -> bool | None:
        return False if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= step else None

    return listen


def test_a_run_keeps_its_wrappers_and_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    runs = []
    for name, callback in (("whole", None), ("stopped", stop_at(150))):
        options = {**SMALL, **WRAPPED, "run_dir": tmp_path / name, "eval_freq": 100, "checkpoint_freq": 100}
        runs.append(srl.train("ppo", "CartPole-v1", total_timesteps=320, callback=callback, **options))
    settings = json.loads((tmp_path / "whole" / "config.json").read_text())["settings"]
    assert {name: settings[name] for name in WRAPPED} == WRAPPED
    assert runs[1].manifest["timesteps"] < 320
    srl.resume(tmp_path / "stopped", say=lambda notice: None)
    assert first_difference(tmp_path / "whole", tmp_path / "stopped") is None
    again = srl.Run.open(tmp_path / "stopped")
    assert again.agent.policy.sha256() == runs[0].agent.policy.sha256()
    assert again.agent.policy.obs_spec.leaves[0].shape == (8,)
    result = srl.evaluate(again.agent, episodes=2, seed=0)
    assert (result.mean, result.lengths.tolist()) == (runs[0].summary()["eval"]["mean"], result.returns.tolist())
    # CartPole pays 1 a step: the score is raw, whatever the wrapper by name makes of it for learning.
    assert all(row["return"] == row["length"] for row in runs[0].episodes())


def test_a_saved_policy_brings_its_wrappers(tmp_path: Path) -> None:
    agent = srl.PPO("CartPole-v1", **SMALL, **WRAPPED)
    agent.learn(32)
    path = agent.save(tmp_path / "agent")
    loaded = srl.load(path, env="CartPole-v1")
    assert loaded.bundle().about["wrappers"] == WRAPPED
    env = loaded.make_env()
    obs, _ = env.reset(seed=0)
    assert obs.shape == (8,)
    np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], agent.predict(obs, deterministic=True)[0])
    env.close()
    one, other = (srl.evaluate(each, episodes=3, seed=1).returns for each in (agent, loaded))
    np.testing.assert_array_equal(one, other)
    with pytest.raises(UserError, match="is not the one the policy was made for"):
        srl.load(path, env="CartPole-v1", frame_stack=1)
    bare = srl.load(path)
    assert bare.bundle().about["wrappers"] == WRAPPED
    with pytest.raises(UserError, match="does not know how to make its environment"):
        bare.make_env()
    agent.set_env("CartPole-v1")
    assert agent.make_env().observation_space.shape == (8,)


def test_an_agent_without_wrappers_says_nothing_of_them() -> None:
    agent = srl.PPO("CartPole-v1", **SMALL)
    assert "wrappers" not in agent.bundle().about


def test_evaluation_elsewhere_is_wrapped_too() -> None:
    agent = srl.PPO("CartPole-v1", **SMALL, frame_stack=2)
    for env in ("CartPole-v1", lambda: gym.make("CartPole-v1"), gym.make("CartPole-v1")):
        result = srl.evaluate(agent, episodes=2, env=env, seed=0)
        assert (result.returns == result.lengths).all()


def test_a_vector_of_environments_takes_none() -> None:
    venv = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    with pytest.raises(UserError, match=r"Wrappers \(frame_stack\) go around single environments"):
        srl.PPO(venv, frame_stack=2)
    agent = srl.PPO("CartPole-v1", **SMALL)
    agent.set_env(venv)
    agent.learn(32)
    venv.close()


@pytest.mark.parametrize("vec", ["envpool", "native"])
def test_atari_by_itself_is_off_where_environments_are_one_program(vec: Any) -> None:
    from steadyrl.configs.run import RunSettings
    from steadyrl.training.wrapped import around_singles

    assert around_singles(RunSettings(env="ALE/Pong-v5", vec=vec)).atari == "off"
    assert around_singles(RunSettings(env="ALE/Pong-v5", vec=vec, atari="on")).atari == "on"
    assert around_singles(RunSettings(env="ALE/Pong-v5")).atari == "auto"


def test_the_command_line_names_wrappers(tmp_path: Path) -> None:
    words = ["--wrapper", "FlattenObservation", "--wrappers", json.dumps([HALVES]), "--no-fire-reset"]
    _, _, given, _ = parse(["ppo", "CartPole-v1", *words, "--frame-stack=3", "--terminal-on-life-loss", "False"])
    assert given == {
        "wrappers": ("FlattenObservation", json.dumps([HALVES])),
        "fire_reset": False,
        "frame_stack": 3,
        "terminal_on_life_loss": False,
    }
    file = f"{own_wrappers.__file__}:Halves"
    options = {**SMALL, "run_dir": tmp_path / "run", "eval_freq": 0, "wrappers": ("FlattenObservation", file)}
    run = srl.train("ppo", "CartPole-v1", total_timesteps=32, **options)
    assert [entry["name"] for entry in run.config["settings"]["wrappers"]] == ["FlattenObservation", file]
    assert own_wrappers.__file__ in json.loads((tmp_path / "run" / "code.json").read_text())["files"]


@pytest.mark.parametrize(
    ("wrappers", "said"),
    [
        (["Flaten"], "There is no wrapper 'Flaten' in gymnasium.wrappers"),
        ([{"name": "TransformReward", "kwargs": {"func": abs}}], "TransformReward['func'] is <built-in function abs>"),
        (3, "wrappers holds 3, which names no wrapper"),
    ],
)
def test_wrong_wrappers_are_refused_before_the_run_folder(wrappers: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        srl.train("ppo", "CartPole-v1", run_dir=tmp_path / "run", wrappers=wrappers)
    assert said in caught.value.message
    assert not (tmp_path / "run").exists()


def test_games_are_logged_whole_and_raw(tmp_path: Path) -> None:
    """Case 11 through a training: lives end episodes for learning, the files tell of games."""
    options = {
        **SMALL, "run_dir": tmp_path / "run", "eval_freq": 64, "atari": "on", "screen_size": 0, "noop_max": 0,
        "fire_reset": False, "frame_skip": 2,
    }  # fmt: skip
    run = srl.train("ppo", lambda: Game(41, (17, 30)), total_timesteps=128, **options)
    score = sum(pay_of(frame) for frame in range(1, 42))
    rows = run.episodes()
    assert [(row["return"], row["length"]) for row in rows] == [(score, 19)] * len(rows)
    assert len(rows) == 2 * (64 // 19)
    assert [row["mean"] for row in run.evals()] == [score] * len(run.evals())
    assert len(run.evals()) >= 2
    assert srl.evaluate(run.agent, episodes=2, seed=0, env=lambda: Game(41, (17, 30))).returns.tolist() == [score] * 2


@needs_ale
def test_a_real_game_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    options = {**SMALL, "eval_freq": 0, "checkpoint_freq": 128, "n_steps": 64}
    small = {"name": "ResizeObservation", "kwargs": {"shape": [12, 12]}}
    wrap: dict[str, Any] = {"wrappers": [small], "screen_size": 0}
    for name, callback in (("whole", None), ("stopped", stop_at(300))):
        run_dir = tmp_path / name
        srl.train("ppo", "ALE/Breakout-v5", total_timesteps=512, callback=callback, run_dir=run_dir, **options, **wrap)
    srl.resume(tmp_path / "stopped", say=lambda notice: None)
    assert first_difference(tmp_path / "whole", tmp_path / "stopped") is None


def test_wrappers_by_name_remember_nothing_from_one_evaluation_to_the_next() -> None:
    agent = srl.PPO("Pendulum-v1", **SMALL, wrappers=["support.own_wrappers:Averages"])
    assert agent.env_factory is not None
    evaluator = Evaluator(agent.env_factory, [1, 2, 3])
    returns = [evaluator(agent.policy).returns.tolist() for _ in range(3)]
    evaluator.close()
    assert returns[0] == returns[1] == returns[2]
    only = make_env_factory(gym.make("Pendulum-v1"), wrappers=agent.setup.settings.only if agent.setup else None)
    alone = Evaluator(only, [1])  # there is only this one, which stays
    assert [len(alone(agent.policy).returns) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("normalize", [False, True])
def test_values_are_in_the_scale_of_raw_rewards(normalize: bool) -> None:
    """The same policy learns the same from scaled rewards where advantages are normalised; its values are raw again."""
    agent = srl.PPO("CartPole-v1", **SMALL, reward_scale=0.25, normalize_reward=normalize)
    assert agent.policy.value_scale == 4.0
    agent.learn(64)
    std = 1.0 if not normalize else float(agent.loop.rewards.std)  # type: ignore[attr-defined]
    assert agent.policy.value_scale == std * 4.0
    obs = np.zeros(4, dtype=np.float32)
    raw = agent.policy.values(agent.policy.normalise({"": obs[None]})).numpy()[0]
    assert agent.value(obs) == np.float32(raw) * np.float32(std * 4.0)
