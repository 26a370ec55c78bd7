"""The distribution of an action with parts: independent ones of its parts."""

# ruff: noqa: D102 - `Distribution` documents the methods once, for all that implement it.

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from steadyrl.nn.discrete import Bernoulli, Categorical, MultiCategorical
from steadyrl.nn.distribution_for import make_distribution
from steadyrl.nn.distributions import Distribution, Noise, Params
from steadyrl.nn.gaussian import DiagGaussian
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionTree

Part = Categorical | MultiCategorical | Bernoulli | DiagGaussian


@dataclass(frozen=True)
class Factored(Distribution):
    """Independent distributions; params those of the parts in order, noise and actions float32 [B, K], side by side.

    Attributes:
        parts: Of the action's parts.
        sizes: Entries of each part.
    """

    parts: tuple[Part, ...]
    sizes: tuple[int, ...]
    state_dependent: ClassVar[bool] = False

    def draw(self, stream: Stream, n: int) -> Noise:
        return np.concatenate([part.draw(stream, n).reshape(n, -1) for part in self.parts], axis=1)

    def sample(self, params: Params, noise: Tensor) -> Tensor:
        drawn = zip(self.parts, self._params(params), self._own(noise), strict=True)
        return _joined([part.sample(own, part_noise) for part, own, part_noise in drawn])

    def mode(self, params: Params) -> Tensor:
        return _joined([part.mode(own) for part, own in zip(self.parts, self._params(params), strict=True)])

    def log_prob(self, params: Params, actions: Tensor) -> Tensor:
        taken = zip(self.parts, self._params(params), self._own(actions), strict=True)
        parts = [
            part.log_prob(own, action if isinstance(part, DiagGaussian) else action.long())
            for part, own, action in taken
        ]
        return torch.stack(parts).sum(dim=0)

    def entropy(self, params: Params, log_probs: Tensor) -> Tensor:
        each = zip(self.parts, self._params(params), strict=True)
        return torch.stack([part.entropy(own, log_probs) for part, own in each]).sum(dim=0)

    def to_unit(self, actions: Tensor) -> Tensor:
        return actions

    def _params(self, params: Params) -> list[Params]:
        """The parameters of each part: two of a Gaussian, one of any other."""
        counts = [2 if isinstance(part, DiagGaussian) else 1 for part in self.parts]
        ends = np.cumsum(counts).tolist()
        return [params[end - count : end] for end, count in zip(ends, counts, strict=True)]

    def _own(self, joined: Tensor) -> list[Tensor]:
        """Columns of each part: [B] of a single choice, [B, size] of any other."""
        split = torch.split_with_sizes(joined, self.sizes, dim=-1)
        return [
            own.squeeze(-1) if isinstance(part, Categorical) else own
            for part, own in zip(self.parts, split, strict=True)
        ]


def _joined(actions: list[Tensor]) -> Tensor:
    flat = [action.unsqueeze(-1) if action.dim() == 1 else action for action in actions]
    return torch.cat([action.to(torch.float32) for action in flat], dim=-1)


def factored(action_spec: ActionTree) -> Factored:
    """The distribution of an action space with parts."""
    made = [make_distribution(part, squash=False, use_sde=False) for _, part in action_spec.parts]
    parts = tuple(part for part in made if isinstance(part, Part))
    return Factored(parts, tuple(part.size for _, part in action_spec.parts))
