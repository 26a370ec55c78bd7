"""The replay never lies: every transition that can be sampled is one that happened, whole, with its true successor."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.data.prioritised import PrioritisedReplay
from steadyrl.data.replay import Replay
from steadyrl.data.transitions import ReplayBatch
from steadyrl.envs.types import Step
from steadyrl.envs.vector import make_vec
from steadyrl.errors import UserError
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from support.envs import Ending, ScriptedVector
from support.kernels import needs_native
from support.replay_oracle import ACTION, GAMMA, OBS, Kind, Oracle, samples_of, vector_step
from support.vectors import oracle as plain_loop

KINDS: list[Kind] = ["on", "on", "on", "terminated", "truncated", "both", "invalid", "invalid end"]


def make(rows: int, num_envs: int, n_step: int = 1, directory: Path | None = None) -> Replay:
    return Replay(rows * num_envs, num_envs, OBS, ACTION, gamma=GAMMA, n_step=n_step, inside=True, directory=directory)


def prioritised(rows: int, num_envs: int, n_step: int) -> Replay:
    return PrioritisedReplay(rows * num_envs, num_envs, OBS, ACTION, gamma=GAMMA, n_step=n_step, inside=True)


def on_disk(rows: int, num_envs: int, n_step: int, directory: str) -> Replay:
    return make(rows, num_envs, n_step, Path(directory) / "replay")


def check(replay: Replay, oracle: Oracle, stream: Stream) -> None:
    """All that can be asked of the replay agrees with the list."""
    expected = oracle.samples()
    numbers = np.array(sorted(expected), dtype=np.int64)
    assert replay.indices().tolist() == numbers.tolist()
    assert len(replay) == len(expected)
    assert samples_of(replay.gather(numbers)) == expected
    end = len(oracle.history) * oracle.num_envs
    for number in set(range(-1, end + oracle.num_envs * oracle.rows + 1)) - set(expected):
        with pytest.raises(IndexError):
            replay.gather(np.array([number]))
    if not expected:
        with pytest.raises(UserError, match="no transition"):
            replay.sample(4, stream)
        return
    batch = replay.sample(16, stream)
    assert samples_of(batch).items() <= expected.items()
    assert len(batch.index) == 16


@pytest.mark.parametrize("variant", ["memory", "disk", "prioritised"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_variant_agrees_with_a_list_of_transitions(variant: str, data: st.DataObject) -> None:
    rows, num_envs = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    n_step = data.draw(st.integers(1, 4))
    row = st.lists(st.sampled_from(KINDS), min_size=num_envs, max_size=num_envs)
    history = data.draw(st.lists(row, max_size=3 * rows + 2))
    saved_at = data.draw(st.integers(0, len(history)))
    stream = Stream(data.draw(st.integers(0, 99)), "replay")
    with tempfile.TemporaryDirectory() if variant == "disk" else nullcontext("") as place:
        builders: dict[str, Callable[..., Replay]] = {
            "memory": make,
            "disk": partial(on_disk, directory=place),
            "prioritised": prioritised,
        }
        replay = builders[variant](rows, num_envs, n_step)
        oracle = Oracle(rows, num_envs, n_step)
        check(replay, oracle, stream)
        for t, kinds in enumerate(history):
            if t == saved_at:
                state = replay.state_dict()
                replay = (make if variant == "disk" else builders[variant])(rows, num_envs, n_step)
                for other in range(data.draw(st.integers(0, 2))):  # what it held before must be gone
                    replay.add(*vector_step(100 + other, ["on"] * num_envs))
                replay.load_state_dict(state)
            oracle.feed(replay, kinds)
            check(replay, oracle, stream)


def test_every_transition_is_sampled_equally_often() -> None:
    replay, oracle = make(5, 3), Oracle(5, 3)
    history: list[list[Kind]] = [
        ["on", "on", "on"],
        ["on", "terminated", "truncated"],
        ["on", "invalid", "on"],
        ["invalid", "invalid", "invalid"],
        ["on", "on", "on"],
        ["on", "on", "invalid"],
    ]
    for kinds in history:
        oracle.feed(replay, kinds)
    stream, numbers = Stream(3, "replay"), sorted(oracle.samples())
    assert len(numbers) == 10
    drawn = np.concatenate([replay.sample(64, stream).index.numpy() for _ in range(400)])
    counts = np.array([(drawn == number).sum() for number in numbers])
    expected = len(drawn) / len(numbers)
    assert counts.sum() == len(drawn)
    assert ((counts - expected) ** 2 / expected).sum() < 27.9  # 99.9% of chi-square, 9 degrees of freedom


def test_a_lone_transition_among_many_rows_that_do_not_count_is_found() -> None:
    replay, oracle = make(500, 2), Oracle(500, 2)
    for t in range(600):
        oracle.feed(replay, ["on" if t == 333 else "invalid", "invalid"])
    assert set(replay.sample(50, Stream(0, "replay")).index.tolist()) == {666}


def test_the_last_row_of_a_ring_that_is_not_full() -> None:
    """Case 22: the successor of the newest row is its own, never the unwritten row after it."""
    replay, oracle = make(8, 1, n_step=3), Oracle(8, 1, 3)
    for _ in range(4):
        oracle.feed(replay, ["on"])
    batch = replay.gather(np.array([3, 2, 1]))
    assert batch.next_obs["observation"][:, 0].tolist() == [30.5, 30.5, 30.5]
    assert batch.discounts.tolist() == [0.5, 0.25, 0.125]
    assert set(replay.sample(200, Stream(0, "replay")).index.tolist()) == {0, 1, 2, 3}


def test_windows_by_hand() -> None:
    """Rewards 1, 2, 4 at gamma 0.5; three steps of one environment, the second one ended in each way."""
    for kind, terminated, k in (("on", False, 3), ("terminated", True, 2), ("truncated", False, 2), ("both", True, 2)):
        replay = make(4, 1, n_step=3)
        for t, reward in enumerate((1.0, 2.0, 4.0)):
            obs, actions, step, valid = vector_step(t, [kind if t == 1 else "on"])  # type: ignore[list-item]
            replay.add(obs, actions, step._replace(rewards=np.array([reward])), valid)
        batch = replay.gather(np.array([0]))
        assert batch.rewards.tolist() == [3.0 if k == 3 else 2.0]
        assert batch.discounts.tolist() == [0.5**k]
        assert batch.terminated.tolist() == [terminated]
        assert batch.next_obs["observation"][0, 0] == (20.5 if k == 3 else 10.5)
        assert batch.inside is not None
        assert batch.inside.discounts.tolist() == [[0.5, 0.25 if k == 3 else 0.0]]
        assert batch.inside.obs["observation"][:, 0].tolist() == [10.0, 20.0 if k == 3 else 0.0]


def test_the_inside_of_windows_is_given_only_where_it_was_asked_for() -> None:
    for n_step, inside in ((1, True), (3, False)):
        replay = Replay(4, 1, OBS, ACTION, gamma=GAMMA, n_step=n_step, inside=inside)
        replay.add(*vector_step(0, ["on"]))
        assert replay.sample(2, Stream(0, "replay")).inside is None


def test_one_step_of_gamma_is_exact() -> None:
    replay = Replay(4, 1, OBS, ACTION, gamma=0.99)
    replay.add(*vector_step(0, ["terminated"]))
    assert replay.gather(np.array([0])).discounts.tolist() == [float(np.float32(0.99))]


def test_the_same_stream_draws_the_same_batches() -> None:
    replay, oracle = make(6, 2, n_step=2), Oracle(6, 2, 2)
    for _ in range(9):
        oracle.feed(replay, ["on", "truncated"])
    first, second = ([replay.sample(32, s).index.tolist() for _ in range(3)] for s in (Stream(5, "a"), Stream(5, "a")))
    assert first == second
    assert first[0] != first[1]
    assert replay.sample(32, Stream(6, "a")).index.tolist() != first[0]


@pytest.mark.parametrize("mode", [gym.vector.AutoresetMode.NEXT_STEP, gym.vector.AutoresetMode.SAME_STEP])
def test_what_a_vector_environment_made_is_what_a_plain_loop_saw(mode: gym.vector.AutoresetMode) -> None:
    """Cases 8, 9 and 10: true final observations under both resets, episodes of one step included."""
    scripts = [
        [Ending(3, False, True), Ending(1, False, True), Ending(2, True, False)],
        [Ending(1, False, True)],
        [Ending(4, True, True), Ending(2, False, True)],
    ]
    envs = make_vec(ScriptedVector(scripts, mode))
    obs_spec, action_spec = ObsSpec.of(envs.spec.obs_space), ActionSpec.of(envs.spec.action_space)
    replay = Replay(90, 3, obs_spec, action_spec, gamma=GAMMA)
    obs, taken = envs.reset([5, 6, 7]), np.zeros(3, dtype=np.int64)
    for _ in range(12):
        actions, live = (7 * taken + np.arange(3)) % 3, envs.live.copy()
        step = envs.step(actions)
        replay.add(obs, actions, step, live)
        taken += live
        obs = step.obs
    envs.close()
    batch = replay.gather(replay.indices())
    for env in range(3):
        mine = np.flatnonzero(batch.index.numpy() % 3 == env)
        expected = plain_loop(scripts[env], env, [5, 6, 7][env], int(taken[env]))[0]
        assert len(mine) == len(expected) == taken[env]
        assert (len(mine) < 12) == (mode is gym.vector.AutoresetMode.NEXT_STEP)
        for i, row in zip(mine, expected, strict=True):
            assert batch.obs[""][i].tolist() == pytest.approx(row.obs, abs=1e-4)
            assert batch.next_obs[""][i].tolist() == pytest.approx(row.final_obs, abs=1e-4)
            assert (int(batch.actions[i]), float(batch.rewards[i])) == (row.action, row.reward)
            assert bool(batch.terminated[i]) == row.terminated


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (gs.Discrete(3), (2,), torch.int64),
        (gs.MultiDiscrete([2, 3]), (2, 2), torch.int64),
        (gs.Box(-1, 1, (2, 2), np.float64), (2, 4), torch.float32),
    ],
)
def test_actions_come_back_in_the_policys_form(
    space: gs.Space[Any], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    spec = ActionSpec.of(space)
    replay = Replay(2, 2, OBS, spec, gamma=GAMMA)
    obs, _, step, valid = vector_step(0, ["on", "on"])
    actions = np.arange(np.prod(shape)).reshape(shape).astype(spec.stored_dtype)
    replay.add(obs, actions, step, valid)
    found = replay.gather(np.array([0, 1])).actions
    assert (found.dtype, found.tolist()) == (dtype, actions.tolist())


def test_what_is_added_and_what_is_saved_are_copies() -> None:
    replay = make(2, 1)
    obs, actions, step, valid = vector_step(4, ["on"])
    replay.add(obs, actions, step, valid)
    expected = samples_of(replay.gather(np.array([0])))
    state = replay.state_dict()
    for array in (*obs.values(), actions, *step.final_obs.values(), step.rewards, valid):
        array[:] = 0
    replay.sample(4, Stream(0, "a")).obs["observation"].zero_()
    assert samples_of(replay.gather(np.array([0]))) == expected
    replay.add(*vector_step(5, ["on"]))
    replay.add(*vector_step(6, ["on"]))
    other = make(2, 1)
    other.load_state_dict(state)
    assert samples_of(other.gather(np.array([0]))) == expected


def test_a_batch_moves_as_a_whole() -> None:
    replay = make(2, 1)
    replay.add(*vector_step(0, ["on"]))
    moved = replay.sample(3, Stream(0, "a")).to(torch.device("meta"))
    leaves = [
        *moved.obs.values(),
        *moved.next_obs.values(),
        *(part for part in moved if isinstance(part, torch.Tensor)),
    ]
    assert len(leaves) == 2 * len(OBS.leaves) + 6
    assert {leaf.device.type for leaf in leaves} == {"meta"}


@needs_native
@pytest.mark.parametrize("n_step", [1, 3])
def test_kernels_fetch_the_same_samples(n_step: int) -> None:
    tree = gs.Dict({"image": gs.Box(0, 255, (2, 3), np.uint8), "room": gs.Discrete(5), "x": gs.Box(-1, 1, (3,))})
    obs_spec, action_spec = ObsSpec.of(tree), ACTION
    rng = np.random.default_rng(0)
    replays = [Replay(24, 2, obs_spec, action_spec, gamma=GAMMA, n_step=n_step, inside=True) for _ in range(2)]
    replays[1].native = True
    for _ in range(20):
        now, then = stored(rng), stored(rng)
        ended, cut = rng.random(2) < 0.2, rng.random(2) < 0.2
        step = Step(then, then, rng.normal(size=2), ended, cut, np.ones(2, dtype=bool), [])
        actions = rng.normal(size=(2, ACTION.size)).astype(np.float32)
        for replay in replays:
            replay.add(now, actions, step, np.ones(2, dtype=bool))
    plain, native = (replay.sample(64, Stream(0, "sampling")) for replay in replays)
    assert plain.inside is None or native.inside is not None
    for mine, theirs in zip(leaves_of(native), leaves_of(plain), strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)
    before = native.rewards.clone()
    replays[1].sample(64, Stream(1, "sampling"))
    assert torch.equal(native.rewards, before)


def stored(rng: np.random.Generator) -> dict[str, Any]:
    """Observations of two environments."""
    image = rng.integers(0, 256, (2, 2, 3)).astype(np.uint8)
    return {"image": image, "room": rng.integers(0, 5, (2, 1)), "x": rng.normal(size=(2, 3)).astype(np.float32)}


def leaves_of(batch: ReplayBatch) -> list[torch.Tensor]:
    """Every tensor of a batch, in order."""
    inside = [] if batch.inside is None else [*batch.inside.obs.values(), batch.inside.discounts]
    flat = [batch.actions, batch.rewards, batch.terminated, batch.discounts, batch.weights, batch.index]
    return [*batch.obs.values(), *batch.next_obs.values(), *flat, *inside]
