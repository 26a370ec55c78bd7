"""Gathering rows and advantages, against PyTorch: equal to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadyrl.kernels import reference
from support.kernels import native_threads, needs_native, normal

pytestmark = needs_native


def stores(rows: int) -> list[Tensor]:
    """One store of every type and of several shapes."""
    numbers = torch.arange(rows * 84)
    return [
        normal("floats", rows, 17),
        normal("scalars", rows),
        numbers[: rows * 3].view(rows, 3),
        numbers[:rows].clone(),
        (numbers % 256).to(torch.uint8).view(rows, 2, 6, 7),
        numbers[:rows] % 3 == 0,
        torch.zeros(rows, 0),
    ]


@given(rows=st.integers(1, 300), batch=st.sampled_from([0, 1, 7, 64, 257]), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_rows_of_every_type(rows: int, batch: int, seed: int) -> None:
    from steadyrl.kernels import _native

    index = torch.from_numpy(np.random.default_rng(seed).integers(0, rows, batch))
    sources = stores(rows)
    found, expected = ([torch.empty((batch, *s.shape[1:]), dtype=s.dtype) for s in sources] for _ in range(2))
    with native_threads(2):
        _native.gather(index, sources, found)
    reference.gather(index, sources, expected)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_rows_of_numpy_stores() -> None:
    from steadyrl.kernels import _native

    source, index = np.arange(40, dtype=np.float32).reshape(10, 4), np.array([3, 9, 0])
    out = torch.empty(3, 4)
    _native.gather(index, [source], [out])
    assert np.array_equal(out.numpy(), source[index])
    with pytest.raises(ValueError, match=r"sources\[0\] must be contiguous"):
        _native.gather(index, [source.T], [out])
    with pytest.raises(TypeError, match=r"sources\[0\] must be float32, int64, uint8 or bool"):
        _native.gather(index, [source.astype(np.float64)], [out])


def test_gathers_that_are_refused() -> None:
    from steadyrl.kernels import _native

    source, out = torch.ones(5, 2), torch.zeros(3, 2)
    index = torch.tensor([0, 1, 2])
    with pytest.raises(IndexError, match=r"row 5 of the 5 of sources\[0\]"):
        _native.gather(torch.tensor([0, 1, 5]), [source], [out])
    assert (out == 0).all()
    with pytest.raises(TypeError, match="index must be int64"):
        _native.gather(index.float(), [source], [out])
    with pytest.raises(TypeError, match=r"outs\[0\] must be float32"):
        _native.gather(index, [source], [out.long()])
    with pytest.raises(ValueError, match=r"outs\[0\] has the shape \[3, 3\]"):
        _native.gather(index, [source], [torch.zeros(3, 3)])
    with pytest.raises(ValueError, match="as many as"):
        _native.gather(index, [source, source], [out])


@given(
    steps=st.integers(0, 40),
    envs=st.sampled_from([1, 2, 3, 8, 17]),
    gamma=st.sampled_from([0.0, 0.9, 0.99, 1.0]),
    lam=st.sampled_from([0.0, 0.95, 1.0]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_gae_has_torchs_bits(steps: int, envs: int, gamma: float, lam: float, seed: int) -> None:
    from steadyrl.kernels import _native

    rng = np.random.default_rng(seed)
    floats = [torch.from_numpy(rng.normal(size=(steps, envs)).astype(np.float32)) for _ in range(3)]
    terminated, truncated, valid = (torch.from_numpy(rng.random((steps, envs)) < p) for p in (0.1, 0.1, 0.9))
    arguments: Any = (*floats, terminated, terminated | truncated, valid, gamma, lam)
    advantages, returns = torch.empty(steps, envs), torch.empty(steps, envs)
    gae: Any = _native.gae
    gae(*arguments, advantages, returns)
    if steps == 0:
        return
    expected = reference.gae(*arguments)
    assert torch.equal(advantages, expected[0])
    assert torch.equal(returns, expected[1])


def test_gae_refuses_other_shapes_and_types() -> None:
    from steadyrl.kernels import _native

    floats, flags = torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.bool)
    gae: Any = _native.gae
    good = [floats, floats, floats, flags, flags, flags, 0.9, 0.9, floats.clone(), floats.clone()]
    for place, bad, error, message in (
        (1, torch.zeros(4, 3), ValueError, r"values must have the shape \[4, 2\]"),
        (3, floats, TypeError, "terminated must be bool"),
        (8, torch.zeros(2, 4).T, ValueError, "advantages must be contiguous"),
    ):
        with pytest.raises(error, match=message):
            gae(*[bad if i == place else value for i, value in enumerate(good)])
