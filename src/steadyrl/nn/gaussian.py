"""Gaussians over continuous actions: plain, state-dependent (gSDE), and squashed by tanh."""

# ruff: noqa: D102 - `Distribution` documents the methods once, for all that implement it.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from steadyrl.nn.distributions import Distribution, Noise, Params
from steadyrl.seeding import Stream

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SDE_VARIANCE_FLOOR = 1e-6


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
    variance phi^2 exp(log_std)^2 + 1e-6, as in Stable-Baselines3. Whether exploration shapes the features is decided by
    `heads.SDEHead`, which hands phi out detached or not.
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
