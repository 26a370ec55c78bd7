"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495) for goal-conditioned Dict observations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from steadyrl.data.arrays import Layout, State, entry
from steadyrl.data.layouts import episodes
from steadyrl.data.replay import Replay, uniforms
from steadyrl.data.transitions import Bools, Int64, ReplayBatch, StepRows
from steadyrl.errors import UserError, words
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, Leaf, ObsSpec, ObsTree
from steadyrl.spaces.values import VARIABLE

GoalStrategy = Literal["future", "final", "episode"]
GoalFunction = Callable[[npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]], Any]

_KEYS = ("achieved_goal", "desired_goal")
_ALONE = 8  # relabelled transitions whose reward is asked for one by one, once


class HindsightReplay(Replay):
    """A replay that gives the first `int(her_ratio * batch_size)` transitions of a batch another goal.

    The goal is an achieved goal of the same episode: `future`, of the transition itself or a later one; `final`, of the
    last one; `episode`, of any one that is still stored. Achieved always means in the true next observation. The reward
    comes anew from `compute_reward(achieved goal of the next observation, goal, {})`, asked once for all; `terminated`
    from `compute_terminated` in the same way, or stays as it was without one; a truncated step bootstraps as before.

    As in Stable-Baselines3 only transitions of finished episodes are sampled, and `info` is not stored: the functions
    get an empty one. An episode whose beginning was overwritten keeps its rest. A row that does not count inside an
    episode (thrown away at the end of a run) divides it in two finished ones.

    Args:
        capacity: Transitions in all.
        num_envs: N.
        obs_spec: With the leaves `achieved_goal` and `desired_goal`.
        action_spec: Actions of the policy.
        gamma: Discount factor.
        compute_reward: The environment's, for batches of goals [B, ...]; rewards [B].
        compute_terminated: The environment's, for batches; [B], or one value for all.
        strategy: Which goals are taken.
        n_sampled_goal: Relabelled transitions for each one that keeps its goal (k).
        directory: Where the arrays live as files; None keeps them in memory.
        reuse: Write over a replay's files that are in the directory.

    Raises:
        UserError: the observations have no goals, or two kinds of them; a bad strategy or n_sampled_goal.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        obs_spec: ObsSpec,
        action_spec: ActionSpec,
        *,
        gamma: float,
        compute_reward: GoalFunction,
        compute_terminated: GoalFunction | None = None,
        strategy: GoalStrategy = "future",
        n_sampled_goal: int = 4,
        directory: Path | None = None,
        reuse: bool = False,
    ) -> None:
        self._achieved, self._desired = _goals(obs_spec)
        _insist_on_settings(strategy, n_sampled_goal)
        super().__init__(capacity, num_envs, obs_spec, action_spec, gamma=gamma, directory=directory, reuse=reuse)
        self.strategy = strategy
        self.her_ratio = 1.0 - 1.0 / (1.0 + n_sampled_goal)
        self._compute_reward = compute_reward
        self._compute_terminated = compute_terminated
        self._compared = False
        # Episodes of an environment take turns in `rows` places: by the time one is taken again, each of the episodes
        # since has used a row, and nothing is left of the one that had it.
        self._place = np.zeros(num_envs, dtype=np.int64)
        self._open = np.zeros(num_envs, dtype=np.bool_)

    @classmethod
    def layout(cls, rows: int, num_envs: int, obs_spec: ObsSpec, action_spec: ActionSpec) -> Layout:
        """The arrays, those of the episodes too."""
        return {**super().layout(rows, num_envs, obs_spec, action_spec), **episodes(rows, num_envs)}

    def add(self, obs: ObsTree, actions: npt.NDArray[Any], step: StepRows, valid: Bools) -> None:
        """Store one vector step and note where episodes begin and end."""
        time = self._written
        super().add(obs, actions, step, valid)
        self._close(self._open & ~valid, time - 1)
        begins = valid & ~self._open
        places = self._place[begins], np.flatnonzero(begins)
        self._arrays["first"][places] = time
        self._arrays["last"][places] = -1
        self._arrays["episode"][time % self.rows] = self._place
        self._open |= valid
        self._close(valid & (step.terminated | step.truncated), time)

    def sample(self, batch_size: int, stream: Stream) -> ReplayBatch:
        """Transitions of finished episodes drawn uniformly, [batch_size], the first share of them relabelled.

        Raises:
            UserError: no episode has finished, or a function of the environment does not do what it must.
        """
        index = self._draw(batch_size, stream)
        relabelled = int(self.her_ratio * batch_size)
        return self.relabel(index, self.choose_goals(index[:relabelled], stream))

    def relabel(self, index: Int64, goals: Int64) -> ReplayBatch:
        """The transitions `index` [B], the first of them with the goals that the transitions `goals` [<= B] achieved.

        Raises:
            UserError: a function of the environment does not do what it must.
        """
        batch, count = self._batch(index), len(goals)
        if count == 0:
            return batch
        desired = self._leaf("next_obs", self._achieved, goals % self.capacity)
        for tree in (batch.obs, batch.next_obs):
            tree["desired_goal"][:count] = torch.from_numpy(desired)
        achieved = _to_env(self._achieved, batch.next_obs["achieved_goal"][:count].numpy())
        rewards, terminated = self._outcome(achieved, _to_env(self._desired, desired))
        batch.rewards[:count] = torch.from_numpy(rewards)
        if terminated is not None:
            batch.terminated[:count] = torch.from_numpy(terminated)
        return batch

    def state_dict(self, *, copy: bool = True) -> State:
        """Everything needed to go on exactly, the open episodes too."""
        return {**super().state_dict(copy=copy), "place": self._place.copy(), "open": self._open.copy()}

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` gave."""
        place = entry(state, "place", (self.num_envs,), np.int64)
        is_open = entry(state, "open", (self.num_envs,), np.bool_)
        super().load_state_dict(state)
        self._place, self._open = place.copy(), is_open.copy()

    def _close(self, ended: Bools, time: int) -> None:
        """Episodes that end with the row of this vector step, [N]."""
        self._arrays["last"][self._place[ended], np.flatnonzero(ended)] = time
        self._place[ended] = (self._place[ended] + 1) % self.rows
        self._open &= ~ended

    def _span(self, index: Int64) -> tuple[Int64, Int64]:
        """First and last vector step of each transition's episode, [B]; the last is -1 where it goes on."""
        where = self._flat["episode"][index % self.capacity], index % self.num_envs
        return self._arrays["first"][where], self._arrays["last"][where]

    def _eligible(self, index: Int64) -> Bools:
        return super()._eligible(index) & (self._span(index)[1] >= 0)

    def choose_goals(self, index: Int64, stream: Stream) -> Int64:
        """Numbers of the transitions whose achieved goals are taken, [B]."""
        time, env = index // self.num_envs, index % self.num_envs
        first, last = self._span(index)
        if self.strategy == "final":
            return last * self.num_envs + env
        start = time if self.strategy == "future" else np.maximum(first, self._oldest // self.num_envs)
        chosen = start + (uniforms(stream, len(index)) * (last - start + 1)).astype(np.int64)
        return chosen * self.num_envs + env

    def _outcome(
        self, achieved: npt.NDArray[Any], desired: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.float32], Bools | None]:
        """Rewards and, where the environment tells, ends of reaching `achieved` when `desired` is wanted, [B]."""
        rewards = _ask("compute_reward", self._compute_reward, achieved, desired)
        ends = self._compute_terminated
        terminated = None if ends is None else _ask("compute_terminated", ends, achieved, desired)
        if not self._compared:
            _compare_alone("compute_reward", self._compute_reward, achieved, desired, rewards)
            if ends is not None and terminated is not None:
                _compare_alone("compute_terminated", ends, achieved, desired, terminated)
            self._compared = True
        return rewards.astype(np.float32), None if terminated is None else terminated.astype(np.bool_)

    def _nothing_there(self) -> UserError:
        return UserError(
            "The replay holds no finished episode yet, and hindsight goals are taken from finished episodes only.",
            remedy="Set learning_starts (--learning-starts) to more than num_envs times the length of an episode, and "
            "buffer_size (--buffer-size) to more than that.",
            code="empty-replay",
        )


