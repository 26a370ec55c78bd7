"""The agent from the outside: what it takes, what it refuses, what it hands back."""

import gc
import os
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import steadyrl as srl
from steadyrl.training.agent import Agent
from steadyrl.training.events import EpisodeEnded, EvaluationEnded, Event, Progress
from support.envs import ConstantReward, SpaceProbe
from support.training_envs import Fast, Legs, PaysVector

SMALL: dict[str, Any] = {"preset": "none", "n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": (16,)}


def small(env: Any = "CartPole-v1", **options: Any) -> Agent:
    return srl.PPO(env, **{**SMALL, **options})


@pytest.fixture
def trained() -> Agent:
    agent = small()
    agent.learn(64)
    agent.close()
    return agent


def test_learn_gives_the_agent_back_and_goes_on_where_it_was() -> None:
    agent = small()
    assert agent.learn(10) is agent
    agent.learn(5)
    assert agent.num_timesteps == 15
    agent.close()


def test_environments_are_not_reset_between_two_calls() -> None:
    env = Fast()
    agent = small(env)
    agent.learn(7)
    agent.learn(8)
    assert env.t == 15


def test_one_environment_instance_is_used_alone_and_is_the_users_own() -> None:
    env = Fast()
    with pytest.raises(srl.UserError, match="num_envs is 4, but an environment instance was given"):
        small(env, num_envs=4)
    agent = small(env, num_envs=1)
    agent.learn(20)
    assert env.t == 20


def test_a_second_agent_may_take_over_an_instance() -> None:
    env = Fast()
    small(env).learn(7)
    small(env).learn(9)
    assert env.t == 9


def test_an_instance_that_cannot_be_made_again_is_not_evaluated_and_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events: list[Any] = []
    small(Fast(), eval_freq=16).learn(64, callback=events.append)
    assert not [event for event in events if isinstance(event, EvaluationEnded)]
    assert "There is no evaluation: this environment cannot be made a second time." in capsys.readouterr().err


def test_an_instance_with_a_specification_is_evaluated_in_another_one_made_like_it() -> None:
    env = gym.make("CartPole-v1", max_episode_steps=9)
    events: list[Any] = []
    small(env, eval_freq=32, eval_episodes=3).learn(64, callback=events.append)
    evaluations = [event for event in events if isinstance(event, EvaluationEnded)]
    assert len(evaluations) == 2
    assert max(max(event.lengths) for event in evaluations) == 9  # its own limit, not the id's
    env.close()


def test_an_eval_env_is_where_evaluation_happens() -> None:
    events: list[Any] = []
    small(Fast(), eval_episodes=3).learn(64, callback=events.append, eval_env=Fast)
    assert {event.lengths for event in events if isinstance(event, EvaluationEnded)} == {(50, 50, 50)}


def test_a_vector_environment_brings_its_own_number_and_needs_an_eval_env() -> None:
    with pytest.raises(srl.UserError, match="num_envs is 8, but a vector environment was given, which is 3"):
        small(PaysVector(AutoresetMode.SAME_STEP, num_envs=3), num_envs=8)
    agent = small(PaysVector(AutoresetMode.SAME_STEP, num_envs=3), eval_episodes=4)
    assert agent.config.num_envs == 3
    events: list[Any] = []
    agent.learn(96, eval_env=PaysVector(AutoresetMode.NEXT_STEP, num_envs=2, length=7), callback=events.append)
    evaluations = [event for event in events if isinstance(event, EvaluationEnded)]
    assert evaluations
    assert all(sorted(event.lengths) == [7, 7, 8, 8] for event in evaluations)


