"""Acting on kernels: one vector step's passes and sample, in memory that is used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.nn.distributions import Params
from steadyrl.nn.masking import masked
from steadyrl.nn.native.actor_critic import ActorCriticKernel
from steadyrl.nn.networks import ActorCritic
from steadyrl.spaces import ObsTree
from steadyrl.spaces.masks import MASK


class Acting:
    """Samples actions for N environments, with their log-probabilities and values.

    Args:
        net: The network, which kernels run.
        sample: From parameters of the distribution and noise to actions and log-probabilities.
        tensors: Observations as tensors.
    """

    def __init__(
        self,
        net: ActorCritic,
        sample: Callable[[Params, Tensor], tuple[Tensor, Tensor]],
        tensors: Callable[[ObsTree], dict[str, Tensor]],
    ) -> None:
        self._net, self._sample, self._tensors = net, sample, tensors
        self._noise = torch.empty(0, dtype=torch.float32)

    def __getstate__(self) -> dict[str, Any]:
        """A copy has memory of its own."""
        return {"_net": self._net, "_sample": self._sample, "_tensors": self._tensors, "_noise": self._noise[:0]}

    def __call__(self, obs: ObsTree, noise: npt.NDArray[np.float32]) -> tuple[Tensor, Tensor, Tensor]:
        """Actions in the stored form, log-probabilities, values, [N, ...] each; valid until the next call."""
        kernel: ActorCriticKernel = self._net.kernel
        if self._noise.shape != noise.shape:
            self._noise = torch.empty(noise.shape, dtype=torch.float32)
            self._written = self._noise.numpy()
            self._outputs = kernel.room(noise.shape[0])
        self._written[...] = noise
        params, values = kernel.look_into(self._features(obs), self._outputs)
        if MASK in obs:
            params = masked(params, {MASK: torch.from_numpy(obs[MASK])})
        actions, log_probs = self._sample(params, self._noise)
        return actions, log_probs, values

    def _features(self, obs: ObsTree) -> Tensor | npt.NDArray[np.float32]:
        """[N, F]; a single vector is its own features, and needs no tensor around it."""
        given = self._net.encoder.given
        if given is not None:
            return np.ascontiguousarray(obs[given])
        with torch.no_grad():
            features: Tensor = self._net.encoder(self._tensors(obs))
        return features.contiguous()
