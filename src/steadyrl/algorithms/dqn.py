"""Deep Q-learning (Mnih et al. 2015) with its usual extensions as configuration."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.metrics import Metrics, mean_metrics
from steadyrl.algorithms.off_policy import BatchSource, follow
from steadyrl.configs import DQNConfig, value_at
from steadyrl.data.targets import project_categorical, q_target, quantile_huber
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.gradient import Function, Loss
from steadyrl.nn.masking import masked
from steadyrl.nn.optim import Adam
from steadyrl.nn.policy import Policy
from steadyrl.nn.q_networks import DiscreteQ, expected_returns
from steadyrl.seeding import Seeds
from steadyrl.spaces import ObsTree
from steadyrl.spaces.masks import MASK, pick_allowed


def dqn_loss(outputs: tuple[Tensor, ...], batch: ReplayBatch, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Huber loss of the chosen actions' values.

    Args:
        outputs: Values of all actions, ([B, A, 1],).
        batch: B transitions; their importance weights scale the loss.
        target: Of each, [B].
    """
    chosen = _chosen(outputs[0], batch.actions).squeeze(-1)
    errors = F.smooth_l1_loss(chosen, target, reduction="none")
    loss = (batch.weights * errors).mean()
    return loss, {"train/loss": loss, "train/q_mean": chosen.mean(), "td": (chosen - target).abs()}


