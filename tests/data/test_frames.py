"""The replay that keeps each frame once gives, sample for sample, what the one with whole observations gives."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.data.arrays import layout_bytes
from steadyrl.data.frames import Frames, fits, frame_layout
from steadyrl.data.layouts import replay_bytes, transitions
from steadyrl.data.prioritised import PrioritisedReplay
from steadyrl.data.replay import Replay
from steadyrl.data.transitions import ReplayBatch
from steadyrl.errors import RunFailedError, UserError
from steadyrl.seeding import Stream as Draws
from steadyrl.spaces import Leaf, ObsSpec
from support.frame_oracle import ACTION, Stream, spec_of
from support.replay_oracle import Kind

KINDS: list[Kind] = ["on", "on", "on", "on", "terminated", "truncated", "both", "invalid", "invalid end"]
STACKS = [
    (Frames(4, 0, 1), (1, 3, 2)),
    (Frames(2, 0, 3), (3, 2, 2)),
    (Frames(3, -1, 1), (3, 2, 1)),
    (Frames(2, -1, 3), (2, 2, 3)),
    (Frames(3, 0, 2), (2,)),
]


def pair(
    rows: int, num_envs: int, frames: Frames, shape: tuple[int, ...], *, ends: int | None = None, **more: Any
) -> tuple[Replay, Replay]:
    """A replay of whole observations and one of frames."""
    directory = more.pop("directory", None)
    kind = PrioritisedReplay if more.pop("prioritised", False) else Replay
    sizes = (rows * num_envs, num_envs, spec_of(frames, shape), ACTION)
    common: dict[str, Any] = {"gamma": 0.5, "inside": True, **more}
    return kind(*sizes, **common), kind(*sizes, frames=frames, ends=ends, directory=directory, **common)


def assert_same(one: ReplayBatch, other: ReplayBatch) -> None:
    for name in ReplayBatch._fields:
        first, second = getattr(one, name), getattr(other, name)
        if isinstance(first, torch.Tensor):
            assert first.dtype == second.dtype
            assert torch.equal(first, second), name
    for tree, like in ((one.obs, other.obs), (one.next_obs, other.next_obs)):
        assert tree[""].dtype == like[""].dtype
        assert torch.equal(tree[""], like[""])
    if one.inside is not None and other.inside is not None:
        counts = one.inside.discounts.ravel() > 0
        assert torch.equal(one.inside.obs[""][counts], other.inside.obs[""][counts])
        assert torch.equal(one.inside.discounts, other.inside.discounts)
    assert (one.inside is None) == (other.inside is None)


def assert_alike(plain: Replay, kept: Replay, seed: int) -> None:
    """All that can be asked of both is the same."""
    assert plain.indices().tolist() == kept.indices().tolist()
    assert len(plain) == len(kept)
    assert_same(plain.gather(plain.indices()), kept.gather(kept.indices()))
    if len(plain):
        assert_same(plain.sample(9, Draws(seed, "a")), kept.sample(9, Draws(seed, "a")))


@pytest.mark.parametrize("variant", ["memory", "disk", "prioritised", "float32"])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_it_agrees_with_whole_observations(variant: str, data: st.DataObject) -> None:
    rows, num_envs = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 3))
    frames, shape = data.draw(st.sampled_from(STACKS))
    row = st.lists(st.sampled_from(KINDS), min_size=num_envs, max_size=num_envs)
    history = data.draw(st.lists(row, max_size=3 * rows + 2))
    saved_at = data.draw(st.integers(0, len(history)))
    dropped_at = data.draw(st.integers(0, 2 * len(history)))
    stream = Stream(frames, shape, num_envs, data.draw(st.booleans()), data.draw(st.sampled_from([2, 255])))
    dtype = np.float32 if variant == "float32" else np.uint8
    more = {"n_step": data.draw(st.integers(1, 4)), "prioritised": variant == "prioritised"}
    with tempfile.TemporaryDirectory() if variant == "disk" else nullcontext("") as place:
        directory = Path(place) / "replay" if variant == "disk" else None
        every = rows * num_envs + num_envs
        plain, kept = pair(rows, num_envs, frames, shape, ends=every, directory=directory, **more)
        for t, kinds in enumerate(history):
            if t == saved_at:
                state = kept.state_dict()
                _, kept = pair(rows, num_envs, frames, shape, ends=every, **more)
                other = Stream(frames, shape, num_envs, seed=9)
                for _ in range(data.draw(st.integers(0, 2))):  # what it held before must be gone
                    kept.add(*other.step(["on"] * num_envs, dtype))
                kept.load_state_dict(state)
            step = stream.step(kinds, dtype)
            plain.add(*step)
            kept.add(*step)
            if t == dropped_at:
                which = np.arange(num_envs) % 2 == 0
                assert plain.drop_unfinished(which).tolist() == kept.drop_unfinished(which).tolist()
            assert_alike(plain, kept, t)


def test_case_8_a_truncation_at_step_3_keeps_its_final_observation() -> None:
    """SB3#934, CRL#460: the successor was the next episode's first observation."""
    frames, shape = Frames(4, 0, 1), (1, 2, 2)
    kept = Replay(8, 1, spec_of(frames, shape), ACTION, gamma=0.9, frames=frames)

    def stack(*values: int) -> Any:
        return np.stack([np.full((2, 2), value, np.uint8) for value in values])[None]

    obs = [stack(10, 10, 10, 10), stack(10, 10, 10, 11), stack(10, 10, 11, 12), stack(20, 20, 20, 20)]
    final = [obs[1], obs[2], stack(10, 11, 12, 13), stack(20, 20, 20, 21)]
    stream = Stream(frames, shape, 1)
    for t in range(4):
        _, actions, step, valid = stream.step(["on"], np.uint8)
        kept.add({"": obs[t]}, actions, step._replace(final_obs={"": final[t]}, truncated=np.array([t == 2])), valid)
    batch = kept.gather(np.arange(4))
    for t in range(4):
        np.testing.assert_array_equal(batch.obs[""][t].numpy(), obs[t][0])
        np.testing.assert_array_equal(batch.next_obs[""][t].numpy(), final[t][0])


