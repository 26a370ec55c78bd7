"""Distributions over actions: stateless functions of a head's parameters.

Noise comes from a `seeding.Stream` and is passed in, so that the same functions run in eager autograd, traced, or as
kernels. Actions are in their *stored* form, the one that a rollout keeps beside their log-probability: int64 [B] for
`Categorical`, int64 [B, K] for `MultiCategorical` and `Bernoulli`; for a Gaussian the unclipped sample, float32 [B, D],
and for a squashed one the value before tanh. Log-probabilities of continuous actions live in [-1, 1] space: the map to
the environment's bounds belongs to `spaces.ActionSpec.to_env`.
"""

# ruff: noqa: D102 - `Distribution` documents the methods once, for all that implement it.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from steadyrl.errors import UserError
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec

Params = tuple[Tensor, ...]
Noise = npt.NDArray[np.float32]

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SDE_VARIANCE_FLOOR = 1e-6
_LARGEST_UNIFORM = 1.0 - 2.0**-24  # float32's largest number below 1


class Distribution(Protocol):
    """What an algorithm asks of a distribution; B is the batch, N the environments."""

    @property
    def state_dependent(self) -> bool:
        """Whether noise is kept for several steps (gSDE); the caller decides when to draw again."""
        ...

    def draw(self, stream: Stream, n: int) -> Noise:
        """Noise for `n` environments, [n, ...]."""
        ...

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        """Actions [B, ...] in stored form, from noise [B, ...]."""
        ...

    def mode(self, params: Params) -> Tensor:
        """The deterministic actions [B, ...] in stored form."""
        ...

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        """Log-probability or log-density [B] of stored actions."""
        ...

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        """Entropy [B]; where there is no closed form, its estimate -log_probs from the sample they belong to."""
        ...

    def to_unit(self, actions: Tensor) -> Tensor:
        """Stored actions as `spaces.ActionSpec.to_env` takes them."""
        ...


def _sample_index(logits: Tensor, uniform: Tensor) -> Tensor:
    """Index [B] by the inverse of the cumulative distribution of softmax(logits [B, n]) at uniform [B].

    `uniform * total` rounds to less than `total`, so the chosen index is in range and never one of probability 0.
    """
    cumulative = torch.softmax(logits, dim=-1).cumsum(dim=-1)
    threshold = uniform.clamp(max=_LARGEST_UNIFORM).unsqueeze(-1) * cumulative[..., -1:]
    return (cumulative <= threshold).sum(dim=-1)


def _index_log_prob(logits: Tensor, index: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=-1).gather(-1, index.unsqueeze(-1)).squeeze(-1)


def _index_entropy(logits: Tensor) -> Tensor:
    log_p = torch.log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


@dataclass(frozen=True)
class Categorical(Distribution):
    """One choice among n; params (logits [B, n],), noise one uniform number a row, [B]."""

    state_dependent: ClassVar[bool] = False

    def draw(self, stream: Stream, n: int) -> Noise:
        return stream.uniform((n,))

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        return _sample_index(params[0], noise)

    def mode(self, params: Params) -> Tensor:
        return params[0].argmax(dim=-1)

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        return _index_log_prob(params[0], actions)

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        return _index_entropy(params[0])

    def to_unit(self, actions: Tensor) -> Tensor:
        return actions


@dataclass(frozen=True)
class MultiCategorical(Distribution):
    """K independent choices among `nvec`; params (logits [B, sum(nvec)],), noise [B, K] uniform."""

    nvec: tuple[int, ...]
    state_dependent: ClassVar[bool] = False

    def _parts(self, params: Params) -> tuple[Tensor, ...]:
        return torch.split_with_sizes(params[0], self.nvec, dim=-1)

    def draw(self, stream: Stream, n: int) -> Noise:
        return stream.uniform((n, len(self.nvec)))

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        parts = zip(self._parts(params), noise.unbind(-1), strict=True)
        return torch.stack([_sample_index(logits, uniform) for logits, uniform in parts], dim=-1)

    def mode(self, params: Params) -> Tensor:
        return torch.stack([logits.argmax(dim=-1) for logits in self._parts(params)], dim=-1)

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        parts = zip(self._parts(params), actions.unbind(-1), strict=True)
        return torch.stack([_index_log_prob(logits, index) for logits, index in parts]).sum(dim=0)

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        return torch.stack([_index_entropy(logits) for logits in self._parts(params)]).sum(dim=0)

    def to_unit(self, actions: Tensor) -> Tensor:
        return actions


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """K independent bits; params (logits of a 1 [B, K],), noise [B, K] uniform."""

    size: int
    state_dependent: ClassVar[bool] = False

    def draw(self, stream: Stream, n: int) -> Noise:
        return stream.uniform((n, self.size))

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        return (noise < torch.sigmoid(params[0])).long()

    def mode(self, params: Params) -> Tensor:
        return (params[0] > 0).long()

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        return F.logsigmoid((2 * actions - 1) * params[0]).sum(dim=-1)

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        # Even in the logit, so written in its magnitude, where nothing cancels: log(1 + e^-a) + a / (1 + e^a).
        magnitude = params[0].abs()
        return (F.softplus(-magnitude) + magnitude * torch.sigmoid(-magnitude)).sum(dim=-1)

    def to_unit(self, actions: Tensor) -> Tensor:
        return actions


