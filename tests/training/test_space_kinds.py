"""Every kind of leaf in every place: trained, saved, loaded, asked, one observation and many."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn

import steadyrl as srl
from steadyrl.errors import NonFiniteError, UserError
from steadyrl.spaces import ActionTree, Leaf
from steadyrl.training.agent import Agent
from support.trees import ACTION_TREE, ACTIONS, LEAVES, PLACES, VECTOR, Sampler, drawn, equal

N = 2
ON: dict[str, Any] = {"n_steps": 12, "num_envs": N, "net_arch": (8,), "eval_freq": 0, "preset": "none", "seed": 1}
OFF: dict[str, Any] = {
    "num_envs": N, "learning_starts": 8, "batch_size": 4, "buffer_size": 40, "net_arch": (8,), "eval_freq": 0,
    "preset": "none", "seed": 1,
}  # fmt: skip
PPO = {**ON, "batch_size": 8, "n_epochs": 2, "normalize_obs": True}


def trained(agent: Agent, steps: int = 30) -> Agent:
    """The agent after updates that changed every weight to a finite one."""
    before = agent.policy.sha256()
    agent.learn(steps)
    assert agent.policy.sha256() != before
    assert all(bool(torch.isfinite(tensor).all()) for tensor in agent.policy.state_dict().values())
    agent.close()
    return agent


def insist_on_the_same(agent: Agent, folder: Path, observation: gs.Space[Any], action: gs.Space[Any]) -> None:
    """A saved policy acts as before, in actions of the environment, on one observation as on many."""
    loaded = srl.load(agent.save(folder / "policy"))
    rows = [drawn(observation, seed) for seed in range(3)]
    batch = agent.policy.obs_spec.tree.batch(rows)
    many = loaded.predict(batch, deterministic=True)[0]
    for i, row in enumerate(rows):
        alone = agent.predict(row, deterministic=True)[0]
        assert action.contains(alone), f"{alone!r} is not in {action}"
        assert equal(loaded.predict(row, deterministic=True)[0], alone)
        # PyTorch's convolutions round otherwise in another batch.
        for one, own in zip(leaves_of(agent, many, i), leaves_of(agent, alone), strict=True):
            np.testing.assert_allclose(one, own, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loaded.value(batch), [agent.value(row) for row in rows], rtol=1e-4, atol=1e-5)


def leaves_of(agent: Agent, action: Any, row: int | None = None) -> list[Any]:
    spec = agent.policy.action_spec
    parts = spec.tree.flat(action).values() if isinstance(spec, ActionTree) else [action]
    return [part if row is None else part[row] for part in parts]


@pytest.mark.parametrize(("leaf", "place"), list(product(LEAVES, PLACES)))
def test_ppo_on_every_leaf_in_every_place(leaf: str, place: str, tmp_path: Path) -> None:
    space = PLACES[place](LEAVES[leaf])
    agent = trained(srl.PPO(partial(Sampler, space), **PPO))
    insist_on_the_same(agent, tmp_path, space, gs.Discrete(2))


@pytest.mark.parametrize("leaf", LEAVES)
def test_a2c_dqn_and_sac_on_every_leaf(leaf: str, tmp_path: Path) -> None:
    space = PLACES["nested"](LEAVES[leaf])
    for make, action in ((srl.A2C, ACTION_TREE), (srl.DQN, ACTIONS["discrete"]), (srl.SAC, gs.Box(-2.0, 0.0, (2,)))):
        options = {**ON, "n_steps": 5} if make is srl.A2C else OFF
        agent = trained(make(partial(Sampler, space, action), **options))
        insist_on_the_same(agent, tmp_path, space, action)


@pytest.mark.parametrize(("leaf", "place"), list(product(ACTIONS, PLACES)))
def test_every_action_in_every_place(leaf: str, place: str, tmp_path: Path) -> None:
    """Case 1 and case 16 for trees: `Sampler` refuses what is not in its action space."""
    action = PLACES[place](ACTIONS[leaf])
    env = Sampler(action=action)
    agent = trained(srl.PPO(env, **{**PPO, "num_envs": 1}))
    assert len(env.taken) == 30
    insist_on_the_same(agent, tmp_path, VECTOR, action)


@pytest.mark.parametrize("algo", [srl.DQN, srl.SAC, srl.TD3, srl.DDPG])
def test_others_refuse_actions_with_parts_in_a_sentence(algo: Any) -> None:
    with pytest.raises(UserError, match="Dict or Tuple") as caught:
        algo(partial(Sampler, VECTOR, ACTION_TREE), **OFF)
    assert "PPO" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    "observation", [PLACES["nested"](LEAVES["image"]), PLACES["tuple"](LEAVES["text"])], ids=["array", "sent"]
)
def test_every_backend_gives_the_same_bits(observation: gs.Space[Any]) -> None:
    """Ours in one process and in two, and Gymnasium's own vector environment in its three modes of autoreset."""
    make = partial(Sampler, observation, ACTION_TREE)
    hashes = {}
    for vec in ("sync", "async"):
        agent = trained(srl.PPO(make, vec=vec, **PPO))
        hashes[vec] = agent.policy.sha256()
    assert hashes["sync"] == hashes["async"]
    options = {name: value for name, value in PPO.items() if name != "num_envs"}
    theirs = SyncVectorEnv([make] * N, autoreset_mode=AutoresetMode.SAME_STEP)
    assert trained(srl.PPO(theirs, **options)).policy.sha256() == hashes["sync"]


