"""Proximal policy optimisation (arXiv:1707.06347).

Details as in Huang et al. 2022, "The 37 implementation details of PPO".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.algorithms.exploration import Exploration
from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.losses import normalise_advantages
from steadyrl.algorithms.metrics import Metrics, mean_scalars
from steadyrl.configs import PPOConfig, value_at
from steadyrl.data.rollout import Fetcher, RolloutBatch
from steadyrl.data.sequences import SequenceBatch
from steadyrl.data.targets import explained_variance
from steadyrl.nn.distributions import Distribution
from steadyrl.nn.gradient import ScalarLoss, Scalars
from steadyrl.nn.masking import masked
from steadyrl.nn.optim import Adam
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds


def ppo_loss(
    outputs: tuple[Tensor, ...],
    batch: RolloutBatch,
    distribution: Distribution,
    config: PPOConfig,
    clip_range: float,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The clipped surrogate, the value loss and the entropy bonus of one minibatch.

    Args:
        outputs: Parameters of the distribution, then the values [B].
        batch: B transitions; their advantages are not yet normalised.
        distribution: Of the actions.
        config: Weights of the three parts.
        clip_range: Of this update.
    """
    *unmasked, values = outputs
    params = masked(tuple(unmasked), batch.obs)
    advantages = normalise_advantages(batch.advantages) if config.normalize_advantage else batch.advantages
    log_probs = distribution.log_prob(params, batch.actions)
    log_ratio = log_probs - batch.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()

    if config.clip_range_vf is not None:
        values = batch.values + (values - batch.values).clamp(-config.clip_range_vf, config.clip_range_vf)
    value_loss = (values - batch.returns).square().mean()
    entropy = distribution.entropy(params, log_probs).mean()
    loss = policy_loss + config.vf_coef * value_loss - config.ent_coef * entropy
    return loss, {
        "train/policy_gradient_loss": policy_loss,
        "train/value_loss": value_loss,
        "train/entropy_loss": -entropy,
        "train/approx_kl": ((ratio - 1.0) - log_ratio).mean(),
        "train/clip_fraction": ((ratio - 1.0).abs() > clip_range).float().mean(),
    }


Minibatch = tuple[npt.NDArray[np.int64], RolloutBatch, Any]  # where its rows come from, it, the network's input


class PPO:
    """The algorithm: acts with the policy, learns from a rollout.

    Args:
        config: Hyperparameters.
        policy: What is trained, with its initial weights.
        seeds: Whence its streams come.
    """

    def __init__(self, config: PPOConfig, policy: Policy, seeds: Seeds) -> None:
        self.config = config
        self.policy = policy
        self.guard = Guard(deferred=policy.device.type != "cpu")
        self.exploration = Exploration(
            policy.distribution, seeds.stream("algo", "actions"), config.num_envs, config.sde_sample_freq
        )
        self._order = seeds.stream("algo", "minibatches")
        self._net = policy.parts["net"]
        self._optimizer = Adam(self._net.flat, eps=1e-5)
        loss = partial(ppo_loss, distribution=policy.distribution, config=config)
        self._loss = ScalarLoss(loss, "train/loss", policy)

    def learn(self, batch: RolloutBatch | SequenceBatch, progress: float) -> Metrics:
        """One update from one rollout.

        Args:
            batch: All valid transitions of the rollout, on the policy's device; sequences for a recurrent policy.
            progress: Environment steps before the rollout over the declared total.
        """
        learning_rate = value_at(self.config.learning_rate, progress)
        clip_range = value_at(self.config.clip_range, progress)
        rows: list[Scalars] = []
        norms: list[Tensor] = []
        taken = self._sequences(batch) if isinstance(batch, SequenceBatch) else self._minibatches(batch)
        for order, minibatch, inputs in taken:
            with self.guard.minibatch(minibatch, order):
                outputs = self._net.forward(inputs)
                metrics, gradients = self._loss(outputs, minibatch, clip_range=clip_range)
                self.guard.look("train/loss", metrics.block)
                if self.config.target_kl is not None and metrics["train/approx_kl"] > 1.5 * self.config.target_kl:
                    break
                self._net.backward(gradients)
                norm = self._optimizer.step(learning_rate, self.config.max_grad_norm, self.guard.permit)
                norms.append(self.guard.applied(norm))
                rows.append(metrics)
        return {
            **mean_scalars(rows),
            **({"train/grad_norm": torch.stack(norms).mean()} if norms else {}),
            "train/explained_variance": explained_variance(batch.values, batch.returns),
            "train/learning_rate": learning_rate,
            "train/clip_range": clip_range,
            "train/minibatches": float(len(rows)),
        }

    def _minibatches(self, batch: RolloutBatch) -> Iterator[Minibatch]:
        """Each epoch in a fresh order; what does not fill a minibatch comes last, as a smaller one.

        Yields where the rows come from, the minibatch, and what the network takes of it.
        """
        n, size = len(batch.log_probs), self.config.batch_size
        fetch = Fetcher(batch, native=self.policy.native)
        for _ in range(self.config.n_epochs):
            order = self._order.permutation(n)
            for start in range(0, n, size):
                taken = order[start : start + size]
                minibatch = fetch(taken)
                yield taken, minibatch, minibatch.obs

    def _sequences(self, batch: SequenceBatch) -> Iterator[Minibatch]:
        """The same for a policy that remembers: each minibatch has whole sequences of some environments."""
        for _ in range(self.config.n_epochs):
            order = self._order.permutation(batch.num_envs)
            for envs in batch.minibatches(order, self.config.batch_size):
                yield envs, *batch.take(envs)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        return {
            "exploration": self.exploration.state_dict(),
            "order": self._order.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.exploration.load_state_dict(state["exploration"])
        self._order.load_state_dict(state["order"])
        self._optimizer.load_state_dict(state["optimizer"])
