"""Soft actor-critic (arXiv:1812.05905)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.metrics import Metrics, mean_metrics
from steadyrl.algorithms.noise import ActionNoise
from steadyrl.algorithms.off_policy import BatchSource, follow
from steadyrl.algorithms.td3 import critic_loss
from steadyrl.algorithms.temperature import Temperature
from steadyrl.configs import SACConfig, value_at
from steadyrl.data.targets import q_target
from steadyrl.data.transitions import Inside, ReplayBatch, TensorTree
from steadyrl.nn.actor_critics import ActorAndCritics
from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.gradient import Function, Loss
from steadyrl.nn.optim import Adam
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds
from steadyrl.spaces import ObsTree


def soft_actor_loss(outputs: tuple[Tensor, ...], temperature: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """`alpha log pi(a) - min_i Q_i(s, a)`; outputs are log-probabilities [B] and the critics' values [n, B]."""
    log_probs, values = outputs
    loss = (temperature * log_probs - values.min(dim=0).values).mean()
    return loss, {"train/actor_loss": loss, "train/entropy": -log_probs.mean()}


def sample(params: Params, noise: Tensor, distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Actions [B, D] in [-1, 1] and their log-probabilities [B]."""
    actions = distribution.sample(params, noise)
    return distribution.to_unit(actions), distribution.log_prob(params, actions)


def sample_pullback(
    outputs: Params, noise: Tensor, by_actions: Tensor, by_log_probs: Tensor, distribution: Distribution
) -> tuple[Tensor, dict[str, Tensor]]:
    """A function whose gradient by the distribution's parameters is that of a loss, given the loss's gradients by the
    actions [B, D] and log-probabilities [B] that they lead to."""
    actions, log_probs = sample(outputs, noise, distribution)
    return (by_actions * actions).sum() + (by_log_probs * log_probs).sum(), {}


class SAC:
    """The algorithm: a stochastic actor that is paid for entropy, critics that learn from a replay buffer.

    Args:
        config: Hyperparameters.
        policy: What is trained, with its initial weights.
        seeds: Whence its streams come.
    """

    def __init__(self, config: SACConfig, policy: Policy, seeds: Seeds) -> None:
        assert isinstance(policy.net, ActorAndCritics)
        self.config = config
        self.policy = policy
        self.guard = Guard(deferred=policy.device.type != "cpu")
        self._pi, self._q, self._distribution = policy.parts["pi"], policy.parts["q"], policy.distribution
        self._target_q = self._q.target()
        self._actor_optimizer, self._critic_optimizer = Adam(self._pi.flat), Adam(self._q.flat)
        self._sample = Function(partial(sample, distribution=self._distribution), policy)
        self._pullback = Loss(partial(sample_pullback, distribution=self._distribution), policy)
        self._critic_loss, self._actor_loss = Loss(critic_loss, policy), Loss(soft_actor_loss, policy)
        self.temperature = Temperature(config, -float(policy.action_spec.size), policy)
        self._random = seeds.stream("algo", "actions")
        self._sampling = seeds.stream("algo", "updates")
        shape = (config.num_envs, policy.action_spec.size)
        self._noise = ActionNoise(
            config.action_noise_type, config.action_noise_std, seeds.stream("algo", "exploration"), shape
        )
        self._kept: npt.NDArray[np.float32] | None = None  # gSDE's exploration matrices
        self._kept_for = 0
        self._updates = 0

    def act(self, obs: ObsTree, step: int, progress: float) -> npt.NDArray[np.float32]:
        """Actions [N, D] for normalised observations: random before `learning_starts`, sampled after."""
        n = next(iter(obs.values())).shape[0]
        if step < self.config.learning_starts:
            return 2 * self._random.uniform((n, self.policy.action_spec.size)) - 1
        actions = self.policy.samples(obs, self._draw(n)).numpy()
        if self.config.action_noise_type == "none":
            return actions
        return np.clip(actions + self._noise.draw(progress), -1.0, 1.0).astype(np.float32)

    def _draw(self, n: int) -> npt.NDArray[np.float32]:
        if not self._distribution.state_dependent:
            return self._distribution.draw(self._random, n)
        due = self.config.sde_sample_freq > 0 and self._kept_for >= self.config.sde_sample_freq
        if self._kept is None or due:
            self._kept, self._kept_for = self._distribution.draw(self._random, n), 0
        self._kept_for += 1
        return self._kept

    def ended(self, done: npt.NDArray[np.bool_]) -> None:
        """Correlated noise starts anew with an episode."""
        self._noise.reset(done)

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
        if self.config.sde_sample_freq < 0:
            self._kept = None
        return mean_metrics(rows) | {"train/learning_rate": learning_rate}

    def _minibatch(self, batch: ReplayBatch, source: BatchSource, learning_rate: float) -> dict[str, Tensor]:
        """Train on one; the temperature's step waits for all the others, so that a bad minibatch changes nothing."""
        params, noise = self._pi.forward(batch.obs), self._update_noise(len(batch.rewards))
        actions, log_probs = self._sample(params, noise)
        alpha = self.temperature.value()
        metrics = self.temperature.look(log_probs, self.guard)

        values = self._q.forward(batch.obs, batch.actions)
        loss, found, gradients = self._critic_loss(values, self._targets(batch, alpha), batch.weights)
        self.guard.look("train/critic_loss", loss)
        self._q.backward(gradients)
        self.guard.provisional(self._critic_optimizer)
        self.guard.applied(self._critic_optimizer.step(learning_rate, 0.0, self.guard.permit))
        outputs = (log_probs, *self._q.forward(batch.obs, actions))
        loss, acted, (by_log_probs, by_values) = self._actor_loss(outputs, alpha)
        self.guard.look("train/actor_loss", loss)
        by_actions = self._q.input_gradient((by_values,))
        _, _, gradients = self._pullback(params, noise, by_actions, by_log_probs)
        self._pi.backward(gradients)
        self.guard.applied(self._actor_optimizer.step(learning_rate, 0.0, self.guard.permit))
        self.temperature.follow(learning_rate, self.guard)
        self._updates += 1
        if self._updates % self.config.target_update_interval == 0:
            follow(self._target_q, self._q, self.config.tau, self.guard.permit)
        source.update_priorities(batch, found.pop("td"))
        found["train/critic_loss"] = 0.5 * found["train/critic_loss"]  # as Stable-Baselines3 reports it
        return metrics | found | acted | {"train/ent_coef": alpha}

    @torch.no_grad()
    def _targets(self, batch: ReplayBatch, alpha: Tensor) -> Tensor:
        """Soft values of the successors, [B]."""
        actions, log_probs = self._sampled(batch.next_obs)
        (values,) = self._target_q.evaluate(batch.next_obs, actions)
        rewards = batch.rewards if batch.inside is None else batch.rewards + alpha * self._entropy_inside(batch.inside)
        return q_target(rewards, batch.discounts, batch.terminated, values.min(dim=0).values - alpha * log_probs)

    def _entropy_inside(self, inside: Inside) -> Tensor:
        """Discounted entropy of the present policy along each window, [B].

        It takes new actions: those in the replay may be so unlikely by now that -log pi of them is without bound.
        """
        _, log_probs = self._sampled(inside.obs)
        return -(inside.discounts * log_probs.view_as(inside.discounts)).sum(dim=1)

    def _sampled(self, obs: TensorTree) -> tuple[Tensor, Tensor]:
        """The present policy's actions in [-1, 1] and their log-probabilities, [B, D] and [B]."""
        params = self._pi.evaluate(obs)
        sampled: tuple[Tensor, Tensor] = self._sample(params, self._update_noise(len(params[0])))
        return sampled

    def _update_noise(self, n: int) -> Tensor:
        """Noise for the actions of a minibatch, [n, ...]; state-dependent exploration has one matrix for all of it."""
        if self._distribution.state_dependent:
            noise = torch.from_numpy(self._distribution.draw(self._sampling, 1)).to(self.policy.device)
            return noise.expand(n, *noise.shape[1:])
        return torch.from_numpy(self._distribution.draw(self._sampling, n)).to(self.policy.device)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        return {
            "random": self._random.state_dict(),
            "sampling": self._sampling.state_dict(),
            "noise": self._noise.state_dict(),
            "kept": None if self._kept is None else self._kept.copy(),
            "kept_for": self._kept_for,
            "temperature": self.temperature.state_dict(),
            "actor_optimizer": self._actor_optimizer.state_dict(),
            "critic_optimizer": self._critic_optimizer.state_dict(),
            "target": self._target_q.flat.data.clone(),
            "updates": self._updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._random.load_state_dict(state["random"])
        self._sampling.load_state_dict(state["sampling"])
        self._noise.load_state_dict(state["noise"])
        self._kept, self._kept_for = state["kept"], state["kept_for"]
        self.temperature.load_state_dict(state["temperature"])
        self._actor_optimizer.load_state_dict(state["actor_optimizer"])
        self._critic_optimizer.load_state_dict(state["critic_optimizer"])
        self._target_q.flat.data.copy_(state["target"])
        self._updates = state["updates"]
