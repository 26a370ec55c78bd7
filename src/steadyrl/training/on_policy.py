"""The on-policy loop: step the environments, fill a rollout, hand it to the algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.algorithms import OnPolicyAlgorithm
from steadyrl.algorithms.guard import Guard
from steadyrl.configs import OnPolicyConfig
from steadyrl.data.rollout import Rollout
from steadyrl.envs.types import EpisodeRecord, Step, VecEnv
from steadyrl.errors import NonFiniteError
from steadyrl.nn.normalizer import RewardNormalizer
from steadyrl.training.guards import require_sane_outputs, require_sane_policy
from steadyrl.training.remembering import recall_of
from steadyrl.training.stepping import Stepper


class OnPolicyLoop:
    """Everything that goes on from one vector step to the next.

    Args:
        config: Sizes of the rollout, discount factor.
        algorithm: Acts and learns.
        venv: The training environments.
        env_seeds: Seed of each environment's first episode, [N].
        start: Environment steps that the policy was trained on before.
        reward_scale: What rewards were multiplied by before they came here.
    """

    def __init__(
        self,
        config: OnPolicyConfig,
        algorithm: OnPolicyAlgorithm,
        venv: VecEnv,
        env_seeds: list[int],
        start: int = 0,
        reward_scale: float = 1.0,
    ) -> None:
        policy = algorithm.policy
        self.config = config
        self.algorithm = algorithm
        self.policy = policy
        self.venv = venv
        self._stepper = Stepper(venv, env_seeds, policy, start)
        self.counters, self.episodes, self.phases = (
            self._stepper.counters,
            self._stepper.episodes,
            self._stepper.phases,
        )
        self.lost = self._stepper.lost
        self.rollout = Rollout(
            config.n_steps, venv.num_envs, policy.stored_spec, policy.action_spec, native=policy.native
        )
        self.rewards = (
            RewardNormalizer(venv.num_envs, gamma=config.gamma, native=policy.native)
            if config.normalize_reward
            else _as_float32
        )
        self._recall = recall_of(policy, config.n_steps, venv.num_envs)
        self._rollout_start = 0
        self._reward_scale = reward_scale
        self._continuous = policy.action_spec.is_real

    @property
    def guard(self) -> Guard:
        """Keeps bad minibatches from being applied."""
        return self.algorithm.guard

    def step(self, remaining: int, total: int) -> list[EpisodeRecord]:
        """One vector step, of which at most `remaining` transitions count; returns the episodes that ended.

        Schedules run over `total` environment steps; rows beyond `remaining` are stepped and thrown away.
        """
        stepper = self._stepper
        stepper.begin()
        if self.rollout.length == 0:
            self._rollout_start = self.counters.timesteps
        with self.phases("act"):
            valid = stepper.look(remaining)
            obs = stepper.seen
            noise = self.algorithm.exploration.draw(self.rollout.length)
            actions, log_probs, values = self._recall.act(obs, noise, self.rollout.length)
            if self._continuous:
                self._stepper.require_sane(actions.numpy())
            env_actions = self.policy.to_env(actions)
        step, ended = stepper.step(env_actions, valid)
        with self.phases("act"):
            over = step.terminated | step.truncated
            rewards = self.rewards(step.rewards, over if step.broken is None else over | step.broken, valid)
            self.rollout.add(obs, actions, log_probs, values, rewards, step.terminated, step.truncated, valid)
            self._bootstrap(step, valid)
            if step.broken is not None:
                self.rollout.drop_unfinished(step.broken)
            self._recall.stepped(over | ~step.valid)
        return ended

    def ready(self, total: int) -> bool:
        """Whether the rollout is full, or as full as it will get."""
        return self.rollout.full or self.counters.timesteps == total

    def row_due(self, before: int) -> bool:
        """Whether a row of metrics is due: every `log_interval` updates."""
        return self.rollout.length == 0 and self.counters.updates % self.config.log_interval == 0

    def learn(self, total: int) -> dict[str, Tensor | float]:
        """One update from the rollout as far as it goes; schedules run over `total` environment steps."""
        with self.phases("learn"), torch.enable_grad():  # an environment's code may have turned it off
            step = self.counters.timesteps
            try:
                if self.policy.touched:  # what the optimiser did is seen in the outputs
                    require_sane_policy(self.policy, step)
                last_values = self._recall.last_values(self.policy.normalise(self._stepper.obs))
                require_sane_outputs({**self.rollout.outputs(), "last value": last_values.numpy()[None]}, step)
            except NonFiniteError:
                self.rollout.clear()
                raise
            self.guard.begin(step, self.counters.updates)
            batch = self._recall.batch(self.rollout, last_values, self.config.gamma, self.config.gae_lambda)
            self.rollout.clear()
            if len(batch.returns) == 0:
                return {}  # every row was made up by an autoreset
            metrics = self.algorithm.learn(batch.to(self.policy.device), self._rollout_start / total)
            self.counters.updates += 1
            if isinstance(self.rewards, RewardNormalizer):
                self.policy.value_scale = float(self.rewards.std) / self._reward_scale
        return metrics

    def begin(self) -> None:
        """Reset the environments, unless they were reset before: what is saved always has observations to act on."""
        self._stepper.begin()

    def start_anew(self, env_seeds: list[int]) -> None:
        """Reset environments whose state is not known any more, [N] seeds; their unfinished episodes are dropped."""
        self._stepper.start_anew(env_seeds)
        every = np.ones(self.venv.num_envs, dtype=np.bool_)
        self.rollout.drop_unfinished(every)
        self._recall.stepped(every)
        if isinstance(self.rewards, RewardNormalizer):
            self.rewards.start_anew()

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly but the policy and the environments."""
        return {
            "stepper": self._stepper.state_dict(),
            "guard": self.guard.state_dict(),
            "algorithm": self.algorithm.state_dict(),
            "rollout": self.rollout.state_dict(),
            "rollout_start": self._rollout_start,
            "rewards": self.rewards.state_dict() if isinstance(self.rewards, RewardNormalizer) else None,
            **self._recall.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._stepper.load_state_dict(state["stepper"])
        self.guard.load_state_dict(state["guard"])
        self.algorithm.load_state_dict(state["algorithm"])
        self.rollout.load_state_dict(state["rollout"])
        self._rollout_start = state["rollout_start"]
        self._recall.load_state_dict(state)
        if isinstance(self.rewards, RewardNormalizer):
            self.rewards.load_state_dict(state["rewards"])

    def _bootstrap(self, step: Step, valid: npt.NDArray[np.bool_]) -> None:
        """Values of the true final observations where an episode was cut, not ended."""
        rows = step.truncated & ~step.terminated & valid
        if np.count_nonzero(rows):
            final_obs = {path: leaf[rows] for path, leaf in step.final_obs.items()}
            self.rollout.set_final_values(rows, self._recall.final_values(self.policy.normalise(final_obs), rows))


def _as_float32(
    rewards: npt.NDArray[np.float64], done: npt.NDArray[np.bool_], valid: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    return rewards.astype(np.float32)