def test_an_agent_without_environment_predicts_but_cannot_learn(trained: Agent, tmp_path: Path) -> None:
    path = trained.save(tmp_path / "cartpole")
    assert path == tmp_path / "cartpole.srl"
    loaded = srl.load(tmp_path / "cartpole")
    assert type(loaded) is srl.PPO
    assert loaded.num_timesteps == 64
    assert loaded.config == trained.config
    assert loaded.policy.sha256() == trained.policy.sha256()
    with pytest.raises(srl.UserError, match="loaded without an environment, so it cannot learn"):
        loaded.learn(10)
    with pytest.raises(srl.UserError, match="no environment to evaluate in"):
        srl.evaluate(loaded)


@pytest.mark.parametrize("given", ["CartPole-v1", lambda: gym.make("CartPole-v1")], ids=["id", "function"])
def test_a_loaded_agent_goes_on_learning_in_an_environment(given: Any, trained: Agent, tmp_path: Path) -> None:
    before = trained.policy.sha256()
    loaded = srl.load(trained.save(tmp_path / "cartpole"), env=given)
    assert loaded.policy.sha256() == before
    loaded.learn(64)
    assert loaded.num_timesteps == 128
    assert loaded.policy.sha256() != before
    loaded.close()


def test_a_loaded_agent_may_be_given_one_environment_whatever_it_was_trained_on(tmp_path: Path) -> None:
    agent = small(num_envs=4)
    agent.learn(64)
    path = agent.save(tmp_path / "cartpole")
    for instance in (gym.make("CartPole-v1"), gym.make_vec("CartPole-v1", num_envs=2)):
        loaded = srl.load(path, env=instance)
        loaded.learn(64)
        assert loaded.num_timesteps == 128
        loaded.close()
    agent.set_env(gym.make("CartPole-v1"))
    agent.learn(16)
    assert agent.config.num_envs == 1
    agent.close()


def test_set_env_keeps_policy_count_and_settings(trained: Agent) -> None:
    before = trained.policy.sha256()
    trained.set_env("CartPole-v1", max_episode_steps=5)
    assert trained.policy.sha256() == before
    lengths: list[int] = []
    trained.learn(64, callback=lambda event: lengths.append(event.length) if isinstance(event, EpisodeEnded) else None)
    assert trained.num_timesteps == 128
    assert max(lengths) == 5
    trained.close()


def test_set_env_keeps_the_settings_of_the_run() -> None:
    agent = small(threads=2, eval_seed=7, eval_episodes=3, eval_freq=32)
    agent.set_env("CartPole-v1")
    settings = agent.require_setup().settings
    assert (settings.threads, settings.eval_seed, settings.eval_episodes, settings.eval_freq) == (2, 7, 3, 32)


@pytest.mark.parametrize(
    ("env", "role"), [(Legs, "observation"), ("MountainCarContinuous-v0", "observation"), (None, "action")]
)
def test_environments_of_other_spaces_are_refused(env: Any, role: str, trained: Agent, tmp_path: Path) -> None:
    observation = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    other = env or partial(SpaceProbe, observation, spaces.Discrete(5))
    trained.set_env("CartPole-v1")
    path = trained.save(tmp_path / "cartpole")
    with pytest.raises(srl.UserError, match=f"The {role} space of .* is not the one the policy was made for"):
        srl.load(path, env=other)
    with pytest.raises(srl.UserError, match=f"The {role} space of .* is not the one the policy was made for"):
        trained.set_env(other)
    trained.learn(16)  # as it was
    assert trained.num_timesteps == 80


@pytest.mark.parametrize("obs", [np.zeros(3), np.zeros((2, 5)), np.zeros((2, 2, 4)), 1.0])
def test_observations_of_another_shape_are_refused(obs: Any, trained: Agent) -> None:
    for call in (trained.predict, trained.value):
        with pytest.raises(srl.UserError, match=r"the policy was made for \(4,\)"):
            call(obs)