def _normal_log_prob(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Log-density [B] of independent normals; x, mean [B, D], log_std [D] or [B, D]."""
    z = (x - mean) * torch.exp(-log_std)
    return (-0.5 * z.square() - log_std - _HALF_LOG_2PI).sum(dim=-1)


def _normal_entropy(mean: Tensor, log_std: Tensor) -> Tensor:
    return (log_std + (0.5 + _HALF_LOG_2PI)).expand_as(mean).sum(dim=-1)


def _log_tanh_slope(u: Tensor) -> Tensor:
    """sum(log(1 - tanh(u)^2)) [B] (arXiv:1812.05905, appendix C), written so that nothing cancels or overflows."""
    return (2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))).sum(dim=-1)


@dataclass(frozen=True)
class DiagGaussian(Distribution):
    """Independent normals; params (mean [B, D], log_std [D] or [B, D]), noise [B, D] standard normal."""

    size: int
    state_dependent: ClassVar[bool] = False

    def draw(self, stream: Stream, n: int) -> Noise:
        return stream.normal((n, self.size))

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        mean, log_std = params
        return mean + log_std.exp() * noise

    def mode(self, params: Params) -> Tensor:
        return params[0]

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        mean, log_std = params
        return _normal_log_prob(actions, mean, log_std)

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        mean, log_std = params
        return _normal_entropy(mean, log_std)

    def to_unit(self, actions: Tensor) -> Tensor:
        return actions


@dataclass(frozen=True)
class StateDependentGaussian(Distribution):
    """gSDE (arXiv:2005.05719): action = mean + phi theta with theta = exp(log_std) * noise, kept for several steps.

    params (mean [B, D], phi [B, L], log_std [L, D]), noise [B, L, D] standard normal. The density is that of normals of
    variance phi^2 exp(log_std)^2 + 1e-6, as in Stable-Baselines3. The head hands phi out detached, so exploration does
    not shape the features.
    """

    size: int
    latent_dim: int
    state_dependent: ClassVar[bool] = True

    def draw(self, stream: Stream, n: int) -> Noise:
        return stream.normal((n, self.latent_dim, self.size))

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        mean, phi, log_std = params
        return mean + torch.bmm(phi.unsqueeze(1), log_std.exp() * noise).squeeze(1)

    def mode(self, params: Params) -> Tensor:
        return params[0]

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        return _normal_log_prob(actions, params[0], self._log_std(params))

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        return _normal_entropy(params[0], self._log_std(params))

    def to_unit(self, actions: Tensor) -> Tensor:
        return actions

    def _log_std(self, params: Params) -> Tensor:
        """[B, D]."""
        _, phi, log_std = params
        variance = phi.square() @ (2.0 * log_std).exp()
        return 0.5 * torch.log(variance + _SDE_VARIANCE_FLOOR)


@dataclass(frozen=True)
class Squashed(Distribution):
    """tanh of a Gaussian whose log_std is bounded to [-20, 2]; the stored action is the value before tanh.

    Params and noise are the Gaussian's own.
    """

    base: DiagGaussian | StateDependentGaussian

    @property
    def state_dependent(self) -> bool:
        return self.base.state_dependent

    def draw(self, stream: Stream, n: int) -> Noise:
        return self.base.draw(stream, n)

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        return self.base.sample(_bounded(params), noise)

    def mode(self, params: Params) -> Tensor:
        return self.base.mode(params)

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        return self.base.log_prob(_bounded(params), actions) - _log_tanh_slope(actions)

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        return -log_probs

    def to_unit(self, actions: Tensor) -> Tensor:
        return torch.tanh(actions)


def _bounded(params: Params) -> Params:
    *rest, log_std = params
    return (*rest, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX))


def make_distribution(
    action_spec: ActionSpec, *, squash: bool, use_sde: bool, latent_dim: int | None = None
) -> Distribution:
    """The distribution that fits an action space.

    Args:
        action_spec: The action space.
        squash: Continuous actions go through tanh.
        use_sde: State-dependent exploration.
        latent_dim: Width of the policy's last hidden layer (`networks.policy_latent_dim`); only gSDE needs it.

    Raises:
        UserError: `squash` or `use_sde` does not fit the action space.
    """
    if action_spec.kind == "continuous":
        return _continuous(action_spec, squash, use_sde, latent_dim)
    for option, wanted in (("squash_output", squash), ("use_sde", use_sde)):
        if wanted:
            raise UserError(
                f"{option} is set, but the actions are {action_spec.kind}; it is for continuous ones.",
                remedy=f"Leave {option} out, or use an environment with a Box action space.",
                code="bad-value",
            )
    if action_spec.kind == "discrete":
        return Categorical()
    if action_spec.kind == "multidiscrete":
        return MultiCategorical(action_spec.nvec)
    return Bernoulli(action_spec.size)


def _continuous(action_spec: ActionSpec, squash: bool, use_sde: bool, latent_dim: int | None) -> Distribution:
    if squash and not action_spec.bounded.all():
        i = int(np.argmin(action_spec.bounded))
        raise UserError(
            f"squash_output is set, but dimension {i} of the action space is not bounded "
            f"(low {action_spec.low[i]:g}, high {action_spec.high[i]:g}).",
            remedy="Leave squash_output out, or bound the action space with gymnasium.wrappers.RescaleAction.",
            code="bad-value",
        )
    gaussian: DiagGaussian | StateDependentGaussian = DiagGaussian(action_spec.size)
    if use_sde:
        if latent_dim is None:
            raise ValueError("gSDE needs latent_dim, the width of the policy's last hidden layer")
        gaussian = StateDependentGaussian(action_spec.size, latent_dim)
    return Squashed(gaussian) if squash else gaussian
