"""From a configuration to its policy and its training loop."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from steadyrl.algorithms import OnPolicyAlgorithm, make_off_policy, make_on_policy
from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.off_policy import OffPolicyAlgorithm
from steadyrl.configs import DQNConfig, OffPolicyConfig, OnPolicyConfig, SACConfig
from steadyrl.data.hindsight import HindsightReplay
from steadyrl.data.prioritised import PrioritisedReplay
from steadyrl.data.replay import Replay
from steadyrl.envs.goals import goal_functions
from steadyrl.envs.types import BrokenEpisode, EpisodeRecord, VecEnv
from steadyrl.errors import UserError
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.on_policy import OnPolicyLoop
from steadyrl.training.phases import Phases
from steadyrl.training.setup import Setup
from steadyrl.training.stepping import Counters


class Loop(Protocol):
    """What a session drives."""

    venv: VecEnv
    policy: Policy
    counters: Counters
    episodes: deque[EpisodeRecord]
    lost: list[BrokenEpisode]
    phases: Phases

    @property
    def guard(self) -> Guard:
        """Keeps bad minibatches from being applied."""
        ...

    @property
    def algorithm(self) -> OnPolicyAlgorithm | OffPolicyAlgorithm:
        """What acts and learns."""
        ...

    def step(self, remaining: int, total: int) -> list[EpisodeRecord]:
        """One vector step, of which at most `remaining` transitions count; returns the episodes that ended."""
        ...

    def ready(self, total: int) -> bool:
        """Whether an update is due."""
        ...

    def learn(self, total: int) -> dict[str, Tensor | float]:
        """One update; returns its metrics."""
        ...

    def row_due(self, before: int) -> bool:
        """Whether a row of metrics is due, now that the step count has gone on from `before`."""
        ...

    def begin(self) -> None:
        """Reset the environments, unless they were reset before."""
        ...

    def start_anew(self, env_seeds: list[int]) -> None:
        """Reset environments whose state is not known any more, [N] seeds; their unfinished episodes are dropped."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly but the policy, the environments and a replay."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        ...


def make_loop(setup: Setup, policy: Policy, seeds: Seeds, venv: VecEnv, start: int = 0) -> Loop:
    """The training loop of a setup around its environments and a policy that was trained on `start` steps before.

    Its values were learnt from rewards of another scale, perhaps: what it learns from here on is what counts.
    """
    config = setup.resolved.config
    if not (isinstance(config, OnPolicyConfig) and config.normalize_reward):  # which tells its own scale
        policy.value_scale = 1.0 / setup.settings.reward_scale
    loop = _loop(setup, policy, seeds, venv, start)
    loop.guard.skip = setup.settings.on_nonfinite == "skip"
    loop.guard.limit = setup.settings.nonfinite_limit
    return loop


def _loop(setup: Setup, policy: Policy, seeds: Seeds, venv: VecEnv, start: int) -> Loop:
    config = setup.resolved.config
    env_seeds = seeds.env_seeds(venv.num_envs)
    if isinstance(config, OnPolicyConfig):
        algorithm = make_on_policy(config, policy, seeds)
        return OnPolicyLoop(config, algorithm, venv, env_seeds, start, setup.settings.reward_scale)
    replay = _replay(setup, config, policy, venv.num_envs)
    replay.native = policy.native
    return OffPolicyLoop(
        config,
        make_off_policy(config, policy, seeds),
        venv,
        env_seeds,
        replay,
        seeds.stream("algo", "minibatches"),
        config.prioritized_beta if isinstance(config, DQNConfig) else 1.0,
        start,
    )


def _replay(setup: Setup, config: OffPolicyConfig, policy: Policy, num_envs: int) -> Replay:
    directory = None if config.replay_dir is None else _unused(Path(config.replay_dir))
    sizes = (config.buffer_size, num_envs, policy.stored_spec, policy.action_spec)
    if config.hindsight != "none":
        goals = goal_functions(setup.source)
        if policy.masked and goals.terminated is not None:
            goals.env.close()
            raise _ends_without_masks()
        return HindsightReplay(
            *sizes,
            gamma=config.gamma,
            compute_reward=goals.reward,
            compute_terminated=goals.terminated,
            strategy=config.hindsight,
            n_sampled_goal=config.n_sampled_goal,
            directory=directory,
        )
    if isinstance(config, DQNConfig) and config.prioritized:
        alpha = config.prioritized_alpha
        return PrioritisedReplay(
            *sizes, gamma=config.gamma, n_step=config.n_step, alpha=alpha, frames=setup.frames, directory=directory
        )
    inside = isinstance(config, SACConfig)  # entropy is paid along the whole window
    return Replay(
        *sizes,
        gamma=config.gamma,
        n_step=config.n_step,
        inside=inside,
        frames=setup.frames,
        directory=directory,
    )


def _ends_without_masks() -> UserError:
    """For another goal an episode may go on where it was terminated, and no mask was looked at there."""
    return UserError(
        "Hindsight asks compute_terminated whether an episode would have ended for another goal, but where it did end "
        "no action mask says what could be done next.",
        remedy="Train without masks (--action-masks off), without hindsight, or without compute_terminated.",
        code="unsuitable",
    )


def _unused(parent: Path) -> Path:
    """A folder for the arrays of this training alone: those of earlier ones stay as they are."""
    number = 1
    while (directory := parent / f"replay-{number}").exists():
        number += 1
    return directory
