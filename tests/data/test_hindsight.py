"""Hindsight goals: achieved in the same episode, rewarded for the true next observation, truncation untouched."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.data.hindsight import GoalFunction, GoalStrategy, HindsightReplay
from steadyrl.data.layouts import replay_bytes
from steadyrl.data.replay import Replay
from steadyrl.data.transitions import ReplayBatch
from steadyrl.errors import UserError
from steadyrl.seeding import Stream
from steadyrl.spaces import ObsSpec
from support.replay_oracle import ACTION, GAMMA, OBS, Kind, Oracle, code_of, samples_of, vector_step

KINDS: list[Kind] = ["on", "on", "on", "terminated", "truncated", "both", "invalid", "invalid end"]
STRATEGIES: list[GoalStrategy] = ["future", "final", "episode"]
Goals = npt.NDArray[Any]


def difference(achieved: Goals, desired: Goals, info: dict[str, Any]) -> Goals:
    """A reward that tells both of its arguments."""
    assert info == {}
    return np.asarray(achieved[:, 0] * 2 - desired[:, 0])


def reached(achieved: Goals, desired: Goals, info: dict[str, Any]) -> Any:
    return np.abs(achieved - desired).max(axis=-1) < 0.05


def make(
    rows: int,
    num_envs: int,
    strategy: GoalStrategy = "future",
    *,
    compute_reward: GoalFunction = difference,
    compute_terminated: GoalFunction | None = None,
    n_sampled_goal: int = 4,
    obs_spec: ObsSpec = OBS,
    directory: Path | None = None,
) -> HindsightReplay:
    return HindsightReplay(
        rows * num_envs,
        num_envs,
        obs_spec,
        ACTION,
        gamma=GAMMA,
        compute_reward=compute_reward,
        compute_terminated=compute_terminated,
        strategy=strategy,
        n_sampled_goal=n_sampled_goal,
        directory=directory,
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_transitions_and_goals_agree_with_a_list(strategy: GoalStrategy, data: st.DataObject) -> None:
    rows, num_envs = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    row = st.lists(st.sampled_from(KINDS), min_size=num_envs, max_size=num_envs)
    history = data.draw(st.lists(row, min_size=1, max_size=4 * rows + 2))
    saved_at = data.draw(st.integers(0, len(history) - 1))
    replay, oracle, stream = make(rows, num_envs, strategy), Oracle(rows, num_envs), Stream(0, "replay")
    for t, kinds in enumerate(history):
        if t == saved_at:
            state = replay.state_dict()
            replay = make(rows, num_envs, strategy)
            replay.add(*vector_step(50, ["on"] * num_envs))
            replay.load_state_dict(state)
        oracle.feed(replay, kinds)
        goals = oracle.goals(strategy)
        numbers = np.array(sorted(goals), dtype=np.int64)
        assert replay.indices().tolist() == numbers.tolist()
        stored = oracle.samples()
        assert samples_of(replay.gather(numbers)) == {number: stored[number] for number in goals}
        assert len(replay) == len(stored)
        chosen = replay.choose_goals(numbers, stream)
        assert all(goal in goals[number] for number, goal in zip(numbers.tolist(), chosen.tolist(), strict=True))
        if not goals:
            with pytest.raises(UserError, match="no finished episode"):
                replay.sample(5, stream)
        else:
            assert set(replay.sample(8, stream).index.tolist()) <= set(goals)


def long_run(strategy: GoalStrategy, **settings: Any) -> tuple[HindsightReplay, Oracle]:
    """Two environments; episodes of 4 and 1 steps beside one of 5 whose first step is overwritten."""
    replay, oracle = make(7, 2, strategy, **settings), Oracle(7, 2)
    history: list[list[Kind]] = [
        ["on", "on"],
        ["truncated", "on"],
        ["on", "on"],
        ["on", "on"],
        ["on", "truncated"],
        ["truncated", "invalid"],
        ["terminated", "on"],
        ["on", "on"],
    ]
    for kinds in history:
        oracle.feed(replay, kinds)
    return replay, oracle


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_goal_of_the_strategy_is_taken_equally_often(strategy: GoalStrategy) -> None:
    replay, oracle = long_run(strategy)
    goals = oracle.goals(strategy)
    assert sorted(goals) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 12]
    for number, candidates in goals.items():
        chosen = replay.choose_goals(np.full(4000, number), Stream(number, "goals"))
        found, counts = np.unique(chosen, return_counts=True)
        assert found.tolist() == candidates
        expected = 4000 / len(candidates)
        assert ((counts - expected) ** 2 / expected).sum() < 16.3  # 99.9% of chi-square, 3 degrees of freedom


def test_a_relabelled_transition_by_hand() -> None:
    """Codes: transition t of environment 0 starts at 10 t, its successor is 10 t + 0.5; a goal is 1000 more."""
    replay = long_run("future", compute_terminated=reached)[0]
    plain = replay.gather(np.array([4, 6, 8, 12]))
    batch = replay.relabel(np.array([4, 6, 8, 12]), np.array([4, 10, 8]))
    goals = [1020.5, 1050.5, 1040.5]
    assert batch.obs["desired_goal"][:, 0].tolist() == batch.next_obs["desired_goal"][:, 0].tolist() == [*goals, -1.0]
    achieved = [1020.5, 1030.5, 1040.5]
    assert batch.next_obs["achieved_goal"][:3, 0].tolist() == achieved
    expected = [2 * a - g for a, g in zip(achieved, goals, strict=True)]
    assert batch.rewards.tolist() == [*expected, float(plain.rewards[3])]
    assert batch.terminated.tolist() == [True, False, True, True]
    assert plain.terminated.tolist() == [False, False, False, True]
    for name in ("observation", "achieved_goal", "image", "room"):
        assert batch.obs[name].equal(plain.obs[name])
        assert batch.next_obs[name].equal(plain.next_obs[name])
    assert batch.actions.equal(plain.actions)
    assert batch.discounts.tolist() == [GAMMA] * 4
    assert replay.gather(np.array([4])).obs["desired_goal"].item() == -1.0  # what is stored stays as it was


def test_the_end_stays_as_it_was_without_compute_terminated() -> None:
    """Transition 10 was truncated, so it bootstraps; 12 was terminated, and is so for any goal."""
    replay = long_run("final")[0]
    batch = replay.relabel(np.array([10, 12, 4]), np.array([10, 12, 10]))
    assert batch.terminated.tolist() == [False, True, False]
    assert batch.next_obs["observation"][:, 0].tolist() == [50.5, 60.5, 20.5]


def test_one_answer_for_all_is_enough_for_the_end() -> None:
    batch = long_run("final", compute_terminated=lambda achieved, desired, info: False)[0].relabel(
        np.array([12, 12]), np.array([12])
    )
    assert batch.terminated.tolist() == [False, True]


@pytest.mark.parametrize(("k", "batch_size", "relabelled"), [(4, 256, 204), (1, 10, 5), (4, 4, 3), (4, 1, 0)])
def test_the_share_of_relabelled_transitions(k: int, batch_size: int, relabelled: int) -> None:
    calls: list[int] = []

    def counting(achieved: Goals, desired: Goals, info: dict[str, Any]) -> Goals:
        calls.append(len(achieved))
        return difference(achieved, desired, info)

    replay = long_run("future", n_sampled_goal=k, compute_reward=counting)[0]
    stream = Stream(0, "replay")
    replay.sample(256, stream)  # the first one also asks for some rewards one by one
    calls.clear()
    batch = replay.sample(batch_size, stream)
    assert relabelled_in(batch) == [True] * relabelled + [False] * (batch_size - relabelled)
    assert calls == [relabelled] * (relabelled > 0)


def relabelled_in(batch: ReplayBatch) -> list[bool]:
    return [goal != -1.0 for goal in batch.obs["desired_goal"][:, 0].tolist()]


def test_the_same_stream_draws_the_same_goals() -> None:
    replay = long_run("future")[0]
    first, second, other = (
        replay.sample(64, Stream(seed, "replay")).obs["desired_goal"].flatten().tolist() for seed in (1, 1, 2)
    )
    assert first == second != other


def whole_norm(achieved: Goals, desired: Goals, info: dict[str, Any]) -> Any:
    return np.full(len(achieved), -float(np.linalg.norm(achieved - desired)))


def whole_end(achieved: Goals, desired: Goals, info: dict[str, Any]) -> Any:
    return bool(np.linalg.norm(achieved - desired) < 0.05)


def needs_info(achieved: Goals, desired: Goals, info: dict[str, Any]) -> Any:
    return achieved[:, 0] * info["cost"]


@pytest.mark.parametrize(
    ("functions", "cause"),
    [
        ({"compute_reward": whole_norm}, "alone"),
        ({"compute_terminated": whole_end}, "compute_terminated.*alone"),
        ({"compute_reward": lambda a, d, i: 0.0}, r"compute_reward gave .* of shape \(\)"),
        ({"compute_reward": lambda a, d, i: np.abs(a - d).repeat(2, axis=1)}, r"shape \(\d+, 2\)"),
        ({"compute_reward": needs_info}, "failed.*KeyError.*cost"),
    ],
)
def test_a_function_that_is_not_for_batches_is_said(functions: dict[str, Any], cause: str) -> None:
    replay = long_run("episode", **functions)[0]
    with pytest.raises(UserError, match=cause):
        replay.sample(64, Stream(0, "replay"))


def test_goals_reach_the_environment_in_its_own_form() -> None:
    seen: list[Goals] = []

    def note(achieved: Goals, desired: Goals, info: dict[str, Any]) -> Goals:
        seen.extend([achieved, desired])
        return np.zeros(len(achieved))

    goal = gs.MultiDiscrete(np.array([[4, 4]]), dtype=np.int32, start=np.array([[10, 20]]))
    spec = ObsSpec.of(gs.Dict({"observation": gs.Box(-1, 1, (1,)), "achieved_goal": goal, "desired_goal": goal}))
    replay = make(2, 1, obs_spec=spec, compute_reward=note)
    _, actions, step, valid = vector_step(0, ["truncated"])

    def tree(a: int, d: int) -> dict[str, Goals]:
        goals = {"achieved_goal": np.array([[a, a + 1]]), "desired_goal": np.array([[d, d + 1]])}
        return {"observation": np.zeros((1, 1), dtype=np.float32), **goals}

    replay.add(tree(0, 1), actions, step._replace(final_obs=tree(2, 1)), valid)
    batch = replay.relabel(np.array([0]), np.array([0]))
    assert [(str(goals.dtype), goals.tolist()) for goals in seen[:2]] == [("int32", [[[12, 23]]])] * 2
    assert batch.obs["desired_goal"].tolist() == [[2, 3]]


def test_the_settings_are_checked() -> None:
    with pytest.raises(UserError, match="n_sampled_goal is 0"):
        make(4, 1, n_sampled_goal=0)
    with pytest.raises(UserError, match="goal_selection_strategy is 'random'"):
        make(4, 1, "random")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="missing: achieved_goal, desired_goal"):
        make(4, 1, obs_spec=ObsSpec.of(gs.Dict({"observation": gs.Box(-1, 1, (1,))})))
    box = partial(gs.Box, -1, 1)
    odd = gs.Dict({"observation": box((1,)), "achieved_goal": box((2,)), "desired_goal": box((3,))})
    with pytest.raises(UserError, match=r"achieved_goal has shape \(2,\)"):
        make(4, 1, obs_spec=ObsSpec.of(odd))


def test_its_own_arrays_are_in_the_size_and_in_the_files(tmp_path: Path) -> None:
    own = 3 * 8 * 21
    assert replay_bytes(21, 3, OBS, ACTION, hindsight=True) == replay_bytes(21, 3, OBS, ACTION) + own
    replay, oracle = make(7, 2, directory=tmp_path), Oracle(7, 2)
    for _ in range(9):
        oracle.feed(replay, ["on", "truncated"])
    names = [path.name.partition("-")[2] for path in sorted(tmp_path.iterdir())]
    assert names[-3:] == ["episode.npy", "first.npy", "last.npy"]
    assert replay.indices().tolist() == sorted(oracle.goals("future")) == [5, 7, 9, 11, 13, 15, 17]
    assert replay.gather(np.array([17])).next_obs["observation"][0, 0] == code_of(8, 1) + 0.5


def test_a_state_of_another_kind_is_refused() -> None:
    replay = long_run("future")[0]
    before = replay.indices().tolist()
    plain = Replay(14, 2, OBS, ACTION, gamma=GAMMA)
    with pytest.raises(UserError, match="'place' is missing"):
        replay.load_state_dict(plain.state_dict())
    assert replay.indices().tolist() == before
