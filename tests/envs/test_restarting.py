"""A serial vector whose environments fail: what the training sees of it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs.adapter import VectorAdapter
from steadyrl.envs.restart import RESTARTED, Restarts
from steadyrl.envs.types import EnvSpec, Step
from steadyrl.envs.vector import make_vec
from steadyrl.errors import RunFailedError, UserError
from support.breaking_envs import Plan
from support.envs import ConstantReward, Ending, ScriptedVector


def vector(plan: Plan, num_envs: int = 2, budget: int = 9) -> tuple[VectorAdapter, Restarts]:
    restarts = Restarts(num_envs, budget, 3, lambda seconds: None)
    return make_vec(plan, num_envs, restarts=restarts), restarts


def run(venv: VectorAdapter, steps: int, first: int = 0) -> list[Step]:
    """Steps with actions that tell of the time."""
    return [venv.step(np.full(venv.num_envs, t % 2)) for t in range(first, first + steps)]


def test_a_failing_step_makes_up_one_row_and_drops_that_episode_alone() -> None:
    plan = Plan(failing={(1, 3)})
    venv, restarts = vector(plan)
    venv.reset([10, 11])
    steps = run(venv, 8)
    third = steps[2]
    assert third.broken is not None
    assert third.broken.tolist() == [False, True]
    assert third.valid.tolist() == [True, False]
    assert [step.broken is None for step in steps] == [True, True, False, True, True, True, True, True]
    assert third.obs[""].tolist() == third.final_obs[""].tolist() == [[0, 3, 0], [2, 0, 0]]
    assert third.rewards.tolist() == pytest.approx([1.03, 0.0])
    assert not (third.terminated | third.truncated).any()
    seed = plan.begun[2]
    assert seed is not None
    (lost,) = third.lost
    assert (lost.env_index, lost.length, lost.seed) == (1, 2, 11)
    assert lost.return_ == pytest.approx(4.03)
    assert lost.reason == "LookupError: episode 1 broke"
    assert lost.failure is not None
    assert (lost.failure.step, lost.failure.actions, lost.failure.seed) == (3, [0, 1, 0], 11)
    # The other environment went on as if nothing had happened; the new episode is whole and has its own seed.
    ended = [(i, record) for i, step in enumerate(steps) for record in step.episodes]
    assert [(i, r.env_index, r.length, r.seed) for i, r in ended] == [(4, 0, 5, 10), (7, 1, 5, seed)]
    assert ended[1][1].return_ == pytest.approx(5 * 3 + 0.15)
    assert (restarts.counts, plan.made, plan.closed, restarts.pending) == ([0, 1], 3, 1, [])
    venv.close()
    assert plan.closed == 3


def test_an_episode_that_fails_to_begin_leaves_the_one_that_ended_as_it_was() -> None:
    plan = Plan(failing={(2, 0)}, truncates=True)
    venv, restarts = vector(plan)
    venv.reset([10, 11])
    steps = run(venv, 6)
    fifth = steps[4]
    assert fifth.broken is None
    assert fifth.valid.all()
    assert fifth.truncated.tolist() == [True, True]
    assert fifth.final_obs[""].tolist() == [[0, 5, 0], [1, 5, 0]]
    assert fifth.obs[""].tolist() == [[3, 0, 0], [4, 0, 0]]
    assert fifth.rewards.tolist() == pytest.approx([1.05, 2.05])
    assert [(r.env_index, r.length, r.seed) for r in fifth.episodes] == [(0, 5, 10), (1, 5, 11)]
    (lost,) = fifth.lost
    assert (lost.env_index, lost.return_, lost.length, lost.seed) == (0, 0.0, 0, None)
    assert lost.failure is not None
    assert (lost.failure.phase, lost.failure.step, lost.failure.random_state is None) == ("reset", 0, False)
    assert plan.begun[3] is not None
    assert plan.begun[4] is None
    assert (restarts.counts, steps[5].lost) == ([1, 0], ())


def test_failing_again_at_once_counts_each_time_and_waits() -> None:
    waits: list[float] = []
    plan = Plan(failing={(0, 2), (1, 0), (2, 0)}, making={1})
    restarts = Restarts(1, 9, 3, waits.append)
    venv = make_vec(plan, 1, restarts=restarts)
    venv.reset([10])
    steps = run(venv, 2)
    lost = steps[1].lost
    assert [(b.length, b.failure and b.failure.phase) for b in lost] == [
        (1, "step"),
        (0, "make"),
        (0, "reset"),
        (0, "reset"),
    ]
    assert [b.reason for b in lost] == [
        "LookupError: episode 0 broke",
        "ConnectionError: no simulator answers",
        "LookupError: episode 1 broke",
        "LookupError: episode 2 broke",
    ]
    assert waits == [0.1, 0.2, 0.4]
    assert (restarts.total, plan.made) == (4, 5)
    assert steps[1].obs[""].tolist() == [[3, 0, 0]]
    assert [b.seed for b in lost] == [10, restarts_seed(0, 1), plan.begun[1], plan.begun[2]]
    # One episode that ends by itself, and the next failure is not one in a row.
    plan.failing.add((4, 1))
    run(venv, 6)
    assert waits == [0.1, 0.2, 0.4]


def restarts_seed(env: int, count: int) -> int:
    """The seed of that restart, by a counter of its own."""
    restarts = Restarts(env + 1, 99, 3, lambda seconds: None)
    return [restarts.next_seed(env, OSError()) for _ in range(count)][-1]


def test_the_budget_ends_it_with_the_last_error() -> None:
    plan = Plan(failing={(episode, 1) for episode in range(9)})
    venv, restarts = vector(plan, num_envs=1, budget=4)
    venv.reset([0])
    run(venv, 4)
    with pytest.raises(RunFailedError, match="episode 4 broke") as caught:
        run(venv, 1)
    assert "started anew 4 times before" in caught.value.remedy
    assert caught.value.failure.step == 1
    assert restarts.total == 4


def test_without_restarts_the_error_goes_through() -> None:
    venv = make_vec(Plan(failing={(0, 2)}), 1)
    venv.reset([0])
    with pytest.raises(RunFailedError, match="episode 0 broke"):
        run(venv, 2)


def test_a_first_reset_that_fails_is_told_with_the_first_step() -> None:
    plan = Plan(failing={(0, 0)})
    venv, restarts = vector(plan)
    assert venv.reset([10, 11])[""].tolist() == [[1, 0, 0], [2, 0, 0]]
    assert plan.begun == [10, restarts_seed(0, 1), 11]
    steps = run(venv, 5)
    assert [(b.env_index, b.length, b.seed) for b in steps[0].lost] == [(0, 0, 10)]
    assert steps[0].valid.all()
    assert [record.seed for record in steps[4].episodes] == [restarts_seed(0, 1), 11]
    assert (restarts.total, steps[1].lost) == (1, ())


class BreaksInterface(ConstantReward):
    """The observation has another shape from step 2 on."""

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        self.seen = getattr(self, "seen", 0) + 1
        return (obs if self.seen < 2 else np.zeros(9, dtype=np.float32), *rest)


class Interrupted(ConstantReward):
    def step(self, action: Any) -> Any:
        raise KeyboardInterrupt


class TooLarge(ConstantReward):
    """A number that the observation's float32 cannot hold: no error of its code."""

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return (np.full(obs.shape, 1e300), *rest)


