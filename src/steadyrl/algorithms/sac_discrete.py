"""Soft actor-critic for discrete actions (arXiv:1910.07207): expectations over all actions instead of samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.metrics import Metrics, mean_metrics
from steadyrl.algorithms.off_policy import BatchSource, follow
from steadyrl.algorithms.temperature import Temperature
from steadyrl.configs import SACConfig, value_at
from steadyrl.data.targets import q_target
from steadyrl.data.transitions import ReplayBatch, TensorTree
from steadyrl.nn.actor_critics import DiscreteActorAndCritics
from steadyrl.nn.gradient import Loss
from steadyrl.nn.masking import choices, mask_of, masked
from steadyrl.nn.optim import Adam
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds
from steadyrl.spaces import ObsTree
from steadyrl.spaces.masks import MASK, pick_allowed

TARGET_ENTROPY = 0.98  # of the largest entropy, log n


def discrete_critic_loss(
    outputs: tuple[Tensor, ...], batch: ReplayBatch, target: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean squared error of every critic's value of the chosen action, summed over critics; outputs ([n, B, A],)."""
    values = outputs[0].gather(-1, batch.actions.expand(outputs[0].shape[0], -1).unsqueeze(-1)).squeeze(-1)
    errors = values - target
    loss = (batch.weights * errors.square()).mean(dim=1).sum()
    return loss, {"train/critic_loss": loss, "train/q_mean": values.mean(), "td": errors.abs().mean(dim=0)}


