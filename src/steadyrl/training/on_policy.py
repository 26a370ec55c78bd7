"""The on-policy loop: step the environments, fill a rollout, hand it to the algorithm."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.algorithms import OnPolicyAlgorithm
from steadyrl.configs import OnPolicyConfig
from steadyrl.data.rollout import Rollout
from steadyrl.envs.types import EpisodeRecord, Step, VecEnv
from steadyrl.nn.normalizer import RewardNormalizer
from steadyrl.spaces import ObsTree
from steadyrl.training.phases import Phases

WINDOW = 100  # episodes that rollout/ep_rew_mean looks back on


@dataclass
class Counters:
    """Where the training stands, in the library's own step axis."""

    timesteps: int = 0
    updates: int = 0


class OnPolicyLoop:
    """Everything that goes on from one vector step to the next.

    Args:
        config: Sizes of the rollout, discount factor.
        algorithm: Acts and learns.
        venv: The training environments.
        env_seeds: Seed of each environment's first episode, [N].
    """

    def __init__(
        self, config: OnPolicyConfig, algorithm: OnPolicyAlgorithm, venv: VecEnv, env_seeds: list[int]
    ) -> None:
        policy = algorithm.policy
        self.config = config
        self.algorithm = algorithm
        self.policy = policy
        self.venv = venv
        self.counters = Counters()
        self.episodes: deque[EpisodeRecord] = deque(maxlen=WINDOW)
        self.rollout = Rollout(config.n_steps, venv.num_envs, policy.obs_spec, policy.action_spec)
        self.rewards = RewardNormalizer(venv.num_envs, gamma=config.gamma) if config.normalize_reward else _as_float32
        self.phases = Phases()
        self._env_seeds = env_seeds
        self._obs: ObsTree | None = None
        self._rollout_start = 0

    def step(self, remaining: int) -> list[EpisodeRecord]:
        """One vector step, of which at most `remaining` transitions count; returns the episodes that ended.

        Rows beyond `remaining` are stepped and thrown away, those of the highest index first.
        """
        if self._obs is None:
            with self.phases("env"):
                self._obs = self.venv.reset(self._env_seeds)
        if self.rollout.length == 0:
            self._rollout_start = self.counters.timesteps
        with self.phases("act"):
            valid = _within(self.venv.live, remaining)
            if self.policy.normalizer is not None:
                self.policy.normalizer.update(self._obs, valid)
            obs = self.policy.normalise(self._obs)
            actions, log_probs, values = self.policy.act(obs, self.algorithm.exploration.draw(self.rollout.length))
            env_actions = self.policy.to_env(actions)
        with self.phases("env"):
            step = self.venv.step(env_actions)
        with self.phases("act"):
            done = step.terminated | step.truncated
            rewards = self.rewards(step.rewards, done, valid)
            self.rollout.add(obs, actions, log_probs, values, rewards, step.terminated, step.truncated, valid)
            self._bootstrap(step, valid)
            self._obs = step.obs
        self.counters.timesteps += int(valid.sum())
        ended = [episode for episode in step.episodes if valid[episode.env_index]]
        self.episodes.extend(ended)
        return ended

    def learn(self, total: int) -> dict[str, Tensor | float]:
        """One update from the rollout as far as it goes; schedules run over `total` environment steps."""
        assert self._obs is not None
        with self.phases("learn"), torch.enable_grad():  # an environment's code may have turned it off
            last_values = self.policy.values(self.policy.normalise(self._obs))
            batch = self.rollout.batch(last_values, self.config.gamma, self.config.gae_lambda)
            self.rollout.clear()
            if len(batch.returns) == 0:
                return {}  # every row was made up by an autoreset
            metrics = self.algorithm.learn(batch.to(self.policy.device), self._rollout_start / total)
            self.counters.updates += 1
            if isinstance(self.rewards, RewardNormalizer):
                self.policy.value_scale = float(self.rewards.std)
        return metrics

    def _bootstrap(self, step: Step, valid: npt.NDArray[np.bool_]) -> None:
        """Values of the true final observations where an episode was cut, not ended."""
        rows = step.truncated & ~step.terminated & valid
        if rows.any():
            final_obs = {path: leaf[rows] for path, leaf in step.final_obs.items()}
            self.rollout.set_final_values(rows, self.policy.values(self.policy.normalise(final_obs)))


def _as_float32(
    rewards: npt.NDArray[np.float64], done: npt.NDArray[np.bool_], valid: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    return rewards.astype(np.float32)


def _within(live: npt.NDArray[np.bool_], remaining: int) -> npt.NDArray[np.bool_]:
    """Rows that count: the live ones, without the highest-index ones beyond `remaining`."""
    valid = live.copy()
    extra = int(live.sum()) - remaining
    if extra > 0:
        valid[np.flatnonzero(live)[-extra:]] = False
    return valid