def test_predictions_are_deterministic_or_sampled(trained: Agent) -> None:
    obs = np.random.default_rng(0).normal(size=(200, 4))
    first, second = (trained.predict(obs, deterministic=True)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    sampled = [trained.predict(obs)[0] for _ in range(2)]
    assert not np.array_equal(sampled[0], sampled[1])
    assert 0.2 < sampled[0].mean() < 0.8


def test_the_state_is_handed_back_and_masks_are_refused(trained: Agent) -> None:
    state = object()
    assert trained.predict(np.zeros(4), state)[1] is state
    with pytest.raises(srl.UserError, match="action_masks were given"):
        trained.predict(np.zeros(4), action_masks=np.ones(2))


def test_predict_leaves_the_observation_alone(trained: Agent) -> None:
    agent = small(normalize_obs=True)
    obs = np.ones((2, 4), dtype=np.float32)
    agent.predict(obs)
    agent.value(obs)
    np.testing.assert_array_equal(obs, 1.0)


def test_saving_twice_gives_the_same_bytes(trained: Agent, tmp_path: Path) -> None:
    assert trained.save(tmp_path / "a").read_bytes() == trained.save(tmp_path / "b.srl").read_bytes()
    with pytest.raises(srl.UserError, match="does not exist"):
        trained.save(tmp_path / "nowhere" / "a")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"learning_rat": 1e-3}, "learning_rate"),
        ({"gamma": 2.0}, "gamma"),
        ({"n_steps": 0}, "n_steps"),
        ({"seed": -1}, "seed"),
        ({"batch_size": 10**6}, "batch_size"),
        ({"device": "cuda:7"}, "device"),
        ({"vec": "syncc"}, "vec"),
        ({"use_sde": True}, "use_sde"),
        ({"squash_output": True}, "squash_output"),
        ({"preset": "Cartpole-v1"}, "CartPole-v1"),
    ],
)
def test_bad_options_are_told_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(srl.UserError) as caught:
        small(**options)
    assert said in str(caught.value)


def test_options_without_effect_are_refused_when_loading(trained: Agent, tmp_path: Path) -> None:
    path = trained.save(tmp_path / "cartpole")
    with pytest.raises(srl.UserError, match="gamma, treads given without an environment"):
        srl.load(path, treads=2, gamma=0.5)
    with pytest.raises(srl.UserError, match="gamma"):
        srl.load(path, env="CartPole-v1", gama=0.9)


def test_learning_again_and_again_takes_no_more_memory() -> None:
    agent = small(ConstantReward, num_envs=2, eval_freq=32, eval_episodes=2)
    process = psutil.Process()

    def grown(calls: int) -> int:
        gc.collect()
        before = process.memory_info().rss
        for _ in range(calls):
            agent.learn(64)
        gc.collect()
        return process.memory_info().rss - before

    grown(10)
    objects = len(gc.get_objects())
    assert grown(30) < 4 * 2**20
    assert len(gc.get_objects()) < objects + 500
    agent.close()


def test_an_agent_that_is_dropped_is_freed() -> None:
    agent = small(Fast())
    agent.learn(32)
    network = weakref.ref(agent.policy.net)
    del agent
    gc.collect()
    assert network() is None


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 2e18, 1e300])
def test_observations_that_are_not_finite_are_refused_under_their_entry(number: float, trained: Agent) -> None:
    one, batch = np.zeros(4), np.zeros((3, 4))
    one[2] = batch[1, 2] = number
    for call in (trained.predict, trained.value):
        with pytest.raises(srl.UserError, match=r"The observation holds .* as entry 2\."):
            call(one)
        with pytest.raises(srl.UserError, match=r"The observation holds .* as entry \(1, 2\)\."):
            call(batch)


def test_an_agent_says_what_it_is(trained: Agent, tmp_path: Path) -> None:
    assert repr(trained) == "PPO(env='CartPole-v1', num_timesteps=64)"
    assert repr(srl.load(trained.save(tmp_path / "x"))) == "PPO(env=None, num_timesteps=64)"
    assert repr(srl.A2C(Fast)) == "A2C(env='Fast', num_timesteps=0)"


