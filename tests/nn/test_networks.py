"""Encoder and networks: known outputs, the SB3 layout, initial weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor, nn

from steadyrl.errors import UserError
from steadyrl.nn.distribution_for import make_distribution
from steadyrl.nn.encoders import Encoder
from steadyrl.nn.init import BlankLinear
from steadyrl.nn.networks import ACTIVATIONS, ActorCritic, NetArch, mlp, policy_latent_dim
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec

VECTOR = gs.Box(-1.0, 1.0, (4,))
CHOICE = ActionSpec.of(gs.Discrete(3))


def tensors(spec: ObsSpec, obs: Any) -> dict[str, Tensor]:
    return {path: torch.from_numpy(leaf) for path, leaf in spec.store(obs, batch=True).items()}


def actor_critic(
    obs_space: gs.Space[Any] = VECTOR,
    action: ActionSpec = CHOICE,
    net_arch: NetArch = (8, 6),
    activation_fn: str = "tanh",
    use_sde: bool = False,
) -> ActorCritic:
    spec = ObsSpec.of(obs_space)
    latent = policy_latent_dim(spec, net_arch)
    distribution = make_distribution(action, squash=False, use_sde=use_sde, latent_dim=latent)
    return ActorCritic(spec, distribution, action, net_arch, activation_fn, log_std_init=-1.0)


def test_a_float_vector_passes_through() -> None:
    spec = ObsSpec.of(VECTOR)
    obs = torch.from_numpy(Stream(0, "obs").normal((5, 4)))
    features = Encoder(spec)({"": obs})
    assert torch.equal(features, obs)
    assert features.data_ptr() == obs.data_ptr()


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_float_leaves_are_flattened(shape: tuple[int, ...]) -> None:
    spec = ObsSpec.of(gs.Box(-1.0, 1.0, shape))
    obs = np.arange(5 * math.prod(shape), dtype=np.float32).reshape(5, *shape)
    assert Encoder(spec)(tensors(spec, obs)).tolist() == obs.reshape(5, -1).tolist()


def test_images_are_scaled() -> None:
    spec = ObsSpec.of(gs.Box(0, 255, (2, 2), np.uint8))
    features = Encoder(spec)(tensors(spec, np.array([[[0, 255], [51, 102]]], np.uint8)))
    torch.testing.assert_close(features, torch.tensor([[0.0, 1.0, 0.2, 0.4]]))


def test_integers_are_one_hot() -> None:
    spec = ObsSpec.of(gs.Discrete(3, start=5))
    assert Encoder(spec)(tensors(spec, np.array([5, 7]))).tolist() == [[1, 0, 0], [0, 0, 1]]
    spec = ObsSpec.of(gs.MultiDiscrete([2, 3], start=[0, 1]))
    features = Encoder(spec)(tensors(spec, np.array([[1, 1], [0, 3]])))
    assert features.dtype == torch.float32
    assert features.tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_dictionaries_are_concatenated_in_order() -> None:
    space = gs.Dict({"z": gs.Discrete(2), "a": gs.Box(-1.0, 1.0, (2,)), "bits": gs.MultiBinary(2)})
    spec = ObsSpec.of(space)
    obs = {"z": np.array([1]), "a": np.array([[0.5, -0.5]], np.float32), "bits": np.array([[1, 0]], np.int8)}
    encoder = Encoder(spec)
    expected = {"z": [0.0, 1.0], "a": [0.5, -0.5], "bits": [1.0, 0.0]}
    in_order = [x for leaf in spec.leaves for x in expected[leaf.path]]
    assert encoder(tensors(spec, obs)).tolist() == [in_order]
    assert encoder.features == 6
    assert not encoder.state_dict()


def test_mlp_layout() -> None:
    net = mlp(4, (8, 6), nn.ReLU)
    assert [type(layer) for layer in net] == [BlankLinear, nn.ReLU, BlankLinear, nn.ReLU]
    assert [tuple(p.shape) for p in net.parameters()] == [(8, 4), (8,), (6, 8), (6,)]
    obs = torch.ones(2, 4)
    assert mlp(4, (), nn.Tanh)(obs) is obs


@pytest.mark.parametrize("activation_fn", ACTIVATIONS)
def test_forward_equals_the_formula(activation_fn: str) -> None:
    net = actor_critic(net_arch={"pi": (8, 6), "vf": (5,)}, activation_fn=activation_fn)
    net.initialise(Stream(0, "weights"), ortho=False)
    obs = torch.from_numpy(Stream(0, "obs").normal((5, 4)))
    act = {"tanh": torch.tanh, "relu": torch.relu, "elu": nn.functional.elu, "silu": nn.functional.silu}[activation_fn]
    weights = dict(net.named_parameters())

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    latent = act(linear(act(linear(obs, "policy_trunk.0")), "policy_trunk.2"))
    (logits,), values = net({"": obs})
    torch.testing.assert_close(logits, linear(latent, "policy_head.logits"))
    torch.testing.assert_close(values, linear(act(linear(obs, "value_trunk.0")), "value_head")[:, 0])
    assert torch.equal(net.actor({"": obs})[0], logits)
    assert torch.equal(net.critic({"": obs}), values)


def test_the_two_networks_share_no_weight() -> None:
    net = actor_critic()
    net.initialise(Stream(0, "weights"), ortho=True)
    torch.autograd.backward(net.critic({"": torch.ones(2, 4)}).sum())
    touched = {name.split(".")[0] for name, p in net.named_parameters() if p.grad is not None}
    assert touched == {"value_trunk", "value_head"}


def test_an_empty_architecture_is_linear() -> None:
    net = actor_critic(net_arch=())
    assert sum(p.numel() for p in net.parameters()) == (4 * 3 + 3) + (4 + 1)
    net.initialise(Stream(0, "weights"), ortho=False)
    x, y = torch.from_numpy(Stream(0, "obs").normal((2, 1, 4)))
    zero = net.critic({"": torch.zeros(1, 4)})
    torch.testing.assert_close(net.critic({"": x + y}) + zero, net.critic({"": x}) + net.critic({"": y}))


def test_parameter_count_is_stable_baselines3s() -> None:
    """CartPole's MlpPolicy there: two trunks 4-64-64, heads of 2 and 1."""
    net = actor_critic(action=ActionSpec.of(gs.Discrete(2)), net_arch=(64, 64))
    assert sum(p.numel() for p in net.parameters()) == 2 * (4 * 64 + 64 + 64 * 64 + 64) + 65 * 2 + 65