def test_spaces_are_untouched_and_images_left_alone() -> None:
    """Case 17, with the image in a tree."""
    space = gs.Dict({"eye": gs.Tuple((LEAVES["image"],)), "v": VECTOR})
    env = Sampler(space)
    before = repr(env.observation_space)
    agent = trained(srl.PPO(env, **{**PPO, "num_envs": 1}))
    assert env.observation_space is space
    assert repr(space) == before
    normalizer = agent.policy.normalizer
    assert normalizer is not None
    assert set(normalizer.statistics) == {"v"}
    obs = agent.policy.obs_spec.store(drawn(space, 0), batch=False)
    assert agent.policy.normalise(obs)["eye/0"] is obs["eye/0"]
    assert obs["eye/0"].dtype == np.uint8


@pytest.mark.parametrize("name", ["Blackjack-v1", "Taxi-v4", "CliffWalking-v1", "FrozenLake-v1"])
def test_toy_text_trains(name: str) -> None:
    """Case 16: integer and tuple observations, four environments."""
    if name not in gym.registry:
        pytest.skip(f"{name} is not in this Gymnasium")
    trained(srl.PPO(name, **{**PPO, "num_envs": 4, "normalize_obs": False}), 48)


class Broken(Sampler):
    """Pays NaN in its fifth step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if self.t == 5 else reward, *rest


def test_actions_with_parts_are_kept_beside_a_bad_number() -> None:
    agent = srl.PPO(partial(Broken, PLACES["nested"](LEAVES["text"]), ACTION_TREE), **PPO)
    with pytest.raises(NonFiniteError, match="nan as its reward in step 5") as caught:
        agent.learn(30)
    assert caught.value.batch is not None
    assert {"actions/move", "actions/arm/0", "actions/arm/1", "observation/a/0/b"} <= caught.value.batch.keys()
    assert all(array.dtype.names is None for array in caught.value.batch.values())


class Nodes(nn.Module):
    """Counts the nodes of a graph, and adds up what they hold."""

    shape = (2,)

    @staticmethod
    def to_array(value: Any) -> Any:
        return np.array([len(value.nodes), value.nodes.sum()])

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.features = 4
        self.layer = nn.Linear(2, 4)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.layer(obs).relu()
        return found


OWN: dict[str, tuple[gs.Space[Any], str]] = {
    "graph": (gs.Dict({"g": gs.Graph(gs.Box(0, 1, (1,)), None), "v": VECTOR}), "g"),
    "graph-alone": (gs.Graph(gs.Box(0, 1, (1,)), None), ""),
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("vec", ["sync", "async"])
def test_an_own_encoder_takes_what_the_library_does_not(name: str, vec: str, tmp_path: Path) -> None:
    space, path = OWN[name]
    with pytest.raises(UserError, match="Graph") as refused:
        srl.PPO(partial(Sampler, space), **PPO)
    assert f"encoders={{{path!r}: MyEncoder}}" in (refused.value.remedy or "")
    encoders = {path: Nodes}
    agent = trained(srl.PPO(partial(Sampler, space), vec=vec, encoders=encoders, **PPO))
    file = agent.save(tmp_path / "own")
    with pytest.raises(UserError, match="Nodes, which no file holds") as missing:
        srl.load(file)
    assert f"encoders={{{path!r}: Nodes}}" in (missing.value.remedy or "")
    loaded = srl.load(file, encoders=encoders)
    obs = drawn(space, 3)
    assert loaded.predict(obs, deterministic=True)[0] == agent.predict(obs, deterministic=True)[0]
    with pytest.raises(UserError, match="without an encoder"):
        srl.load(file, encoders={**encoders, "other": Nodes})
    again = srl.load(file, env=partial(Sampler, space), encoders=encoders)
    trained(again)


def test_what_is_no_encoder_is_refused() -> None:
    for given in (Nodes, {"v": Nodes(Leaf("v", "box", (2,), "float32"))}, {3: Nodes}):
        with pytest.raises(UserError, match="not a dictionary of classes"):
            srl.PPO(partial(Sampler, VECTOR), encoders=given, **PPO)
