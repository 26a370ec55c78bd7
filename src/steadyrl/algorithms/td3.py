"""Twin delayed deep deterministic policy gradient (arXiv:1802.09477); a configuration is DDPG (arXiv:1509.02971)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.metrics import Metrics, mean_metrics
from steadyrl.algorithms.noise import ActionNoise
from steadyrl.algorithms.off_policy import BatchSource, follow
from steadyrl.configs import TD3Config, value_at
from steadyrl.data.targets import q_target
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.actor_critics import ActorAndCritics
from steadyrl.nn.gradient import Loss
from steadyrl.nn.optim import Adam
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds
from steadyrl.spaces import ObsTree


def critic_loss(outputs: tuple[Tensor, ...], target: Tensor, weights: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean squared error of every critic, summed over the critics; outputs are their values ([n, B],), target [B]."""
    values = outputs[0]
    errors = values - target
    loss = (weights * errors.square()).mean(dim=1).sum()
    return loss, {"train/critic_loss": loss, "train/q_mean": values.mean(), "td": errors.abs().mean(dim=0)}


def deterministic_actor_loss(outputs: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
    """-Q_1(s, pi(s)); outputs are the critics' values ([n, B],)."""
    loss = -outputs[0][0].mean()
    return loss, {"train/actor_loss": loss}


class TD3:
    """The algorithm: a deterministic actor explores with noise, critics learn from a replay buffer.

    Args:
        config: Hyperparameters.
        policy: What is trained, with its initial weights.
        seeds: Whence its streams come.
    """

    def __init__(self, config: TD3Config, policy: Policy, seeds: Seeds) -> None:
        assert isinstance(policy.net, ActorAndCritics)
        self.config = config
        self.policy = policy
        self.guard = Guard(deferred=policy.device.type != "cpu")
        self._pi, self._q = policy.parts["pi"], policy.parts["q"]
        self._target_pi, self._target_q = self._pi.target(), self._q.target()
        self._actor_optimizer, self._critic_optimizer = Adam(self._pi.flat), Adam(self._q.flat)
        self._critic_loss = Loss(critic_loss, policy)
        self._actor_loss = Loss(deterministic_actor_loss, policy)
        self._random = seeds.stream("algo", "actions")
        self._smoothing = seeds.stream("algo", "target noise")
        shape = (config.num_envs, policy.action_spec.size)
        self._noise = ActionNoise(
            config.action_noise_type, config.action_noise_std, seeds.stream("algo", "exploration"), shape
        )
        self._updates = 0

    def act(self, obs: ObsTree, step: int, progress: float) -> npt.NDArray[np.float32]:
        """Actions [N, D] for normalised observations: random before `learning_starts`, with noise after."""
        if step < self.config.learning_starts:
            n = next(iter(obs.values())).shape[0]
            return 2 * self._random.uniform((n, self.policy.action_spec.size)) - 1
        actions = self.policy.modes(obs).numpy()
        return np.clip(actions + self._noise.draw(progress), -1.0, 1.0).astype(np.float32)

    def ended(self, done: npt.NDArray[np.bool_]) -> None:
        """Correlated noise starts anew with an episode."""
        self._noise.reset(done)

    def learn(self, source: BatchSource, gradient_steps: int, step: int, progress: float) -> Metrics:
        """Minibatches from the replay buffer; actor and target networks follow every `policy_delay` of them.

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
                outputs = self._q.forward(batch.obs, batch.actions)
                loss, metrics, gradients = self._critic_loss(outputs, self._targets(batch), batch.weights)
                self.guard.look("train/critic_loss", loss)
                self._q.backward(gradients)
                if self._improves:
                    self.guard.provisional(self._critic_optimizer)
                self.guard.applied(self._critic_optimizer.step(learning_rate, 0.0, self.guard.permit))
                if self._improves:
                    metrics |= self._improve(batch, learning_rate)
                    follow(self._target_pi, self._pi, self.config.tau, self.guard.permit)
                    follow(self._target_q, self._q, self.config.tau, self.guard.permit)
                self._updates += 1
                source.update_priorities(batch, metrics.pop("td"))
                rows.append(metrics)
        return mean_metrics(rows) | {"train/learning_rate": learning_rate}

    @property
    def _improves(self) -> bool:
        """Whether actor and target networks follow in the present minibatch."""
        return (self._updates + 1) % self.config.policy_delay == 0

    def _improve(self, batch: ReplayBatch, learning_rate: float) -> dict[str, Tensor]:
        """One step of the actor: the gradient goes through the critics to the actions, then to the actor."""
        (actions,) = self._pi.forward(batch.obs)
        loss, metrics, gradients = self._actor_loss(self._q.forward(batch.obs, actions))
        self.guard.look("train/actor_loss", loss)
        self._pi.backward((self._q.input_gradient(gradients),))
        self.guard.applied(self._actor_optimizer.step(learning_rate, 0.0, self.guard.permit))
        return metrics

    @torch.no_grad()
    def _targets(self, batch: ReplayBatch) -> Tensor:
        """[B]: smoothed target actions, the smallest target critic."""
        (actions,) = self._target_pi.evaluate(batch.next_obs)
        if self.config.target_policy_noise > 0:
            noise = torch.from_numpy(self._smoothing.normal(tuple(actions.shape))).to(actions.device)
            actions = smooth(actions, noise, self.config.target_policy_noise, self.config.target_noise_clip)
        (values,) = self._target_q.evaluate(batch.next_obs, actions)
        return q_target(batch.rewards, batch.discounts, batch.terminated, values.min(dim=0).values)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        return {
            "random": self._random.state_dict(),
            "smoothing": self._smoothing.state_dict(),
            "noise": self._noise.state_dict(),
            "actor_optimizer": self._actor_optimizer.state_dict(),
            "critic_optimizer": self._critic_optimizer.state_dict(),
            "target_actor": self._target_pi.flat.data.clone(),
            "target_critic": self._target_q.flat.data.clone(),
            "updates": self._updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._random.load_state_dict(state["random"])
        self._smoothing.load_state_dict(state["smoothing"])
        self._noise.load_state_dict(state["noise"])
        self._actor_optimizer.load_state_dict(state["actor_optimizer"])
        self._critic_optimizer.load_state_dict(state["critic_optimizer"])
        self._target_pi.flat.data.copy_(state["target_actor"])
        self._target_q.flat.data.copy_(state["target_critic"])
        self._updates = state["updates"]


def smooth(actions: Tensor, noise: Tensor, std: float, clip: float) -> Tensor:
    """Target policy smoothing: `clip(a + clip(std * noise, -clip, clip), -1, 1)`, per sample and dimension, [B, D]."""
    return (actions + (std * noise).clamp(-clip, clip)).clamp(-1.0, 1.0)
