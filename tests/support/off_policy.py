"""Policies, minibatches and environments for the off-policy algorithms, and their mathematics once more in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces as gs
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn

import steadyrl as srl
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.architecture import Architecture
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.training.agent import Agent
from steadyrl.training.off_policy import OffPolicyLoop
from support.envs import ConstantReward
from support.policies import CPU, VECTOR
from support.training_envs import PaysVector

Floats = npt.NDArray[np.float64]

BOX = gs.Box(np.array([-2.0, 0.0], dtype=np.float32), np.array([0.0, 100.0], dtype=np.float32))
THREE = gs.Discrete(3, start=-1)
FAMILIES: dict[str, tuple[gs.Space[Any], dict[str, Any]]] = {
    "dqn": (THREE, {"family": "dqn"}),
    "dueling": (THREE, {"family": "dqn", "dueling": True}),
    "c51": (THREE, {"family": "dqn", "head": "c51", "outputs": 5, "v_min": -2.0, "v_max": 2.0}),
    "quantile": (THREE, {"family": "dqn", "head": "quantile", "outputs": 4}),
    "td3": (BOX, {"family": "td3", "n_critics": 2}),
    "sac": (BOX, {"family": "sac", "n_critics": 2}),
    "sac-gsde": (BOX, {"family": "sac", "n_critics": 2, "use_sde": True, "log_std_init": -1.0}),
    "sac-discrete": (THREE, {"family": "sac", "n_critics": 2}),
}


def architecture(family: str, net_arch: tuple[int, ...] = (8,), **options: Any) -> Architecture:
    """A small network of this family."""
    kind = FAMILIES[family][1] | options
    names = ("qf",) if kind["family"] == "dqn" else ("pi", "qf")
    return Architecture(dict.fromkeys(names, net_arch), "tanh", **kind)


def off_policy(
    family: str, *, obs: gs.Space[Any] = VECTOR, seed: int = 0, net_arch: tuple[int, ...] = (8,), **options: Any
) -> Policy:
    """A policy of this family with initial weights from this seed."""
    obs_spec, action_spec = ObsSpec.of(obs), ActionSpec.of(FAMILIES[family][0])
    policy = Policy(obs_spec, action_spec, architecture(family, net_arch, **options), None, CPU)
    policy.net.initialise(Stream(seed, "weights"))  # type: ignore[call-arg]
    return policy


def transitions(policy: Policy, n: int, seed: int = 0, *, done: float = 0.3) -> ReplayBatch:
    """n transitions with random contents, weights and discounts."""
    stream = Stream(seed, "transitions")
    width = policy.obs_spec.leaves[0].size
    spec = policy.action_spec
    discrete = spec.kind == "discrete"
    actions = stream.integers(0, spec.nvec[0], (n,)) if discrete else 2 * stream.uniform((n, spec.size)) - 1
    return ReplayBatch(
        {"": torch.from_numpy(stream.normal((n, width)))},
        torch.from_numpy(actions),
        torch.from_numpy(stream.normal((n,))),
        {"": torch.from_numpy(stream.normal((n, width)))},
        torch.from_numpy(stream.uniform((n,)) < done),
        torch.from_numpy(0.9 ** stream.integers(1, 4, (n,)).astype(np.float32)).to(torch.float32),
        torch.from_numpy(0.5 + stream.uniform((n,)) / 2),
        torch.arange(n),
    )


class Source:
    """Hands out minibatches and keeps the TD errors that come back."""

    def __init__(self, batches: Iterator[ReplayBatch]) -> None:
        self._batches = batches
        self.errors: list[Tensor] = []
        self.given: list[ReplayBatch] = []

    def sample(self, batch_size: int) -> ReplayBatch:
        self.given.append(next(self._batches))
        return self.given[-1]

    def update_priorities(self, batch: ReplayBatch, td_errors: Tensor) -> None:
        assert batch is self.given[-1]
        self.errors.append(td_errors)


def source_of(policy: Policy, n: int = 6, *, seed: int = 0) -> Source:
    """Endless minibatches of n."""
    return Source(transitions(policy, n, seed + i) for i in range(10**6))


def parameters(module: nn.Module) -> Floats:
    """Every weight of a module, flat, as a copy in float64."""
    return np.concatenate([p.detach().numpy().astype(np.float64).ravel() for p in module.parameters()])


def linears(module: nn.Module) -> list[tuple[Floats, Floats]]:
    """Weight and bias of each linear layer, in order, float64."""
    return [
        (layer.weight.detach().numpy().astype(np.float64), layer.bias.detach().numpy().astype(np.float64))
        for layer in module.modules()
        if isinstance(layer, nn.Linear)
    ]


def tanh_mlp(layers: list[tuple[Floats, Floats]], x: Floats) -> Floats:
    """A network of linear layers with tanh between them."""
    for weight, bias in layers[:-1]:
        x = np.tanh(x @ weight.T + bias)
    weight, bias = layers[-1]
    return np.asarray(x @ weight.T + bias)


def numbers(tensor: Tensor) -> Floats:
    """As float64."""
    return np.asarray(tensor.detach().numpy().astype(np.float64))


def numeric_gradient(function: Callable[[Floats], float], at: Floats, step: float = 1e-6) -> Floats:
    """Central differences of a scalar function."""
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        ahead, behind = at.copy(), at.copy()
        ahead[index] += step
        behind[index] -= step
        gradient[index] = (function(ahead) - function(behind)) / (2 * step)
    return gradient


def plain_adam(parameters: Floats, gradients: list[Floats], lr: float) -> Floats:
    """Adam's steps (arXiv:1412.6980, algorithm 1)."""
    mean, square = np.zeros_like(parameters), np.zeros_like(parameters)
    for t, gradient in enumerate(gradients, start=1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        parameters = parameters - lr * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    return parameters


class PaysForMoving(ConstantReward):
    """`ConstantReward` with a continuous action, on bounds that are not symmetric."""

    def __init__(self, horizon: int = 7) -> None:
        super().__init__(horizon)
        self.action_space = gs.Box(-2.0, 0.0, (1,), np.float32)  # type: ignore[assignment]


class PaysVectorForMoving(PaysVector):
    """`PaysVector` with continuous actions."""

    def __init__(self, mode: AutoresetMode, num_envs: int = 2, length: int = 7) -> None:
        super().__init__(mode, num_envs, length)
        self.single_action_space = gs.Box(-2.0, 0.0, (1,), np.float32)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)


AGENTS: dict[str, tuple[Callable[..., Agent], dict[str, Any]]] = {
    "dqn": (srl.DQN, {"train_freq": 1, "target_update_interval": 20}),
    "ddpg": (srl.DDPG, {}),
    "td3": (srl.TD3, {}),
    "sac": (srl.SAC, {}),
}
QUICK: dict[str, Any] = {
    "preset": "none",
    "net_arch": (8,),
    "buffer_size": 2000,
    "learning_starts": 20,
    "batch_size": 16,
    "log_interval": 100,
}


def agent_of(algo: str, env: Any, **options: Any) -> Agent:
    """A small agent that learns at every step."""
    make, settings = AGENTS[algo]
    return make(env, **{**QUICK, **settings, **options})


def loop_of(agent: Agent) -> OffPolicyLoop:
    """Its loop, of the type that it has."""
    assert isinstance(agent.loop, OffPolicyLoop)
    return agent.loop
