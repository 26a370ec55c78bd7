"""Encoders as people write them: frozen, of sizes found out later, looking at values, of parts that PyTorch has."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor, nn

import steadyrl as srl
from steadyrl.spaces import Leaf
from support.trees import VECTOR, Sampler, drawn


class Layer(nn.Module):
    """One layer."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.features = 4
        self.layer: nn.Module = nn.Linear(leaf.size, 4)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.layer(obs)
        return found


class Frozen(Layer):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.requires_grad_(False)


class HalfFrozen(Frozen):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.learnt = nn.Linear(4, 4)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.learnt(super().forward(obs))
        return found


class Lazy(Layer):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.layer = nn.LazyLinear(4)


class Looking(Layer):
    """Python decides by a value, and a constant comes from NumPy."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.shift = torch.from_numpy(np.full(leaf.size, 0.5, np.float32))

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs - self.shift if obs.abs().max().item() < 1e9 else obs)


class Attentive(Layer):
    """Where PyTorch has a faster way without gradients."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.attention = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.attention(super().forward(obs).unsqueeze(1))[:, 0]
        return found


ENCODERS: list[Any] = [Frozen, HalfFrozen, Lazy, Looking, Attentive]
ACTIONS: dict[str, gs.Space[Any]] = {"ppo": gs.Discrete(2), "sac": gs.Box(-1.0, 1.0, (2,)), "dqn": gs.Discrete(2)}
OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 16, "batch_size": 8, "n_epochs": 2},
    "sac": {"learning_starts": 6, "batch_size": 4, "buffer_size": 40},
    "dqn": {"learning_starts": 6, "batch_size": 4, "buffer_size": 40},
}


def made(algo: str, encoder: Any, **more: Any) -> Any:
    env = partial(Sampler, VECTOR, ACTIONS[algo])
    cls = {"ppo": srl.PPO, "sac": srl.SAC, "dqn": srl.DQN}[algo]
    return cls(env, preset="none", seed=3, net_arch=(8,), vec="sync", encoders={"": encoder}, **OPTIONS[algo], **more)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("algo", OPTIONS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_it_trains_repeats_saves_and_loads(encoder: Any, algo: str, kernels: str, tmp_path: Path) -> None:
    agents = [made(algo, encoder, kernels=kernels).learn(24) for _ in range(2)]
    assert agents[0].policy.sha256() == agents[1].policy.sha256()
    assert agents[0].loop.counters.updates > 0
    loaded = srl.load(agents[0].save(tmp_path / "policy"), encoders={"": encoder})
    for i in range(5):
        obs = drawn(VECTOR, i)
        # A loaded policy runs on the kernels, where there are any.
        near = 0.0 if kernels == "auto" else 1e-5
        assert np.allclose(loaded.value(obs), agents[0].value(obs), rtol=near, atol=near)
        action, as_before = (agent.predict(obs, deterministic=True)[0] for agent in (loaded, agents[0]))
        assert np.allclose(action, as_before, rtol=near, atol=near)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("algo", OPTIONS)
def test_frozen_weights_stay_and_others_learn(algo: str, kernels: str) -> None:
    agent = made(algo, HalfFrozen, kernels=kernels)
    before = {name: tensor.clone() for name, tensor in agent.policy.net.state_dict().items()}
    after = agent.learn(24).policy.net.state_dict()
    frozen = {name for name in after if ".inner.layer." in name and "target" not in name}
    rest = {name for name in after if ".inner.learnt." in name and "target" not in name}
    assert frozen
    assert all(torch.equal(before[name], after[name]) for name in frozen)
    assert any(not torch.equal(before[name], after[name]) for name in rest)


def test_another_class_than_the_policy_was_made_with_is_refused(tmp_path: Path) -> None:
    class Other(Layer):
        def forward(self, obs: Tensor) -> Tensor:
            return -super().forward(obs)

    path = made("ppo", Layer).save(tmp_path / "policy")
    with pytest.raises(srl.UserError, match="encoder of '' is the class Layer, but encoders has Other"):
        srl.load(path, encoders={"": Other})
    assert srl.load(path, encoders={"": type("Layer", (Other,), {})}).policy.encoding.own


def test_a_class_that_does_not_say_how_a_leaf_is_stored_is_not_the_files_fault(tmp_path: Path) -> None:
    graph = gs.Graph(gs.Box(0.0, 1.0, (1,)), None)

    class Nodes(Layer):
        shape = (2,)

        @staticmethod
        def to_array(value: Any) -> Any:
            return [len(value.nodes), value.nodes.sum()]

    agent = srl.PPO(partial(Sampler, graph), preset="none", encoders={"": Nodes}, **OPTIONS["ppo"])
    path = agent.save(tmp_path / "policy")
    shapeless = type("Nodes", (Layer,), {})
    with pytest.raises(srl.UserError, match="The encoder at '' does not say how its leaf is stored"):
        srl.load(path, encoders={"": shapeless})
