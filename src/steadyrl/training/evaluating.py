"""Isolated evaluation: own environments, own seeds, frozen normaliser, raw reward; training does not notice it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from steadyrl.envs.keys import GAME
from steadyrl.envs.masks import KEY, missing_mask
from steadyrl.envs.score import going_on
from steadyrl.envs.sources import time_limit
from steadyrl.envs.types import VecEnv
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import RunFailedError
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.spaces import ObsTree
from steadyrl.spaces.masks import MASK, read_mask
from steadyrl.training.evaluation import Evaluation, Watch, told_successes, unwatched
from steadyrl.training.guards import entry, first_absurd, is_sane
from steadyrl.training.playing import Player

SUCCESS = "is_success"
MAX_ENVS = 10
ENDLESS = 100_000  # steps without an end, and without a limit that would come: ten times the longest usual episodes


@dataclass(frozen=True)
class Spared:
    """Failures of evaluation episodes that are counted and leave their episode out, up to half of all.

    Attributes:
        codes: Of their errors.
        anew: Makes an environment in the place of one whose code failed.
    """

    codes: frozenset[str]
    anew: Callable[[], gym.Env[Any, Any]]


def run_episodes(
    policy: Policy,
    envs: list[gym.Env[Any, Any]],
    seeds: Sequence[int],
    stream: Stream | None = None,
    watch: Watch = unwatched,
    spared: Spared | None = None,
) -> Evaluation:
    """One episode a seed; environment j plays the episodes j, j + M, j + 2 M, ..., so short episodes are not favoured.

    Args:
        policy: Acts; the most likely actions unless a stream to sample with is given.
        envs: M environments, stepped side by side.
        seeds: The seed of each episode's reset.
        stream: Randomness of a sampling policy.
        watch: Called before each step with the longest episode's length so far; what it raises ends the evaluation.
        spared: Failures that only leave their episode out; None lets every failure end the evaluation.

    Raises:
        RunFailedError: an observation or a reward is not finite or absurd, an environment failed, or an episode seems
            to have no end; what is spared only where more than half of the episodes came to it.
        UserError: the policy needs action masks, and an environment gives none, or one that allows nothing.
    """
    player = Player(policy, len(envs), stream)
    run = _Episodes(policy, player, envs, seeds, spared)
    unlimited = any(time_limit(env) is None for env in envs)
    while run.playing:
        longest = int(run.lengths.max())
        watch(longest)
        if unlimited and longest >= ENDLESS:
            _insist_on_ends(envs, run.playing, run.lengths)
        batch = {path: np.concatenate([run.obs[j][path] for j in run.playing]) for path in policy.stored_spec.by_path}
        actions = player.act(batch, list(run.playing))
        for action, j in zip(actions, list(run.playing), strict=True):
            run.step(j, action)
    return run.result()


class _Episodes:
    """The episodes of `run_episodes`: what each came to, which are running, and what they observe."""

    def __init__(
        self,
        policy: Policy,
        player: Player,
        envs: list[gym.Env[Any, Any]],
        seeds: Sequence[int],
        spared: Spared | None,
    ) -> None:
        self.returns, self.lengths = np.zeros(len(seeds)), np.zeros(len(seeds), dtype=np.int64)
        self.playing: dict[int, int] = {}  # environment -> its episode
        self.obs: dict[int, ObsTree] = {}
        self._policy, self._player = policy, player
        self._envs, self._seeds, self._spared = envs, seeds, spared
        self._failed: dict[int, str] = {}
        self._successes: dict[int, bool] = {}
        for j in range(min(len(envs), len(seeds))):
            self._begin(j, j)

    def step(self, j: int, action: Any) -> None:
        """Step environment j; where its episode ends or fails, the next one of its share begins."""
        env, episode = self._envs[j], self.playing[j]
        seed = self._seeds[episode]
        try:
            obs, reward, terminated, truncated, info = env.step(action)
            self.lengths[episode] += 1
            length = int(self.lengths[episode])
            self.returns[episode] += _sane(float(reward), env, seed, length)
            ended = terminated or truncated
            obs, over, info = going_on(env, obs, ended, info)
            self.obs[j] = _stored(self._policy, (obs, info), env, seed, length, over=over)
            if over and SUCCESS in info:
                self._successes[episode] = bool(info[SUCCESS])
            if over and GAME in info:
                self.returns[episode] = _sane(info[GAME], env, seed, length)
            if ended:
                self._player.begin(j)  # with the next life as well, which is another episode in training
        except RunFailedError as error:
            self._spare(j, episode, error)
            over = True
        if over:
            self._begin(j, episode + len(self._envs))

    def result(self) -> Evaluation:
        """What the episodes came to that did not fail."""
        good = np.array([episode not in self._failed for episode in range(len(self._seeds))])
        successes = [self._successes.get(episode) for episode in np.flatnonzero(good).tolist()]
        return Evaluation(
            self.returns[good], self.lengths[good], tuple(self._failed.values()), told_successes(successes)
        )

    def _begin(self, j: int, episode: int) -> None:
        """Start this episode of environment j, or the next one of its share that starts; none where there is none."""
        self.playing.pop(j, None)
        while episode < len(self._seeds):
            try:
                told = self._envs[j].reset(seed=self._seeds[episode])
                self.obs[j] = _stored(self._policy, told, self._envs[j], self._seeds[episode], 0)
            except RunFailedError as error:
                self._spare(j, episode, error)
                episode += len(self._envs)
            else:
                self.playing[j] = episode
                self._player.begin(j)
                return

    def _spare(self, j: int, episode: int, error: RunFailedError) -> None:
        if self._spared is None or error.code not in self._spared.codes:
            raise error
        self._failed[episode] = error.message
        if 2 * len(self._failed) > len(self._seeds):
            told = f"{len(self._failed)} of {len(self._seeds)} evaluation episodes had failed by then, more than half."
            error.remedy = f"{error.remedy} {told}".lstrip()
            raise error
        if error.code == "env-error":
            self._envs[j].close()
            self._envs[j] = self._spared.anew()


def _insist_on_ends(envs: Sequence[gym.Env[Any, Any]], playing: dict[int, int], lengths: npt.NDArray[np.int64]) -> None:
    """Raises RunFailedError for a running episode that nothing will end."""
    for j, episode in playing.items():
        if lengths[episode] >= ENDLESS and time_limit(envs[j]) is None:
            raise _endless(_name(envs[j]), int(lengths[episode]))


def _endless(name: str, length: int) -> RunFailedError:
    return RunFailedError(
        f"An evaluation episode of {name} has lasted {length} steps without an end, and it has no time limit.",
        remedy="Set max_episode_steps (--max-episode-steps), or eval_freq=0 (--eval-freq 0) for no evaluation.",
        code="endless-evaluation",
    )


def _stored(
    policy: Policy,
    told: tuple[Any, dict[str, Any]],
    env: gym.Env[Any, Any],
    seed: int,
    step: int,
    *,
    over: bool = False,
) -> ObsTree:
    """One observation as the policy takes it, [1, ...], with its action mask where the policy needs one.

    Args:
        policy: Who takes it.
        told: Observation and info.
        env: Who told them.
        seed: Of its episode.
        step: In the episode.
        over: The episode ended with it, so that nobody acts on it.

    Raises:
        RunFailedError: a number in it is not finite or absurd.
        UserError: the mask is missing, of another size, or allows nothing.
    """
    obs, info = told
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
        stored = policy.obs_spec.store(obs, batch=False)
    found = first_absurd(stored)
    if found is not None:
        path, index, value = found
        raise _not_sane(env, f"{value} as {entry(path, index[1:])} of its observation", seed, step)
    if policy.masked and not over:
        if KEY not in info:
            raise missing_mask(f"The evaluation environment {_name(env)}", step)
        where = f"the evaluation environment {_name(env)}, in step {step} of the episode with seed {seed},"
        stored[MASK] = read_mask(info[KEY], policy.action_spec, where)[None].astype(np.float32)
    return stored


def _sane(reward: float, env: gym.Env[Any, Any], seed: int, step: int) -> float:
    if not is_sane(reward):
        raise _not_sane(env, f"{reward} as its reward", seed, step)
    return reward


def _not_sane(env: gym.Env[Any, Any], what: str, seed: int, step: int) -> RunFailedError:
    return RunFailedError(
        f"The evaluation environment {_name(env)} gave {what} in step {step} of the episode with seed {seed}.",
        remedy=f"Find out in the environment where it comes from: reset(seed={seed}) starts that episode. "
        "In a training, eval_freq 0 does without evaluations.",
        code="env-nonfinite",
    )


def _name(env: gym.Env[Any, Any]) -> str:
    return env.name if isinstance(env, Canonical) else type(env.unwrapped).__name__


def run_vector_episodes(
    policy: Policy, venv: VecEnv, seeds: Sequence[int], stream: Stream | None = None, watch: Watch = unwatched
) -> Evaluation:
    """As many episodes as there are seeds in a vector of environments, an equal share each.

    Only the first episode of each environment has its own seed: a vector environment draws the later ones on.

    Raises:
        RunFailedError: an environment failed, told a number that is not finite, or an episode seems to have no end.
    """
    quota = np.full(venv.num_envs, len(seeds) // venv.num_envs)
    quota[: len(seeds) % venv.num_envs] += 1
    padded = [*seeds, *range(venv.num_envs)]
    obs = venv.reset(padded[: venv.num_envs])
    player, every = Player(policy, venv.num_envs, stream), range(venv.num_envs)
    returns, lengths, successes = [], [], []
    running = np.zeros(venv.num_envs, dtype=np.int64)
    while quota.any():
        longest = int(running.max())
        watch(longest)
        if longest >= ENDLESS and venv.spec.max_episode_steps is None:
            raise _endless(venv.spec.id, longest)
        step = venv.step(player.act(obs, every))
        player.begin(step.terminated | step.truncated | ~step.valid)
        running += step.valid
        for episode in step.episodes:
            running[episode.env_index] = 0
            if quota[episode.env_index] > 0:
                quota[episode.env_index] -= 1
                returns.append(episode.return_)
                lengths.append(episode.length)
                successes.append(episode.success)
        obs = step.obs
    return Evaluation(np.array(returns), np.array(lengths, dtype=np.int64), successes=told_successes(successes))