def test_case_22_the_last_row_of_a_ring_that_is_not_full() -> None:
    """lerobot#918: the successor of the newest row was a frame that nobody had written."""
    frames, shape = Frames(4, 0, 1), (1, 3, 2)
    plain, kept = pair(50, 2, frames, shape)
    stream = Stream(frames, shape, 2)
    for t in range(20):
        step = stream.step(["on", "on"], np.uint8)
        plain.add(*step)
        kept.add(*step)
        np.testing.assert_array_equal(kept.gather(np.array([2 * t, 2 * t + 1])).next_obs[""], step[2].final_obs[""])
        assert_alike(plain, kept, t)


def test_short_episodes_cost_old_transitions_and_that_is_said_once() -> None:
    frames, shape = Frames(4, 0, 1), (1, 3, 2)
    plain, kept = pair(40, 1, frames, shape, ends=5)
    stream = Stream(frames, shape, 1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for t in range(100):
            step = stream.step(["terminated" if t % 4 == 3 else "on"], np.uint8)
            plain.add(*step)
            kept.add(*step)
            assert set(kept.indices()) <= set(plain.indices())
            assert_same(plain.gather(kept.indices()), kept.gather(kept.indices()))
    assert [str(warning.message)[:24] for warning in told] == ["Episodes are shorter tha"]
    # Five ends are kept apart, that of the newest episode in the last step not yet among them: 20 + 4 transitions.
    assert len(kept) == 24
    assert len(plain) == 40
    _, again = pair(40, 1, frames, shape, ends=5)
    again.load_state_dict(kept.state_dict())
    assert again.indices().tolist() == kept.indices().tolist()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plain, kept = pair(10, 2, frames, shape)  # ends of long gone rows are overwritten: nothing is lost
        stream = Stream(frames, shape, 2)
        for t in range(400):
            kept.add(*stream.step(["terminated" if t % 23 == 22 else "on"] * 2, np.uint8))
    assert told == []
    assert len(kept) == 20


def test_priorities_of_lost_transitions_are_gone() -> None:
    frames, shape = Frames(2, 0, 1), (1, 2, 2)
    _, kept = pair(30, 1, frames, shape, ends=2, prioritised=True)
    stream = Stream(frames, shape, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t in range(30):
            kept.add(*stream.step(["truncated" if t % 5 == 4 else "on"], np.uint8))
    assert set(kept.sample(200, Draws(1, "a")).index.tolist()) == set(kept.indices().tolist()) == set(range(15, 30))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda obs, final: (np.roll(obs, 1, axis=1), final), "begins with other frames"),
        (lambda obs, final: (obs, np.flip(final, axis=1)), "is not one frame on"),
    ],
)
def test_other_streams_are_refused(change: Any, said: str) -> None:
    frames, shape = Frames(3, 0, 1), (1, 2, 2)
    _, kept = pair(9, 1, frames, shape)
    stream = Stream(frames, shape, 1)
    for t in range(6):
        obs, actions, step, valid = stream.step(["on"], np.uint8)
        if t < 5:
            kept.add(obs, actions, step, valid)
    changed, final = change(obs[""], step.final_obs[""])
    with pytest.raises(RunFailedError, match=rf"environment 0 are no stack of 3 frames: one {said}"):
        kept.add({"": changed}, actions, step._replace(final_obs={"": final}), valid)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ended", -1),
        ("ended", 10**9),
        ("needed", "x"),
        ("tail", np.zeros((1, 1), np.uint8)),
        ("end", np.full((6, 2), 77, np.int64)),
        ("end", np.full((6, 2), -2, np.int64)),
        ("age", np.full((6, 2), 9, np.uint8)),
        ("linked", None),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(name: str, value: Any) -> None:
    frames, shape = Frames(3, 0, 1), (1, 2, 2)
    plain, kept = pair(9, 2, frames, shape)
    stream = Stream(frames, shape, 2)
    for _ in range(6):
        step = stream.step(["on", "on"], np.uint8)
        plain.add(*step)
        kept.add(*step)
    with pytest.raises(UserError, match=f"The replay's saved '{name}' is"):
        kept.load_state_dict({**kept.state_dict(), name: value})
    assert_alike(plain, kept, 1)