def _goals(obs_spec: ObsSpec) -> tuple[Leaf, Leaf]:
    """The leaves of the achieved and the desired goal."""
    missing = [key for key in _KEYS if key not in obs_spec.by_path]
    if missing:
        raise UserError(
            f"Hindsight replay needs the parts {' and '.join(_KEYS)} of the observation, each whole; "
            f"missing: {', '.join(missing)}.",
            remedy="Use a goal-conditioned environment with such a Dict observation, or train without hindsight.",
            code="no-goals",
        )
    for key in _KEYS:
        if obs_spec.by_path[key].kind in VARIABLE:
            raise UserError(
                f"{key} is a {obs_spec.by_path[key].kind}, of which hindsight replay cannot make what the environment "
                "counts rewards with.",
                remedy="Let goals be a Box, Discrete, MultiDiscrete or MultiBinary, or train without hindsight.",
                code="no-goals",
            )
    achieved, desired = obs_spec.by_path["achieved_goal"], obs_spec.by_path["desired_goal"]
    if (achieved.shape, achieved.nvec, achieved.start) != (desired.shape, desired.nvec, desired.start):
        raise UserError(
            f"achieved_goal has shape {achieved.shape} and desired_goal {desired.shape}, or they count differently.",
            remedy="Give both goals the same space, since an achieved goal takes the place of a desired one.",
            code="no-goals",
        )
    return achieved, desired