def c51_loss(outputs: tuple[Tensor, ...], batch: ReplayBatch, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy to the projected target [B, K] of C51 (arXiv:1707.06887); outputs are logits ([B, A, K],)."""
    log_p = _chosen(outputs[0], batch.actions).log_softmax(dim=-1)
    errors = -(target * log_p).sum(dim=-1)
    loss = (batch.weights * errors).mean()
    return loss, {"train/loss": loss, "td": errors}


def quantile_loss(outputs: tuple[Tensor, ...], batch: ReplayBatch, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Quantile Huber loss (arXiv:1710.10044) to target quantiles [B, K]; outputs are quantiles ([B, A, K],)."""
    chosen = _chosen(outputs[0], batch.actions)
    errors = quantile_huber(chosen, target)
    loss = (batch.weights * errors).mean()
    return loss, {"train/loss": loss, "train/q_mean": chosen.mean(), "td": errors}


def dqn_target(outputs: Tensor, chooser: Tensor, batch: ReplayBatch, support: Tensor | None, *, head: str) -> Tensor:
    """What the chosen actions' values, or distributions of returns, are trained towards.

    Args:
        outputs: The target network's, of the successors, [B, A, K].
        chooser: The outputs that choose the successors' actions, [B, A, K].
        batch: B transitions.
        support: Returns of C51's atoms, [K].
        head: A key of `LOSSES`.

    Returns:
        [B] values; probabilities [B, K] of C51's atoms; [B, K] quantiles.
    """
    (means,) = masked((expected_returns(chooser, support),), batch.next_obs)
    chosen = _chosen(outputs, means.argmax(dim=-1))
    if head == "mean":
        return q_target(batch.rewards, batch.discounts, batch.terminated, chosen.squeeze(-1))
    rewards, discounts, terminated = batch.rewards[:, None], batch.discounts[:, None], batch.terminated[:, None]
    if support is None:
        return q_target(rewards, discounts, terminated, chosen)
    return project_categorical(chosen.softmax(dim=-1), q_target(rewards, discounts, terminated, support), support)


LOSSES = {"mean": dqn_loss, "c51": c51_loss, "quantile": quantile_loss}


class DQN:
    """The algorithm: explores with a falling share of random actions, learns from a replay buffer.

    Args:
        config: Hyperparameters.
        policy: What is trained, with its initial weights.
        seeds: Whence its streams come.
    """

    def __init__(self, config: DQNConfig, policy: Policy, seeds: Seeds) -> None:
        assert isinstance(policy.net, DiscreteQ)
        self.config = config
        self.policy = policy
        self.guard = Guard(deferred=policy.device.type != "cpu")
        self._net = policy.net
        self._q = policy.parts["q"]
        self._target = self._q.target()
        self._optimizer = Adam(self._q.flat, eps=1e-8)
        self._actions = seeds.stream("algo", "actions")
        self._loss = Loss(LOSSES[config.head], policy)
        self._target_of = Function(partial(dqn_target, head=config.head), policy, fresh=False)
        self._target_updates = 0

    def epsilon(self, progress: float) -> float:
        """Share of random actions at this progress of the run."""
        config = self.config
        share = min(progress / config.exploration_fraction, 1.0)
        return config.exploration_initial_eps + share * (config.exploration_final_eps - config.exploration_initial_eps)

    def act(self, obs: ObsTree, step: int, progress: float) -> npt.NDArray[np.int64]:
        """Actions [N] for normalised observations: random before `learning_starts`, epsilon-greedy after.

        Random or not, an action is one that its mask allows.
        """
        n = next(iter(obs.values())).shape[0]
        explore, choice = self._actions.uniform((2, n))
        random: npt.NDArray[np.int64] = (
            pick_allowed(obs[MASK], choice)
            if MASK in obs
            else (choice * self.policy.action_spec.nvec[0]).astype(np.int64)
        )
        if step < self.config.learning_starts:
            return random
        greedy = self.policy.modes(obs).numpy()
        return np.asarray(np.where(explore < self.epsilon(progress), random, greedy))

    def ended(self, done: npt.NDArray[np.bool_]) -> None:
        """Nothing is kept from one step of an episode to the next."""

    def learn(self, source: BatchSource, gradient_steps: int, step: int, progress: float) -> Metrics:
        """Minibatches from the replay buffer; the target network follows at its own interval of environment steps.

        Args:
            source: Gives minibatches and takes back their TD errors.
            gradient_steps: How many.
            step: Environment steps so far.
            progress: Steps before the last vector step over the declared total.
        """
        self._follow(step)
        learning_rate = value_at(self.config.learning_rate, progress)
        rows: list[dict[str, Tensor]] = []
        for _ in range(gradient_steps):
            batch = source.sample(self.config.batch_size)
            with self.guard.minibatch(batch):
                outputs = self._q.forward(batch.obs)
                loss, metrics, gradients = self._loss(outputs, batch, self._targets(batch))
                td = metrics.pop("td")
                if self.config.prioritized:
                    self.guard.look("the TD errors' sum", td.sum())
                self.guard.look("train/loss", loss)
                self._q.backward(gradients)
                norm = self._optimizer.step(learning_rate, self.config.max_grad_norm, self.guard.permit)
                rows.append(metrics | {"train/grad_norm": self.guard.applied(norm)})
                if not self.config.prioritized or self.guard.good():
                    source.update_priorities(batch, td)
        return mean_metrics(rows) | {
            "train/learning_rate": learning_rate,
            "rollout/exploration_rate": self.epsilon(progress),
        }

    def _targets(self, batch: ReplayBatch) -> Tensor:
        """[B], or a distribution of returns [B, K]; valid until the next call."""
        (outputs,) = self._target.evaluate(batch.next_obs)
        (chooser,) = self._q.evaluate(batch.next_obs) if self.config.double else (outputs,)
        found: Tensor = self._target_of(outputs, chooser, batch, self._net.support)
        return found

    def _follow(self, step: int) -> None:
        """One step of the target network for each interval that passed; the online one stood still between them."""
        due = step // self.config.target_update_interval
        missed, self._target_updates = due - self._target_updates, due
        if missed > 0:
            follow(self._target, self._q, 1.0 - (1.0 - self.config.tau) ** missed)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        return {
            "actions": self._actions.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "target": self._target.flat.data.clone(),
            "target_updates": self._target_updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._actions.load_state_dict(state["actions"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._target.flat.data.copy_(state["target"])
        self._target_updates = state["target_updates"]


def _chosen(outputs: Tensor, actions: Tensor) -> Tensor:
    """Rows [B, K] of outputs [B, A, K] at actions [B]."""
    return outputs[torch.arange(outputs.shape[0], device=outputs.device), actions]
