"""Optimiser steps against PyTorch's: values, agreement with float64 over many steps, gradients that are not finite."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadyrl.kernels import reference
from support.kernels import native_threads, needs_native, normal

pytestmark = needs_native

SIZES = (0, 1, 5, 15, 16, 17, 63, 64, 2047, 2048, 2049, 70_001)


def state(size: int) -> dict[str, Tensor]:
    return {
        "params": normal("params", size),
        "grad": normal("grad", size, scale=0.1),
        "mean": normal("mean", size, scale=0.01),
        "square": normal("square", size, scale=0.01).abs(),
    }


@given(
    size=st.sampled_from(SIZES),
    step=st.sampled_from([1, 2, 100, 100_000]),
    max_grad_norm=st.sampled_from([0.0, 0.5, 1e6]),
    beta1=st.sampled_from([0.0, 0.3, 0.9]),
    threads=st.integers(1, 2),
)
@settings(max_examples=60, deadline=None)
def test_adam(size: int, step: int, max_grad_norm: float, beta1: float, threads: int) -> None:
    from steadyrl.kernels import _native

    found, expected = state(size), {name: value.double() for name, value in state(size).items()}
    with native_threads(threads):
        norm = _native.adam(
            **found, step=step, lr=1e-3, max_grad_norm=max_grad_norm, beta1=beta1, beta2=0.999, eps=1e-5
        )
    wanted = reference.adam(
        **expected, step=step, lr=1e-3, max_grad_norm=max_grad_norm, beta1=beta1, beta2=0.999, eps=1e-5
    )
    assert norm == pytest.approx(wanted, rel=1e-6)
    for name, value in found.items():
        torch.testing.assert_close(value.double(), expected[name], rtol=2e-6, atol=2e-7)


@given(size=st.sampled_from(SIZES), max_grad_norm=st.sampled_from([0.0, 0.5, 1e6]))
@settings(max_examples=30, deadline=None)
def test_rmsprop(size: int, max_grad_norm: float) -> None:
    from steadyrl.kernels import _native

    names = ("params", "grad", "square")
    found, expected = ({name: state(size)[name] for name in names} for _ in range(2))
    norm = _native.rmsprop(**found, lr=1e-3, max_grad_norm=max_grad_norm, alpha=0.99, eps=1e-5)
    wanted = reference.rmsprop(**expected, lr=1e-3, max_grad_norm=max_grad_norm, alpha=0.99, eps=1e-5)
    assert norm == pytest.approx(wanted, rel=1e-6)
    for name in names:
        torch.testing.assert_close(found[name], expected[name], rtol=2e-6, atol=2e-7)


@given(size=st.sampled_from(SIZES), tau=st.sampled_from([0.0, 0.005, 0.5, 0.9, 1.0]))
@settings(max_examples=30, deadline=None)
def test_polyak(size: int, tau: float) -> None:
    from steadyrl.kernels import _native

    found, online = normal("target", size), normal("online", size)
    expected = found.clone()
    _native.polyak(found, online, tau)
    reference.polyak(expected, online, tau)
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-7)
    assert tau != 1.0 or torch.equal(found, online)


def test_hundred_steps_are_as_near_to_float64_as_torch_is() -> None:
    from steadyrl.kernels import _native

    size, settings_ = 5000, (3e-3, 0.5, 0.9, 0.999, 1e-5)
    start = normal("start", size)
    runs = [
        [start.to(kind, copy=True), *(torch.zeros(size, dtype=kind) for _ in range(2))]
        for kind in (torch.float32, torch.float32, torch.float64)
    ]
    for step in range(1, 101):
        grad = normal(f"gradient {step}", size, scale=1.0 if step % 2 else 0.01)
        for run, function in zip(runs, (_native.adam, reference.adam, reference.adam), strict=True):
            params, mean, square = run
            function(params, grad.to(params.dtype).clone(), mean, square, step, *settings_)
    native, torch32, exact = (run[0].double() for run in runs)
    assert (native - start).abs().max() > 0.05
    assert (native - exact).abs().max() <= 1.5 * (torch32 - exact).abs().max()
    assert (native - exact).pow(2).mean() <= 1.5 * (torch32 - exact).pow(2).mean()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 3e38])
@pytest.mark.parametrize("size", [20, 70_001])
def test_a_gradient_that_is_not_finite_changes_nothing(bad: float, size: int) -> None:
    from steadyrl.kernels import _native

    for place in (0, size // 2, size - 1):
        found = state(size)
        found["grad"][place] = bad
        before = {name: value.clone() for name, value in found.items()}
        norm = _native.adam(**found, step=1, lr=1e-3, max_grad_norm=0.5, beta1=0.9, beta2=0.999, eps=1e-5)
        assert not math.isfinite(norm)
        parts = (found["params"], found["grad"], found["square"])
        assert not math.isfinite(_native.rmsprop(*parts, 1e-3, 0.5, 0.99, 1e-5))
        for name, value in found.items():
            assert torch.equal(value, before[name]) or value.isnan().any()
            torch.testing.assert_close(value, before[name], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("max_grad_norm", [0.0, 0.5])
@pytest.mark.parametrize("size", SIZES)
def test_adam_beside_what_was_there(size: int, max_grad_norm: float) -> None:
    """The same step, bit for bit, that overwrites nothing but the gradient, with the old parameters."""
    from steadyrl.kernels import _native

    options: dict[str, Any] = {"step": 3, "lr": 1e-3, "max_grad_norm": max_grad_norm, "beta1": 0.9, "beta2": 0.999}
    before: dict[str, Any] = dict(state(size))
    plain, found = ({name: value.clone() for name, value in before.items()} for _ in range(2))
    moments = (torch.full((size,), math.nan), torch.full((size,), math.nan))
    norm = _native.adam(**plain, **options, eps=1e-5)
    assert _native.adam(**found, **options, eps=1e-5, moments=moments) == norm
    for name, array in {"params": found["params"], "mean": moments[0], "square": moments[1]}.items():
        assert torch.equal(array, plain[name])
    for name, array in {"params": found["grad"], "mean": found["mean"], "square": found["square"]}.items():
        assert torch.equal(array, before[name])
    if size:
        found["grad"][0] = math.inf
        rest = {name: value.clone() for name, value in found.items()}
        _native.adam(**found, **options, eps=1e-5, moments=moments)
        assert all(torch.equal(found[name], rest[name]) for name in rest)
        assert torch.equal(moments[0], plain["mean"])


@pytest.mark.parametrize(
    ("moments", "error"),
    [([torch.zeros(5)] * 2, TypeError), ((torch.zeros(5),), ValueError), ((torch.zeros(5), torch.ones(4)), ValueError)],
)
def test_other_memory_for_moments_is_refused(moments: Any, error: type[Exception]) -> None:
    from steadyrl.kernels import _native

    found: dict[str, Any] = dict(state(5))
    with pytest.raises(error, match="moments"):
        _native.adam(**found, step=1, lr=0.1, max_grad_norm=0.0, beta1=0.9, beta2=0.999, eps=1e-5, moments=moments)
    assert all(torch.equal(value, state(5)[name]) for name, value in found.items())


def test_the_norm() -> None:
    from steadyrl.kernels import _native

    def norm(grad: Tensor) -> float:
        rest = [torch.zeros_like(grad) for _ in range(2)]
        return _native.rmsprop(rest[0], grad, rest[1], 0.0, 0.0, 0.99, 1e-5)

    grad = normal("grad", 10_001)
    assert norm(grad) == pytest.approx(float(grad.double().norm()), rel=1e-6)
    assert norm(torch.zeros(0)) == 0.0
    assert math.isnan(norm(torch.tensor([1.0, math.nan])))


def test_denormals_are_zero_inside_and_nowhere_else() -> None:
    from steadyrl.kernels import _native

    tiny = torch.full((64,), 1e-40)
    target = torch.zeros(64)
    _native.polyak(target, tiny, 0.5)
    assert (target == 0).all()
    assert float((torch.full((64,), 1e-38) * 0.01).sum()) > 0


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("params", torch.zeros(8).double(), TypeError, "params must be"),
        ("grad", torch.zeros(9), ValueError, r"grad must have the shape \[8\]"),
        ("mean", torch.zeros(16)[::2], ValueError, "mean must be contiguous"),
        ("square", torch.zeros(2, 4), ValueError, "square must have the shape"),
        ("step", 0, ValueError, "step must be at least 1"),
    ],
)
def test_what_adam_cannot_work_on_is_refused(name: str, value: object, error: type[Exception], message: str) -> None:
    from steadyrl.kernels import _native

    arguments = {**state(8), "step": 1, "lr": 1e-3, "max_grad_norm": 0.5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-5}
    with pytest.raises(error, match=message):
        _native.adam(**{**arguments, name: value})  # type: ignore[arg-type]
