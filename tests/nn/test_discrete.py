"""Integer distributions: frequencies of fixed streams, extreme logits, entropy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.nn.discrete import Bernoulli, Categorical, MultiCategorical
from steadyrl.nn.distributions import Distribution
from steadyrl.seeding import Stream


def chi_square(counts: npt.NDArray[np.int64], probs: npt.NDArray[np.float64]) -> float:
    expected = probs * counts.sum()
    return float((np.square(counts - expected) / expected).sum())


def test_categorical_frequencies() -> None:
    probs = np.array([0.05, 0.5, 0.15, 0.3])
    n = 40_000
    logits = torch.log(torch.tensor(probs, dtype=torch.float32)).expand(n, 4) + 3.0
    noise = torch.from_numpy(Categorical().draw(Stream(0, "frequencies"), n))
    counts = np.bincount(Categorical().sample((logits,), noise).numpy(), minlength=4)
    assert chi_square(counts, probs) < 16.27  # 3 degrees of freedom, p = 0.001


def test_bernoulli_and_multicategorical_frequencies() -> None:
    n = 40_000
    p = np.array([0.1, 0.5, 0.93])
    bits = Bernoulli(3)
    logits = torch.logit(torch.tensor(p, dtype=torch.float32)).expand(n, 3)
    sample = bits.sample((logits,), torch.from_numpy(bits.draw(Stream(0, "bits"), n))).numpy()
    assert (np.abs(sample.mean(axis=0) - p) < 4 * np.sqrt(p * (1 - p) / n)).all()
    assert abs(np.corrcoef(sample.T)[0, 1]) < 4 / math.sqrt(n)

    pair = MultiCategorical((2, 3))
    probs = np.array([0.25, 0.75, 0.2, 0.3, 0.5])
    flat = torch.log(torch.tensor(probs, dtype=torch.float32)).expand(n, 5)
    joint = pair.sample((flat,), torch.from_numpy(pair.draw(Stream(0, "pair"), n))).numpy()
    counts = np.bincount(joint[:, 0] * 3 + joint[:, 1], minlength=6)
    assert chi_square(counts, np.outer(probs[:2], probs[2:]).ravel()) < 20.52  # 5 degrees of freedom, p = 0.001


def test_categorical_inverts_the_cumulative_distribution() -> None:
    logits = torch.log(torch.tensor([[0.25, 0.25, 0.5]]))
    uniform = torch.tensor([0.0, 0.2499, 0.2501, 0.4999, 0.5001, 1.0])
    assert Categorical().sample((logits.expand(6, 3),), uniform).tolist() == [0, 0, 1, 1, 2, 2]


@given(
    logits=st.lists(
        st.one_of(st.floats(-5, 5, width=32), st.sampled_from([-1e4, 1e4, -1e30, 88.0, -104.0])),
        min_size=1,
        max_size=40,
    ),
    uniform=st.one_of(st.floats(0, 1, width=32), st.sampled_from([0.0, 1 - 2.0**-24, 1.0])),
)
@settings(max_examples=300, deadline=None)
def test_categorical_never_takes_an_impossible_choice(logits: list[float], uniform: float) -> None:
    params = (torch.tensor([logits], dtype=torch.float32),)
    action = Categorical().sample(params, torch.tensor([uniform], dtype=torch.float32))
    assert 0 <= int(action) < len(logits)
    assert float(torch.softmax(params[0], -1)[0, action]) > 0
    log_prob = Categorical().log_prob(params, action)
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(Categorical().entropy(params, log_prob)).all()


def test_extreme_logits_have_exact_limits() -> None:
    params = (torch.tensor([[1e4, -1e4]]),)
    assert Categorical().log_prob(params, torch.tensor([0])).item() == 0.0
    assert Categorical().log_prob(params, torch.tensor([1])).item() == -2e4
    assert Categorical().entropy(params, torch.zeros(1)).item() == 0.0
    bits, actions = Bernoulli(2), torch.tensor([[1, 0]])
    assert bits.log_prob(params, actions).item() == 0.0
    assert bits.log_prob(params, 1 - actions).item() == -2e4
    assert bits.entropy(params, torch.zeros(1)).item() == 0.0
    assert bits.sample(params, torch.tensor([[1 - 2.0**-24, 0.0]])).tolist() == [[1, 0]]


def test_bernoulli_keeps_its_precision_at_large_logits() -> None:
    logit = 20.0
    exact_log_prob = -math.log1p(math.exp(-logit))
    exact_entropy = math.log1p(math.exp(-logit)) + logit / (1 + math.exp(logit))
    params, one = (torch.tensor([[logit]]),), torch.tensor([[1]])
    assert Bernoulli(1).log_prob(params, one).item() == pytest.approx(exact_log_prob, rel=1e-5)
    assert Bernoulli(1).entropy(params, torch.zeros(1)).item() == pytest.approx(exact_entropy, rel=1e-5)


@pytest.mark.parametrize(
    ("distribution", "width"), [(Categorical(), 4), (MultiCategorical((4, 2)), 6), (Bernoulli(4), 4)]
)
def test_entropy_is_largest_and_flat_at_uniform_logits(distribution: Distribution, width: int) -> None:
    logits = torch.zeros(1, width, requires_grad=True)
    entropy = distribution.entropy((logits,), torch.zeros(1))
    (gradient,) = torch.autograd.grad(entropy.sum(), logits)
    assert gradient.abs().max().item() < 1e-7
    choices = {4: math.log(4), 6: math.log(8)}[width] if not isinstance(distribution, Bernoulli) else 4 * math.log(2)
    assert entropy.item() == pytest.approx(choices, rel=1e-6)
