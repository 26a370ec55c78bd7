"""What is looked for at an agent is there, or is answered with what takes its place."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import steadyrl as srl
from steadyrl.config.habits import ATTRIBUTES
from steadyrl.training.agent import Agent

SMALL: dict[str, Any] = {"preset": "none", "n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": (16,)}


@pytest.fixture
def agent() -> Agent:
    return srl.PPO("CartPole-v1", **SMALL)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_what_other_libraries_have_is_answered(name: str, agent: Agent) -> None:
    assert not hasattr(agent, name)
    with pytest.raises(AttributeError) as caught:
        getattr(agent, name)
    assert str(caught.value) == f"PPO has no attribute {name!r}. {ATTRIBUTES[name]}"


def test_what_the_answers_name_is_there(agent: Agent) -> None:
    assert agent.policy.device.type == "cpu"
    assert agent.policy.normalizer is None
    assert agent.config.num_envs == agent.loop.venv.num_envs == 1
    agent.policy.load_state_dict(agent.policy.state_dict())
    agent.close()


def test_what_nobody_has_is_refused_as_usual(agent: Agent) -> None:
    with pytest.raises(AttributeError, match=r"^'PPO' object has no attribute 'novelty'"):
        _ = agent.novelty  # type: ignore[attr-defined]


def test_what_goes_wrong_in_a_property_is_not_hidden(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Agent) -> int:
        raise AttributeError("the deeper cause")

    monkeypatch.setattr(Agent, "num_timesteps", property(broken))
    with pytest.raises(AttributeError, match=r"^the deeper cause$"):
        _ = agent.num_timesteps


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_spaces_are_those_of_the_environment(env_id: str) -> None:
    agent, env = srl.PPO(env_id, **SMALL), gym.make(env_id)
    assert agent.observation_space == env.observation_space
    assert agent.action_space == env.action_space
    agent.close()
    assert agent.action_space == env.action_space


def test_spaces_are_those_that_the_policy_sees() -> None:
    agent = srl.PPO("CartPole-v1", frame_stack=3, **SMALL)
    with agent.make_env() as env:
        assert agent.observation_space == env.observation_space
    assert agent.observation_space != gym.make("CartPole-v1").observation_space
    action, _ = agent.predict(agent.observation_space.sample())
    assert agent.action_space.contains(action)


def test_spaces_of_a_vector_are_those_of_one_environment() -> None:
    agent = srl.PPO(gym.make_vec("CartPole-v1", num_envs=2), **SMALL)
    assert agent.observation_space.shape == (4,)
    assert agent.action_space == gym.spaces.Discrete(2)
    agent.close()


def test_a_loaded_agent_has_the_spaces_of_the_environment_that_it_is_given(agent: Agent, tmp_path: Path) -> None:
    path = agent.save(tmp_path / "cartpole")
    loaded = srl.load(path)
    for name in ("observation_space", "action_space"):
        with pytest.raises(srl.UserError) as caught:
            getattr(loaded, name)
        assert caught.value.message.endswith("observations are Box((4,), float32), actions Discrete(2).")
        assert (caught.value.code, "env=" in caught.value.remedy) == ("no-env", True)
    loaded.set_env("CartPole-v1")
    assert loaded.observation_space == agent.observation_space
    assert loaded.action_space == agent.action_space
    assert srl.load(path, env="CartPole-v1").action_space == agent.action_space