def discrete_actor_loss(
    outputs: tuple[Tensor, ...], values: Tensor, temperature: Tensor, mask: dict[str, Tensor] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """E_pi[alpha log pi - min_i Q_i]; outputs are logits ([B, A, 1],), values the smallest critic's [B, A].

    `mask` are the observations' action masks, where there are any (`masking.mask_of`).
    """
    log_p = masked((outputs[0].squeeze(-1),), mask or {})[0].log_softmax(dim=-1)
    p = log_p.exp()
    loss = (p * (temperature * log_p - values)).sum(dim=-1).mean()
    return loss, {"train/actor_loss": loss, "train/entropy": -(p * log_p).sum(dim=-1).mean()}


class DiscreteSAC:
    """The algorithm for discrete actions; a configuration of SAC.

    Args:
        config: Hyperparameters.
        policy: What is trained, with its initial weights.
        seeds: Whence its streams come.
    """

    def __init__(self, config: SACConfig, policy: Policy, seeds: Seeds) -> None:
        assert isinstance(policy.net, DiscreteActorAndCritics)
        self.config = config
        self.policy = policy
        self.guard = Guard(deferred=policy.device.type != "cpu")
        self._pi, self._q = policy.parts["pi"], policy.parts["q"]
        self._target_q = self._q.target()
        self._actor_optimizer, self._critic_optimizer = Adam(self._pi.flat), Adam(self._q.flat)
        self._critic_loss = Loss(discrete_critic_loss, policy)
        self._actor_loss = Loss(discrete_actor_loss, policy)
        n_actions = policy.action_spec.nvec[0]
        self.temperature = Temperature(config, TARGET_ENTROPY * math.log(n_actions), policy)
        self._random = seeds.stream("algo", "actions")
        self._updates = 0

    def act(self, obs: ObsTree, step: int, progress: float) -> npt.NDArray[np.int64]:
        """Actions [N] for normalised observations: uniform before `learning_starts`, sampled after."""
        n = next(iter(obs.values())).shape[0]
        if step < self.config.learning_starts:
            if MASK in obs:
                return pick_allowed(obs[MASK], self._random.uniform((n,)))
            return self._random.integers(0, self.policy.action_spec.nvec[0], (n,))
        noise = self.policy.distribution.draw(self._random, n)
        return np.asarray(self.policy.samples(obs, noise).numpy())

    def ended(self, done: npt.NDArray[np.bool_]) -> None:
        """Nothing is kept from one step of an episode to the next."""

    def learn(self, source: BatchSource, gradient_steps: int, step: int, progress: float) -> Metrics:
        """Minibatches from the replay buffer; each trains temperature, critics and actor.

        Args:
            source: Gives minibatches and takes back their TD errors.
            gradient_steps: How many.
            step: Environment steps so far.
            progress: Steps before the last vector step over the declared total.
        """
        learning_rate = value_at(self.config.learning_rate, progress)
        rows: list[dict[str, Tensor]] = []
        for _ in range(gradient_steps):
            batch = source.sample(self.config.batch_size)
            with self.guard.minibatch(batch):
                rows.append(self._minibatch(batch, source, learning_rate))
        return mean_metrics(rows) | {"train/learning_rate": learning_rate}

    def _minibatch(self, batch: ReplayBatch, source: BatchSource, learning_rate: float) -> dict[str, Tensor]:
        """Train on one; where any part of it is bad, nothing is changed."""
        alpha = self.temperature.value()
        values = self._q.forward(batch.obs)
        loss, metrics, gradients = self._critic_loss(values, batch, self._targets(batch, alpha))
        self.guard.look("train/critic_loss", loss)
        self._q.backward(gradients)
        self.guard.provisional(self._critic_optimizer)
        self.guard.applied(self._critic_optimizer.step(learning_rate, 0.0, self.guard.permit))
        logits, (values_after,) = self._pi.forward(batch.obs), self._q.evaluate(batch.obs)
        smallest = values_after.min(dim=0).values
        mask = mask_of(batch.obs)
        loss, acted, gradients = self._actor_loss(logits, smallest, alpha, *((mask,) if mask else ()))
        tempered = self.temperature.look(self._missed(batch) - acted["train/entropy"], self.guard)
        self.guard.look("train/actor_loss", loss)
        self._pi.backward(gradients)
        self.guard.applied(self._actor_optimizer.step(learning_rate, 0.0, self.guard.permit))
        self.temperature.follow(learning_rate, self.guard)
        self._updates += 1
        if self._updates % self.config.target_update_interval == 0:
            follow(self._target_q, self._q, self.config.tau, self.guard.permit)
        source.update_priorities(batch, metrics.pop("td"))
        metrics["train/critic_loss"] = 0.5 * metrics["train/critic_loss"]  # as Stable-Baselines3 reports it
        return metrics | acted | tempered | {"train/ent_coef": alpha}

    @torch.no_grad()
    def _targets(self, batch: ReplayBatch, alpha: Tensor) -> Tensor:
        """Soft values of the successors, [B]."""
        log_p = self._log_p(batch.next_obs)
        (values,) = self._target_q.evaluate(batch.next_obs)
        soft = (log_p.exp() * (values.min(dim=0).values - alpha * log_p)).sum(dim=-1)
        rewards = batch.rewards
        if batch.inside is not None:
            log_p = self._log_p(batch.inside.obs)
            entropy = -(log_p.exp() * log_p).sum(dim=-1).view_as(batch.inside.discounts)
            rewards = rewards + alpha * (batch.inside.discounts * entropy).sum(dim=1)
        return q_target(rewards, batch.discounts, batch.terminated, soft)

    def _log_p(self, obs: TensorTree) -> Tensor:
        """log pi(. | s), [B, A]."""
        return masked((self._pi.evaluate(obs)[0].squeeze(-1),), obs)[0].log_softmax(dim=-1)

    def _missed(self, batch: ReplayBatch) -> Tensor | float:
        """How far the entropy aimed at (auto) lies above the same share of what the masks leave, on average."""
        left = choices(batch.obs)
        if left is None or not isinstance(self.config.target_entropy, str):
            return 0.0
        return TARGET_ENTROPY * left.log().mean() - self.temperature.target_entropy

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        return {
            "random": self._random.state_dict(),
            "temperature": self.temperature.state_dict(),
            "actor_optimizer": self._actor_optimizer.state_dict(),
            "critic_optimizer": self._critic_optimizer.state_dict(),
            "target": self._target_q.flat.data.clone(),
            "updates": self._updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._random.load_state_dict(state["random"])
        self.temperature.load_state_dict(state["temperature"])
        self._actor_optimizer.load_state_dict(state["actor_optimizer"])
        self._critic_optimizer.load_state_dict(state["critic_optimizer"])
        self._target_q.flat.data.copy_(state["target"])
        self._updates = state["updates"]
