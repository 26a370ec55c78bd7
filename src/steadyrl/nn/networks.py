"""Networks: stored observations -> features -> parameters of the action distribution and values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from steadyrl.errors import UserError, nearest
from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.heads import make_head
from steadyrl.nn.init import BlankLinear, init_default, init_orthogonal, linear_layers
from steadyrl.nn.part import Part
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, Leaf, ObsSpec

Obs = Mapping[str, Tensor]
NetArch = Sequence[int] | Mapping[str, Sequence[int]]

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}
NORM_EPS = 1e-5  # torch.nn.LayerNorm's default, which the kernels have too
_HIDDEN_GAIN, _POLICY_GAIN, _VALUE_GAIN = math.sqrt(2.0), 0.01, 1.0


class FloatLeaf(nn.Module):
    """A float leaf [B, ...] as features [B, size], times the leaf's scale; a vector of scale 1 is passed through."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.size, self.scale = leaf.size, leaf.scale

    def forward(self, obs: Tensor) -> Tensor:
        """[B, size]."""
        flat = obs.reshape(obs.shape[0], self.size)
        return flat if self.scale == 1.0 else flat * self.scale


class OneHotLeaf(nn.Module):
    """An integer leaf [B, K], counted from 0, as its K one-hot codes side by side, [B, sum(nvec)]."""

    entry: Tensor  # [sum(nvec)], which entry of the leaf a feature looks at
    value: Tensor  # [sum(nvec)], and for which value it is 1

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        counts = torch.tensor(leaf.nvec)
        entry = torch.repeat_interleave(torch.arange(len(leaf.nvec)), counts, output_size=sum(leaf.nvec))
        value = torch.cat([torch.arange(n) for n in leaf.nvec])
        # Constants of the space, not weights: kept out of the state_dict.
        self.register_buffer("entry", entry, persistent=False)
        self.register_buffer("value", value, persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, sum(nvec)]."""
        return (obs.index_select(1, self.entry) == self.value).to(torch.float32)


class Encoder(nn.Module):
    """Stored observations -> features [B, F], the leaves side by side in the space's order."""

    def __init__(self, obs_spec: ObsSpec) -> None:
        super().__init__()
        self.paths = [leaf.path for leaf in obs_spec.leaves]
        self.features = feature_dim(obs_spec)
        first = obs_spec.leaves[0]
        plain = len(obs_spec.leaves) == 1 and not first.nvec and first.scale == 1.0 and len(first.shape) == 1
        self.given = first.path if plain else None  # one vector, which is its own features
        self.leaves = nn.ModuleList(OneHotLeaf(leaf) if leaf.nvec else FloatLeaf(leaf) for leaf in obs_spec.leaves)

    def forward(self, obs: Obs) -> Tensor:
        """[B, F]."""
        if self.given is not None:
            return obs[self.given]
        parts = [leaf(obs[path]) for path, leaf in zip(self.paths, self.leaves, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def mlp(
    in_features: int, hidden: Sequence[int], activation: type[nn.Module], layer_norm: bool = False
) -> nn.Sequential:
    """Linear layers of these widths, each followed by the activation; the identity for no width.

    With `layer_norm` each is normalised before its activation, as in Ba et al. 2016 (arXiv:1607.06450, equation 4), and
    in the critics of DroQ (arXiv:2110.02034); gain 1 and shift 0 are its initial weights.
    """
    layers: list[nn.Module] = []
    for width_in, width_out in zip([in_features, *hidden], hidden, strict=False):
        norm = [nn.LayerNorm(width_out, eps=NORM_EPS, dtype=torch.float32)] if layer_norm else []
        layers += [BlankLinear(width_in, width_out), *norm, activation()]
    return nn.Sequential(*layers)


def feature_dim(obs_spec: ObsSpec) -> int:
    """Width of what the encoder hands out."""
    return sum(leaf.features for leaf in obs_spec.leaves)


def trunk_widths(net_arch: NetArch) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Hidden widths of policy and value network.

    Raises:
        UserError: a dictionary with other keys than `pi` and `vf`, or a width below 1.
    """
    if isinstance(net_arch, Mapping):
        if set(net_arch) != {"pi", "vf"}:
            raise UserError(
                f"net_arch has the keys {sorted(net_arch)}, but a dictionary must have 'pi' and 'vf'.",
                remedy="Write {'pi': (64, 64), 'vf': (64, 64)}, or one tuple for both.",
                code="bad-value",
            )
        pi, vf = tuple(net_arch["pi"]), tuple(net_arch["vf"])
    else:
        pi = vf = tuple(net_arch)
    if any(width < 1 for width in (*pi, *vf)):
        raise UserError(
            f"net_arch is {net_arch}, but every hidden layer must have at least 1 unit.",
            remedy="Write widths such as (64, 64); () is a linear network.",
            code="bad-value",
        )
    return pi, vf


def policy_latent_dim(obs_spec: ObsSpec, net_arch: NetArch) -> int:
    """Width of the policy's last hidden layer: L of gSDE."""
    pi, _ = trunk_widths(net_arch)
    return pi[-1] if pi else feature_dim(obs_spec)


class ActorCritic(Part):
    """Policy and value network with separate trunks on one encoder, as in Stable-Baselines3.

    Weights are zero until `initialise`.

    Args:
        obs_spec: The observation space.
        distribution: The distribution that the policy's head is for.
        action_spec: The action space.
        net_arch: Hidden widths of both trunks, or {"pi": ..., "vf": ...}; () is a linear network.
        activation_fn: A key of `ACTIVATIONS`.
        log_std_init: Initial log standard deviation of continuous actions.
        layer_norm: Hidden layers are normalised before their activation.

    Raises:
        UserError: `net_arch` or `activation_fn` makes no sense.
    """

    def __init__(
        self,
        obs_spec: ObsSpec,
        distribution: Distribution,
        action_spec: ActionSpec,
        net_arch: NetArch = (64, 64),
        activation_fn: str = "tanh",
        log_std_init: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        if activation_fn not in ACTIVATIONS:
            raise UserError(
                f"activation_fn is {activation_fn!r}, which is not one of {', '.join(ACTIVATIONS)}.",
                remedy=nearest(activation_fn, ACTIVATIONS) or "Choose one of these.",
                code="bad-value",
            )
        pi, vf = trunk_widths(net_arch)
        self.encoder = Encoder(obs_spec)
        features = self.encoder.features
        self.policy_trunk = mlp(features, pi, ACTIVATIONS[activation_fn], layer_norm)
        self.policy_head = make_head(distribution, policy_latent_dim(obs_spec, net_arch), action_spec, log_std_init)
        self.value_trunk = mlp(features, vf, ACTIVATIONS[activation_fn], layer_norm)
        self.value_head = BlankLinear(vf[-1] if vf else features, 1)

    def initialise(self, stream: Stream, ortho: bool) -> None:
        """Fill every weight from the stream: orthogonally, or as torch's `nn.Linear` does."""
        if not ortho:
            init_default(linear_layers(self), stream)
            return
        init_orthogonal(linear_layers(self.policy_trunk), _HIDDEN_GAIN, stream)
        init_orthogonal(linear_layers(self.policy_head), _POLICY_GAIN, stream)
        init_orthogonal(linear_layers(self.value_trunk), _HIDDEN_GAIN, stream)
        init_orthogonal([self.value_head], _VALUE_GAIN, stream)

    def parts(self) -> dict[str, Part]:
        """What is trained by a loss of its own: the whole."""
        return {"net": self}

    def forward(self, obs: Obs) -> tuple[Params, Tensor]:
        """Parameters of the action distribution and values [B]."""
        features = self.encoder(obs)
        return self._params(features), self._values(features)

    def actor(self, obs: Obs) -> Params:
        """Parameters of the action distribution alone."""
        return self._params(self.encoder(obs))

    def critic(self, obs: Obs) -> Tensor:
        """Values [B] alone."""
        return self._values(self.encoder(obs))

    def _params(self, features: Tensor) -> Params:
        params: Params = self.kernel.params(features) if self.looks else self.policy_head(self.policy_trunk(features))
        return params

    def _values(self, features: Tensor) -> Tensor:
        values: Tensor = (
            self.kernel.values(features) if self.looks else self.value_head(self.value_trunk(features)).squeeze(-1)
        )
        return values