def _insist_on_settings(strategy: str, n_sampled_goal: int) -> None:
    if strategy not in get_args(GoalStrategy):
        raise UserError(
            f"goal_selection_strategy is {strategy!r}.",
            remedy=f"Choose one of: {', '.join(get_args(GoalStrategy))}.",
            code="bad-value",
        )
    if n_sampled_goal < 1:
        raise UserError(
            f"n_sampled_goal is {n_sampled_goal}, but it must be at least 1.",
            remedy="Give the number of relabelled transitions for each one that keeps its goal, such as 4.",
            code="bad-value",
        )


def _to_env(leaf: Leaf, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Stored goals as the environment has them, [B, *shape]."""
    if leaf.nvec:
        stored = (stored + np.array(leaf.start)).reshape(-1, *leaf.shape)
    return stored.astype(leaf.dtype)


def _ask(name: str, function: GoalFunction, achieved: npt.NDArray[Any], desired: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One answer a transition, [B]; `compute_terminated` may give one for all."""
    count = len(achieved)
    try:
        answer = np.asarray(function(achieved, desired, {}))
    except Exception as error:
        raise UserError(
            f"The environment's {name} failed on a batch of {count} goals: {type(error).__name__}: {words(error)}.",
            remedy=f"Let {name} take goals [B, ...] and depend on them alone: info is not stored, and empty here.",
            code="bad-goal-function",
        ) from error
    if answer.shape == () and name == "compute_terminated":
        answer = np.full(count, answer)
    if answer.shape not in ((count,), (count, 1)) or answer.dtype.kind not in "biuf":
        raise UserError(
            f"The environment's {name} gave {answer.dtype} of shape {answer.shape} for {count} goals.",
            remedy=f"Let {name} take goals [B, ...] and give one number for each, shape [B].",
            code="bad-goal-function",
        )
    return answer.reshape(count)


def _compare_alone(
    name: str,
    function: GoalFunction,
    achieved: npt.NDArray[Any],
    desired: npt.NDArray[Any],
    answers: npt.NDArray[Any],
) -> None:
    """Some goals asked for one by one: a norm over the whole batch, say, gives the right shape and wrong numbers."""
    for i in range(min(len(answers), _ALONE)):
        alone = _ask(name, function, achieved[i : i + 1], desired[i : i + 1])
        if not np.allclose(alone[0], answers[i], rtol=1e-4, atol=1e-6, equal_nan=True):
            raise UserError(
                f"The environment's {name} gives {alone[0]} for a pair of goals alone, "
                f"and {answers[i]} for the same pair in a batch of {len(answers)}.",
                remedy=f"Let {name} work along the last axis, as in np.linalg.norm(achieved - desired, axis=-1).",
                code="bad-goal-function",
            )
