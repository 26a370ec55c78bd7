"""Targets against hand-computed numbers, and against a sum over explicit deltas with no recursion."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadyrl.data.targets import explained_variance, gae, next_values

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def column(*values: float) -> Tensor:
    """[T, 1], float64."""
    return torch.tensor(values, dtype=torch.float64)[:, None]


def flags(*values: int) -> Tensor:
    """[T, 1], bool."""
    return torch.tensor(values, dtype=torch.bool)[:, None]


def test_gae_by_hand() -> None:
    """gamma = lambda = 1/2, so a trace decays by 1/4; step 1 is truncated, step 3 terminated, the rollout ends in 4.

    t            0     1          2     3           4
    reward       1     2          3     4           5
    value        10    20         30    40          50
    successor    20    8 (final)  40    - (none)    60 (last)
    delta        1 + 10 - 10 = 1
                 2 + 4 - 20 = -14
                 3 + 20 - 30 = -7
                 4 + 0 - 40 = -36
                 5 + 30 - 50 = -15
    advantage    4: -15
                 3: -36              (terminated: no trace from 4)
                 2: -7 - 36 / 4 = -16
                 1: -14              (truncated: no trace from 2)
                 0: 1 - 14 / 4 = -2.5
    """
    rewards, values = column(1, 2, 3, 4, 5), column(10, 20, 30, 40, 50)
    terminated, truncated = flags(0, 0, 0, 1, 0), flags(0, 1, 0, 0, 0)
    successors = next_values(values, torch.tensor([60.0]).double(), column(0, 8, 0, 0, 0), truncated)
    assert successors.ravel().tolist() == [20, 8, 40, 50, 60]
    advantages, returns = gae(
        rewards, values, successors, terminated, terminated | truncated, flags(1, 1, 1, 1, 1), 0.5, 0.5
    )
    assert advantages.ravel().tolist() == [-2.5, -14, -16, -36, -15]
    assert returns.ravel().tolist() == [7.5, 6, 14, 4, 35]


def test_gae_skips_made_up_rows_by_hand() -> None:
    """gamma = lambda = 1. Step 1 is truncated with V(final) = 5, an autoreset made row 2 up, row 4 is beyond the total.

    3: 1 + 9 - 4 = 6 (its successor is the observation of row 4, whose value is 9)
    1: 1 + 5 - 2 = 4; 0: (1 + 2 - 1) + 4 = 6
    """
    rewards, values = column(1, 1, 99, 1, 99), column(1, 2, 77, 4, 9)
    truncated, none = flags(0, 1, 0, 0, 0), flags(0, 0, 0, 0, 0)
    successors = next_values(values, torch.tensor([88.0]).double(), column(0, 5, 0, 0, 0), truncated)
    advantages, _ = gae(rewards, values, successors, none, truncated, flags(1, 1, 0, 1, 0), 1.0, 1.0)
    assert advantages.ravel().tolist() == [6, 4, 0, 6, 0]


def brute_force(
    rewards: Floats,
    values: Floats,
    last: Floats,
    final: Floats,
    terminated: Bools,
    truncated: Bools,
    valid: Bools,
    gamma: float,
    lam: float,
) -> Floats:
    """Each advantage as the sum of (gamma * lambda)^k * delta from t to the end of its episode or of the data."""
    horizon, num_envs = rewards.shape
    advantages = np.zeros_like(rewards)
    for n in range(num_envs):
        for t in range(horizon):
            if not valid[t, n]:
                continue
            for k in range(horizon - t):
                row = t + k
                if not valid[row, n]:
                    break
                if terminated[row, n]:
                    successor = 0.0
                elif truncated[row, n]:
                    successor = final[row, n]
                else:
                    successor = values[row + 1, n] if row + 1 < horizon else last[n]
                delta = rewards[row, n] + gamma * successor - values[row, n]
                advantages[t, n] += (gamma * lam) ** k * delta
                if terminated[row, n] or truncated[row, n]:
                    break
    return advantages


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, Floats, Bools, Bools, Bools]:
    """The arguments of `brute_force`; invalid rows follow a done row or end the rollout."""
    horizon, num_envs = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (horizon, num_envs)
    rewards, values, final = (rng.normal(size=shape) for _ in range(3))
    kinds = draw(st.lists(st.sampled_from("---txb"), min_size=horizon * num_envs, max_size=horizon * num_envs))
    ends = np.array(kinds).reshape(shape)
    terminated, truncated = np.isin(ends, ["t", "b"]), np.isin(ends, ["x", "b"])
    valid = np.ones(shape, dtype=bool)
    made_up = draw(
        st.lists(st.booleans(), min_size=num_envs, max_size=num_envs)
    )  # per environment: an autoreset row follows
    for n in np.flatnonzero(made_up):
        for t in range(1, horizon):
            if valid[t - 1, n] and (terminated | truncated)[t - 1, n]:
                valid[t, n] = terminated[t, n] = truncated[t, n] = False
    cut = draw(st.integers(0, num_envs))  # environments whose last row is beyond the total
    valid[-1, num_envs - cut :] = False
    values[terminated & (rng.random(shape) < 0.5)] += 1e3
    return rewards, values, rng.normal(size=num_envs), final, terminated, truncated, valid


FACTORS = st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0])


@given(data=rollouts(), gamma=FACTORS, lam=FACTORS)
@settings(max_examples=300, deadline=None)
def test_gae_equals_brute_force(
    data: tuple[Floats, Floats, Floats, Floats, Bools, Bools, Bools], gamma: float, lam: float
) -> None:
    values, valid = data[1], data[6]
    expected = brute_force(*data, gamma, lam)
    tensors = [torch.from_numpy(array) for array in data]
    junk = torch.where(tensors[5], tensors[3], torch.nan)  # final values count only where truncated
    successors = next_values(tensors[1], tensors[2], junk, tensors[5])
    poisoned = torch.where(tensors[4], torch.nan, successors)  # and no successor where terminated
    done = tensors[4] | tensors[5]
    advantages, returns = gae(tensors[0], tensors[1], poisoned, tensors[4], done, tensors[6], gamma, lam)
    np.testing.assert_allclose(advantages.numpy(), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(returns.numpy()[valid], (expected + values)[valid], rtol=1e-10, atol=1e-10)
    assert (advantages.numpy()[~valid] == 0).all()


def test_lambda_0_is_the_td_error_and_lambda_1_the_discounted_return() -> None:
    rewards, values = column(1, 2, 3), column(4, 5, 6)
    none, all_valid = flags(0, 0, 0), flags(1, 1, 1)
    successors = next_values(values, torch.tensor([7.0]).double(), torch.zeros_like(values), none)
    td, _ = gae(rewards, values, successors, none, none, all_valid, 0.9, 0.0)
    assert td.ravel().tolist() == pytest.approx([1 + 0.9 * 5 - 4, 2 + 0.9 * 6 - 5, 3 + 0.9 * 7 - 6])
    _, returns = gae(rewards, values, successors, none, none, all_valid, 0.9, 1.0)
    last = 3 + 0.9 * 7
    assert returns.ravel().tolist() == pytest.approx([1 + 0.9 * (2 + 0.9 * last), 2 + 0.9 * last, last])
    _, returns = gae(rewards, values, successors, none, none, all_valid, 0.0, 1.0)
    assert returns.ravel().tolist() == [1, 2, 3]


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_episodes_truncated_at_every_step(horizon: int) -> None:  # case 9
    values = torch.arange(1.0, horizon + 1)[:, None]
    final = 10 * values
    truncated, none = torch.ones(horizon, 1, dtype=torch.bool), torch.zeros(horizon, 1, dtype=torch.bool)
    successors = next_values(values, torch.tensor([1e6]), final, truncated)
    advantages, returns = gae(
        torch.ones(horizon, 1), values, successors, none, truncated, torch.ones_like(none), 0.9, 0.95
    )
    torch.testing.assert_close(returns, 1 + 0.9 * final)
    torch.testing.assert_close(advantages, 1 + 0.9 * final - values)


def test_nan_of_a_terminated_successor_does_not_leak() -> None:
    rewards, values = column(1, 1, 1), column(0, 0, 0)
    terminated = flags(0, 1, 0)
    successors = column(0, torch.nan, 0)
    advantages, _ = gae(rewards, values, successors, terminated, terminated, flags(1, 1, 1), 0.5, 0.5)
    assert advantages.ravel().tolist() == [1.25, 1.0, 1.0]


def test_nan_of_an_invalid_row_does_not_leak() -> None:
    rewards, values = column(1, torch.nan, 1), column(0, torch.nan, 0)
    done, none = flags(1, 0, 0), flags(0, 0, 0)
    successors = next_values(values, torch.tensor([0.0]).double(), column(2, 0, 0), done)
    advantages, _ = gae(rewards, values, successors, none, done, flags(1, 0, 1), 0.5, 0.5)
    assert advantages.ravel().tolist() == [2.0, 0.0, 1.0]


def test_next_values_shift_by_one_and_take_final_ones_where_truncated() -> None:
    values, final = torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[10.0, 20], [30, 40]])
    truncated = torch.tensor([[False, True], [True, False]])
    found = next_values(values, torch.tensor([5.0, 6.0]), final, truncated)
    assert found.tolist() == [[3, 20], [30, 6]]


def test_float32_stays_float32() -> None:
    ones, none = torch.ones(2, 1), torch.zeros(2, 1, dtype=torch.bool)
    assert {part.dtype for part in gae(ones, ones, ones, none, none, ~none, 0.9, 0.9)} == {torch.float32}


def test_explained_variance() -> None:
    returns = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert explained_variance(returns, returns).item() == 1.0
    assert explained_variance(torch.full((4,), 9.0), returns).item() == pytest.approx(0.0)
    assert explained_variance(returns + 5, returns).item() == pytest.approx(1.0)  # blind to an offset
    # Residuals 0, 0, 0, 4: variance 3; returns: 1.25.
    assert explained_variance(torch.tensor([1.0, 2, 3, 0]), returns).item() == pytest.approx(1 - 3 / 1.25)
    assert explained_variance(returns, torch.ones(4)).isnan().item()