def test_a_closed_agent_does_not_learn_until_it_has_an_environment_again() -> None:
    for begun in (True, False):
        agent = small()
        if begun:
            agent.learn(8)
        agent.close()
        with pytest.raises(srl.UserError, match="The environments of this agent were closed"):
            agent.learn(8)
        assert agent.predict(np.zeros(4))[0].shape == ()
        agent.set_env("CartPole-v1")
        agent.learn(8)
        assert agent.num_timesteps == 8 * (1 + begun)
        agent.close()


@pytest.mark.parametrize("path", ["", None, 3, ".", "a\0b"])
def test_paths_that_name_no_file_are_refused(path: Any, trained: Agent) -> None:
    for call in (trained.save, srl.load):
        with pytest.raises(srl.UserError, match="which names no file"):
            call(path)


def test_only_files_are_loaded(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    (tmp_path / "x.srl").mkdir()
    for path, said in ((pipe, "it is no file"), (tmp_path / "x.srl", "it is a folder"), (folder, "No such file")):
        with pytest.raises(srl.UserError, match=said):
            srl.load(path)


def test_a_class_loads_what_its_own_kind_saved(trained: Agent, tmp_path: Path) -> None:
    path = trained.save(tmp_path / "cartpole")
    loaded = srl.PPO.load(path, env="CartPole-v1", gamma=0.5)
    assert type(loaded) is srl.PPO
    assert loaded.config.gamma == 0.5
    assert loaded.policy.sha256() == trained.policy.sha256()
    with pytest.raises(srl.UserError, match=r"was made by PPO, not by A2C\.\nUse steadyrl\.load or PPO\.load"):
        srl.A2C.load(path)


def test_a_policy_before_the_environment_is_answered() -> None:
    with pytest.raises(srl.UserError, match="PPO takes no policy such as 'MlpPolicy'") as caught:
        srl.PPO("MlpPolicy", "CartPole-v1")
    assert "steadyrl.PPO('CartPole-v1'" in caught.value.remedy
    with pytest.raises(srl.UserError, match="A2C takes the environment, and everything else by name"):
        srl.A2C("CartPole-v1", 1e-3)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("progress_bar", "make_display"),
        ("log_interval", "It takes total_timesteps"),
        ("eval_freq", "It belongs to the agent"),
        ("calback", "Did you mean callback?"),
        ("tb_log_name", "run_dir"),
    ],
)
def test_arguments_that_learn_does_not_have_are_answered(argument: str, said: str) -> None:
    given: dict[str, Any] = {argument: True}
    with pytest.raises(srl.UserError, match=f"learn has no argument '{argument}'") as caught:
        small().learn(16, **given)
    assert said in caught.value.remedy


def test_the_meta_device_is_refused(trained: Agent, tmp_path: Path) -> None:
    with pytest.raises(srl.UserError, match="device"):
        small(device="meta")
    with pytest.raises(srl.UserError, match="The device 'meta' cannot be used"):
        srl.load(trained.save(tmp_path / "x"), device="meta")


def test_spaces_are_told_as_gymnasium_writes_them(trained: Agent) -> None:
    with pytest.raises(srl.UserError) as caught:
        trained.set_env("Pendulum-v1")
    assert caught.value.message.endswith("\n  policy:      Box((4,), float32)\n  environment: Box((3,), float32)")


@pytest.mark.parametrize("what", ["learn", "set_env"])
def test_an_agent_that_learns_does_nothing_else_meanwhile(what: str) -> None:
    agent = srl.PPO(Fast, n_steps=8, batch_size=8, preset="none")
    told: list[str] = []

    def meanwhile(event: Event) -> None:
        if isinstance(event, Progress) and not told:
            with pytest.raises(srl.UserError, match="This agent is learning already") as refused:
                agent.learn(8) if what == "learn" else agent.set_env(Fast)
            told.append(refused.value.code)

    agent.learn(16, callback=meanwhile)
    assert (told, agent.num_timesteps) == (["busy"], 16)
    assert agent.learn(8).num_timesteps == 24
