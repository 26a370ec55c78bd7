"""SAC's temperature: fixed, or learnt so that the policy keeps a target entropy."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from steadyrl.algorithms.guard import Guard
from steadyrl.configs import SACConfig
from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.gradient import Loss
from steadyrl.nn.optim import Adam
from steadyrl.nn.policy import Policy


def temperature_loss(
    outputs: tuple[Tensor, ...], log_probs: Tensor, target_entropy: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """`-log_alpha * (log pi + H_target)`, the mean over log-probabilities [B] that carry no gradient."""
    loss = -(outputs[0] * (log_probs + target_entropy)).mean()
    return loss, {"train/ent_coef_loss": loss}


class Temperature:
    """The weight alpha of the entropy.

    Args:
        config: `ent_coef`, `target_entropy`.
        target_entropy: What `auto` means.
        policy: Whose actions it weighs.
    """

    def __init__(self, config: SACConfig, target_entropy: float, policy: Policy) -> None:
        self.learnt = isinstance(config.ent_coef, str)
        self.target_entropy = target_entropy if isinstance(config.target_entropy, str) else config.target_entropy
        self._loss = Loss(temperature_loss, policy)
        self._fixed = torch.tensor(config.initial_ent_coef, dtype=torch.float32, device=policy.device)
        if self.learnt:
            start = [math.log(config.initial_ent_coef)]
            self.log_alpha = nn.Parameter(torch.tensor(start, dtype=torch.float32, device=policy.device))
            self._flat = FlatParameters(nn.ParameterList([self.log_alpha]), native=policy.native)
            self._optimizer = Adam(self._flat)

    def value(self) -> Tensor:
        """alpha, a scalar without gradient."""
        return self.log_alpha.detach().exp().squeeze(0) if self.learnt else self._fixed

    def learn(self, log_probs: Tensor, learning_rate: float) -> dict[str, Tensor]:
        """One step towards the target entropy, from log-probabilities [B] without gradient."""
        guard = Guard()
        metrics = self.look(log_probs, guard)
        self.follow(learning_rate, guard)
        return metrics

    def look(self, log_probs: Tensor, guard: Guard) -> dict[str, Tensor]:
        """The loss, and its gradient for `follow`; nothing is changed.

        Raises:
            NonFiniteError: one of them is not finite.
        """
        if not self.learnt:
            return {}
        loss, metrics, gradients = self._loss((self.log_alpha,), log_probs, self.target_entropy)
        guard.look("train/ent_coef_loss", loss)
        guard.look("train/ent_coef_loss", gradients[0][0])
        self._flat.grad[0] = gradients[0][0]
        return metrics

    def follow(self, learning_rate: float, guard: Guard) -> None:
        """The step towards the target entropy whose gradient `look` found."""
        if self.learnt:
            guard.applied(self._optimizer.step(learning_rate, 0.0, guard.permit))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly."""
        if not self.learnt:
            return {}
        return {"log_alpha": self.log_alpha.detach().clone(), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        if self.learnt:
            with torch.no_grad():
                self.log_alpha.copy_(state["log_alpha"])
            self._optimizer.load_state_dict(state["optimizer"])
