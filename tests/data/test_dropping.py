"""An unfinished episode that is dropped leaves storage as if its steps had never counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.data.hindsight import HindsightReplay
from steadyrl.data.prioritised import PrioritisedReplay
from steadyrl.data.replay import Replay
from steadyrl.data.rollout import Rollout
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from support.replay_oracle import ACTION, GAMMA, OBS, Kind, samples_of, vector_step

KINDS = ["on", "on", "on", "on", "terminated", "truncated", "both", "invalid", "invalid end", "broken", "broken"]
DONE = ("terminated", "truncated", "both", "invalid end")
History = list[list[str]]
BUILDERS: dict[str, Callable[[int, int, int], Replay]] = {
    "uniform": lambda rows, n, n_step: Replay(rows * n, n, OBS, ACTION, gamma=GAMMA, n_step=n_step, inside=True),
    "prioritised": lambda rows, n, n_step: PrioritisedReplay(rows * n, n, OBS, ACTION, gamma=GAMMA, n_step=n_step),
    "hindsight": lambda rows, n, n_step: HindsightReplay(
        rows * n, n, OBS, ACTION, gamma=GAMMA, compute_reward=lambda achieved, desired, info: achieved[:, 0]
    ),
}


def histories(num_envs: int, most: int) -> st.SearchStrategy[History]:
    return st.lists(st.lists(st.sampled_from(KINDS), min_size=num_envs, max_size=num_envs), min_size=1, max_size=most)


def counting(history: History) -> list[list[bool]]:
    """Which rows count in the end, by a walk back through each environment: not those before a break."""
    counts = [[False] * len(row) for row in history]
    for env in range(len(history[0])):
        lost = False
        for t in reversed(range(len(history))):
            kind = history[t][env]
            lost = kind == "broken" or (lost and kind not in DONE)
            counts[t][env] = not lost and not kind.startswith("invalid")
    return counts


def feed(replay: Replay, t: int, kinds: list[str], counts: list[bool] | None = None) -> None:
    """A vector step; rows that break count nothing, and the others as `counts` says where it is given."""
    plain: list[Any] = ["invalid" if kind == "broken" else kind for kind in kinds]
    obs, actions, step, valid = vector_step(t, plain)
    replay.add(obs, actions, step, valid if counts is None else np.array(counts))


def both(variant: str, rows: int, n_step: int, history: History) -> tuple[Replay, Replay]:
    """The replay of what happened, with drops, and that of the same without the episodes that broke."""
    num_envs = len(history[0])
    real, ideal = (BUILDERS[variant](rows, num_envs, n_step) for _ in range(2))
    for t, (kinds, counts) in enumerate(zip(history, counting(history), strict=True)):
        feed(real, t, kinds)
        if "broken" in kinds:
            real.drop_unfinished(np.array([kind == "broken" for kind in kinds]))
        feed(ideal, t, kinds, counts)
    return real, ideal


@pytest.mark.parametrize("variant", BUILDERS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_replay_is_as_if_the_episode_had_never_been_stored(variant: str, data: st.DataObject) -> None:
    rows, n_step = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    history = data.draw(histories(data.draw(st.integers(1, 3)), 3 * rows + 2))
    real, ideal = both(variant, rows, n_step, history)
    numbers = real.indices()
    assert numbers.tolist() == ideal.indices().tolist()
    assert len(real) == len(ideal)
    assert samples_of(real.gather(numbers)) == samples_of(ideal.gather(numbers))
    if isinstance(real, PrioritisedReplay) and isinstance(ideal, PrioritisedReplay):
        assert real._tree[:].tolist() == ideal._tree[:].tolist()
        assert real._tree.total == ideal._tree.total == len(numbers)
    if len(numbers):
        mine, other = (replay.sample(32, Stream(1, "replay")) for replay in (real, ideal))
        assert mine.index.tolist() == other.index.tolist()
        for name in ("rewards", "discounts", "terminated"):
            assert torch.equal(getattr(mine, name), getattr(other, name))
        for path, leaf in mine.obs.items():
            assert torch.equal(leaf, other.obs[path])


def test_known_rows_of_a_replay_are_dropped() -> None:
    """Environment 0 breaks at time 4, two steps into its second episode; the ring has lost time 0."""
    replay = BUILDERS["uniform"](4, 2, 3)
    for t, kinds in enumerate([["on", "on"], ["truncated", "on"], ["on", "on"], ["on", "on"], ["broken", "on"]]):
        feed(replay, t, kinds)
    dropped = replay.drop_unfinished(np.array([True, False]))
    assert dropped.tolist() == [4, 6, 8]
    assert replay.indices().tolist() == [2, 3, 5, 7, 9]
    assert len(replay) == 5
    # The window of the step before ends with its own episode; that of the other environment is untouched.
    assert replay.gather(np.array([2, 3])).discounts.tolist() == [0.5, 0.125]


def test_dropped_transitions_keep_no_priority_and_get_none_back() -> None:
    replay = PrioritisedReplay(8, 2, OBS, ACTION, gamma=GAMMA)
    for t in range(2):
        feed(replay, t, ["on", "on"])
    batch = replay.sample(4, Stream(0, "replay"))
    feed(replay, 2, ["broken", "on"])
    replay.drop_unfinished(np.array([True, False]))
    replay.update_priorities(batch.index, torch.full((4,), 9.0))
    own = replay._tree[:]
    assert own[[0, 2, 4, 6, 7]].tolist() == [0.0] * 5
    assert own[1] == own[3] > 1.0
    assert set(replay.sample(64, Stream(1, "replay")).index.tolist()) <= {1, 3, 5}


def test_a_hindsight_episode_that_broke_gives_neither_transitions_nor_goals() -> None:
    replay = BUILDERS["hindsight"](8, 1, 1)
    assert isinstance(replay, HindsightReplay)
    kinds: list[list[str]] = [["on"], ["terminated"], ["on"], ["on"], ["broken"], ["on"], ["terminated"]]
    for t, row in enumerate(kinds):
        feed(replay, t, row)
        if row == ["broken"]:
            replay.drop_unfinished(np.array([True]))
    assert replay.indices().tolist() == [0, 1, 5, 6]
    goals = {replay.choose_goals(np.array([0, 1, 5, 6]), Stream(seed, "goals")).tobytes() for seed in range(60)}
    chosen = {tuple(np.frombuffer(found, dtype=np.int64).tolist()) for found in goals}
    assert chosen == {(a, 1, b, 6) for a in (0, 1) for b in (5, 6)}


ROLLOUT_OBS, ROLLOUT_ACTION = ObsSpec.of(gs.Box(-1e6, 1e6, (1,))), ActionSpec.of(gs.Discrete(4))


def add(rollout: Rollout, t: int, kinds: list[str], counts: list[bool]) -> None:
    """A vector step in which everything follows from time and environment."""
    code = 10.0 * t + np.arange(len(kinds), dtype=np.float32)
    tensor = torch.from_numpy(code)
    terminated = np.array([kind in ("terminated", "both", "invalid end") for kind in kinds])
    truncated = np.array([kind in ("truncated", "both") for kind in kinds])
    rewards = (code / 9).astype(np.float32)
    made = (tensor.long() % 4, tensor / 7, tensor / 3)
    rollout.add({"": code[:, None]}, *made, rewards, terminated, truncated, np.array(counts))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_rollout_is_as_if_the_episode_had_never_been_stored(data: st.DataObject) -> None:
    num_envs = data.draw(st.integers(1, 3))
    history = data.draw(histories(num_envs, 12))
    real, ideal = (Rollout(len(history), num_envs, ROLLOUT_OBS, ROLLOUT_ACTION) for _ in range(2))
    for t, (kinds, counts) in enumerate(zip(history, counting(history), strict=True)):
        add(real, t, kinds, [kind != "broken" and not kind.startswith("invalid") for kind in kinds])
        if "broken" in kinds:
            real.drop_unfinished(np.array([kind == "broken" for kind in kinds]))
        add(ideal, t, kinds, counts)
    mine, other = (rollout.batch(torch.arange(float(num_envs)), 0.9, 0.8) for rollout in (real, ideal))
    assert torch.equal(mine.obs[""], other.obs[""])
    for name in ("actions", "log_probs", "values", "advantages", "returns"):
        assert torch.equal(getattr(mine, name), getattr(other, name))


def test_no_trace_crosses_a_dropped_episode() -> None:
    """By hand: the finished episode's advantages are those of it alone, and so are the new episode's."""
    kinds: list[list[Kind | str]] = [["on"], ["terminated"], ["on"], ["broken"], ["on"], ["on"]]
    rollout = Rollout(6, 1, ROLLOUT_OBS, ROLLOUT_ACTION)
    for t, row in enumerate(kinds):
        add(rollout, t, [str(kind) for kind in row], [row != ["broken"]])
        if row == ["broken"]:
            rollout.drop_unfinished(np.array([True]))
    batch = rollout.batch(torch.tensor([2.0]), 0.5, 0.5)
    assert batch.obs[""][:, 0].tolist() == [0.0, 10.0, 40.0, 50.0]
    r, v = [10 * t / 9 for t in range(6)], [10 * t / 3 for t in range(6)]
    last = r[5] + 0.5 * 2.0 - v[5]
    expected = [
        r[0] + 0.5 * v[1] - v[0] + 0.25 * (r[1] - v[1]),
        r[1] - v[1],
        r[4] + 0.5 * v[5] - v[4] + 0.25 * last,
        last,
    ]
    assert batch.advantages.tolist() == pytest.approx(expected, rel=1e-5)
