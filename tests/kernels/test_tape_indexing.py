"""Indexing, positions, running sums, types and constants on the register machine, against PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadyrl import kernels
from steadyrl.kernels.program import TracedFunction, TracedLoss
from steadyrl.nn.gradient import with_gradient

pytestmark = pytest.mark.skipif(not kernels.available(), reason=kernels.reason())


def same(found: Tensor, wanted: Tensor, rtol: float = 2e-6, atol: float = 2e-6) -> None:
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol, equal_nan=True)


@settings(max_examples=40, deadline=None)
@given(rows=st.sampled_from((1, 2, 5, 64, 65)), columns=st.sampled_from((1, 2, 3, 70)), seed=st.integers(0, 1000))
def test_positions(rows: int, columns: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 3, (rows, columns), generator=generator).float()  # many equal ones: the first counts
    x[torch.rand(x.shape, generator=generator) < 0.05] = math.nan

    def positions(x: Tensor) -> tuple[Tensor, ...]:
        return x.argmax(-1), x.argmin(0), x.argmax(), x.max(dim=0).indices, x.min(dim=-1, keepdim=True).indices

    for found, wanted in zip(TracedFunction(positions)(x), positions(x), strict=True):
        assert found.dtype == torch.int64
        assert torch.equal(found, wanted)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.sampled_from((1, 2, 5, 64, 257)),
    columns=st.sampled_from((1, 2, 3, 70)),
    depth=st.sampled_from((1, 4)),
    seed=st.integers(0, 1000),
)
def test_indexing(rows: int, columns: int, depth: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, depth, generator=generator)
    index = torch.randint(columns, (rows,), generator=generator)

    def by_gather(x: Tensor, index: Tensor) -> Tensor:
        return x[..., 0].gather(-1, index.unsqueeze(-1)).squeeze(-1)

    def by_arange(x: Tensor, index: Tensor) -> Tensor:
        return x[torch.arange(x.shape[0]), index]

    for function in (by_gather, by_arange):
        same(TracedFunction(function)(x, index), function(x, index))

        def loss(outputs: tuple[Tensor, ...], index: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            return function(outputs[0], index).square().sum(), {}  # noqa: B023 - used in this turn only

        outputs = (x,)
        same(TracedLoss(loss)(outputs, index)[2][0], with_gradient(loss, outputs, index)[2][0])


def test_an_index_out_of_range_raises() -> None:
    traced = TracedFunction(lambda x, index: x.gather(-1, index))
    x, index = torch.randn(3, 4), torch.tensor([[0], [3], [1]])
    same(traced(x, index), x.gather(-1, index))
    for wrong in (4, -1):
        with pytest.raises(IndexError, match="out of range"):
            traced(x, torch.tensor([[0], [wrong], [1]]))


def test_gather_and_scatter_of_several_places() -> None:
    x, index = torch.randn(5, 4), torch.randint(4, (5, 3))

    def loss(outputs: tuple[Tensor, ...], index: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return outputs[0].gather(1, index).square().sum(), {}

    outputs = (x,)
    same(TracedLoss(loss)(outputs, index)[2][0], with_gradient(loss, outputs, index)[2][0])


@settings(max_examples=30, deadline=None)
@given(rows=st.sampled_from((1, 3, 64, 65)), columns=st.sampled_from((1, 2, 3, 70)), dim=st.sampled_from((0, 1, -1)))
def test_cumulative_sums(rows: int, columns: int, dim: int) -> None:
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows))
    same(TracedFunction(lambda x: x.cumsum(dim))(x), x.cumsum(dim), rtol=1e-5, atol=1e-4)


def test_types() -> None:
    x = torch.tensor([-2.7, -0.2, 0.0, 0.7, 3.0])
    n, b = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([True, False, True, True, False])

    def mixed(x: Tensor, n: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (
            x.long(), (x > 0).float(), n * 2 - 1, n * x, b.long() + n, (n > 2), b & (x > 0), n.float() / 2, n.bool(),
            torch.where(b, x, n), n.sum(), x.to(torch.bool),
        )  # fmt: skip

    for found, wanted in zip(TracedFunction(mixed)(x, n, b), mixed(x, n, b), strict=True):
        assert found.dtype == wanted.dtype
        same(found, wanted)


def test_integers_that_float32_cannot_hold_raise() -> None:
    traced = TracedFunction(lambda n: n + 1)
    assert traced(torch.tensor([2**24 - 2])).tolist() == [2**24 - 1]
    with pytest.raises(ValueError, match=r"2\^24"):
        traced(torch.tensor([2**24]))
    with pytest.raises(ValueError, match=r"2\^24"):
        traced(torch.tensor([2**24 - 1]))


def test_constants_made_inside() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        ones = torch.ones_like(x) + torch.full((3,), 0.5) + x.new_zeros(3) + torch.tensor(2.0)
        return x * torch.tensor([1.0, 2.0, 3.0]), ones, torch.arange(3) * x, x + torch.arange(1.0, 4.0)

    x = torch.randn(3)
    for found, wanted in zip(TracedFunction(function)(x), function(x), strict=True):
        same(found, wanted)
