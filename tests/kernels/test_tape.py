"""Every operation of the register machine against PyTorch: values and gradients, odd sizes, extreme numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadyrl import kernels
from steadyrl.kernels.program import TracedFunction, TracedLoss
from steadyrl.nn.gradient import with_gradient

pytestmark = pytest.mark.skipif(not kernels.available(), reason=kernels.reason())

SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 33, 63, 64, 65, 257, 1025)
EXTREMES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-6,
    1e-40,
    20.0,
    -20.0,
    88.0,
    89.0,
    -88.0,
    -104.0,
    1e18,
    -1e30,
    math.inf,
    -math.inf,
    math.nan,
)

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "neg": torch.neg,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "tanh": torch.tanh,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "cube": lambda x: x**3,
    "root": lambda x: x**0.5,
    "reciprocal": torch.reciprocal,
    "rsqrt": torch.rsqrt,
    "floor": torch.floor,
    "trunc": torch.trunc,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "relu": torch.relu,
    "clamp": lambda x: x.clamp(-1.0, 2.0),
    "clamp_min": lambda x: x.clamp(min=0.5),
    "clamp_max": lambda x: x.clamp(max=0.5),
    "hardtanh": F.hardtanh,
    "fill": lambda x: x.masked_fill(x > 0, 3.0),
    "divided": lambda x: x / 3,
    "halved": lambda x: x / 2,
    "taken_from": lambda x: 2 - x,
    "affine": lambda x: torch.add(torch.sub(x, x * 0.5, alpha=3), 1.5, alpha=2),
}
UNDIFFERENTIABLE: dict[str, Callable[[Tensor], Tensor]] = {
    "positive": lambda x: x > 0,
    "nan": torch.isnan,
    "finite": torch.isfinite,
    "not": lambda x: ~(x >= 0.5),
    "logical_not": torch.logical_not,
    "or": lambda x: (x < -1) | (x > 1),
    "and": lambda x: (x < 1) & (x != 0),
    "any": lambda x: (x > 1).any(),
    "all": lambda x: (x < 1).all(),
    "sum of bools": lambda x: (x > 0).sum(),
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "where": lambda a, b: torch.where(a > b, a, b * 2),
    "where numbers": lambda a, b: torch.where(a > b, 0.0, b),
    "mse": F.mse_loss,
    "mse rows": lambda a, b: F.mse_loss(a, b, reduction="none"),
    "smooth": lambda a, b: F.smooth_l1_loss(a, b, reduction="none"),
    "smooth mean": lambda a, b: F.smooth_l1_loss(a, b, beta=0.3),
    "huber": lambda a, b: F.huber_loss(a, b, reduction="sum", delta=0.7),
}
ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(-1),
    "sum of all": torch.sum,
    "mean": lambda x: x.mean(0),
    "mean kept": lambda x: x.mean((0, 1), keepdim=True),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(0, keepdim=True),
    "max": lambda x: x.max(-1).values,
    "min": lambda x: x.min(dim=0).values,
    "largest": torch.max,
    "smallest": torch.min,
    "std": lambda x: x.std(0),
    "var": lambda x: x.var(-1, correction=0),
    "var_mean": lambda x: torch.stack(torch.var_mean(x, dim=1)),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(0),
    "logsumexp": lambda x: x.logsumexp(-1),
    "transposed": lambda x: (x.t() * 2).t(),
    "reshaped": lambda x: x.t().reshape(-1) * 2,
    "flat view": lambda x: (x * 2).view(-1).view(x.shape),
    "one": lambda x: x[-1] * 2,
    "some": lambda x: x[:, ::2].exp(),
    "joined": lambda x: torch.cat([x, x * 2], dim=-1),
    "stacked": lambda x: torch.stack([x, -x]).sum(dim=0),
    "halves": lambda x: torch.split(x, [1, x.shape[1] - 1], dim=-1)[0] * 2 if x.shape[1] > 1 else x,
    "unbound": lambda x: x.unbind(-1)[0] * 3,
    "outer": lambda x: (x.unsqueeze(1) - x.unsqueeze(0)).abs().mean(-1),
    "product": lambda x: x @ x.t(),
    "batched": lambda x: torch.bmm(x.unsqueeze(1), x.unsqueeze(-1)).squeeze(-1),
    "vector": lambda x: x @ x[0],
}


def numbers(shape: tuple[int, ...], seed: int, extreme: bool) -> Tensor:
    """Normal numbers with, where asked for, every third an extreme one."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn(shape, generator=generator) * 3
    if extreme:
        chosen = torch.tensor(EXTREMES)[torch.randint(len(EXTREMES), shape, generator=generator)]
        found = torch.where(torch.rand(shape, generator=generator) < 0.3, chosen, found)
    return found


def same(found: Tensor, wanted: Tensor, rtol: float = 2e-6, atol: float = 2e-6) -> None:
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol, equal_nan=True)


