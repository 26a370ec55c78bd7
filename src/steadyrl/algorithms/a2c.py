"""Advantage actor-critic, the synchronous form of A3C (arXiv:1602.01783)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from steadyrl.algorithms.exploration import Exploration
from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.losses import normalise_advantages
from steadyrl.algorithms.metrics import Metrics
from steadyrl.configs import A2CConfig, value_at
from steadyrl.data.rollout import RolloutBatch
from steadyrl.data.sequences import SequenceBatch
from steadyrl.data.targets import explained_variance
from steadyrl.nn.distributions import Distribution
from steadyrl.nn.gradient import Loss
from steadyrl.nn.masking import masked
from steadyrl.nn.optim import Adam, RMSprop
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds


def a2c_loss(
    outputs: tuple[Tensor, ...], batch: RolloutBatch, distribution: Distribution, config: A2CConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy gradient, value loss and entropy bonus of one rollout.

    Args:
        outputs: Parameters of the distribution, then the values [B].
        batch: B transitions.
        distribution: Of the actions.
        config: Weights of the three parts.
    """
    *unmasked, values = outputs
    params = masked(tuple(unmasked), batch.obs)
    advantages = normalise_advantages(batch.advantages) if config.normalize_advantage else batch.advantages
    log_probs = distribution.log_prob(params, batch.actions)
    policy_loss = -(advantages * log_probs).mean()
    value_loss = (values - batch.returns).square().mean()
    entropy = distribution.entropy(params, log_probs).mean()
    loss = policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy
    return loss, {
        "train/policy_loss": policy_loss,
        "train/value_loss": value_loss,
        "train/entropy_loss": -entropy,
    }


class A2C:
    """The algorithm: acts with the policy, learns once from each rollout.

    Args:
        config: Hyperparameters.
        policy: What is trained, with its initial weights.
        seeds: Whence its streams come.
    """

    def __init__(self, config: A2CConfig, policy: Policy, seeds: Seeds) -> None:
        self.config = config
        self.policy = policy
        self.guard = Guard(deferred=policy.device.type != "cpu")
        self.exploration = Exploration(
            policy.distribution, seeds.stream("algo", "actions"), config.num_envs, config.sde_sample_freq
        )
        self._net = policy.parts["net"]
        self._loss = Loss(partial(a2c_loss, distribution=policy.distribution, config=config), policy)
        self._optimizer: Adam | RMSprop = (
            RMSprop(self._net.flat, eps=config.rms_prop_eps) if config.use_rms_prop else Adam(self._net.flat, eps=1e-5)
        )

    def learn(self, batch: RolloutBatch | SequenceBatch, progress: float) -> Metrics:
        """One update from one rollout.

        Args:
            batch: All valid transitions of the rollout, on the policy's device; sequences for a recurrent policy.
            progress: Environment steps before the rollout over the declared total.
        """
        learning_rate = value_at(self.config.learning_rate, progress)
        found: Metrics = {}
        rows, inputs = _all(batch) if isinstance(batch, SequenceBatch) else (batch, batch.obs)
        with self.guard.minibatch(rows):
            outputs = self._net.forward(inputs)
            loss, metrics, gradients = self._loss(outputs, rows)
            self.guard.look("train/loss", loss)
            self._net.backward(gradients)
            norm = self._optimizer.step(learning_rate, self.config.max_grad_norm, self.guard.permit)
            found = {**metrics, "train/loss": loss, "train/grad_norm": self.guard.applied(norm)}
        return {
            **found,
            "train/explained_variance": explained_variance(batch.values, batch.returns),
            "train/learning_rate": learning_rate,
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        return {"exploration": self.exploration.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.exploration.load_state_dict(state["exploration"])
        self._optimizer.load_state_dict(state["optimizer"])


def _all(batch: SequenceBatch) -> tuple[RolloutBatch, Any]:
    """The sequences of all environments, in their own order."""
    return batch.take(np.arange(batch.num_envs))
