"""Targets of the off-policy algorithms: by hand, and against loops in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steadyrl.data.targets import polyak, project_categorical, q_target, quantile_huber
from support.off_policy import Floats, numbers, numeric_gradient

N_ATOMS = st.integers(2, 12)


def test_q_target_by_hand() -> None:
    """A plain step, a terminated one whose next value is NaN, a truncated one, three steps at gamma 0.9."""
    rewards = torch.tensor([1.0, 2.0, 3.0, 4.0])
    discounts = torch.tensor([0.9, 0.9, 0.9, 0.9**3])
    terminated = torch.tensor([False, True, False, False])  # truncation has no say in it: the third one was truncated
    next_values = torch.tensor([10.0, torch.nan, 20.0, 10.0])
    expected = torch.tensor([1 + 9.0, 2.0, 3 + 18.0, 4 + 7.29])
    torch.testing.assert_close(q_target(rewards, discounts, terminated, next_values), expected)


def test_q_target_of_distributions_moves_every_atom() -> None:
    found = q_target(
        torch.tensor([[1.0], [2.0]]),
        torch.tensor([[0.5], [0.5]]),
        torch.tensor([[False], [True]]),
        torch.tensor([-2.0, 4.0]),
    )
    assert found.tolist() == [[0.0, 3.0], [2.0, 2.0]]


def test_polyak_moves_the_target_a_little_way_to_the_online_network() -> None:
    target, online = torch.tensor([0.0, 10.0]), torch.tensor([1.0, -10.0])
    memory = target.data_ptr()
    polyak(target, online, 0.005)
    torch.testing.assert_close(target, torch.tensor([0.005, 9.9]))
    polyak(target, online, 0.005)
    torch.testing.assert_close(target, torch.tensor([0.005 + 0.005 * 0.995, 9.9 - 0.005 * 19.9]))
    assert online.tolist() == [1.0, -10.0]
    assert target.data_ptr() == memory


def test_polyak_with_tau_one_copies_the_bits() -> None:
    target, online = torch.tensor([1e30, -7.0]), torch.tensor([0.1, -1e-30])
    polyak(target, online, 1.0)
    assert torch.equal(target, online)


def plain_projection(probabilities: Floats, returns: Floats, support: Floats) -> Floats:
    """Algorithm 1 of arXiv:1707.06887, atom by atom."""
    result = np.zeros((len(probabilities), len(support)))
    step = (support[-1] - support[0]) / (len(support) - 1)
    for row in range(len(probabilities)):
        for p, value in zip(probabilities[row], returns[row], strict=True):
            b = min((min(max(value, support[0]), support[-1]) - support[0]) / step, len(support) - 1.0)  # rounding
            below, above = int(np.floor(b)), int(np.ceil(b))
            if below == above:
                result[row, below] += p
            else:
                result[row, below] += p * (above - b)
                result[row, above] += p * (b - below)
    return result


@given(data=st.data(), k=N_ATOMS, batch=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_projection_is_that_of_the_paper_and_keeps_all_mass(data: st.DataObject, k: int, batch: int) -> None:
    seed = data.draw(st.integers(0, 2**32 - 1))
    low = data.draw(st.floats(-100, 100))
    width = data.draw(st.floats(0.5, 200))
    random = np.random.default_rng(seed)
    support = np.linspace(low, low + width, k)
    probabilities = random.dirichlet(np.ones(k), batch)
    returns = random.uniform(low - width, low + 2 * width, (batch, k))
    returns[random.random((batch, k)) < 0.2] = random.choice(support)  # exactly on an atom
    found = project_categorical(*(torch.from_numpy(x) for x in (probabilities, returns, support))).numpy()
    np.testing.assert_allclose(found, plain_projection(probabilities, returns, support), atol=1e-7)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
    assert (found >= 0).all()
    # The mean is kept as well, wherever nothing was clipped.
    inside = ((returns >= low) & (returns <= low + width)).all(axis=1)
    np.testing.assert_allclose((found @ support)[inside], (probabilities * returns).sum(axis=1)[inside], atol=1e-5)


@given(seed=st.integers(0, 2**32 - 1), k=N_ATOMS)
@settings(max_examples=50, deadline=None)
def test_projection_keeps_all_mass_in_float32(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    low, high = sorted(random.uniform(-1000, 1000, 2))
    support = torch.linspace(low, high + 1, k)
    probabilities = torch.from_numpy(random.dirichlet(np.ones(k), 8)).float()
    returns = torch.from_numpy(random.uniform(-3000, 3000, (8, k))).float()
    torch.testing.assert_close(project_categorical(probabilities, returns, support).sum(1), torch.ones(8))


def test_projection_by_hand_clips_at_both_ends() -> None:
    """Support 0, 1, 2: a return of -5 goes to 0, one of 9 to 2, 0.25 to 3/4 of the first and 1/4 of the second."""
    found = project_categorical(
        torch.tensor([[0.5, 0.2, 0.3]]), torch.tensor([[-5.0, 9.0, 0.25]]), torch.tensor([0.0, 1.0, 2.0])
    )
    torch.testing.assert_close(found, torch.tensor([[0.5 + 0.225, 0.075, 0.2]]))


def plain_quantile_huber(quantiles: Floats, target: Floats) -> Floats:
    """Equation 10 of arXiv:1710.10044, pair by pair."""
    batch, k = quantiles.shape
    result = np.zeros(batch)
    for row in range(batch):
        for i in range(k):
            total = 0.0
            for wanted in target[row]:
                u = wanted - quantiles[row, i]
                huber = 0.5 * u * u if abs(u) <= 1 else abs(u) - 0.5
                total += abs((i + 0.5) / k - (1.0 if u < 0 else 0.0)) * huber
            result[row] += total / target.shape[1]
    return result


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 9), m=st.integers(1, 9))
@example(seed=0, k=1, m=1)
@settings(max_examples=50, deadline=None)
def test_quantile_huber_is_that_of_the_paper(seed: int, k: int, m: int) -> None:
    random = np.random.default_rng(seed)
    quantiles, target = random.normal(0, 2, (3, k)), random.normal(0, 2, (3, m))
    found = quantile_huber(torch.from_numpy(quantiles), torch.from_numpy(target)).numpy()
    np.testing.assert_allclose(found, plain_quantile_huber(quantiles, target), rtol=1e-12)


def test_quantile_huber_is_least_at_the_quantiles() -> None:
    """Of 0, 1, 2, 3 as targets (in units where the Huber part is small) two quantiles lie at 1/4 and 3/4."""
    target = torch.arange(400, dtype=torch.float64)[None] * 10
    quantiles = torch.tensor([[100.0, 3900.0]], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([quantiles], lr=20)
    for _ in range(400):
        optimizer.zero_grad()
        quantile_huber(quantiles, target).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    np.testing.assert_allclose(numbers(quantiles)[0], [1000, 3000], atol=60)


@pytest.mark.parametrize("k", [1, 5])
def test_the_gradient_of_quantile_huber_is_that_of_finite_differences(k: int) -> None:
    random = np.random.default_rng(k)
    quantiles, target = random.normal(0, 2, (2, k)), random.normal(0, 2, (2, 7))
    tensor = torch.from_numpy(quantiles).requires_grad_()
    quantile_huber(tensor, torch.from_numpy(target)).sum().backward()  # type: ignore[no-untyped-call]
    assert tensor.grad is not None

    def plain(at: npt.NDArray[np.float64]) -> float:
        return float(plain_quantile_huber(at, target).sum())

    np.testing.assert_allclose(tensor.grad.numpy(), numeric_gradient(plain, quantiles), rtol=1e-5, atol=1e-7)
