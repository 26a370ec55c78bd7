"""Networks: stored observations -> features -> parameters of the action distribution and values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from steadyrl.errors import UserError, nearest
from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.encoders import PLAIN, Encoder, Obs, feature_dim, init_part
from steadyrl.nn.encoding import Encoding
from steadyrl.nn.heads import make_head
from steadyrl.nn.init import BlankLinear, init_orthogonal, linear_layers
from steadyrl.nn.part import Part
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec

NetArch = Sequence[int] | Mapping[str, Sequence[int]]

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}
NORM_EPS = 1e-5  # torch.nn.LayerNorm's default, which the kernels have too
_HIDDEN_GAIN, _POLICY_GAIN, _VALUE_GAIN = math.sqrt(2.0), 0.01, 1.0


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


def policy_latent_dim(obs_spec: ObsSpec, net_arch: NetArch, encoding: Encoding = PLAIN) -> int:
    """Width of the policy's last hidden layer: L of gSDE."""
    pi, _ = trunk_widths(net_arch)
    return pi[-1] if pi else feature_dim(obs_spec, encoding)


def init_actor_critic(
    encoders: Sequence[Encoder],
    policy: tuple[nn.Module, nn.Module],
    value: tuple[nn.Module, nn.Module],
    stream: Stream,
) -> None:
    """Fill encoders, then trunk and head of policy and value orthogonally, with Stable-Baselines3's gains."""
    for encoder in encoders:
        encoder.initialise(stream, ortho=True)
    for (trunk, head), gain in ((policy, _POLICY_GAIN), (value, _VALUE_GAIN)):
        init_orthogonal(linear_layers(trunk), _HIDDEN_GAIN, stream)
        init_orthogonal(linear_layers(head), gain, stream)


class ActorCritic(Part):
    """Policy and value network with separate trunks on one encoder, or on one each, as in Stable-Baselines3.

    Weights are zero until `initialise`.

    Args:
        obs_spec: The observation space.
        distribution: The distribution that the policy's head is for.
        action_spec: The action space.
        net_arch: Hidden widths of both trunks, or {"pi": ..., "vf": ...}; () is a linear network.
        activation_fn: A key of `ACTIVATIONS`.
        log_std_init: Initial log standard deviation of continuous actions.
        layer_norm: Hidden layers are normalised before their activation.
        encoding: How leaves become features.

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
        encoding: Encoding = PLAIN,
    ) -> None:
        super().__init__()
        if activation_fn not in ACTIVATIONS:
            raise UserError(
                f"activation_fn is {activation_fn!r}, which is not one of {', '.join(ACTIVATIONS)}.",
                remedy=nearest(activation_fn, ACTIVATIONS) or "Choose one of these.",
                code="bad-value",
            )
        pi, vf = trunk_widths(net_arch)
        self.encoder = Encoder(obs_spec, encoding)
        apart = self.encoder.learns and not encoding.shared
        self.value_encoder = Encoder(obs_spec, encoding) if apart else None
        features = self.encoder.features
        self.policy_trunk = mlp(features, pi, ACTIVATIONS[activation_fn], layer_norm)
        self.policy_head = make_head(distribution, pi[-1] if pi else features, action_spec, log_std_init)
        self.value_trunk = mlp(features, vf, ACTIVATIONS[activation_fn], layer_norm)
        self.value_head = BlankLinear(vf[-1] if vf else features, 1)

    def initialise(self, stream: Stream, ortho: bool) -> None:
        """Fill every weight from the stream: orthogonally, or as torch's `nn.Linear` does."""
        if not ortho:
            init_part(self, stream)
            return
        encoders = [encoder for encoder in (self.encoder, self.value_encoder) if encoder is not None]
        init_actor_critic(encoders, (self.policy_trunk, self.policy_head), (self.value_trunk, self.value_head), stream)

    def parts(self) -> dict[str, Part]:
        """What is trained by a loss of its own: the whole."""
        return {"net": self}

    def forward(self, obs: Obs) -> tuple[Params, Tensor]:
        """Parameters of the action distribution and values [B]."""
        features = self.encoder(obs)
        return self._params(features), self._values(self._value_features(obs, features))

    def actor(self, obs: Obs) -> Params:
        """Parameters of the action distribution alone."""
        return self._params(self.encoder(obs))

    def critic(self, obs: Obs) -> Tensor:
        """Values [B] alone."""
        return self._values(self._value_features(obs))

    def _value_features(self, obs: Obs, features: Tensor | None = None) -> Tensor:
        """[B, F] of the value network; `features` are the policy's, where they are known."""
        if self.value_encoder is not None:
            found: Tensor = self.value_encoder(obs)
            return found
        return self.encoder(obs) if features is None else features

    def _params(self, features: Tensor) -> Params:
        params: Params = self.kernel.params(features) if self.looks else self.policy_head(self.policy_trunk(features))
        return params

    def _values(self, features: Tensor) -> Tensor:
        values: Tensor = (
            self.kernel.values(features) if self.looks else self.value_head(self.value_trunk(features)).squeeze(-1)
        )
        return values
