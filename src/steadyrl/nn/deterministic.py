"""Policies without a density: the best action of a value function, and a deterministic actor."""

# ruff: noqa: D102 - `Distribution` documents the methods once, for all that implement it.

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from steadyrl.nn.distributions import Distribution, Noise, Params
from steadyrl.nn.masking import allowed
from steadyrl.seeding import Stream


@dataclass(frozen=True)
class Greedy(Distribution):
    """The action of the highest value, or with probability `epsilon` a uniform one. Params: values [B, A].

    Both are among what a mask allows: values of other actions are `masking.BLOCKED`.
    """

    epsilon: float
    state_dependent: ClassVar[bool] = False

    def draw(self, stream: Stream, n: int) -> Noise:
        return stream.uniform((n, 2))

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        free = allowed(params)
        count = free.sum(dim=-1)
        wanted = torch.minimum((noise[:, 1] * count).long(), count - 1)
        random = (free.cumsum(dim=-1) > wanted.unsqueeze(-1)).long().argmax(dim=-1)
        return torch.where(noise[:, 0] < self.epsilon, random, self.mode(params))

    def mode(self, params: Params) -> Tensor:
        return params[0].argmax(dim=-1)

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        chosen = (actions == self.mode(params)).to(params[0])
        return ((1.0 - self.epsilon) * chosen + self.epsilon / allowed(params).sum(dim=-1)).log()

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        count = allowed(params).sum(dim=-1)
        rest = self.epsilon / count
        best = rest + 1.0 - self.epsilon
        return -torch.xlogy(best, best) - (count - 1) * torch.xlogy(rest, rest)

    def to_unit(self, actions: Tensor) -> Tensor:
        return actions


@dataclass(frozen=True)
class Deterministic(Distribution):
    """The actor's action itself, in [-1, 1]; there is nothing to draw. Params: actions [B, D]."""

    state_dependent: ClassVar[bool] = False

    def draw(self, stream: Stream, n: int) -> Noise:
        return np.zeros((n, 0), dtype=np.float32)

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        return params[0]

    def mode(self, params: Params) -> Tensor:
        return params[0]

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        raise TypeError("a deterministic policy has no density")

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        raise TypeError("a deterministic policy has no density")

    def to_unit(self, actions: Tensor) -> Tensor:
        return actions