ATARI = ObsSpec.of(gs.Box(0, 255, (4, 84, 84), np.uint8))


@pytest.mark.parametrize("num_envs", [1, 8, 128])
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_million_atari_transitions_take_less_than_8_gb(num_envs: int, prioritized: bool) -> None:
    size = replay_bytes(10**6, num_envs, ATARI, ACTION, prioritized=prioritized, frames=Frames(4, 0, 1))
    assert 7.05e9 < size < 8e9
    assert replay_bytes(10**6, num_envs, ATARI, ACTION) > 56e9


def test_what_is_allocated_is_what_was_calculated() -> None:
    frames = Frames(4, 0, 1)
    kept = Replay(2000, 4, ATARI, ACTION, gamma=0.99, frames=frames)
    assert sum(array.nbytes for array in kept.rings.values()) == replay_bytes(2000, 4, ATARI, ACTION, frames=frames)
    assert layout_bytes(transitions(500, 4, ATARI, ACTION, frames)) == replay_bytes(
        2000, 4, ATARI, ACTION, frames=frames
    )
    outside = sum(part.nbytes for part in vars(kept._frames).values() if isinstance(part, np.ndarray))
    own = {id(array) for array in kept.rings.values()}
    assert outside - sum(a.nbytes for a in vars(kept._frames).values() if id(a) in own) < 8 * 84 * 84 * 4 + 100


def test_frames_that_do_not_fit_a_leaf() -> None:
    leaf = ATARI.leaves[0]
    assert fits(Frames(4, 0, 1), leaf)
    assert not fits(Frames(3, 0, 1), leaf)
    assert not fits(Frames(1, 0, 4), leaf)
    assert not fits(Frames(4, 0, 1), Leaf("", "box", (4, 84, 84), "float32"))
    assert frame_layout(10, 2, leaf, Frames(4, 0, 1))["ends"].shape == (6, 1, 84, 84)  # 20 / 10 + 2 * 2
