"""Policies, batches and loops that are quick to make."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces as gs
from torch import Tensor

from steadyrl.data.rollout import RolloutBatch
from steadyrl.nn.architecture import Architecture
from steadyrl.nn.normalizer import ObsNormalizer
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds, Stream
from steadyrl.spaces import ActionSpec, ObsSpec

CPU = torch.device("cpu")
VECTOR = gs.Box(-np.inf, np.inf, (3,))
TREE = gs.Dict(
    {
        "position": gs.Box(-np.inf, np.inf, (2,)),
        "room": gs.Discrete(3, start=-1),
        "wheels": gs.MultiDiscrete([2, 3]),
        "doors": gs.MultiBinary(2),
        "image": gs.Box(0, 255, (2, 2), np.uint8),
    }
)
ACTIONS: dict[str, tuple[gs.Space[Any], dict[str, Any]]] = {
    "categorical": (gs.Discrete(3, start=-1), {}),
    "multi-categorical": (gs.MultiDiscrete(np.array([[2], [3]])), {}),
    "bernoulli": (gs.MultiBinary((2, 2)), {}),
    "gaussian": (gs.Box(np.array([-1.0, 0.0]), np.array([1.0, 100.0]), dtype=np.float64), {}),
    "unbounded": (gs.Box(-np.inf, np.inf, (2,)), {}),
    "tanh": (gs.Box(-2.0, 0.0, (2,)), {"squash_output": True}),
    "gsde": (gs.Box(-2.0, 0.0, (2,)), {"use_sde": True}),
    "tanh-gsde": (gs.Box(-2.0, 0.0, (2,)), {"squash_output": True, "use_sde": True}),
}


def make_policy(
    obs: gs.Space[Any] = VECTOR,
    action: gs.Space[Any] | None = None,
    *,
    net_arch: tuple[int, ...] = (8,),
    normalize_obs: bool = False,
    seed: int = 0,
    native: bool = False,
    **options: Any,
) -> Policy:
    """A policy with initial weights from this seed; a normaliser has seen 20 observations."""
    obs_spec = ObsSpec.of(obs)
    architecture: dict[str, Any] = {
        "activation_fn": "tanh",
        "log_std_init": 0.0,
        "squash_output": False,
        "use_sde": False,
    } | options
    policy = Policy(
        obs_spec,
        ActionSpec.of(gs.Discrete(2) if action is None else action),
        Architecture({"pi": net_arch, "vf": net_arch}, **architecture),
        ObsNormalizer(obs_spec) if normalize_obs else None,
        CPU,
        native=native,
    )
    policy.initialise(Stream(seed, "weights"), ortho=False)
    if policy.normalizer is not None:
        policy.normalizer.update(policy.obs_spec.store(sample(obs, 20, seed), batch=True), np.ones(20, dtype=bool))
    return policy


def sample(space: gs.Space[Any], n: int, seed: int = 0) -> Any:
    """A batch of n observations of a space."""
    space.seed(seed)
    batched = gym.vector.utils.batch_space(space, n)
    batched.seed(seed)
    return batched.sample()


def make_batch(policy: Policy, space: gs.Space[Any], n: int, seed: int = 0) -> RolloutBatch:
    """n transitions as the policy acts, with advantages and returns from a stream."""
    obs = policy.normalise(policy.obs_spec.store(sample(space, n, seed), batch=True))
    stream = Stream(seed, "batch")
    actions, log_probs, values = policy.act(obs, policy.distribution.draw(stream, n))
    advantages = torch.from_numpy(stream.normal((n,)))
    return RolloutBatch(policy.tensors(obs), actions, log_probs, values, advantages, values + advantages)


def weights(policy: Policy) -> dict[str, Tensor]:
    """A copy of the network's weights, by name."""
    return {name: tensor.clone() for name, tensor in policy.net.state_dict().items()}


def seeds(seed: int = 0) -> Seeds:
    """The root seeds of a run."""
    return Seeds(seed)