def gradients_agree(function: Callable[..., Tensor], *args: Tensor, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    def loss(outputs: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
        result = function(*outputs)
        weights = torch.arange(result.numel(), dtype=torch.float32).reshape(result.shape) / result.numel() - 0.4
        return (result * weights).sum(), {}

    outputs = args
    _, _, found = TracedLoss(loss)(outputs)
    _, _, wanted = with_gradient(loss, outputs)
    for a, b in zip(found, wanted, strict=True):
        same(a, b, rtol, atol)


@pytest.mark.parametrize("name", UNARY | UNDIFFERENTIABLE)
@settings(max_examples=12, deadline=None)
@given(size=st.sampled_from(SIZES), seed=st.integers(0, 1000))
def test_of_one_argument(name: str, size: int, seed: int) -> None:
    function = (UNARY | UNDIFFERENTIABLE)[name]
    x = numbers((size,), seed, extreme=True)
    same(TracedFunction(function)(x), function(x))


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=5, deadline=None)
@given(size=st.sampled_from(SIZES), seed=st.integers(0, 1000))
def test_gradient_of_one_argument(name: str, size: int, seed: int) -> None:
    x = numbers((size,), seed, extreme=False)
    gradients_agree(UNARY[name], x.abs() + 0.1 if name in ("log", "sqrt", "log1p", "rsqrt", "root") else x)


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=15, deadline=None)
@given(
    shapes=st.sampled_from(
        [((n,), (n,)) for n in SIZES] + [((5, 3), (3,)), ((33, 2), (33, 1)), ((1, 17), (5, 1)), ((2, 3, 65), (3, 1))]
    ),
    seed=st.integers(0, 1000),
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_of_two_arguments_with_broadcasting(name: str, shapes: tuple[tuple[int, ...], ...], seed: int) -> None:
    function = BINARY[name]
    a, b = (numbers(shape, seed + i, extreme=True) for i, shape in enumerate(shapes))
    same(TracedFunction(function)(a, b), function(a, b))
    tame = [numbers(shape, seed + i, extreme=False) for i, shape in enumerate(shapes)]
    if name == "div":  # near zero its gradients are so large that nothing is left of their sum's last digits
        tame[1] = tame[1] + 0.1 * tame[1].sign()
    # A gradient of what was spread is a sum of so many terms, each rounded in its own order; they may cancel.
    terms = max(function(*tame).numel(), 1) // min(part.numel() for part in tame)
    gradients_agree(function, *tame, atol=max(1e-5, 3e-7 * terms))


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=12, deadline=None)
@given(
    rows=st.sampled_from((2, 3, 63, 64, 257)),
    columns=st.sampled_from((1, 2, 3, 17, 65)),
    seed=st.integers(0, 1000),
)
def test_of_rows(name: str, rows: int, columns: int, seed: int) -> None:
    function = ROWS[name]
    if name in ("outer", "product") and rows > 64:
        rows = 5
    if name == "var_mean" and columns == 1:
        columns = 2
    x = numbers((rows, columns), seed, extreme=False)
    scale = 1e-5 * max(rows, columns)
    same(TracedFunction(function)(x), function(x), rtol=1e-5, atol=scale)
    gradients_agree(function, x, rtol=1e-4, atol=3e-4)


@pytest.mark.parametrize("name", ["amax", "amin", "max", "largest", "smallest", "sum", "softmax", "logsumexp"])
def test_nan_and_infinity_pass_through_reductions(name: str) -> None:
    x = numbers((33, 5), 3, extreme=True)
    same(TracedFunction(ROWS[name])(x), ROWS[name](x), rtol=1e-5)


@pytest.mark.parametrize("size", [255, 256, 4096, 65536])
def test_sums_are_as_accurate_as_torch(size: int) -> None:
    for seed, offset in ((0, 0.0), (1, 1.0), (2, 100.0)):
        x = torch.randn(size, generator=torch.Generator().manual_seed(seed)) + offset
        exact = x.double().mean().item()
        error = abs(TracedFunction(torch.mean)(x).item() - exact)
        assert error <= max(abs(x.mean().item() - exact), 1e-7 * max(abs(exact), 1.0))
        columns = x.view(-1, 1).expand(-1, 3).contiguous()
        found = TracedFunction(lambda x: x.mean(0))(columns)
        assert (found.double() - exact).abs().max().item() <= 1e-7 * max(abs(exact), 1.0)


def test_a_sum_along_the_outer_dimensions_is_accurate() -> None:
    x = torch.randn(64, 50, 50) + 10
    exact = x.double().sum(dim=(1, 2))
    found = TracedFunction(lambda x: x.sum(dim=(1, 2)))(x)
    assert ((found.double() - exact).abs() / exact.abs()).max().item() < 1e-6
