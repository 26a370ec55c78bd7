"""The off-policy loop: step the environments, keep what happened, train from a replay buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.off_policy import OffPolicyAlgorithm
from steadyrl.configs import OffPolicyConfig, Schedule, value_at
from steadyrl.data.prioritised import PrioritisedReplay
from steadyrl.data.replay import Replay
from steadyrl.data.transitions import ReplayBatch, TensorTree
from steadyrl.envs.types import EpisodeRecord, VecEnv
from steadyrl.seeding import Stream
from steadyrl.training.guards import require_sane_policy
from steadyrl.training.stepping import Stepper, passed

# Updates between two looks at all weights where nobody but the optimiser had a hand on them: its steps are bounded, so
# they cannot become infinite by themselves without a bad loss or gradient before.
LOOK_EVERY = 100


class OffPolicyLoop:
    """Everything that goes on from one vector step to the next.

    Args:
        config: Frequencies and sizes.
        algorithm: Acts and learns.
        venv: The training environments.
        env_seeds: Seed of each environment's first episode, [N].
        replay: Keeps raw transitions; they are normalised when they are used.
        sampling: Chooses minibatches.
        beta: Exponent of the importance weights of a prioritised replay.
        start: Environment steps that the policy was trained on before; the replay starts empty all the same.
    """

    def __init__(
        self,
        config: OffPolicyConfig,
        algorithm: OffPolicyAlgorithm,
        venv: VecEnv,
        env_seeds: list[int],
        replay: Replay,
        sampling: Stream,
        beta: Schedule,
        start: int = 0,
    ) -> None:
        self.config = config
        self.algorithm = algorithm
        self.policy = algorithm.policy
        self.venv = venv
        self.replay = replay
        self._stepper = Stepper(venv, env_seeds, self.policy, start)
        self.counters, self.episodes, self.phases = (
            self._stepper.counters,
            self._stepper.episodes,
            self._stepper.phases,
        )
        self.lost = self._stepper.lost
        self._sampling = sampling
        self._beta = beta
        self._due = 0  # gradient steps
        self._start = self._period_start = start
        self._progress = 0.0
        self._looked = 0  # updates at the last look at the weights

    @property
    def guard(self) -> Guard:
        """Keeps bad minibatches from being applied."""
        return self.algorithm.guard

    def step(self, remaining: int, total: int) -> list[EpisodeRecord]:
        """One vector step, of which at most `remaining` transitions count; returns the episodes that ended.

        Schedules run over `total` environment steps; rows beyond `remaining` are stepped and thrown away.
        """
        raw = self._stepper.obs
        before = self.counters.timesteps
        self._progress = before / total
        with self.phases("act"):
            valid = self._stepper.look(remaining)
            actions = self.algorithm.act(self._stepper.seen, before - self._start, self._progress)
            self._stepper.require_sane(actions)
            env_actions = self.policy.mapped(actions)
        step, ended = self._stepper.step(env_actions, valid)
        with self.phases("act"):
            self.replay.add(raw, actions, step, valid)
            if step.broken is not None:
                self.replay.drop_unfinished(step.broken)
            self.algorithm.ended(step.terminated | step.truncated | ~step.valid)
        self._count_periods(before, last=self.counters.timesteps == total)
        return ended

    def _count_periods(self, before: int, *, last: bool) -> None:
        """Gradient steps that fall due: of each period that ended, and of an unfinished one at the declared total."""
        now = self.counters.timesteps
        periods = passed(self.config.train_freq, before, now)
        if last and now % self.config.train_freq:
            periods += 1
        if periods > 0:
            taken, self._period_start = now - self._period_start, now
            if now - self._start > self.config.learning_starts:
                per_period = self.config.gradient_steps
                self._due += taken if per_period == -1 else periods * per_period

    def ready(self, total: int) -> bool:
        """Whether gradient steps are due, and there is something to take them from."""
        return self._due > 0 and len(self.replay) > 0

    def row_due(self, before: int) -> bool:
        """Whether a row of metrics is due, now that the step count has gone on from `before`."""
        return passed(self.config.log_interval, before, self.counters.timesteps) > 0

    def learn(self, total: int) -> dict[str, Tensor | float]:
        """The gradient steps that are due."""
        with self.phases("learn"), torch.enable_grad():  # an environment's code may have turned it off
            if self.policy.touched or passed(LOOK_EVERY, self._looked, self.counters.updates):
                require_sane_policy(self.policy, self.counters.timesteps)
                self._looked = self.counters.updates
            self.guard.begin(self.counters.timesteps, self.counters.updates)
            steps, self._due = self._due, 0
            metrics = self.algorithm.learn(self, steps, self.counters.timesteps, self._progress)
            self.counters.updates += steps
        return metrics

    def begin(self) -> None:
        """Reset the environments, unless they were reset before: what is saved always has observations to act on."""
        self._stepper.begin()

    def start_anew(self, env_seeds: list[int]) -> None:
        """Reset environments whose state is not known any more, [N] seeds; their unfinished episodes are dropped."""
        self._stepper.start_anew(env_seeds)
        every = np.ones(self.venv.num_envs, dtype=np.bool_)
        self.replay.drop_unfinished(every)
        self.algorithm.ended(every)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly but the policy, the environments and the replay."""
        return {
            "stepper": self._stepper.state_dict(),
            "guard": self.guard.state_dict(),
            "algorithm": self.algorithm.state_dict(),
            "sampling": self._sampling.state_dict(),
            "due": self._due,
            "start": self._start,
            "period_start": self._period_start,
            "progress": self._progress,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._stepper.load_state_dict(state["stepper"])
        self.guard.load_state_dict(state["guard"])
        self.algorithm.load_state_dict(state["algorithm"])
        self._sampling.load_state_dict(state["sampling"])
        self._due, self._progress = state["due"], state["progress"]
        self._start, self._period_start = state["start"], state["period_start"]

    def sample(self, batch_size: int) -> ReplayBatch:
        """B transitions, normalised, on the policy's device."""
        if isinstance(self.replay, PrioritisedReplay):
            batch = self.replay.sample(batch_size, self._sampling, value_at(self._beta, self._progress))
        else:
            batch = self.replay.sample(batch_size, self._sampling)
        if self.policy.normalizer is not None:
            batch = batch.map_obs(self._normalised)
        return batch if self.policy.device.type == "cpu" else batch.to(self.policy.device)

    def update_priorities(self, batch: ReplayBatch, td_errors: Tensor) -> None:
        """Hand back the magnitudes of the TD errors, [B]."""
        if isinstance(self.replay, PrioritisedReplay):
            self.replay.update_priorities(batch.index, td_errors.cpu())

    def _normalised(self, obs: TensorTree) -> TensorTree:
        return self.policy.tensors(self.policy.normalise({path: leaf.numpy() for path, leaf in obs.items()}))
