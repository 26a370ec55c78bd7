"""What a policy is not: another network, of other actions. And parts of an observation by any name."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs
from torch import Tensor, nn

import steadyrl as srl
from steadyrl.training import state
from support.trees import VECTOR, Sampler

OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 8, "batch_size": 8, "n_epochs": 1},
    "dqn": {"learning_starts": 6, "batch_size": 4, "buffer_size": 40, "head": "c51"},
}
ENV = partial(Sampler, VECTOR)


def agent_of(algo: str, env: Any = ENV, **more: Any) -> Any:
    cls = {"ppo": srl.PPO, "dqn": srl.DQN}[algo]
    return cls(env, preset="none", net_arch=(8,), vec="sync", **OPTIONS[algo], **more)


@pytest.mark.parametrize(
    ("algo", "change"),
    [
        *(("ppo", change) for change in (
            {"net_arch": (4,)}, {"activation_fn": "relu"}, {"layer_norm": True}, {"normalize_obs": True},
            {"recurrent": "lstm"}, {"use_sde": True}, {"log_std_init": -1.0}, {"squash_output": True},
        )),
        *(("dqn", change) for change in ({"head": "mean"}, {"dueling": True}, {"v_min": -1.0}, {"n_atoms": 11})),
    ],
    ids=str,
)  # fmt: skip
def test_another_network_is_refused_when_a_policy_goes_on(algo: str, change: dict[str, Any], tmp_path: Path) -> None:
    agent = agent_of(
        algo, partial(Sampler, VECTOR, gs.Box(-1.0, 1.0, (1,)) if {"use_sde", "squash_output"} & set(change) else None)
    )
    env = agent.setup.source
    path = agent.save(tmp_path / "policy")
    for call in (partial(srl.load, path), agent.set_env):
        with pytest.raises(srl.UserError, match="another one than the policy was made with") as refused:
            call(env=_made_as(agent), **change)
        assert next(iter(change)) in refused.value.message
    assert agent.setup.source is env


def _made_as(agent: Any) -> Any:
    return partial(Sampler, agent.observation_space, agent.action_space)


def test_what_is_no_matter_of_the_network_may_change(tmp_path: Path) -> None:
    path = agent_of("ppo").save(tmp_path / "policy")
    agent = srl.load(path, env=ENV, learning_rate=1e-4, n_steps=16, num_envs=2).learn(32)
    assert agent.num_timesteps == 32
    path = agent_of("dqn").save(tmp_path / "dqn")
    config: Any = srl.load(path, env=ENV, exploration_final_eps=0.3).setup.resolved.config  # type: ignore[union-attr]
    assert config.exploration_final_eps == 0.3


@pytest.mark.parametrize("other", [gs.Discrete(3), gs.Discrete(2, start=5), gs.Box(-1.0, 1.0, (1,))], ids=str)
def test_a_policy_of_other_actions_is_not_evaluated(other: gs.Space[Any]) -> None:
    agent, env = agent_of("ppo"), partial(Sampler, VECTOR, other)
    with pytest.raises(srl.UserError, match=r"The action space of .* is not the one the policy was made for"):
        srl.evaluate(agent, 2, env=env)
    with pytest.raises(srl.UserError, match=r"The action space of .* is not the one the policy was made for"):
        agent.learn(8, eval_env=gym.vector.SyncVectorEnv([env] * 2))


@pytest.mark.parametrize("name", ["tensor", "tensor_", "tensor__", "other"])
def test_an_observation_of_one_part_of_any_name_is_resumed(name: str, tmp_path: Path) -> None:
    env = partial(Sampler, gs.Dict({name: VECTOR}))
    agent = agent_of("ppo", env, checkpoint_freq=8)
    agent.learn(16, run_dir=tmp_path / "run")
    kept = state.training_state(agent, agent.loop.venv.ability())
    fresh = agent_of("ppo", env)
    state.restore_training(fresh, kept)
    assert fresh.learn(8).policy.sha256() == agent.learn(8).policy.sha256()


def test_other_texts_and_pictures_can_be_told_apart_in_the_error(tmp_path: Path) -> None:
    path = agent_of("ppo", partial(Sampler, gs.Text(5, charset="abc"))).save(tmp_path / "text")
    with pytest.raises(srl.UserError) as refused:
        srl.load(path, env=partial(Sampler, gs.Text(5, charset="abd")))
    mine, theirs = (line.split(": ", 1)[1].strip() for line in refused.value.message.splitlines()[1:3])
    assert mine != theirs
    pictures = partial(Sampler, gs.Box(0, 255, (8, 8, 8), np.uint8))
    path = agent_of("ppo", pictures, image_layout="hwc").save(tmp_path / "picture")
    with pytest.raises(srl.UserError) as refused:
        srl.load(path, env=pictures, image_layout="chw")
    mine, theirs = (line.split(": ", 1)[1].strip() for line in refused.value.message.splitlines()[1:3])
    assert mine != theirs


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize(
    ("own", "other"),
    [
        (VECTOR, gs.Box(-1.0, 1.0, (4,))),
        (gs.Discrete(3), gs.Discrete(9, start=2)),
        (gs.Text(4, charset="abc"), gs.Text(4, charset="abd")),
        (gs.Box(0, 255, (8, 9, 3), np.uint8), gs.Box(0.0, 1.0, (8, 9, 3))),
        (gs.Dict({"a": VECTOR}), gs.Dict({"b": VECTOR})),
    ],
    ids=["shape", "values", "characters", "picture", "keys"],
)
def test_a_policy_of_other_observations_is_not_evaluated(own: Any, other: Any, vector: bool) -> None:
    agent, env = agent_of("ppo", partial(Sampler, own)), partial(Sampler, other)
    made: Any = gym.vector.SyncVectorEnv([env] * 2) if vector else env
    with pytest.raises(srl.UserError, match=r"The observation space of .* is not the one the policy was made for"):
        srl.evaluate(agent, 2, env=made)


class Nodes(nn.Module):
    """How many nodes a graph has."""

    shape = (1,)

    @staticmethod
    def to_array(value: Any) -> Any:
        return [len(value.nodes)]

    def __init__(self, leaf: Any) -> None:
        super().__init__()
        self.features = 1

    def forward(self, obs: Tensor) -> Tensor:
        return obs


@pytest.mark.parametrize(
    ("space", "options"),
    [
        (gs.Box(0, 255, (8, 8, 8), np.uint8), {"image_layout": "chw"}),
        (gs.Tuple([gs.Box(0, 255, (8, 8, 8), np.uint8)] * 2), {"image_layout": {"0": "chw", "1": "hwc"}}),
        (gs.Sequence(gs.Discrete(3)), {"sequence_length": 40}),
        (gs.Graph(gs.Box(0.0, 1.0, (1,)), None), {"encoders": {"": Nodes}}),
    ],
    ids=["layout", "layouts", "length", "own"],
)
@pytest.mark.parametrize("vector", [False, True])
def test_what_the_policy_decided_holds_in_evaluations_too(space: Any, options: dict[str, Any], vector: bool) -> None:
    agent, env = agent_of("ppo", partial(Sampler, space), **options), partial(Sampler, space)
    made: Any = gym.vector.SyncVectorEnv([env] * 2) if vector else env
    assert srl.evaluate(agent, 2, env=made).returns.tolist() == [9.0, 9.0]
