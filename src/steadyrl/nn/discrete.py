"""Distributions over choices and bits."""

# ruff: noqa: D102 - `Distribution` documents the methods once, for all that implement it.

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from steadyrl.nn.distributions import Distribution, Noise, Params
from steadyrl.seeding import Stream

_LARGEST_UNIFORM = 1.0 - 2.0**-24  # float32's largest number below 1


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