def test_orthogonal_initial_weights() -> None:
    net = actor_critic(net_arch=(8, 8))
    net.initialise(Stream(0, "weights"), ortho=True)
    weights = dict(net.named_parameters())
    gains = {
        "policy_trunk.2": math.sqrt(2),
        "value_trunk.2": math.sqrt(2),
        "policy_head.logits": 0.01,
        "value_head": 1.0,
    }
    for name, gain in gains.items():
        weight = weights[f"{name}.weight"]
        torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(len(weight)), atol=2e-6 * gain**2, rtol=0)
    first = weights["policy_trunk.0.weight"]
    torch.testing.assert_close(first.T @ first, 2 * torch.eye(4), atol=2e-6, rtol=0)
    assert all(p.eq(0).all() for name, p in weights.items() if name.endswith("bias"))
    assert not torch.equal(weights["policy_trunk.2.weight"], weights["value_trunk.2.weight"])


@pytest.mark.parametrize("ortho", [True, False])
def test_initial_weights_follow_the_stream(ortho: bool) -> None:
    state = torch.random.get_rng_state()
    nets = [actor_critic(action=ActionSpec.of(gs.Box(-1.0, 1.0, (2,)))) for _ in range(3)]
    for net, seed in zip(nets, (0, 0, 1), strict=True):
        net.initialise(Stream(seed, "weights"), ortho)
    first, same, other = ([p.detach().reshape(-1) for p in net.parameters()] for net in nets)
    assert torch.equal(torch.cat(first), torch.cat(same))
    assert not torch.equal(torch.cat(first), torch.cat(other))
    assert nets[0].state_dict()["policy_head.log_std"].tolist() == [-1.0, -1.0]
    assert torch.equal(state, torch.random.get_rng_state())


def test_sde_latent_is_the_last_hidden_layer() -> None:
    spec, box = ObsSpec.of(VECTOR), ActionSpec.of(gs.Box(-1.0, 1.0, (2,)))
    assert policy_latent_dim(spec, {"pi": (8, 6), "vf": (3,)}) == 6
    assert policy_latent_dim(spec, ()) == 4
    for net_arch, latent in (((8, 6), 6), ((), 4)):
        net = actor_critic(action=box, net_arch=net_arch, use_sde=True)
        net.initialise(Stream(0, "weights"), ortho=True)
        (_, phi, log_std), _ = net({"": torch.ones(3, 4)})
        assert phi.shape == (3, latent)
        assert log_std.shape == (latent, 2)


@pytest.mark.parametrize(
    ("net_arch", "activation_fn", "words", "remedy"),
    [
        ({"pi": (8,)}, "tanh", r"keys \['pi'\]", "'vf'"),
        ((8, 0), "tanh", r"net_arch is \(8, 0\)", "at least"),
        ((8,), "rellu", "activation_fn is 'rellu'", "relu"),
    ],
)
def test_bad_architectures_are_refused(net_arch: NetArch, activation_fn: str, words: str, remedy: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        actor_critic(net_arch=net_arch, activation_fn=activation_fn)
    assert remedy in str(caught.value)
