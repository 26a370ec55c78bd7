"""Distributions over actions: stateless functions of a head's parameters.

Noise comes from a `seeding.Stream` and is passed in, so that the same functions run in eager autograd, traced, or as
kernels. Actions are in their *stored* form, the one that a rollout keeps beside their log-probability: int64 [B] for
`Categorical`, int64 [B, K] for `MultiCategorical` and `Bernoulli`; for a Gaussian the unclipped sample, float32 [B, D],
and for a squashed one the value before tanh. Log-probabilities of continuous actions live in [-1, 1] space: the map to
the environment's bounds belongs to `spaces.ActionSpec.to_env`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from steadyrl.seeding import Stream

Params = tuple[Tensor, ...]
Noise = npt.NDArray[np.float32]


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
