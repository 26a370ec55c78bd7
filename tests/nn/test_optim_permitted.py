"""Optimiser steps that a flag on the device permits, and steps that are taken back."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from steadyrl.errors import NonFiniteError
from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.optim import Adam, RMSprop
from support.kernels import needs_native

YES, NO = torch.tensor(True), torch.tensor(False)


def optimizer(kind: type[Any], *, native: bool = False) -> tuple[FlatParameters, Any]:
    torch.manual_seed(0)
    flat = FlatParameters(torch.nn.Linear(5, 3), native=native)
    return flat, kind(flat)


def fill(flat: FlatParameters, seed: int) -> None:
    flat.grad.copy_(torch.randn(flat.grad.shape, generator=torch.Generator().manual_seed(seed)))


def numbers(flat: FlatParameters, own: Any) -> list[torch.Tensor]:
    return [flat.data.clone(), *own.state_dict().values()]


@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("kind", [Adam, RMSprop])
def test_permitted_steps_are_the_ordinary_ones(kind: type[Any], clip: float) -> None:
    (plain_flat, plain), (flat, own) = optimizer(kind), optimizer(kind)
    for seed in range(5):
        for each in (plain_flat, flat):
            fill(each, seed)
        expected = plain.step(0.1, clip)
        torch.testing.assert_close(own.step(0.1, clip, YES), expected)
    for found, wanted in zip(numbers(flat, own), numbers(plain_flat, plain), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("bad", [None, torch.nan, torch.inf, 1e38])
@pytest.mark.parametrize("kind", [Adam, RMSprop])
def test_a_step_that_is_not_permitted_changes_nothing(kind: type[Any], bad: float | None, clip: float) -> None:
    for steps_before in (0, 2):
        flat, own = optimizer(kind)
        for seed in range(steps_before):
            fill(flat, seed)
            own.step(0.1, clip, YES)
        before = numbers(flat, own)
        fill(flat, 9)
        if bad is not None:
            flat.grad[3] = bad
        own.step(0.1, clip, NO if bad is None else YES)
        assert all(map(torch.equal, numbers(flat, own), before))
        fill(flat, 10)
        own.step(0.1, clip, YES)
        assert not torch.equal(flat.data, before[0])


def test_steps_taken_on_a_device_count_after_loading() -> None:
    (flat, own), (other, loaded) = optimizer(Adam), optimizer(Adam)
    for permit in (YES, NO, YES):
        fill(flat, 1)
        own.step(0.1, 0.0, permit)
    state = own.state_dict()
    assert int(state["steps"]) == 2
    other.data.copy_(flat.data)
    loaded.load_state_dict(state)
    for each, optim in ((flat, own), (other, loaded)):
        fill(each, 5)
        optim.step(0.1, 0.0, YES)
    assert int(loaded.state_dict()["steps"]) == 3
    torch.testing.assert_close(other.data, flat.data)


@pytest.mark.parametrize(
    ("permit", "native"), [(None, False), (YES, False), pytest.param(None, True, marks=needs_native)]
)
def test_a_step_is_taken_back_exactly(permit: torch.Tensor | None, native: bool) -> None:
    flat, own = optimizer(Adam, native=native)
    for seed in range(3):
        fill(flat, seed)
        own.step(0.1, 0.5, permit)
    before = numbers(flat, own)
    for _ in range(2):
        own.keep()
        fill(flat, 7)
        own.step(0.1, 0.5, permit)
        after = numbers(flat, own)
        assert not torch.equal(after[0], before[0])
        if permit is not None:
            own.restore(unless=YES)
            assert all(map(torch.equal, numbers(flat, own), after))
            own.restore(unless=NO)
        else:
            own.restore()
        assert all(map(torch.equal, numbers(flat, own), before))


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
def test_steps_that_could_be_taken_back_are_the_ordinary_ones(native: bool) -> None:
    (plain_flat, plain), (flat, own) = optimizer(Adam, native=native), optimizer(Adam, native=native)
    for seed in range(5):
        fill(plain_flat, seed)
        plain.step(0.1, 0.5)
        if seed != 2:
            own.keep()
        fill(flat, seed)
        own.step(0.1, 0.5)
        assert all(map(torch.equal, numbers(flat, own), numbers(plain_flat, plain)))


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
def test_a_refused_step_has_nothing_to_take_back(native: bool) -> None:
    flat, own = optimizer(Adam, native=native)
    own.keep()
    fill(flat, 0)
    own.step(0.1, 0.0)
    before = numbers(flat, own)
    own.keep()
    fill(flat, 1)
    flat.grad[2] = torch.nan
    with pytest.raises(NonFiniteError):
        own.step(0.1, 0.0)
    own.restore()
    assert all(map(torch.equal, numbers(flat, own), before))
    own.restore()
    assert all(map(torch.equal, numbers(flat, own), before))


def test_a_refused_gradient_says_its_norm() -> None:
    flat, own = optimizer(Adam)
    flat.grad[0] = torch.inf
    with pytest.raises(NonFiniteError) as caught:
        own.step(0.1, 0.5)
    assert caught.value.facts == {"source": "gradient", "value": "inf"}
