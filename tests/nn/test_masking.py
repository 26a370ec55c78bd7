"""Distributions over what a mask allows: those of the allowed part alone, with numbers that stay finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from steadyrl.nn.deterministic import Greedy
from steadyrl.nn.discrete import Categorical, MultiCategorical
from steadyrl.nn.masking import masked
from steadyrl.seeding import Stream
from steadyrl.spaces.masks import MASK


def case(width: int, share: float, rows: int = 64, scale: float = 3.0) -> tuple[Tensor, Tensor, list[Any]]:
    generator = np.random.default_rng(width)
    mask = generator.random((rows, width)) < share
    mask[np.arange(rows), generator.integers(width, size=rows)] = True
    logits = torch.from_numpy((scale * generator.normal(size=(rows, width))).astype(np.float32))
    return logits, torch.from_numpy(mask.astype(np.float32)), [np.flatnonzero(row) for row in mask]


def of(logits: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    return masked((logits,), {MASK: mask})


@pytest.mark.parametrize(("width", "share", "scale"), [(5, 0.5, 3.0), (1400, 0.02, 3.0), (1400, 0.9, 30.0)])
def test_a_masked_distribution_is_that_of_the_allowed_actions_alone(width: int, share: float, scale: float) -> None:
    logits, mask, allowed = case(width, share, scale=scale)
    params, one = of(logits, mask), Categorical()
    noise = torch.from_numpy(Stream(1, "noise", 0).uniform((len(logits),)))
    actions = one.sample(params, noise)
    log_probs, entropy = one.log_prob(params, actions), one.entropy(params, torch.zeros(0))
    for row, places in enumerate(allowed):
        few = (logits[row : row + 1, places],)
        index = one.sample(few, noise[row : row + 1])
        assert actions[row] == places[index.item()]
        assert one.mode(params)[row] == places[one.mode(few).item()]
        np.testing.assert_allclose(log_probs[row], one.log_prob(few, index)[0], atol=2e-5)
        np.testing.assert_allclose(entropy[row], one.entropy(few, torch.zeros(0))[0], atol=2e-5)


@pytest.mark.parametrize("width", [2, 1400])
def test_gradients_are_finite_and_zero_for_what_is_not_allowed(width: int) -> None:
    logits, mask, _ = case(width, 0.3)
    logits.requires_grad_()
    params, one = of(logits, mask), Categorical()
    log_probs = one.log_prob(params, one.mode(params))
    (log_probs.sum() + one.entropy(params, log_probs).sum()).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())
    assert float(logits.grad[mask == 0].abs().max()) == 0.0
    assert float(logits.grad.abs().max()) > 0.0


def test_a_single_allowed_action_is_certain() -> None:
    logits, mask = torch.tensor([[50.0, -80.0, 3.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    params, one = of(logits, mask), Categorical()
    assert one.log_prob(params, torch.tensor([1])).item() == 0.0
    assert one.entropy(params, torch.zeros(0)).item() == 0.0
    for uniform in (0.0, 0.5, 1.0 - 2.0**-24):
        assert one.sample(params, torch.tensor([uniform])).item() == 1


def test_each_part_of_a_multidiscrete_has_its_own_mask() -> None:
    nvec = (2, 3)
    logits = torch.arange(5.0)[None]
    several = MultiCategorical(nvec)
    params = of(logits, torch.tensor([[1.0, 0.0, 1.0, 1.0, 0.0]]))
    assert several.mode(params).tolist() == [[0, 1]]
    log_p = torch.log_softmax(torch.tensor([2.0, 3.0]), dim=0)
    np.testing.assert_allclose(several.log_prob(params, torch.tensor([[0, 1]])), [log_p[1]], atol=1e-6)
    np.testing.assert_allclose(several.entropy(params, torch.zeros(0)), [-(log_p.exp() * log_p).sum()], atol=1e-6)


def test_greedy_chooses_and_explores_among_what_is_allowed() -> None:
    values, mask, allowed = case(6, 0.4, rows=400)
    params, greedy = of(values, mask), Greedy(1.0)
    noise = torch.from_numpy(Stream(2, "noise", 0).uniform((400, 2)))
    random = greedy.sample(params, noise)
    for row, places in enumerate(allowed):
        assert random[row].item() == places[int(noise[row, 1].item() * len(places))]
        assert greedy.mode(params)[row].item() == places[int(values[row, places].argmax())]


def test_without_a_mask_greedy_is_what_it_was() -> None:
    values = torch.randn(200, 5, generator=torch.Generator().manual_seed(1))
    noise = torch.from_numpy(Stream(3, "noise", 0).uniform((200, 2)))
    expected = torch.where(noise[:, 0] < 0.5, (noise[:, 1] * 5).long(), values.argmax(dim=-1))
    assert torch.equal(Greedy(0.5).sample((values,), noise), expected)


def test_the_parameters_are_left_alone_where_there_is_no_mask() -> None:
    params = (torch.zeros(2, 3),)
    assert masked(params, {"": torch.zeros(2, 1)}) is params