@pytest.mark.parametrize(
    ("kind", "error"), [(BreaksInterface, UserError), (Interrupted, KeyboardInterrupt), (TooLarge, RunFailedError)]
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_failure_of_the_environments_code_is_not_restarted(
    kind: type[ConstantReward], error: type[BaseException]
) -> None:
    restarts = Restarts(1, 9, 0)
    venv = make_vec(lambda: kind(5), 1, restarts=restarts)
    venv.reset([0])
    with pytest.raises(error):
        run(venv, 3)
    assert restarts.total == 0


def test_a_new_environment_has_to_have_the_same_spaces() -> None:
    plan = Plan(failing={(0, 1)})

    def make() -> gym.Env[Any, Any]:
        env = plan()
        if plan.made > 1:
            env.action_space = spaces.Discrete(3)
        return env

    venv = make_vec(make, 1, restarts=Restarts(1, 9, 0))
    venv.reset([0])
    with pytest.raises(UserError, match=r"Environment 0 \(.*\) has other spaces"):
        run(venv, 1)
    assert plan.closed == 2


@pytest.mark.parametrize(
    ("env", "vec", "told"),
    [
        (gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"), "auto", "A vector environment makes"),
        (ConstantReward(3), "auto", "The environment instance ConstantReward"),
        ("CartPole-v1", "native", "With vec='native'"),
    ],
)
def test_where_nothing_can_be_started_anew_that_is_said(env: Any, vec: Any, told: str) -> None:
    with pytest.raises(UserError, match=told) as caught:
        make_vec(env, None, vec=vec, restarts=Restarts(2, 9, 0))
    assert caught.value.code == "no-restarts"
    assert "on_env_error='stop'" in caught.value.remedy


def test_an_instance_with_a_recipe_can_be_started_anew() -> None:
    restarts = Restarts(1, 9, 0)
    venv = make_vec(gym.make("CartPole-v1"), 1, restarts=restarts)
    venv.reset([0])
    assert venv.step(np.array([1])).valid.all()
    venv.close()


class Told(ScriptedVector):
    """Another backend: environment 0 fails in its first reset, environment 1 at the end of an episode."""

    def __init__(self, restarts: Restarts) -> None:
        script = [Ending(2, True, False)]
        super().__init__([script, script], gym.vector.AutoresetMode.SAME_STEP)
        self.restarts = restarts

    def reset(self, **arguments: Any) -> Any:
        self.restarts.next_seed(0, OSError("not yet"))
        return super().reset(**arguments)

    def step(self, actions: Any) -> Any:
        *rest, infos = super().step(actions)
        if rest[2].any():
            self.restarts.next_seed(1, OSError("at the end"))
            infos |= {RESTARTED: np.array([False, True])}
        return *rest, infos


def test_restarts_before_the_first_step_and_after_an_episodes_end_are_told_and_break_no_row() -> None:
    restarts = Restarts(2, 9, 0)
    env = Told(restarts)
    spec = EnvSpec("Told", env.single_observation_space, env.single_action_space, None, "async")
    venv = VectorAdapter(env, spec, seeds_each=False, restarts=restarts)
    venv.reset([1, 2])
    first, second = run(venv, 2)
    assert [(b.env_index, b.length, b.reason) for b in first.lost] == [(0, 0, "not yet")]
    assert [(b.env_index, b.length, b.reason) for b in second.lost] == [(1, 0, "at the end")]
    assert second.valid.all()
    assert second.broken is not None
    assert not second.broken.any()
    assert [(r.env_index, r.length) for r in second.episodes] == [(0, 2), (1, 2)]
