"""What is looked for at an agent is there, or is answered with what takes its place."""

from typing import Any

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
