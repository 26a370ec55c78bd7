"""Prioritised replay: probabilities, weights, the fate of overwritten and new rows, exact continuation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from steadyrl.data.layouts import replay_bytes
from steadyrl.data.prioritised import PrioritisedReplay
from steadyrl.data.replay import Replay
from steadyrl.data.sum_tree import SumTree
from steadyrl.errors import NonFiniteError, UserError
from steadyrl.seeding import Stream
from support.replay_oracle import ACTION, GAMMA, OBS, Kind, Oracle, samples_of, vector_step


def make(rows: int, num_envs: int, alpha: float = 0.6, n_step: int = 1, eps: float = 1e-6) -> PrioritisedReplay:
    sizes = (rows * num_envs, num_envs, OBS, ACTION)
    return PrioritisedReplay(*sizes, gamma=GAMMA, alpha=alpha, n_step=n_step, inside=True, eps=eps)


def filled(alpha: float) -> tuple[PrioritisedReplay, npt.NDArray[np.float64], list[int]]:
    """Seven transitions with errors 0 to 6 of either sign, their priorities and numbers."""
    replay = make(4, 2, alpha, eps=0.5)
    kinds: list[list[Kind]] = [["on", "on"], ["on", "invalid"], ["truncated", "on"], ["on", "terminated"]]
    for t, row in enumerate(kinds):
        replay.add(*vector_step(t, row))
    numbers = replay.indices().tolist()
    errors = torch.tensor([0.0, 1.0, -2.0, 3.0, -4.0, 5.0, 6.0])
    replay.update_priorities(torch.tensor(numbers), errors)
    return replay, (errors.abs().double().numpy() + 0.5) ** alpha, numbers


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_probabilities(alpha: float) -> None:
    replay, priorities, numbers = filled(alpha)
    stream = Stream(11, "replay")
    drawn = np.concatenate([replay.sample(4, stream).index.numpy() for _ in range(10_000)])
    counts = np.array([(drawn == number).sum() for number in numbers])
    expected = len(drawn) * priorities / priorities.sum()
    assert counts.sum() == len(drawn)
    assert ((counts - expected) ** 2 / expected).sum() < 22.5  # 99.9% of chi-square, 6 degrees of freedom


def test_a_large_batch_takes_its_share_of_each_almost_exactly() -> None:
    """One draw from each of B equal shares: a count is off by fewer than 2."""
    replay, priorities, numbers = filled(1.0)
    drawn = replay.sample(10_000, Stream(0, "replay")).index.numpy()
    counts = np.array([(drawn == number).sum() for number in numbers])
    assert np.abs(counts - 10_000 * priorities / priorities.sum()).max() < 2


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights(beta: float) -> None:
    replay, priorities, numbers = filled(0.6)
    batch = replay.sample(5, Stream(1, "replay"), beta)
    position = [numbers.index(number) for number in batch.index.tolist()]
    weights = (len(numbers) * priorities[position] / priorities.sum()) ** -beta
    assert len(set(position)) > 1
    np.testing.assert_allclose(batch.weights.numpy(), weights / weights.max(), rtol=1e-6)
    assert batch.weights.dtype == torch.float32
    assert batch.weights.max() == 1.0


def test_new_rows_get_the_largest_priority_so_far() -> None:
    replay = make(4, 2, alpha=1.0, eps=0.0)
    replay.add(*vector_step(0, ["on", "invalid"]))
    assert priorities_of(replay) == [1.0, 0.0]
    replay.update_priorities(torch.tensor([0]), torch.tensor([-8.0]))
    replay.add(*vector_step(1, ["on", "on"]))
    assert priorities_of(replay) == [8.0, 0.0, 8.0, 8.0]
    replay.update_priorities(torch.tensor([0, 2, 3]), torch.tensor([1.0, 0.25, 2.0]))
    replay.add(*vector_step(2, ["invalid", "on"]))
    assert priorities_of(replay) == [1.0, 0.0, 0.25, 2.0, 0.0, 8.0]


def priorities_of(replay: PrioritisedReplay) -> list[float]:
    found = replay.state_dict()["priorities"]
    assert isinstance(found, np.ndarray)
    return [float(priority) for priority in found]


def test_rows_overwritten_meanwhile_are_left_out() -> None:
    replay = make(2, 2, alpha=1.0, eps=0.0)
    for t in range(2):
        replay.add(*vector_step(t, ["on", "on"]))
    sampled = torch.tensor([0, 1, 2, 3])
    replay.add(*vector_step(2, ["on", "invalid"]))
    replay.update_priorities(sampled, torch.tensor([5.0, 6.0, 7.0, 8.0]))
    assert priorities_of(replay) == [1.0, 0.0, 7.0, 8.0]
    replay.add(*vector_step(3, ["on", "on"]))
    assert priorities_of(replay) == [1.0, 0.0, 8.0, 8.0]
    replay.update_priorities(sampled, torch.tensor([50.0, 60.0, 70.0, 80.0]))
    replay.add(*vector_step(4, ["on", "on"]))
    assert priorities_of(replay) == [8.0, 8.0, 8.0, 8.0]


def test_the_last_of_a_transition_sampled_twice_counts() -> None:
    replay = make(2, 1, alpha=1.0, eps=0.0)
    replay.add(*vector_step(0, ["on"]))
    replay.update_priorities(torch.tensor([0, 0]), torch.tensor([3.0, 2.0]))
    assert priorities_of(replay) == [2.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_error_that_is_not_finite_changes_nothing(bad: float) -> None:
    replay, priorities, numbers = filled(1.0)
    with pytest.raises(NonFiniteError, match=f"transition {numbers[1]} "):
        replay.update_priorities(torch.tensor(numbers[:2]), torch.tensor([3.0, bad]))
    assert [priority for priority in priorities_of(replay) if priority] == priorities.tolist()


def test_what_comes_out_is_what_happened_over_many_rounds() -> None:
    """Windows of 3 steps, rows that do not count, the wrap, and priorities that differ a million times."""
    replay, oracle, stream = make(5, 2, n_step=3), Oracle(5, 2, 3), Stream(0, "replay")
    kinds: list[Kind] = ["on", "on", "truncated", "invalid", "on", "terminated", "on"]
    for t in range(40):
        oracle.feed(replay, [kinds[t % 7], kinds[(t * 3) % 7]])
        batch = replay.sample(16, stream, 0.4)
        assert samples_of(batch).items() <= oracle.samples().items()
        replay.update_priorities(batch.index, 10.0 ** torch.arange(-8.0, 8.0))


def test_an_empty_replay_says_so() -> None:
    replay = make(2, 2)
    with pytest.raises(UserError, match="no transition"):
        replay.sample(2, Stream(0, "replay"))
    replay.add(*vector_step(0, ["invalid", "invalid"]))
    with pytest.raises(UserError, match="no transition"):
        replay.sample(2, Stream(0, "replay"))


@pytest.mark.parametrize("steps", [2, 5])
def test_the_state_brings_everything_back(steps: int) -> None:
    def go_on(replay: PrioritisedReplay, stream: Stream) -> list[list[float]]:
        seen = []
        for t in range(steps, steps + 6):
            batch = replay.sample(8, stream, 0.4)
            seen += [batch.index.tolist(), batch.weights.tolist()]
            replay.update_priorities(batch.index, batch.index * 0.37 - 1.0)
            replay.add(*vector_step(t, ["on", "truncated" if t % 2 else "invalid"]))
        return seen

    replay, stream = make(3, 2), Stream(4, "replay")
    for t in range(steps):
        replay.add(*vector_step(t, ["on", "on"]))
        batch = replay.sample(4, stream)
        replay.update_priorities(batch.index, batch.index * 1.5)
    state, drawn = replay.state_dict(), stream.state_dict()
    expected = go_on(replay, stream)
    other = make(3, 2)
    for t in range(7):
        other.add(*vector_step(t, ["on", "on"]))
    other.load_state_dict(state)
    again = Stream(4, "replay")
    again.load_state_dict(drawn)
    assert go_on(other, again) == expected


def test_a_state_without_true_priorities_is_refused() -> None:
    replay, priorities, _ = filled(1.0)
    good = replay.state_dict()
    bad = np.array(good["priorities"])
    bad[0] = -1.0
    for state in ({**good, "priorities": bad}, {**good, "priorities": bad[1:]}, {**good, "largest": bad}):
        with pytest.raises(UserError, match="saved"):
            replay.load_state_dict(state)
    plain = Replay(8, 2, OBS, ACTION, gamma=GAMMA)
    with pytest.raises(UserError, match="'priorities' is missing"):
        replay.load_state_dict(plain.state_dict())
    assert [priority for priority in priorities_of(replay) if priority] == priorities.tolist()


def test_the_tree_is_in_the_size() -> None:
    base = replay_bytes(23, 3, OBS, ACTION)
    assert replay_bytes(23, 3, OBS, ACTION, prioritized=True) == base + SumTree.bytes_for(21)
