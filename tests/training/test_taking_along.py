"""What goes with a policy into another environment, by the same rule in `load`, `set_env` and `evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv

import steadyrl as srl
from steadyrl.errors import UserError
from steadyrl.training.agent import Agent
from steadyrl.training.events import Event
from support.masked import Masked

SMALL: dict[str, Any] = {
    "preset": "none", "n_steps": 16, "num_envs": 2, "batch_size": 32, "net_arch": (8,), "vec": "sync", "seed": 2,
    "eval_episodes": 2,
}  # fmt: skip
WRAPPED: dict[str, Any] = {"frame_stack": 2, "wrappers": [{"name": "support.own_wrappers:Halves", "kwargs": {}}]}


TIMED: dict[str, Any] = {"time_in_obs": True, "max_episode_steps": 50}
PENDULUM = "Pendulum-v1"


class Unlimited(PendulumEnv):
    """Ends by a limit of its training only."""


def length(env: gym.Env[Any, Any]) -> tuple[int, float]:
    """Steps of an episode, and the last number of what is observed after the tenth of them."""
    env.reset(seed=0)
    steps, tenth, over = 0, 0.0, False
    while not over and steps < 250:
        obs, _, terminated, truncated, _ = env.step(np.zeros(1, dtype=np.float32))
        steps, over = steps + 1, terminated or truncated
        tenth = float(obs[-1]) if steps == 10 else tenth
    env.close()
    return steps, tenth


def given(agent: srl.PPO, way: str, env: Any, tmp_path: Path, **options: Any) -> gym.Env[Any, Any]:
    """One environment of those that a policy gets by `load`, by `set_env` after it or from the agent itself."""
    path = agent.save(tmp_path / "agent")
    if way == "load":
        return srl.load(path, env=env, **options).make_env()
    other: Any = srl.load(path) if way == "set_env after load" else agent
    other.set_env(env, **options)
    made: gym.Env[Any, Any] = other.make_env()
    return made


WAYS = ["load", "set_env after load", "set_env"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("trained", "later", "expected"),
    [
        # The same by name: its limit stays. Another one, and a function without a name, have their own.
        ((PENDULUM, {"max_episode_steps": 50}), PENDULUM, 50),
        ((Unlimited, {"max_episode_steps": 50}), Unlimited, 50),
        ((Unlimited, {"max_episode_steps": 50}), PENDULUM, 200),
        ((PENDULUM, {"max_episode_steps": 50}), lambda: gym.make(PENDULUM), 200),
        # Of which a share is observed: it stays everywhere.
        ((PENDULUM, TIMED), PENDULUM, 50),
        ((PENDULUM, TIMED), lambda: Unlimited(), 50),
        ((Unlimited, TIMED), PENDULUM, 50),
        ((PENDULUM, TIMED), lambda: gym.make(PENDULUM), 50),
        # Also the environment's own, in steps of the policy.
        ((PENDULUM, {"time_in_obs": True}), Unlimited, 200),
        ((PENDULUM, {"time_in_obs": True, "action_repeat": 4}), Unlimited, 50),
    ],
)
def test_a_time_limit_stays_where_the_policy_knows_it(
    trained: Any, later: Any, expected: int, way: str, tmp_path: Path
) -> None:
    agent = srl.PPO(trained[0], **SMALL, **trained[1])
    steps, tenth = length(given(agent, way, later, tmp_path))
    assert steps == expected
    if "time_in_obs" in trained[1]:
        assert tenth == np.float32(10 / expected)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_said_goes_before_what_is_brought(way: str, tmp_path: Path) -> None:
    agent = srl.PPO(PENDULUM, **SMALL, **TIMED)
    assert length(given(agent, way, PENDULUM, tmp_path, max_episode_steps=20))[0] == 20


@pytest.mark.parametrize("way", WAYS)
def test_an_object_keeps_the_limit_that_its_maker_gave_it(way: str, tmp_path: Path) -> None:
    one = {**SMALL, "num_envs": 1, "batch_size": 16}
    agent = srl.PPO(PENDULUM, **one, max_episode_steps=50)
    assert length(given(agent, way, gym.make(PENDULUM), tmp_path))[0] == 200
    timed = srl.PPO(PENDULUM, **one, **TIMED)
    assert length(given(timed, way, gym.make(PENDULUM), tmp_path))[0] == 50
    with pytest.raises(UserError, match="max_episode_steps is 50, but Pendulum-v1 already has a TimeLimit of 30"):
        srl.load(timed.save(tmp_path / "timed"), env=gym.make(PENDULUM, max_episode_steps=30))


@pytest.mark.parametrize("way", WAYS)
def test_arguments_stay_in_the_same_environment_only(way: str, tmp_path: Path) -> None:
    agent = srl.PPO("FrozenLake-v1", **SMALL, env_kwargs={"map_name": "8x8"})
    assert given(agent, way, "FrozenLake-v1", tmp_path).observation_space == gym.spaces.Discrete(64)
    assert given(agent, way, "FrozenLake8x8-v1", tmp_path).observation_space == gym.spaces.Discrete(64)
    with pytest.raises(UserError, match="is not the one the policy was made for"):
        given(agent, way, "FrozenLake-v1", tmp_path, env_kwargs={})


@pytest.mark.parametrize("way", WAYS)
def test_wrappers_go_along_into_whatever_is_wrapped(way: str, tmp_path: Path) -> None:
    for env in ("CartPole-v1", lambda: gym.make("CartPole-v1")):
        agent = srl.PPO("CartPole-v1", **SMALL, **WRAPPED)
        assert given(agent, way, env, tmp_path).observation_space.shape == (8,)
    path = agent.save(tmp_path / "agent")
    loaded = srl.load(path)
    loaded.set_env("CartPole-v1")
    assert srl.load(loaded.save(tmp_path / "again")).bundle().about["wrappers"] == WRAPPED


def test_a_loaded_policy_is_evaluated_as_the_agent_was(tmp_path: Path) -> None:
    wrap: dict[str, Any] = {"action_repeat": 4, "reward_scale": 0.1, "max_episode_steps": 20, "frame_stack": 2}
    agent = srl.PPO(PENDULUM, **SMALL, **wrap)
    path = agent.save(tmp_path / "agent")
    expected = srl.evaluate(agent, episodes=2)
    assert expected.lengths.tolist() == [20, 20]
    for loaded, env in ((srl.load(path), PENDULUM), (srl.load(path, env=PENDULUM), None), (agent, PENDULUM)):
        np.testing.assert_array_equal(srl.evaluate(loaded, episodes=2, env=env).returns, expected.returns)
    # Another environment has its own limit: 200 of its steps are 50 of the policy.
    assert srl.evaluate(srl.load(path), episodes=1, env=lambda: gym.make(PENDULUM)).lengths.tolist() == [50]


def test_masks_that_were_off_stay_off(tmp_path: Path) -> None:
    class Lenient(Masked):
        def step(self, action: Any) -> Any:
            return super().step(int(self.masks[-1].argmax()))

    agent = srl.PPO(Lenient, **SMALL, action_masks="off", action_repeat=2)
    path = agent.save(tmp_path / "agent")
    for make in (Lenient, lambda: Lenient()):
        loaded = srl.load(path, env=make)
        loaded.learn(32)
        assert not loaded.policy.masked
        assert srl.evaluate(loaded, episodes=1).lengths.tolist() == [3]
        again = srl.load(loaded.save(tmp_path / "again"))
        again.set_env(make)
        again.learn(32)
        assert again.bundle().about["action_masks"] == "off"
    assert (
        srl.load(path, env=Masked, action_masks="auto", action_repeat=1).require_setup().settings.action_masks == "auto"
    )


def test_masks_that_were_not_found_are_looked_for_elsewhere(tmp_path: Path) -> None:
    """`auto` that became off is no wish: the next environment is asked again, after a resumed run as well."""

    def stop(event: Event) -> bool | None:
        return False if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= 40 else None

    options = {**SMALL, "run_dir": tmp_path / "run", "eval_freq": 0, "checkpoint_freq": 32}
    run = srl.train("ppo", "CartPole-v1", total_timesteps=96, callback=stop, **options)
    assert run.config["settings"]["action_masks"] == "off"
    before = run.agent.bundle().about
    assert "action_masks" not in before
    resumed = srl.resume(tmp_path / "run", say=lambda notice: None)
    assert "action_masks" not in resumed.agent.bundle().about
    assert resumed.agent.require_setup().asked.action_masks == "auto"


def test_an_unmasked_policy_is_evaluated_whatever_the_masks_are(tmp_path: Path) -> None:
    class Odd(Masked):
        def _info(self) -> dict[str, Any]:
            super()._info()
            self.masks[-1][:] = 1
            return {"action_mask": [np.ones(2), np.ones(3)]}

    agent = srl.PPO(Odd, **SMALL, action_masks="off")
    assert srl.evaluate(agent, episodes=1, env=Odd).lengths.tolist() == [5]
    assert srl.evaluate(srl.load(agent.save(tmp_path / "agent")), episodes=1, env=Odd).lengths.tolist() == [5]


@pytest.mark.parametrize("way", ["load", "set_env", "vector"])
def test_values_are_raw_again_once_another_scale_is_learned_from(way: str, tmp_path: Path) -> None:
    agent: Agent = srl.PPO("CartPole-v1", **SMALL, reward_scale=0.1)
    agent.learn(32)
    obs = np.zeros(4, dtype=np.float32)
    path, before = agent.save(tmp_path / "agent"), agent.value(obs)
    vector = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    if way == "set_env":
        agent.set_env("CartPole-v1", reward_scale=0.5)
    else:
        agent = srl.load(path, env=vector) if way == "vector" else srl.load(path, env="CartPole-v1", reward_scale=0.5)
    assert agent.value(obs) == before  # its weights know the old scale
    agent.learn(32)
    assert agent.policy.value_scale == (1.0 if way == "vector" else 2.0)
    vector.close()


def test_a_wrapper_from_a_file_is_found_again_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "own.py").write_text(
        "import gymnasium as gym\n\nclass Same(gym.ObservationWrapper):\n"
        "    def observation(self, obs):\n        return obs\n"
    )
    monkeypatch.chdir(tmp_path / "here")
    agent = srl.PPO("CartPole-v1", wrappers=["own.py:Same"], n_steps=8, batch_size=8, preset="none").learn(8)
    path = agent.save("policy").resolve()
    monkeypatch.chdir(tmp_path / "there")
    loaded = srl.load(path, env="CartPole-v1")
    (entry,) = loaded.require_setup().settings.wrappers
    assert entry["name"] == f"{tmp_path / 'here' / 'own.py'}:Same"
