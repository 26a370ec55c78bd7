"""Acting with memory: one step of a recurrent policy, from what it remembers to what it remembers then."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.nn.distributions import Params
from steadyrl.nn.masking import masked
from steadyrl.nn.part import looking
from steadyrl.nn.recurrent import RecurrentActorCritic
from steadyrl.spaces import ObsTree

Bools = npt.NDArray[np.bool_]


class RecurrentActing:
    """One step of B episodes, all results on the CPU.

    Args:
        net: The network.
        sample: From parameters of the distribution and noise to actions and log-probabilities.
        tensors: Observations as tensors on the network's device.
        device: Where the network is.
    """

    def __init__(
        self,
        net: RecurrentActorCritic,
        sample: Callable[[Params, Tensor], tuple[Tensor, Tensor]],
        tensors: Callable[[ObsTree], dict[str, Tensor]],
        device: torch.device,
    ) -> None:
        self._net, self._sample, self._tensors, self._device = net, sample, tensors, device

    def act(
        self, obs: ObsTree, noise: npt.NDArray[np.float32], state: Tensor, starts: Bools
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `Policy.act`; also what is remembered then, [B, S].

        Args:
            obs: Normalised, leaves [B, ...].
            noise: As for `Policy.act`.
            state: What is remembered, [B, S].
            starts: Where an episode begins, so that nothing is, [B].
        """
        params, values, after = self.step(obs, state, starts)
        actions, log_probs = self._sample(params, torch.from_numpy(noise).to(self._device))
        return actions.cpu(), log_probs.cpu(), values.cpu(), after

    def values(self, obs: ObsTree, state: Tensor, starts: Bools) -> Tensor:
        """As `Policy.values`, [B], with what is remembered, [B, S], except where episodes start, [B]."""
        return self.step(obs, state, starts)[1].cpu()

    @looking
    def step(self, obs: ObsTree, state: Tensor, starts: Bools) -> tuple[Params, Tensor, Tensor]:
        """Parameters of the distribution over what is allowed, values, and on the CPU what is remembered then."""
        tensors = self._tensors(obs)
        begins = torch.from_numpy(starts).to(self._device)
        params, values, after = self._net.step(tensors, state.to(self._device), begins)
        return masked(params, tensors), values, after.cpu()
